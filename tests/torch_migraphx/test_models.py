"""Small models of the usual families on target cpu: whole graphs, eager's answer, by both roads; training."""

import copy
import logging

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.models import import_transformers, randomize
from tests.shallow import shallow
from tests.tiers import few
from tests.tolerances import MODEL_ERROR, TRAINED, assert_each
from torch_migraphx.fx import lower_to_mgx

BERT = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
TOKENS, PICTURE = (100, (1, 16)), (1, 3, 64, 64)


class First(nn.Module):
    """The first field of a transformers model's answer."""

    def __init__(self, model, *names, **arguments):
        super().__init__()
        self.model, self.names, self.arguments = model, names, arguments

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs, strict=True)), **self.arguments)[0]


class Patches(nn.Module):
    """unfold, fold (strided, padded, dilated), padding, differences, weight norm."""

    def __init__(self):
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 4, 3))

    def forward(self, x):
        x = F.pad(self.conv(x), (1, 2, 0, 1))
        x = torch.constant_pad_nd(x, (1, 0), 0.5)
        x = torch.diff(x, 1, 2, append=x[:, :, :1]) + torch.diff(x > 0, prepend=x[..., :1] > 0)
        columns = F.unfold(x, (3, 2), dilation=(1, 2), padding=1, stride=2)
        return F.fold(columns * 2, x.shape[-2:], (3, 2), dilation=(1, 2), padding=1, stride=2)


def bert():
    library = import_transformers()
    model = library.BertModel(library.BertConfig(**BERT, intermediate_size=64))
    return First(model, "input_ids", "attention_mask")


def llama():
    library = import_transformers()
    config = library.LlamaConfig(**BERT, intermediate_size=64, num_key_value_heads=1)
    return First(library.LlamaForCausalLM(config), "input_ids", use_cache=False)


def t5():
    library = import_transformers()
    layers = {"num_layers": 2, "num_decoder_layers": 1}  # the second reads the positions that the first computes
    config = library.T5Config(vocab_size=100, d_model=32, d_kv=16, d_ff=64, num_heads=2, **layers)
    model = library.T5ForConditionalGeneration(config)
    return First(model, "input_ids", "decoder_input_ids", use_cache=False)


def tokens():
    return torch.randint(3, 100, (1, 16))


def mask():
    return (torch.arange(16) < torch.randint(4, 16, ())).long()[None]


MODELS = {
    "bert": (bert, lambda: [tokens(), mask()]),
    "llama": (llama, lambda: [tokens()]),
    "t5": (t5, lambda: [tokens(), tokens()]),
    "resnet18": (lambda: shallow("resnet18"), lambda: [torch.randn(PICTURE)]),
    "mobilenet_v3_small": (lambda: shallow("mobilenet_v3_small"), lambda: [torch.randn(PICTURE)]),
    "shufflenet_v2_x0_5": (lambda: shallow("shufflenet_v2_x0_5"), lambda: [torch.randn(PICTURE)]),
    "patches": (Patches, lambda: [torch.randn(2, 4, 11, 9)]),
}


@pytest.mark.parametrize("road", ["compile", "lower"])
@pytest.mark.parametrize("name", few(MODELS, "bert", "resnet18"))
def test_whole_and_right(name, road, caplog):
    """Called twice, the second time with other data."""
    if name in ("bert", "llama", "t5"):
        pytest.importorskip("transformers")
    elif name != "patches":
        pytest.importorskip("torchvision", exc_type=(ImportError, RuntimeError))  # type: ignore[arg-type]
    torch._dynamo.reset()
    torch.manual_seed(0)
    build, inputs = MODELS[name]
    model, first, second = randomize(build()), inputs(), inputs()
    with torch.no_grad(), caplog.at_level(logging.INFO, "torch_migraphx"):
        fast = torch.compile(model, backend="migraphx") if road == "compile" else lower_to_mgx(model, first)
        for given in (first, second):
            want, got = model(*given), fast(*given)
            assert (got - want).abs().max() <= MODEL_ERROR * want.abs().max()
    records = [r for r in caplog.records if r.name.startswith("torch_migraphx")]
    assert sum("run in the engine" in r.message for r in records) == 1
    assert not [r.message for r in records if r.levelno >= logging.WARNING or "AOTAutograd" in r.message]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


@pytest.mark.parametrize("backend", few(["migraphx", "migraphx_aot"], "migraphx"))
def test_training_on_cpu(backend):
    """Three steps of SGD: losses, weights and running statistics follow eager's."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Net().train()
    twin = copy.deepcopy(model)
    fast = torch.compile(model, backend=backend)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, twin)]
    for _ in range(3):
        x, y = torch.randn(8, 3, 8, 8), torch.randint(0, 5, (8,))
        losses = [F.cross_entropy(f(x), y) for f in (fast, twin)]
        assert_each(losses[0].item(), losses[1].item(), TRAINED)
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for (name, got), want in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        assert_each(got, want, TRAINED, name)
    model.eval()
    twin.eval()
    with torch.no_grad():
        assert_each(fast(x), twin(x), TRAINED)
