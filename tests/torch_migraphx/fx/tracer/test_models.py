"""The models that OpenMGX is measured by, of few layers, traced both ways: eager's answer, only known operators."""

from functools import cache
from typing import Any

import pytest
import torch
from torch import fx, nn

from benchmarks.models import Field, import_torchvision, randomize
from tests.shallow import shallow
from tests.tiers import few
from tests.tolerances import MODEL_ERROR, relative_error
from tests.torch_migraphx.fx.tracer.acc_tracer.graphs import acc_names
from torch_migraphx.fx.tracer.acc_tracer import acc_tracer
from torch_migraphx.fx.tracer.aten_tracer import aten_tracer

transformers = pytest.importorskip("transformers")

VISION = ["resnet50", "mobilenet_v2", "densenet121", "efficientnet_b0", "convnext_tiny", "vit_b_16"]
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
}


@cache
def build(name: str) -> tuple[nn.Module, list[torch.Tensor]]:
    """A model of few layers with random statistics, and its input; tracers leave it as it is."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if name == "gpt2":
            config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=100, n_positions=64)
            model = Field(transformers.GPT2LMHeadModel(config), "logits", use_cache=False)
            return randomize(model), [torch.randint(0, 100, (2, 9))]
        return randomize(shallow(name)), [torch.randn(1, 3, 32, 32)]


def check(gm: fx.GraphModule, model: nn.Module, inputs: list[torch.Tensor]) -> None:
    with torch.no_grad():
        assert relative_error(gm(*inputs), model(*inputs)) < MODEL_ERROR


def only_aten(gm: fx.GraphModule) -> None:
    for node in gm.graph.nodes:
        assert node.op in ("placeholder", "get_attr", "call_function", "output"), node.format_node()
        if node.op == "call_function":
            assert "getitem" in str(node.target) or node.target.namespace == "aten", node.format_node()


@pytest.mark.parametrize("name", few([*VISION, "gpt2"], "resnet18"))
def test_acc(name: str) -> None:
    model, inputs = build(name)
    gm = acc_tracer.trace(model, inputs)
    assert acc_names(gm)
    check(gm, model, inputs)


@pytest.mark.parametrize("name", few([*VISION, "gpt2"], "resnet18"))
def test_aten(name: str) -> None:
    model, inputs = build(name)
    gm = aten_tracer.trace(model, inputs)
    only_aten(gm)
    check(gm, model, inputs)


class Masked(nn.Module):
    """BERT with a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.model = transformers.BertModel(transformers.BertConfig(**SMALL))

    def forward(self, ids, mask):
        return self.model(ids, attention_mask=mask).last_hidden_state


@pytest.mark.parametrize("trace", few([acc_tracer.trace, aten_tracer.trace], acc_tracer.trace), ids=["acc", "aten"])
def test_a_mask_is_data(trace: Any) -> None:
    """A trace on a mask of ones must not take it for no mask."""
    model, ids = Masked().eval(), torch.randint(0, 100, (2, 9))
    gm = trace(model, [ids, torch.ones(2, 9, dtype=torch.long)])
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, 5:] = 0
    check(gm, model, [ids, mask])


@pytest.mark.parametrize("trace", few([acc_tracer.trace, aten_tracer.trace], acc_tracer.trace), ids=["acc", "aten"])
def test_answers_of_a_library_class(trace: Any) -> None:
    model = randomize(transformers.BertModel(transformers.BertConfig(**SMALL)))
    ids = torch.randint(0, 100, (2, 9))
    gm = trace(model, [ids])
    if trace is acc_tracer.trace:
        assert acc_names(gm)
    else:
        only_aten(gm)
    with torch.no_grad():
        got, want = gm(ids), model(ids)
    assert gm.meta["structure"].spec.type is type(want)
    for name in ("last_hidden_state", "pooler_output"):
        assert relative_error(got[name], want[name]) < MODEL_ERROR


@pytest.mark.slow
def test_a_model_that_reads_what_its_hooks_collect() -> None:
    """Segformer's head takes the hidden states that transformers' own hooks keep."""
    import_torchvision()  # which transformers imports with it
    sizes = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_attention_heads": [1, 2], "decoder_hidden_size": 16}
    config = transformers.SegformerConfig(num_encoder_blocks=2, sr_ratios=[2, 1], mlp_ratios=[2, 2], **sizes)
    config.patch_sizes, config.strides = [7, 3], [4, 2]
    model, x = transformers.SegformerForSemanticSegmentation(config).eval(), torch.randn(1, 3, 32, 32)
    for _ in range(2):  # the second time the hooks are there from the start
        gm = acc_tracer.trace(model, [x])
        assert {n.op for n in gm.graph.nodes} == {"placeholder", "get_attr", "call_function", "output"}
        assert relative_error(gm(x)["logits"].detach(), model(x).logits.detach()) < MODEL_ERROR
