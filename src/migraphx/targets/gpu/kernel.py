"""What the calls of target gpu run: Triton functions, compiled ahead."""

from __future__ import annotations

from dataclasses import dataclass

from migraphx.targets.common.call import Call

Grid = tuple[int, int, int]
"""How many programs run along each axis."""


@dataclass(frozen=True)
class Kernel:
    """The Triton text of one kernel and all that is known when it is compiled; equal ones are compiled once.

    `source` is the text of a Python module that defines the function `name` under `@triton.jit`, with all that it
    calls. `arguments` are the function's run-time arguments in order, in Triton's spelling: first a pointer
    ("*fp16") for each view of the call, then a type ("i32", "i64") for each of its numbers. `constants` are its
    `tl.constexpr` arguments. `divisible` are the positions of arguments that are multiples of 16 (bytes, for
    pointers; the view's byte offset included).
    """

    name: str
    source: str
    arguments: tuple[str, ...]
    constants: tuple[tuple[str, int | float | bool | str], ...] = ()
    divisible: tuple[int, ...] = ()
    warps: int = 4
    stages: int = 3


@dataclass(frozen=True)
class Launch:
    """A kernel and how many programs of it run. Calls that differ in sizes alone share the kernel."""

    kernel: Kernel
    grid: Grid


GpuCall = Call[Launch]
"""`Call.numbers` follow the pointers as scalar arguments, in the order of `Kernel.arguments`."""
