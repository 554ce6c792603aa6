"""Torch-MIGraphX's bridge: PyTorch models on the engine `migraphx`.

`torch_migraphx.fx.lower_to_mgx(model, inputs)` compiles a model; `torch.compile(model, backend="migraphx")` works
once this package is installed, imported or not.
"""

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from torch_migraphx import fx
from torch_migraphx.log import set_levels
from torch_migraphx.options import Options
from torch_migraphx.report import Report

if TYPE_CHECKING:
    from torch_migraphx.dynamo.explain import explain

__all__ = ["Options", "Report", "explain", "fx"]


def __getattr__(name: str) -> Any:
    """`dynamo` and `explain` on first use: torch._dynamo takes longer to import than all of the rest."""
    if name == "dynamo":
        return import_module("torch_migraphx.dynamo")
    if name == "explain":
        return import_module("torch_migraphx.dynamo.explain").explain
    raise AttributeError(f"module 'torch_migraphx' has no attribute {name!r}")


def _register_backends() -> None:
    """Dynamo finds the backends by their entry points; a checkout that is not installed has none."""
    if not entry_points(group="torch_dynamo_backends", name="migraphx"):
        import_module("torch_migraphx.dynamo").register()


set_levels()
_register_backends()
