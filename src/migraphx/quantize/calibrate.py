"""Ranges of values, found by running a program on sample inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program

Run = Callable[[Program, Sequence[Mapping[str, Any]]], list[list[np.ndarray]]]
"""A program's outputs for each of several sets of inputs."""


def largest(
    program: Program, values: Sequence[Instruction], inputs: Sequence[Mapping[str, Any]], run: Run
) -> list[float]:
    """The largest magnitude that each of the main module's values takes over all inputs.

    ValueError where one is not finite.
    """
    copy = program.clone()
    at = {ins: n for n, ins in enumerate(program.main)}
    same = list(copy.main)
    b = Builder(copy.main, before=copy.main.last)
    tops = [b.reduce_max(b.abs(same[at[v]]), axes=tuple(range(v.shape.ndim))) for v in values]
    copy.main.replace_return(tops)
    found = np.zeros(len(values))
    for outputs in run(copy, inputs):
        found = np.maximum(found, [float(np.asarray(o, np.float64).reshape(())) for o in outputs])
    for value, top in zip(values, found, strict=True):
        if not np.isfinite(top):
            raise ValueError(f"calibration: {value!r} takes values that are not finite")
    return [float(top) for top in found]
