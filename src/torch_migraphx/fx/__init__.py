"""The FX road: trace a model, convert the graph, run it as a module."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch_migraphx.fx.mgx_module import MGXModule

if TYPE_CHECKING:  # the names of LATE
    from torch_migraphx.fx.converter_registry import CONVERTERS, migraphx_converter
    from torch_migraphx.fx.fx2mgx import MGXInterpreter
    from torch_migraphx.fx.lower import lower_to_mgx

LATE = {
    "CONVERTERS": "torch_migraphx.fx.converter_registry",
    "MGXInterpreter": "torch_migraphx.fx.fx2mgx",
    "lower_to_mgx": "torch_migraphx.fx.lower",
    "migraphx_converter": "torch_migraphx.fx.converter_registry",
}
"""What running a saved module does not need is imported when it is first asked for."""

__all__ = ["CONVERTERS", "MGXInterpreter", "MGXModule", "lower_to_mgx", "migraphx_converter"]


def __getattr__(name: str) -> Any:
    if name not in LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(LATE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *LATE})
