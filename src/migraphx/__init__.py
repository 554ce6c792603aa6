"""MIGraphX's Python API: the graph inference engine of OpenMGX."""

import copyreg
from importlib import import_module
from typing import TYPE_CHECKING, Any

from migraphx.api.argument import argument, argument_from_pointer, create_argument, fill_argument, generate_argument
from migraphx.api.functions import get_target
from migraphx.api.program import compile_modes, program
from migraphx.api.shape import shape
from migraphx.ir.operation import DECLARING, OperatorError, declare_late
from migraphx.ir.refusal import Refusal
from migraphx.runtime.options import CompileOptions
from migraphx.targets.target import Target as target
from migraphx.targets.target import UnsupportedOperator

if TYPE_CHECKING:  # the names of LATE
    from migraphx.api.ahead import compile_ahead
    from migraphx.api.async_queue import AsyncQueue
    from migraphx.api.custom import custom_op
    from migraphx.api.deferred import add_deferred, deferred_program
    from migraphx.api.files import load, load_buffer, save, save_buffer
    from migraphx.api.gpu import allocate_gpu, from_gpu, gpu_sync, to_gpu
    from migraphx.api.module import instruction_ref, macro, module, op
    from migraphx.api.onnx import describe_onnx_operator, get_onnx_operators, parse_onnx, parse_onnx_buffer, parse_tf
    from migraphx.api.parts import extract, refit, supports
    from migraphx.api.quantize import (
        autocast_fp8,
        quantize_bf16,
        quantize_fp8,
        quantize_fp16,
        quantize_int4_weights,
        quantize_int8,
    )
    from migraphx.api.tools import (
        bisect,
        explain,
        performance_report,
        reduce_program,
        run_passes,
        run_trace,
        share_weights,
        to_cpp,
        to_graphviz,
        to_json,
        to_netron,
        verify_instructions,
        verify_program,
    )
    from migraphx.api.version import __version__
    from migraphx.runtime.repeat import DecodeOptions
    from migraphx.runtime.side_by_side import side_by_side
    from migraphx.runtime.single_flight import SingleFlightLRU

LATE = {
    "migraphx.api.ahead": {"compile_ahead"},
    "migraphx.api.async_queue": {"AsyncQueue"},
    "migraphx.api.custom": {"custom_op"},
    "migraphx.api.deferred": {"add_deferred", "deferred_program"},
    "migraphx.api.files": {"load", "load_buffer", "save", "save_buffer"},
    "migraphx.api.gpu": {"allocate_gpu", "from_gpu", "gpu_sync", "to_gpu"},
    "migraphx.api.module": {"instruction_ref", "macro", "module", "op"},
    "migraphx.api.onnx": {
        "describe_onnx_operator", "get_onnx_operators", "parse_onnx", "parse_onnx_buffer", "parse_tf",
    },
    "migraphx.api.parts": {"extract", "refit", "supports"},
    "migraphx.api.quantize": {
        "autocast_fp8", "quantize_bf16", "quantize_fp8", "quantize_fp16", "quantize_int4_weights", "quantize_int8",
    },
    "migraphx.api.tools": {
        "bisect", "explain", "performance_report", "reduce_program", "run_passes", "run_trace",
        "share_weights", "to_cpp", "to_graphviz", "to_json", "to_netron", "verify_instructions", "verify_program",
    },
    "migraphx.api.version": {"__version__"},
    "migraphx.runtime.repeat": {"DecodeOptions"},
    "migraphx.runtime.side_by_side": {"side_by_side"},
    "migraphx.runtime.single_flight": {"SingleFlightLRU"},
}  # fmt: skip
"""What running a saved program does not need is imported when it is first asked for."""

DECLARING.append("migraphx.ops")
declare_late("onnx", "migraphx.onnx.deferred")
declare_late("unknown", "migraphx.onnx.unknown")

__all__ = [
    "AsyncQueue",
    "CompileOptions",
    "DecodeOptions",
    "OperatorError",
    "Refusal",
    "SingleFlightLRU",
    "UnsupportedOperator",
    "__version__",
    "add_deferred",
    "allocate_gpu",
    "argument",
    "argument_from_pointer",
    "autocast_fp8",
    "bisect",
    "compile_ahead",
    "compile_modes",
    "create_argument",
    "custom_op",
    "deferred_program",
    "describe_onnx_operator",
    "explain",
    "extract",
    "fill_argument",
    "from_gpu",
    "generate_argument",
    "get_onnx_operators",
    "get_target",
    "gpu_sync",
    "instruction_ref",
    "load",
    "load_buffer",
    "macro",
    "module",
    "op",
    "parse_onnx",
    "parse_onnx_buffer",
    "parse_tf",
    "performance_report",
    "program",
    "quantize_bf16",
    "quantize_fp8",
    "quantize_fp16",
    "quantize_int4_weights",
    "quantize_int8",
    "reduce_program",
    "refit",
    "run_passes",
    "run_trace",
    "save",
    "save_buffer",
    "shape",
    "share_weights",
    "side_by_side",
    "supports",
    "target",
    "to_cpp",
    "to_gpu",
    "to_graphviz",
    "to_json",
    "to_netron",
    "verify_instructions",
    "verify_program",
]


def __getattr__(name: str) -> Any:
    for place, names in LATE.items():
        if name in names:
            globals()[name] = value = getattr(import_module(place), name)
            return value
    raise AttributeError(f"module 'migraphx' has no attribute {name!r}")


def _copied(p: program) -> tuple[Any, ...]:
    """How `copy.deepcopy` and `pickle` see a program: as what a file of it would hold."""
    return __getattr__("load_buffer"), (__getattr__("save_buffer")(p),)


copyreg.pickle(program, _copied)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
