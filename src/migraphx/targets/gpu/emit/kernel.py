"""Calls of functions of kernels/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migraphx.ir.size import divides
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.body import aligned, pointer_type
from migraphx.targets.gpu.emit.source import complete, kernel_text
from migraphx.targets.gpu.emit.tiles import WIDE
from migraphx.targets.gpu.kernel import GpuCall, Kernel, Launch

Constant = int | float | bool | str


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
    text: str | None = None,
) -> GpuCall:
    """A call of one function of kernels/, or of `text`: pointers to `reads` and `writes`, the numbers, the constants.

    `vectors`: the numbers of which it matters that 16 divides them. Numbers are i32 where all of them fit.
    """
    views = (*reads, *writes)
    kind = "i32" if all(abs(n) <= WIDE for n in numbers) else "i64"
    pointers = tuple(pointer_type(v.type) for v in views)
    divisible = [k for k, v in enumerate(views) if aligned(v)]
    divisible += [len(views) + k for k in vectors if divides(16, numbers[k])]
    arguments = (*pointers, *(kind for _ in numbers))
    source = text or kernel_text(function)
    kernel = Kernel(function, source, arguments, tuple(constants.items()), tuple(divisible), warps)
    grid = (programs, 1, 1)
    return GpuCall(Launch(kernel, grid), tuple(reads), tuple(writes), tuple(numbers), label, origin, gathers)


def generated_call(
    name: str,
    lines: Sequence[str],
    reads: Mapping[str, View],
    writes: Mapping[str, View],
    numbers: Mapping[str, int],
    constants: Mapping[str, Constant],
    programs: int,
    label: str,
    origin: str,
    warps: int = 4,
    vectors: Sequence[str] = (),
    gathers: bool = False,
) -> GpuCall:
    """A call of a function of these lines, which name pointers, numbers and constants as they are named here."""
    arguments = [*reads, *writes, *numbers, *(f"{c}: tl.constexpr" for c in constants)]
    text = f"@triton.jit\ndef {name}({', '.join(arguments)}):\n" + "".join(f"    {line}\n" for line in lines)
    marks = [list(numbers).index(v) for v in vectors]
    return call_of(
        name, [*reads.values()], [*writes.values()], [*numbers.values()], constants, programs, label, origin, warps,
        marks, gathers, complete(text),
    )  # fmt: skip
