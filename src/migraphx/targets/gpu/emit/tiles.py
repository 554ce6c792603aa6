"""How a kernel's programs walk several views at once: tiles of rows and columns, and where elements lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from migraphx.ir.size import divides, hint_of
from migraphx.targets.common.views import Loops, View, loops
from migraphx.targets.gpu.emit.body import aligned

WIDE = 2**31 - 2**20  # elements from which on offsets need 64 bits; a program may look beyond the end by a tile
MOST_BESIDE = 65_535  # programs along a grid's second and third axis
PROGRAMS = 264  # that fill a large GPU twice: smaller tiles below
SHORT_ROW = 16
MOST = 4096  # bytes of a view that a program walks
TRANSPOSED = 64  # columns and rows of a tile that is read along another dimension than it is written


def power_of_two(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def blocks(n: int, size: int) -> int:
    return -(-n // size)


@dataclass
class Numbers:
    """A call's numbers in order: their names in the text, their values, and what is known of them."""

    first: int  # the arguments before them
    wide: bool
    values: list[int] = field(default_factory=list)
    divisible: list[int] = field(default_factory=list)
    known: dict[tuple, str] = field(default_factory=dict)

    def name(self, role: tuple, value: int, vector: bool = True) -> str:
        """A number that differs among calls, by what it is: calls that differ in it alone have one text.

        `vector`: whether it matters that 16 divides it.
        """
        if role not in self.known:
            self.known[role] = f"n{len(self.values)}"
            if vector and divides(16, value):
                self.divisible.append(self.first + len(self.values))
            self.values.append(value)
        return self.known[role]

    @property
    def types(self) -> tuple[str, ...]:
        return ("i64" if self.wide else "i32",) * len(self.values)


def span(view: View) -> int:
    """How far a view's elements lie apart, in elements."""
    return sum(max(n - 1, 0) * abs(s) for n, s in zip(view.lens, view.strides, strict=True))


def is_wide(views: Sequence[View]) -> bool:
    """Whether numbers of elements, or their offsets, need 64 bits."""
    return any(span(v) > WIDE or v.elements > WIDE for v in views)


@dataclass(frozen=True)
class Tiles:
    """A nest's dimensions in three groups: programs take one index of `outer`, and a tile of `rows` x `columns`.

    A group of several dimensions is walked as one, in row-major order. Without rows, tiles are one-dimensional.
    """

    nest: Loops
    outer: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    height: int
    width: int

    def size(self, dims: Sequence[int]) -> int:
        size = 1
        for d in dims:
            size *= self.nest.lens[d]
        return size

    @property
    def programs(self) -> int:
        high = blocks(self.size(self.rows), self.height)
        return self.size(self.outer) * high * blocks(self.size(self.columns), self.width)

    def head(self, numbers: Numbers) -> list[str]:
        """Lines that name the program's indices: d0, d1, ... of each dimension, c and r of the groups."""
        pid = "tl.program_id(0).to(tl.int64)" if numbers.wide else "tl.program_id(0)"
        lines = [f"at = {pid}"]
        columns = numbers.name(("columns",), self.size(self.columns))
        expand = "[None, :]" if self.rows else ""
        if self.rows or self.outer:
            lines.append(f"across = tl.cdiv({columns}, COLS)")
            lines.append(f"c = (at % across * COLS + tl.arange(0, COLS)){expand}")
            lines.append("at = at // across")
        else:
            lines.append(f"c = at * COLS + tl.arange(0, COLS){expand}")
        if self.rows:
            rows = numbers.name(("rows",), self.size(self.rows), self.transposed)
            if self.outer:
                lines += [f"down = tl.cdiv({rows}, ROWS)", "r = (at % down * ROWS + tl.arange(0, ROWS))[:, None]"]
                lines.append("at = at // down")
            else:
                lines.append("r = (at * ROWS + tl.arange(0, ROWS))[:, None]")
            lines.append(f"inside_r = r < {rows}")
        lines.append(f"inside_c = c < {columns}")
        if self.rows:
            lines.append("inside = inside_r & inside_c")
        lines += self._digits("at", self.outer, numbers)
        lines += self._digits("r", self.rows, numbers)
        lines += self._digits("c", self.columns, numbers)
        return lines

    @property
    def transposed(self) -> bool:
        return any(s[d] == 1 for d in self.rows for s in self.nest.strides)

    def _digits(self, name: str, dims: Sequence[int], numbers: Numbers) -> list[str]:
        lines, rest = [], name
        for d in reversed(dims[1:]):
            size = numbers.name(("size", d), self.nest.lens[d], d in self.columns)
            lines.append(f"d{d} = {rest} % {size}")
            lines.append(f"{name}_{d} = {rest} // {size}")
            rest = f"{name}_{d}"
        return [*lines, f"d{dims[0]} = {rest}"] if dims else lines

    def offset(self, k: int, numbers: Numbers) -> str:
        """Where view k has its elements of the tile: of its shape, less dimensions along which it stays."""
        terms = []
        for d, stride in enumerate(self.nest.strides[k]):
            if stride:
                factor = "" if stride == 1 else " * " + numbers.name(("stride", k, d), stride)
                terms.append(f"d{d}{factor}")
        return " + ".join(terms) or "0"

    def mask(self, k: int) -> str:
        """Of the elements that view k has: none where it stays in the whole tile."""
        strides = self.nest.strides[k]
        down, across = (any(strides[d] for d in dims) for dims in (self.rows, self.columns))
        if not self.rows:
            return "inside_c" if across else ""
        return {(True, True): "inside", (True, False): "inside_r", (False, True): "inside_c"}.get((down, across), "")

    def vector(self, k: int) -> bool:
        """Whether view k has neighbours along a dimension of the tile."""
        strides = self.nest.strides[k]
        return any(strides[d] == 1 for d in (*self.rows, *self.columns))


