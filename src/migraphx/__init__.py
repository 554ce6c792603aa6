"""MIGraphX's Python API: the graph inference engine of OpenMGX."""

import migraphx.ops  # noqa: F401  # registers every operator
from migraphx.api.argument import argument, argument_from_pointer, create_argument, fill_argument, generate_argument
from migraphx.api.files import load, load_buffer, save, save_buffer
from migraphx.api.functions import get_target
from migraphx.api.module import instruction_ref, macro, module, op
from migraphx.api.onnx import get_onnx_operators, parse_onnx, parse_onnx_buffer
from migraphx.api.program import program
from migraphx.api.quantize import quantize_bf16, quantize_fp16
from migraphx.api.shape import shape

__all__ = [
    "argument",
    "argument_from_pointer",
    "create_argument",
    "fill_argument",
    "generate_argument",
    "get_onnx_operators",
    "get_target",
    "instruction_ref",
    "load",
    "load_buffer",
    "macro",
    "module",
    "op",
    "parse_onnx",
    "parse_onnx_buffer",
    "program",
    "quantize_bf16",
    "quantize_fp16",
    "save",
    "save_buffer",
    "shape",
]
