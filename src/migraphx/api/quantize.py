"""`quantize_fp16`, `quantize_bf16`, `quantize_int8`, `quantize_fp8`, `autocast_fp8`, `quantize_int4_weights`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from migraphx.api.inputs import random_inputs
from migraphx.api.module import module
from migraphx.api.program import program, published
from migraphx.ir.operation import declaration
from migraphx.ir.program import Program
from migraphx.quantize.fp8 import autocast
from migraphx.quantize.int4 import BLOCK, pack_weights
from migraphx.quantize.int8 import PRODUCTS, quantize
from migraphx.quantize.precision import ALL, narrow
from migraphx.targets.target import Target

log = logging.getLogger(__name__)


def quantize_fp16(prog: program, ins_names: Sequence[str] = (ALL,)) -> None:
    """Compute the named operators (default: all) in half precision; changes the program, which is not compiled yet.

    ValueError for a name that no operator has; RuntimeError for a compiled program.
    """
    narrow(_uncompiled(prog), "half", _operators(prog, ins_names))


def quantize_bf16(prog: program, ins_names: Sequence[str] = (ALL,)) -> None:
    """Compute the named operators (default: all) in bfloat16; changes the program, which is not compiled yet.

    ValueError for a name that no operator has; RuntimeError for a compiled program.
    """
    narrow(_uncompiled(prog), "bf16", _operators(prog, ins_names))


def quantize_int8(
    prog: program,
    t: Target,
    calibration: Sequence[Mapping[str, Any]] = (),
    ins_names: Sequence[str] = PRODUCTS,
) -> None:
    """Compute the named operators on 8-bit integers; changes the program, which is not compiled yet.

    The first operand's range is found by running the program on target `t` with each of the `calibration` inputs
    (arguments or arrays by name; where there are none, random ones). Constant weights have one scale an output
    channel; products of two values that are no constants stay in floats. Of "add", which is not among the default,
    the operand that waits in memory for the other is quantized: residuals take a byte an element. RuntimeError for a
    compiled program; ValueError for dynamic shapes and for a name that no operator has.
    """
    _calibrated(prog, t, calibration, _operators(prog, ins_names), "int8")


def quantize_fp8(prog: program, t: Target, calibration: Sequence[Mapping[str, Any]] = ()) -> None:
    """As `quantize_int8`, of dots and convolutions, in fp8e4m3fn; the same errors."""
    _calibrated(prog, t, calibration, PRODUCTS, "fp8e4m3fn")


def autocast_fp8(prog: program) -> None:
    """Give a program whose inputs or outputs are fp8 float ones, converted inside.

    RuntimeError for a compiled program.
    """
    autocast(_uncompiled(prog))


def quantize_int4_weights(prog: program | module, block_size: int = BLOCK) -> None:
    """Keep the constant weights of dots in 4 bits, with one scale for `block_size` of them along the depth.

    `prog` may be the module that the function of a `deferred_program` has written. RuntimeError for a compiled program;
    ValueError for a program of dynamic shapes, and for a block size that is odd or below 2.
    """
    pack_weights(prog._impl if isinstance(prog, module) else _fixed(prog).main, block_size)


def _calibrated(
    prog: program, target: Target, calibration: Sequence[Mapping[str, Any]], names: Sequence[str], type: str
) -> None:
    impl = _fixed(prog)
    if not calibration:
        log.warning("no calibration data: ranges are those of random inputs")
        shapes = prog.get_parameter_shapes()
        calibration = [random_inputs(prog, shapes, seed) for seed in range(2)]

    def run(observed: Program, inputs: Sequence[Mapping[str, Any]]) -> list[list[np.ndarray]]:
        running = published(observed)
        running.compile(target)
        return [[np.asarray(a) for a in running.run(one)] for one in inputs]

    quantize(impl, calibration, run, names, type)


def _operators(prog: program, names: Sequence[str]) -> Sequence[str]:
    """The names, which are those of operators or "all"; a warning where the program has no instruction of a name.

    Of the default, which names all that can be quantized, one is enough.
    """
    if isinstance(names, str):
        raise TypeError(f"ins_names must be a list of operators' names, got the string {names!r}")
    found = {ins.name for m in prog.graph.modules.values() for ins in m}
    missing = [name for name in names if name != ALL and declaration(name).name not in found]
    if missing and not (names is PRODUCTS and len(missing) < len(PRODUCTS)):
        log.warning("the program has no %s: quantizing it changes nothing", " and no ".join(missing))
    return tuple(names)


def _uncompiled(prog: program) -> Program:
    if prog.is_compiled():
        raise RuntimeError("quantize a program before compiling it")
    return prog.graph


def _fixed(prog: program) -> Program:
    """An uncompiled program whose products are known: dynamic shapes defer nodes to the first run."""
    for name, shape in prog.get_parameter_shapes().items():
        if shape.dynamic():
            raise ValueError(
                f"quantizing to 8 or 4 bits takes fixed shapes, and parameter {name!r} is {shape!r}: parse the model "
                "with map_input_dims, dim_params or default_dim_value"
            )
    return _uncompiled(prog)
