"""Pointwise kernels and copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from migraphx.ir.module import Module
from migraphx.ir.size import divides, hint_of
from migraphx.targets.common.body import Scope
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.body import (
    TRITON,
    TritonReading,
    load_text,
    pointer_type,
    reading_of,
    store_line,
    stored_body,
)
from migraphx.targets.gpu.emit.source import complete
from migraphx.targets.gpu.emit.tiles import Numbers, Tiles, is_wide, pointer_marks, tiles
from migraphx.targets.gpu.kernel import GpuCall, Kernel, Launch

Body = Callable[[Sequence[str], Scope], str]
"""Adds statements to a scope; the text of the result as memory holds it, from the names of the operands."""

WARPS = 4


def pointwise_call(module: Module, reads: Sequence[View], write: View, origin: str = "") -> GpuCall:
    """One pass over `write.lens`, computing the module's body."""

    def body(names: Sequence[str], scope: Scope) -> str:
        return stored_body(module, dict(zip(module.parameters, names, strict=True)), scope, write.type)

    names = [i.name for i in module if not i.name.startswith("@")]
    return _call(body, reads, write, reading_of(module), " ".join(names), origin)


def copy_call(read: View, write: View, origin: str = "") -> GpuCall:
    """Copy one view into another of equal lens and type, as the bits that they are."""
    read, write = (replace(v, type=f"uint{8 * v.itemsize}") for v in (read, write))
    return _call(lambda names, scope: names[0], [read], write, TRITON, "copy", origin)


def _call(body: Body, reads: Sequence[View], write: View, reading: TritonReading, label: str, origin: str) -> GpuCall:
    views = (*reads, write)
    walk = tiles(views)
    numbers = Numbers(len(views), is_wide(views))
    lines = walk.head(numbers)
    flat = not walk.rows and len(walk.columns) == 1
    if (
        flat and not divides(16, walk.nest.lens[0]) and hint_of(walk.programs) > 1
    ):  # masks would make single elements of vectors
        end = numbers.name(("columns",), walk.nest.lens[0])
        lines.append(f"if (at + 1) * COLS <= {end}:")
        lines += ["    " + line for line in _pass(body, views, walk, numbers, reading, masked=False)]
        lines.append("else:")
        lines += ["    " + line for line in _pass(body, views, walk, numbers, reading)]
    else:
        lines += _pass(body, views, walk, numbers, reading)
    constants = (("ROWS", walk.height), ("COLS", walk.width)) if walk.rows else (("COLS", walk.width),)
    arguments = [*(f"p{k}" for k in range(len(views))), *(f"n{k}" for k in range(len(numbers.values)))]
    head = ", ".join([*arguments, *(f"{name}: tl.constexpr" for name, _ in constants)])
    text = f"@triton.jit\ndef pointwise({head}):\n" + "".join(f"    {line}\n" for line in lines)
    pointers = tuple(pointer_type(v.type) for v in views)
    marks = pointer_marks(views, [walk.vector(k) for k in range(len(views))])
    divisible = (*marks, *numbers.divisible)
    kernel = Kernel("pointwise", complete(text), (*pointers, *numbers.types), constants, divisible, WARPS)
    grid = (walk.programs, 1, 1)
    return GpuCall(Launch(kernel, grid), tuple(reads), (write,), tuple(numbers.values), label, origin)


def _pass(
    body: Body, views: Sequence[View], walk: Tiles, numbers: Numbers, reading: TritonReading, masked: bool = True
) -> list[str]:
    """The statements for a tile."""
    scope = Scope(reading)

    def mask(k: int) -> str:
        return walk.mask(k) if masked else ""

    names = []
    for k, view in enumerate(views[:-1]):
        names.append(scope.bind(load_text(f"p{k}", view.type, f"({walk.offset(k, numbers)})", mask(k))))
    result = body(names, scope)
    last = len(views) - 1
    inside = {True: "inside" if walk.rows else "inside_c", False: ""}[masked]
    where = f"({walk.offset(last, numbers)})" if any(walk.nest.strides[last]) else "(0 * c)"
    if any(n > 1 and not s for n, s in zip(walk.nest.lens, walk.nest.strides[last], strict=True)):
        raise ValueError("a view that is written has every element once")
    scope.lines.append(store_line(f"p{last}", where, result, inside))
    return scope.lines
