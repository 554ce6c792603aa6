"""Calls of functions of kernels/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.body import aligned, pointer_type
from migraphx.targets.gpu.emit.source import kernel_text
from migraphx.targets.gpu.emit.tiles import WIDE
from migraphx.targets.gpu.kernel import GpuCall, Kernel, Launch

Constant = int | float | bool | str
MOST = 2**31 - 1  # programs along the first axis of a grid


def call_of(
    function: str,
    reads: Sequence[View],
    writes: Sequence[View],
    numbers: Sequence[int],
    constants: Mapping[str, Constant],
    programs: int,
    label: str,
    origin: str,
    warps: int = 4,
    vectors: Sequence[int] = (),
    gathers: bool = False,
) -> GpuCall:
    """A call of one function of kernels/: pointers to `reads` and `writes`, then the numbers, then the constants.

    `vectors`: the numbers of which it matters that 16 divides them. Numbers are i32 where all of them fit.
    """
    views = (*reads, *writes)
    kind = "i32" if all(abs(n) <= WIDE for n in numbers) else "i64"
    pointers = tuple(pointer_type(v.type) for v in views)
    divisible = [k for k, v in enumerate(views) if aligned(v)]
    divisible += [len(views) + k for k in vectors if numbers[k] % 16 == 0]
    arguments = (*pointers, *(kind for _ in numbers))
    kernel = Kernel(function, kernel_text(function), arguments, tuple(constants.items()), tuple(divisible), warps)
    grid = (programs, 1, 1)
    return GpuCall(Launch(kernel, grid), tuple(reads), tuple(writes), tuple(numbers), label, origin, gathers)
