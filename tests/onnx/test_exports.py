"""Small torchvision and transformers models, exported by both of torch's exporters, give eager's answers."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import migraphx
from benchmarks.models import import_torchvision, import_transformers, randomize
from tests.shallow import shallow
from tests.tiers import few_rows
from tests.tolerances import MODEL_ERROR, relative_error

TOKENS = 12
PICTURE = torch.randn(1, 3, 64, 64)
SMALL = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}


class First(nn.Module):
    """The first of a transformers model's outputs."""

    def __init__(self, model: nn.Module, **arguments) -> None:
        super().__init__()
        self.model, self.arguments = model, arguments

    def forward(self, x):
        return self.model(x, return_dict=False, **self.arguments)[0]


def resnet():
    return shallow("resnet18"), PICTURE


def mobilenet():
    models = import_torchvision().models
    rows = [(16, 3, 16, 16, True, "RE", 2), (16, 5, 48, 16, True, "HS", 1)]
    return models.MobileNetV3([models.mobilenetv3.InvertedResidualConfig(*r, 1, 1.0) for r in rows], 64), PICTURE


def transformer():
    models = import_torchvision().models
    model = models.VisionTransformer(32, 16, 1, 2, 32, 64, num_classes=10)
    nn.init.normal_(model.heads.head.weight)
    return model, torch.randn(2, 3, 32, 32)


def swin():
    model = import_torchvision().models.SwinTransformer([4, 4], 24, [2], [2], [4, 4], num_classes=10)
    return model, torch.randn(1, 3, 32, 32)


def language(config, model, **names):
    def make():
        library = import_transformers()
        built = getattr(library, model)(getattr(library, config)(**{names.get(k, k): v for k, v in SMALL.items()}))
        return First(built, **({"use_cache": False} if "LM" in model else {})), torch.randint(0, 50, (1, TOKENS))

    return make


GPT2 = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
}
MODELS = {
    "resnet": resnet,
    "mobilenet": mobilenet,
    "vit": transformer,
    "swin": swin,
    "bert": language("BertConfig", "BertModel"),
    "gpt2": language("GPT2Config", "GPT2LMHeadModel", **GPT2),
    "llama": language("LlamaConfig", "LlamaForCausalLM"),
}
LEGACY = ["resnet", "bert"]
DYNAMO = [name for name in MODELS if name != "bert"]  # which test_minilm.py exports


@pytest.mark.parametrize(
    ("name", "dynamo"),
    few_rows([*((n, True) for n in DYNAMO), *((n, False) for n in LEGACY)], ("vit", True)),
)
def test_export(name, dynamo, tmp_path):
    torch.manual_seed(0)
    model, x = MODELS[name]()
    randomize(model.eval())
    path = tmp_path / "model.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = model(x).numpy()
        torch.onnx.export(model, (x,), path, dynamo=dynamo, verbose=False)
    program = migraphx.parse_onnx(path)
    program.compile(migraphx.get_target("cpu"))
    (input_name,) = program.get_parameter_names()
    (got,) = (np.array(r) for r in program.run({input_name: x.numpy()}))
    assert np.abs(want).max() > 1e-3
    assert relative_error(got, want) <= MODEL_ERROR
