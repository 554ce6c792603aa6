"""`quantize_fp16`, `quantize_bf16`."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.api.program import program
from migraphx.quantize.precision import ALL, narrow


def quantize_fp16(prog: program, ins_names: Sequence[str] = (ALL,)) -> None:
    """Compute the named operators (default: all) in half precision; changes the program, which is not compiled yet."""
    _narrow(prog, "half", ins_names)


def quantize_bf16(prog: program, ins_names: Sequence[str] = (ALL,)) -> None:
    """Compute the named operators (default: all) in bfloat16; changes the program, which is not compiled yet."""
    _narrow(prog, "bf16", ins_names)


def _narrow(prog: program, type: str, names: Sequence[str]) -> None:
    if prog.is_compiled():
        raise RuntimeError("quantize a program before compiling it")
    narrow(prog._impl, type, tuple(names))
