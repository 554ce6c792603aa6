"""The FX road: trace a model, convert the graph, run it as a module."""

from torch_migraphx.fx.converter_registry import CONVERTERS, migraphx_converter
from torch_migraphx.fx.fx2mgx import MGXInterpreter
from torch_migraphx.fx.lower import lower_to_mgx
from torch_migraphx.fx.mgx_module import MGXModule

__all__ = ["CONVERTERS", "MGXInterpreter", "MGXModule", "lower_to_mgx", "migraphx_converter"]