def tiles(views: Sequence[View]) -> Tiles:
    """For a pass over views of equal lens, the last of which is written: it is walked in memory order.

    Right at all lengths, and quick at those at hand.
    """
    nest = loops(views, lead=len(views) - 1)
    total, lens = hint_of(views[0].elements), [hint_of(n) for n in nest.lens]
    itemsize = max(v.itemsize for v in views)
    block = max(512, MOST // itemsize)
    while block > 256 and blocks(total, block) < PROGRAMS:
        block //= 2
    inner = nest.rank - 1
    if inner == 0:
        return Tiles(nest, (), (), (0,), 1, block)
    along = _read_along(nest)
    if along is not None:
        tile = TRANSPOSED * TRANSPOSED if total >= 2 * PROGRAMS * TRANSPOSED * TRANSPOSED else block
        width = min(power_of_two(lens[inner]), TRANSPOSED)
        height = min(power_of_two(lens[along]), tile // width)
        width = min(power_of_two(lens[inner]), tile // height)
        outer = tuple(d for d in range(inner) if d != along)
        return Tiles(nest, outer, (along,), (inner,), height, width)
    length = lens[inner]
    padded = power_of_two(length)
    if length < SHORT_ROW or (padded < block and padded > 1.6 * length):
        return Tiles(nest, (), (), tuple(range(nest.rank)), 1, block)
    width = min(padded, block)
    rows = 1
    for n in lens[:inner]:
        rows *= n
    return Tiles(nest, (), tuple(range(inner)), (inner,), min(block // width, power_of_two(rows)), width)


def _read_along(nest: Loops) -> int | None:
    """The dimension along which the largest view is read in memory order, where that is not the innermost one."""
    inner = nest.rank - 1
    found: list[tuple[int, int]] = []
    for strides in nest.strides[:-1]:
        if strides[inner] in (0, 1):
            continue
        along = [d for d in range(inner) if abs(strides[d]) == 1 and hint_of(nest.lens[d]) >= 3]
        size = 1
        for n, s in zip(nest.lens, strides, strict=True):
            size *= hint_of(n) if s else 1
        found += [(size, d) for d in along]
    return max(found)[1] if found else None


def pointer_marks(views: Sequence[View], vector: Sequence[bool]) -> list[int]:
    """The positions of pointers that are read or written in vectors, and may be."""
    return [k for k, v in enumerate(views) if vector[k] and aligned(v)]
