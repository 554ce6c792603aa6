"""Pointwise kernels and copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from migraphx.ir.module import Module
from migraphx.ir.size import bounds_of, hint_of, is_open, likely_less
from migraphx.targets.common.body import Scope, pointwise_body
from migraphx.targets.common.call import Call
from migraphx.targets.common.views import Loops, View, loops
from migraphx.targets.cpu.emit.body import CPP, indented, load_text, pointers, store_text
from migraphx.targets.cpu.emit.kernel import Kernel, function
from migraphx.targets.cpu.emit.params import Nest, Numbers
from migraphx.targets.cpu.emit.scalar import NARROW
from migraphx.targets.cpu.emit.structs import Interleave, Transpose

SHORT_ROW = 8
PLANES = (2, 3)  # that interleave.hpp takes
PIECE = 2048  # elements of a row that one thread takes at a time: long enough to amortise, short enough to share


def pointwise_call(module: Module, reads: Sequence[View], write: View, origin: str = "") -> Call:
    """One pass over `write.lens`, computing the module's body."""

    def body(names: Sequence[str], scope: Scope) -> str:
        return pointwise_body(module, dict(zip(module.parameters, names, strict=True)), scope)

    names = [i.name for i in module if not i.name.startswith("@")]
    return _call(body, reads, write, " ".join(names), origin)


def copy_call(read: View, write: View, origin: str = "") -> Call:
    """Copy one view into another of equal lens and type; narrow types as the bits that they are."""
    read, write = (replace(v, type=f"uint{8 * v.itemsize}") if v.type in NARROW else v for v in (read, write))
    if _few_planes(read, write):
        return _interleave_call(read, write, origin)
    if _is_transposed(read, write):
        return _transpose_call(read, write, origin)
    return _call(lambda names, scope: names[0], [read], write, "copy", origin)


def _few_planes(read: View, write: View) -> bool:
    """Whether planes become pixels, as interleave.hpp has it."""
    nest = loops((read, write), lead=0)
    if nest.rank not in (2, 3) or read.itemsize != 4:
        return False
    planes = nest.strides[1][-1]
    if is_open(planes) and hint_of(planes) != PLANES[-1]:  # 2 is a batch, or one of 1: its kernel must serve others
        return False
    strides = planes in PLANES and nest.strides[0][-1] == 1 and nest.strides[1][-2] == 1
    return strides and nest.lens[-2] == planes and nest.lens[-1] >= SHORT_ROW


def _interleave_call(read: View, write: View, origin: str) -> Call:
    nest = loops((read, write), lead=0)
    images, (x_image, y_image) = (nest.lens[0], [s[0] for s in nest.strides]) if nest.rank == 3 else (1, (0, 0))
    numbers = Numbers()
    fill = Interleave(images, nest.lens[-1], x_image, nest.strides[0][-2], y_image).cpp(numbers)
    images = "reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1])"
    line = f"interleave<{nest.lens[-2]}>(t, {fill}, {images});"
    kernel = Kernel("// copy of planes\n" + function([line]), ("interleave.hpp",))
    return Call(kernel, (read,), (write,), numbers.values, "copy", origin)


def _is_transposed(read: View, write: View) -> bool:
    """Whether rows become columns, as transpose.hpp has it: of any lengths, so that one form serves all."""
    if read.itemsize not in (1, 4):
        return False
    nest = loops((read, write), lead=0)
    if nest.rank not in (2, 3):
        return False
    (x_row, x_column), (y_row, y_column) = ([hint_of(n) for n in s[-2:]] for s in nest.strides)
    if is_open((nest.strides[0][-1], nest.strides[1][-2])):
        return False
    return x_column == 1 and y_row == 1 and x_row != 0 and y_column not in (0, 1)


def _transpose_call(read: View, write: View, origin: str) -> Call:
    nest = loops((read, write), lead=0)
    images, (x_image, y_image) = (nest.lens[0], [s[0] for s in nest.strides]) if nest.rank == 3 else (1, (0, 0))
    numbers = Numbers()
    (*_, rows, columns), (*_, x_row, _), (*_, y_column) = nest.lens, *nest.strides
    fill = Transpose(images, rows, columns, x_image, x_row, y_image, y_column).cpp(numbers)
    type = f"uint{8 * read.itemsize}_t"
    matrices = f"reinterpret_cast<const {type}*>(p[0]), reinterpret_cast<{type}*>(p[1])"
    text = "// copy of rows as columns\n" + function([f"transpose(t, {fill}, {matrices});"])
    kernel = Kernel(text, ("transpose.hpp",))
    return Call(kernel, (read,), (write,), numbers.values, "copy", origin)


def _call(
    body: Callable[[Sequence[str], Scope], str], reads: Sequence[View], write: View, label: str, origin: str
) -> Call:
    views = (*reads, write)
    nest = loops(views, lead=_lead(views))
    return Call(_kernel(body, views, nest, label), tuple(reads), (write,), Nest(nest, "a").numbers, label, origin)


def _lead(views: Sequence[View]) -> int:
    """The view that is walked in memory order.

    It is the one written, unless its rows are shorter than a vector and an input has long ones (an image whose channels
    become the innermost dimension).
    """
    written = len(views) - 1
    length = [loops(views, lead=k).lens[-1] for k in (written, 0)]
    if bounds_of(length[1] - length[0])[1] <= 0:  # whatever they are: there is no wish
        return written
    return 0 if likely_less(length[0], SHORT_ROW) and not likely_less(length[1], SHORT_ROW) else written


def _kernel(body: Callable[[Sequence[str], Scope], str], views: Sequence[View], nest: Loops, label: str) -> Kernel:
    rank, count = nest.rank, len(views)
    row, scope = Scope(CPP), Scope(CPP)
    names = []
    for k, strides in enumerate(nest.strides[:-1]):
        text = load_text(k, strides[-1], f"s{k}", f"o[{k}]", "i")
        if strides[-1] == 0:
            row.count, name = row.count + 1, f"c{k}"
            row.lines.append(f"const auto {name} = {text};")
            names.append(name)
        else:
            names.append(scope.bind(text))
    result = body(names, scope)
    last = count - 1
    scope.lines.append(store_text(last, nest.strides[-1][-1], f"s{last}", f"o[{last}]", "i", result))
    steps = [
        f"const int64_t s{k} = {Nest(nest, 'a').stride(k, rank - 1)};"
        for k, s in enumerate(nest.strides)
        if s[-1] not in (0, 1)
    ]
    return Kernel(
        f"// {label}\n"
        + function(
            [
                *pointers(views),
                *steps,
                f"for_rows<{rank}, {count}>(t, a, {PIECE}, [&](const int64_t* o, int64_t begin, int64_t end) {{",
                *(f"    {line}" for line in row.lines),
                "    for_lanes(begin, end, [&](int64_t i, auto n) {",
                "        " + indented(scope.lines, 2),
                "    });",
                "});",
            ]
        ),
        ("loops.hpp", "math.hpp"),
    )
