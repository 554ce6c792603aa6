"""Torch-MIGraphX's bridge: PyTorch models on the engine `migraphx`.

`torch_migraphx.fx.lower_to_mgx(model, inputs)` compiles a model; `torch.compile(model, backend="migraphx")` works
once this package is installed, imported or not.
"""

from torch_migraphx import dynamo, fx
from torch_migraphx.options import Options

__all__ = ["Options", "dynamo", "fx"]
