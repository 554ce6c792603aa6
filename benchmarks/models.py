"""The models that the benchmarks measure and the tests check: random weights, fixed seeds.

Every model is a plain nn.Module in eval mode from tensors to one tensor. Parameters that libraries start as
constants (norms, layer scales, a zero classifier) are made random too, so that no part of the graph is idle.
"""

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)


@dataclass(frozen=True)
class Case:
    """A model and its inputs at a batch size; `image` says that inputs are NCHW pictures."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Tensor, ...]]
    image: bool


class Field(nn.Module):
    """A transformers model reduced to one field of its answer."""

    def __init__(self, model: nn.Module, name: str, **arguments: Any) -> None:
        super().__init__()
        self.model, self.name, self.arguments = model, name, arguments

    def forward(self, input_ids: Tensor) -> Tensor:
        """Token ids {batch, tokens} to that field's tensor."""
        return getattr(self.model(input_ids=input_ids, **self.arguments), self.name)


def randomize(model: nn.Module) -> nn.Module:
    """Give norms random statistics, weights and biases, and other constant parameters N(0, .1)."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, NORMS):
                _randomize_norm(module)
        for parameter in model.parameters():
            if parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
                parameter.normal_(0, 0.1)
    return model.eval()


def _randomize_norm(module: Any) -> None:
    if module.weight is not None:
        module.weight.uniform_(0.5, 1.5)
    if module.bias is not None:
        module.bias.normal_(0, 0.1)
    if getattr(module, "running_mean", None) is not None:
        module.running_mean.normal_(0, 0.1)
        module.running_var.uniform_(0.5, 1.5)


def torchvision_model(name: str) -> nn.Module:
    """A torchvision classifier without pretrained weights."""
    return getattr(import_torchvision().models, name)(weights=None)


def import_torchvision() -> Any:
    """The torchvision module, also beside a torch of another build, where its compiled operators don't load.

    There its import fails, as it registers meta kernels for operators that nothing defined; with the
    operators' schemas declared it succeeds, and models that don't use them work.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    boxes = "Tensor dets, Tensor scores"
    torch.library.define("torchvision::nms", f"({boxes}, float iou_threshold) -> Tensor")
    torch.library.define("torchvision::qnms", f"({boxes}, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")


def import_transformers() -> Any:
    """The transformers module; it imports torchvision where that is installed, so that must work."""
    with contextlib.suppress(ModuleNotFoundError):
        import_torchvision()
    return importlib.import_module("transformers")


def bert() -> nn.Module:
    """BERT-base: the last hidden state."""
    library = import_transformers()
    return Field(library.BertModel(library.BertConfig(), add_pooling_layer=False), "last_hidden_state")


def minilm() -> nn.Module:
    """A small encoder, as sentences are embedded with: 6 layers of 384; the last hidden state."""
    library = import_transformers()
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    return Field(library.BertModel(library.BertConfig(**sizes), add_pooling_layer=False), "last_hidden_state")


def distilbert() -> nn.Module:
    """DistilBERT: the last hidden state."""
    library = import_transformers()
    return Field(library.DistilBertModel(library.DistilBertConfig()), "last_hidden_state")


def deberta() -> nn.Module:
    """A small DeBERTa, which attends to relative positions: 6 layers of 384; the last hidden state."""
    library = import_transformers()
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
    config = library.DebertaV2Config(**sizes, relative_attention=True, pos_att_type=["p2c", "c2p"])
    return Field(library.DebertaV2Model(config), "last_hidden_state")


def deit_tiny() -> nn.Module:
    """A vision transformer of 12 layers of 192, patches of 16."""
    transformer = import_torchvision().models.VisionTransformer
    return transformer(224, 16, num_layers=12, num_heads=3, hidden_dim=192, mlp_dim=768)


def gpt2() -> nn.Module:
    """GPT-2 (124 M): logits, without a cache of keys and values."""
    library = import_transformers()
    return Field(library.GPT2LMHeadModel(library.GPT2Config()), "logits", use_cache=False)


def _picture(batch: int) -> tuple[Tensor, ...]:
    return (torch.randn(batch, 3, 224, 224),)


def _tokens(count: int, vocabulary: int) -> Callable[[int], tuple[Tensor, ...]]:
    return lambda batch: (torch.randint(0, vocabulary, (batch, count)),)


def _vision(name: str) -> Case:
    return Case(name, lambda: torchvision_model(name), _picture, image=True)


MAIN = (
    _vision("resnet50"),
    _vision("mobilenet_v2"),
    _vision("densenet121"),
    _vision("efficientnet_b0"),
    _vision("convnext_tiny"),
    _vision("vit_b_16"),
    Case("bert", bert, _tokens(128, 30522), image=False),
    Case("minilm", minilm, _tokens(128, 30522), image=False),
    Case("gpt2", gpt2, _tokens(64, 50257), image=False),
)
"""What is measured if nothing is named."""
ALSO = (
    _vision("mobilenet_v3_large"),
    _vision("mnasnet1_0"),
    _vision("shufflenet_v2_x1_0"),
    _vision("squeezenet1_1"),
    _vision("regnet_x_400mf"),
    _vision("regnet_y_800mf"),
    _vision("resnext50_32x4d"),
    _vision("googlenet"),
    _vision("swin_t"),
    Case("deit_tiny", deit_tiny, _picture, image=True),
    Case("distilbert", distilbert, _tokens(128, 30522), image=False),
    Case("deberta", deberta, _tokens(128, 30522), image=False),
)
"""Others of the same families."""
CASES = {case.name: case for case in (*MAIN, *ALSO)}


def build(name: str, batch: int = 1) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model called `name` and its inputs, the same at every call; leaves torch's generator as it was."""
    case = CASES[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return randomize(case.build()).requires_grad_(False), case.inputs(batch)
