"""Fused reductions: rows in registers where they fit, else passes over blocks of them; few long rows in parts.

A tile has rows down and the elements that are reduced across. What is the same for a whole row is one column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Operation
from migraphx.ir.shape import Shape
from migraphx.ir.size import divides, hint_of, is_open
from migraphx.ops.reduce import (
    ReduceAll,
    ReduceAny,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
)  # fmt: skip
from migraphx.targets.common.body import Scope, apply
from migraphx.targets.common.stages import FusedReduction, Stage
from migraphx.targets.common.views import Loops, View
from migraphx.targets.gpu.emit.also import Also
from migraphx.targets.gpu.emit.body import compute_type, load_text, pointer_type, reading_of, store_text
from migraphx.targets.gpu.emit.plans import Plan, plan_at
from migraphx.targets.gpu.emit.scalar import constant_text
from migraphx.targets.gpu.emit.source import complete
from migraphx.targets.gpu.emit.spread import is_side_by_side, spread_calls
from migraphx.targets.gpu.emit.tiles import Numbers, blocks, is_wide, pointer_marks, power_of_two
from migraphx.targets.gpu.kernel import GpuCall, Kernel, Launch


@dataclass(frozen=True)
class Reducer:
    """How a reduction joins two values, folds a tile's columns into one, and what it starts from."""

    join: str
    fold: str
    start: Callable[[str], int | float]


def _lowest(type: str) -> int | float:
    return float("-inf") if type in dtypes.FLOATS else int(dtypes.limits(type)[0])


def _highest(type: str) -> int | float:
    if type in ("int64", "uint64"):  # limits are floats
        return 2**63 - 1 if type == "int64" else 2**64 - 1
    return float("inf") if type in dtypes.FLOATS else int(dtypes.limits(type)[1])


SUM = Reducer("{} + {}", "tl.sum({}, 1, keep_dims=True)", lambda _: 0)
PROD = Reducer("{} * {}", "tl.reduce({}, 1, multiply, keep_dims=True)", lambda _: 1)
MAX = Reducer("scalar_max({}, {})", "tl.reduce({}, 1, scalar_max, keep_dims=True)", _lowest)
MIN = Reducer("scalar_min({}, {})", "tl.reduce({}, 1, scalar_min, keep_dims=True)", _highest)
REDUCERS: dict[type[Operation], Reducer] = {
    ReduceSum: SUM,
    ReduceMean: SUM,
    ReduceMax: MAX,
    ReduceMin: MIN,
    ReduceProd: PROD,
    ReduceAny: MAX,
    ReduceAll: MIN,
}


def accumulated(ins: Instruction) -> str:
    """The type in which a reduction accumulates: narrow types as they are computed, bools as integers."""
    type = ins.inputs[0].shape.type
    if type == "bool":
        return "int32"
    if isinstance(ins.op, ReduceMean) and type in dtypes.INTEGERS:  # a mean fits where its sum does not
        return "int64"
    return dtypes.from_numpy(dtypes.accumulator(type))


def reduce_calls(
    module: Module,
    axes: Sequence[int],
    reads: Sequence[View],
    write: View,
    temporary: Callable[[Shape], View],
    origin: str = "",
    also: Also | None = None,
) -> list[GpuCall]:
    """The body of a `fused_reduce` over `axes`: one kernel, or one for each stage and one that finishes.

    `also`: what one kernel that computes every element stores as well.
    """
    found = FusedReduction.of(module, axes, reads, write)
    rows, length = prod(found.kept.lens), prod(found.reduced.lens)
    held = zip(found.kept.strides[:-1], found.reduced.strides[:-1], strict=True)
    varied = [any(kept) and any(reduced) for kept, reduced in held]
    varying = sum(varied)
    itemsize = max(v.itemsize for v in (*reads, write))
    run = found.reduced.lens[-1] if found.reduced.rank > 1 and not is_open(found.reduced.lens) else 0
    narrow = all(v.itemsize <= 2 for v, own in zip((*reads, write), (*varied, True), strict=True) if own)
    narrow = narrow and found.rowwise and found.full_output and not run
    chosen = plan_at(rows, length, varying, itemsize, found.rowwise, run, narrow)
    names = [i.name for i in module if not i.name.startswith("@")]
    label = " ".join(w for w in names if w != "multibroadcast")
    reductions = [i for stage in found.stages for i in stage.reductions]
    floats = all(accumulated(i) == "float" for i in reductions)
    if not also and floats and is_side_by_side(found) and is_spread(*reductions):
        return spread_calls(found, *reductions, temporary, label, origin)
    if chosen.parts == 1:
        return [_Kernel(found, chosen, {}, also).call(found.stages, reads, write, label, origin)]
    calls, given = [], dict[Instruction, View]()
    passes, last = [[s] for s in found.stages if s.reductions], [s for s in found.stages if not s.reductions]
    once = chosen.run > 0 and bool(last) and is_spread(*(i for stage in found.stages for i in stage.reductions))
    if once:
        passes = [[stage for own in passes for stage in own]]
    for own in passes:
        reductions = [i for stage in own for i in stage.reductions]
        lens = (rows, chosen.parts) if found.rowwise else (chosen.parts, rows)
        parts = [temporary(Shape(accumulated(i), lens)) for i in reductions]
        calls.append(_Kernel(found, chosen, dict(given), parts=chosen.parts).part(own, reads, parts, label, origin))
        given |= zip(reductions, parts, strict=True)
    finish = chosen if last else Plan(min(max(4096 // chosen.parts, 1), 64, power_of_two(hint_of(rows))), 1, 4)
    calls.append(_Kernel(found, finish, given, parts=chosen.parts, once=once).call(last, reads, write, label, origin))
    return calls


def is_spread(*reductions: Instruction) -> bool:
    """Whether these are a mean and the mean of squares of what differs from it, as norms have them.

    Both are made of those of parts, each about the mean of its own (Chan, Golub, LeVeque: Updating Formulae and a
    Pairwise Algorithm for Computing Sample Variances, 1979): a kernel has both, whose second pass finds its part in the
    cache. On an H200 that gains where a pass costs little: where runs have lanes of their own.
    """
    if len(reductions) != 2 or not all(isinstance(i.op, ReduceMean) for i in reductions):
        return False
    mean, spread = reductions
    square = spread.inputs[0]
    if square.name != "mul" or len({*square.inputs}) != 1 or square.inputs[0].name != "sub":
        return False
    (apart,) = {*square.inputs}
    value, taken = apart.inputs
    while taken.name == "multibroadcast":
        (taken,) = taken.inputs
    return taken is mean and value is mean.inputs[0] and value.shape.type in dtypes.FLOATS


@dataclass(frozen=True)
class Row:
    """A function `row_of` of views, numbers, and a tile of {1, COLS}: the only row of a reduction's output, else 0."""

    text: str
    reads: tuple[View, ...]
    numbers: tuple[int, ...]
    wide: bool
    length: int


def row_of(module: Module, axes: Sequence[int], reads: Sequence[View], write: View) -> Row | None:
    """The body of a `fused_reduce` as a function for other kernels; None where its output is no single, whole row.

    Nor where there are several reductions, one after another (layer norms): on an H200 their barriers in each program
    take longer than a kernel (GPT-2's token 0.311 and 0.301 ms; with a single one, as Llama's, 0.87 and 0.90 ms).
    """
    found = FusedReduction.of(module, axes, reads, write)
    length = prod(found.reduced.lens)
    if (
        is_open((*found.kept.lens, length))
        or prod(found.kept.lens) > 1
        or not found.full_output
        or length > MOST_ROW
        or not found.rowwise
        or sum(bool(stage.reductions) for stage in found.stages) > 1
    ):
        return None
    return _Kernel(found, Plan(1, power_of_two(length), 4), {}).row_text(reads)


MOST_ROW = 4096  # elements of a row that many programs compute for themselves


@dataclass
class _Kernel:
    """The text of one kernel.

    `given`: reductions whose `parts` are in memory, as `_at` says; `once`: as `is_spread` says.
    """

    fused: FusedReduction
    plan: Plan
    given: Mapping[Instruction, View]
    also: Also | None = None
    parts: int = 1
    once: bool = False
    names: dict[Instruction, str] = field(default_factory=dict)  # of values, as far as they are known
    held: dict[Instruction, str] = field(default_factory=dict)  # of reductions' parts

    def __post_init__(self) -> None:
        self.reading = reading_of(self.fused.module)
        self.row = Scope(self.reading)
        self.rows, self.length = prod(self.fused.kept.lens), prod(self.fused.reduced.lens)
        self.whole_rows = divides(self.plan.height, self.rows)
        numbers = range(1, 1 + self.plan.pieces if self.plan.pieces > 1 else 1)
        # of each piece: statements among the row's with names of their own, and its values
        self.pieces = [(Scope(self.reading, self.row.lines, 1000 * k), dict[Instruction, str]()) for k in numbers]
        run = self.plan.run
        self.across = self.length // self.fused.reduced.lens[-1] if run else self.length  # what tiles count: runs
        self.step = self.plan.width // max(run, 1)  # of that, a tile's
        share = blocks(self.across, self.plan.parts)
        self.share = blocks(share, self.step) * self.step if self.plan.loop else share  # of a part
        counted = self.share * self.plan.parts if self.plan.loop else self.step * self.plan.pieces
        self.even = not run and not is_open(self.length) and self.length == counted

    # ---- calls ----

    def call(self, stages: Sequence[Stage], reads: Sequence[View], write: View, label: str, origin: str) -> GpuCall:
        """All stages that are left, and the output."""
        writes = self.also.writes(write) if self.also else [write]
        self._begin(len(reads) + len(self.given) + len(writes))
        for k, (scope, done) in enumerate(self.pieces):  # all loads at once
            self._piece(k)
            for ins in self.fused.number:
                self._value(ins, scope, done)
        for stage in stages:
            if stage.reductions:
                self._reduce(stage)
            else:
                self._finish()
        if not self.fused.full_output:
            value = self._value(self.fused.module.outputs[0], self.row, {})
            where, mask = f"({self._offset(self.fused.out)} + 0 * r)", self._mask(True, False)
            self.row.lines.append(store_text("out", self.fused.views[-1].type, where, value, mask))
        parts = self.plan.parts if any(not s.reductions for s in stages) else 1
        return self._made(reads, writes, parts, label, origin)

    def row_text(self, reads: Sequence[View]) -> Row:
        """A function of the tile that returns the output."""
        self._begin(len(reads))
        for ins in self.fused.number:  # all loads at once
            self._value(ins, self.row, {})
        for stage in self.fused.stages:
            if stage.reductions:
                self._reduce(stage)
        value = self._value(self.fused.module.outputs[0], self.row, {})
        if not self.even:
            value = f"tl.where(inside_c, {value}, 0)"
        names = [*(f"p{k}" for k in range(len(reads))), *(f"n{k}" for k in range(len(self.numbers.values)))]
        head = ", ".join([*names, "ROWS: tl.constexpr", "COLS: tl.constexpr"])
        lines = [line.replace("tl.program_id(0)", "0") for line in self.row.lines]
        text = f"@triton.jit\ndef row_of({head}):\n" + "".join(f"    {line}\n" for line in [*lines, f"return {value}"])
        return Row(text, tuple(reads), tuple(self.numbers.values), self.numbers.wide, self.length)

    def part(
        self, stages: Sequence[Stage], reads: Sequence[View], parts: Sequence[View], label: str, origin: str
    ) -> GpuCall:
        """Stages on parts of the rows, each row's results at {part, row}. Two of them: a mean and a spread."""
        self._begin(len(reads) + len(self.given) + len(parts))
        at = self._at("part")
        outs = iter(["out", *(f"out{n}" for n in range(1, len(parts)))])
        for stage in stages:
            for ins, folded in zip(stage.reductions, self._accumulate(stage), strict=True):
                self.row.lines.append(store_text(next(outs), accumulated(ins), at, folded, self._mask(True, False)))
                if stage is not stages[-1]:
                    self.names[ins] = self.row.bind(f"{folded} / tl.maximum({self._count('part', ins)}, 1)")
        return self._made(reads, parts, self.plan.parts, label, origin)

    def _at(self, part: str) -> str:
        """Where the rows' results of a part are: one row's, or one part's, side by side, as lanes are."""
        if self.fused.rowwise:
            return f"(r * {self._number('parts', self.parts, vector=True)} + {part})"
        return f"({part} * {self._number('rows', self.rows)} + r)"

    def _count(self, part: str, ins: Instruction) -> str:
        """How many elements of a row the part has, as the type that `ins` accumulates in."""
        share = self._number("share", self.share, vector=True)
        count = f"tl.maximum(tl.minimum({self._across} - {part} * {share}, {share}), 0)"
        if self.plan.run:
            count += f" * {self._fine(('run',), self.fused.reduced.lens[-1])}"
        return self.row.bind(f"({count}).to({compute_type(accumulated(ins))})")

    def _begin(self, views: int) -> None:
        """Where the program stands, and the reductions that are given."""
        held = [*self.fused.views, *self.given.values()]
        self.numbers = Numbers(views, is_wide(held))
        pid = "tl.program_id(0).to(tl.int64)" if self.numbers.wide else "tl.program_id(0)"
        lines = self.row.lines
        if self.plan.parts > 1:
            down = self._number("down", blocks(self.rows, self.plan.height))
            lines += [f"block = {pid} % {down}", f"part = {pid} // {down}"]
            start = f"part * {self._number('share', self.share, vector=True)}"
        else:
            lines.append(f"block = {pid}")
            start = "0"
        lines.append("r = (block * ROWS + tl.arange(0, ROWS))[:, None]")
        if not self.whole_rows:
            lines.append(f"inside_r = r < {self._number('rows', self.rows)}")
        lines += self._digits("r", self.fused.kept, "kept")
        if self.plan.loop:
            lines.append(f"start = {start}")
            share = self._number("share", self.share, vector=True)
            lines.append(f"stop = tl.minimum(start + {share}, {self._across})")
        else:
            lines += self._block("0")
        for n, (ins, view) in enumerate(self.given.items()):
            self._take(n, ins, view)

    def _take(self, n: int, ins: Instruction, view: View) -> None:
        """A reduction from its parts."""
        parts = f"tl.arange(0, {view.lens[self.fused.rowwise]})[None, :]"
        loaded = self.row.bind(load_text(f"q{n}", view.type, self._at(parts), self._mask(True, False)))
        if self.once and self.held:  # what its parts' means differ by
            (before,) = self.held
            count = self._count(parts, ins)
            apart = self.row.bind(f"{self.held[before]} / tl.maximum({count}, 1) - {self.names[before]}")
            loaded = self.row.bind(f"{loaded} + {apart} * {apart} * {count}")
        self.held[ins] = loaded
        self.names[ins] = self._total(ins, self._folded(ins, loaded))

    def _made(self, reads: Sequence[View], writes: Sequence[View], parts: int, label: str, origin: str) -> GpuCall:
        views = (*reads, *self.given.values(), *writes)
        names = [*(f"p{k}" for k in range(len(reads))), *(f"q{n}" for n in range(len(self.given)))]
        names += ["out" if n == 0 else f"out{n}" for n in range(len(writes))]
        names += [f"n{k}" for k in range(len(self.numbers.values))]
        head = ", ".join([*names, "ROWS: tl.constexpr", "COLS: tl.constexpr"])
        text = f"@triton.jit\ndef reduce({head}):\n" + "".join(f"    {line}\n" for line in self.row.lines)
        pointers = tuple(pointer_type(v.type) for v in views)
        vector = [True] * len(views)
        for k, (kept, reduced) in enumerate(zip(self.fused.kept.strides, self.fused.reduced.strides, strict=True)):
            if k < len(reads):
                vector[k] = 1 in (kept[-1], reduced[-1])
        divisible = (*pointer_marks(views, vector), *self.numbers.divisible)
        constants = (("ROWS", self.plan.height), ("COLS", self.plan.width))
        kernel = Kernel(
            "reduce", complete(text), (*pointers, *self.numbers.types), constants, divisible, self.plan.warps
        )
        grid = (blocks(self.rows, self.plan.height) * parts, 1, 1)
        inputs = (*reads, *self.given.values())
        return GpuCall(Launch(kernel, grid), inputs, tuple(writes), tuple(self.numbers.values), label, origin)

    # ---- where elements lie ----

    def _number(self, role: str, value: int, vector: bool = False) -> str:
        return self.numbers.name((role,), value, vector)

    @property
    def _columns(self) -> str:
        return self._number("columns", self.length, vector=True)

    @property
    def _across(self) -> str:
        return self._number("runs", self.across, vector=True) if self.plan.run else self._columns

    def _digits(self, name: str, nest: Loops, role: str, rank: int | None = None) -> list[str]:
        """Lines that take an index of the nest's outermost `rank` loops apart."""
        lines, rest = [], name
        for d in reversed(range(1, nest.rank if rank is None else rank)):
            size = self.numbers.name((role, d), nest.lens[d], name == "c" or not self.fused.rowwise)
            lines += [f"{name}{d} = {rest} % {size}", f"{name}_{d} = {rest} // {size}"]
            rest = f"{name}_{d}"
        return [*lines, f"{name}0 = {rest}"]

    def _block(self, start: str) -> list[str]:
        """Lines that name the elements of a tile across."""
        stop, nest, run = "stop" if self.plan.loop else self._across, self.fused.reduced, self.plan.run
        if run:
            last, rank = f"c{nest.rank - 1}", nest.rank - 1
            lines = [
                f"c = ({start} + tl.arange(0, COLS) // {run})[None, :]",
                f"{last} = (tl.arange(0, COLS) % {run})[None, :]",
                f"inside_c = (c < {stop}) & ({last} < {self._fine(('run',), nest.lens[-1])})",
            ]
        else:
            lines, rank = [f"c = ({start} + tl.arange(0, COLS))[None, :]"], nest.rank
            lines += [] if self.even else [f"inside_c = c < {stop}"]
        if not self.even and not self.whole_rows:
            lines.append("inside = inside_r & inside_c")
        return lines + self._digits("c", nest, "reduced", rank)

    def _mask(self, down: bool, across: bool) -> str:
        down, across = down and not self.whole_rows, across and not self.even
        return {(True, True): "inside", (True, False): "inside_r", (False, True): "inside_c"}.get((down, across), "")

    def _offset(self, k: int) -> str:
        terms = []
        for name, nest in (("r", self.fused.kept), ("c", self.fused.reduced)):
            for d, stride in enumerate(nest.strides[k]):
                if stride:
                    number = self._fine if self.plan.run else self.numbers.name
                    factor = "" if stride == 1 else f" * {number((name, k, d), stride)}"
                    terms.append(f"{name}{d}{factor}")
        return " + ".join(terms) or "0"

    def _fine(self, role: tuple[str | int, ...], value: int) -> str:
        """A number whose small powers of two the compiler knows: runs begin and end on vectors of so many elements."""
        for power in () if is_open(value) or value % 16 == 0 else (8, 4, 2):
            if value % power == 0:
                return f"({self.numbers.name((*role, power), value // power, False)} * {power})"
        return self.numbers.name(role, value)

    # ---- values ----

    def _value(self, ins: Instruction, inner: Scope, done: dict[Instruction, str]) -> str:
        """The name of a value, computed in `inner` where it varies within a row, else once for the rows."""
        known = self.names.get(ins) or done.get(ins)
        if known:
            return known
        varies = self.fused.varies[ins]
        scope = inner if varies else self.row
        if ins in self.fused.number:
            name = scope.bind(self._load(self.fused.number[ins]))
        elif isinstance(ins.op, Literal):
            name = scope.bind(self.reading.literal(ins))
        else:
            name = apply(ins, [self._value(i, inner, done) for i in ins.inputs], scope)
        if varies and inner is not self.row:
            done[ins] = name
        else:
            self.names[ins] = name
            inner.known |= self.row.known
        return name

    def _load(self, k: int) -> str:
        down, across = (any(nest.strides[k]) for nest in (self.fused.kept, self.fused.reduced))
        return load_text(f"p{k}", self.fused.views[k].type, f"({self._offset(k)})", self._mask(down, across))

    def _live(self, ins: Instruction, value: str) -> str:
        """A value that is reduced, in the type of the accumulator; where there is no element, what changes nothing."""
        type = accumulated(ins)
        if type != dtypes.from_numpy(dtypes.accumulator(ins.inputs[0].shape.type)):
            value = f"{value}.to({compute_type(type)})"
        start = constant_text(REDUCERS[ins.op.__class__].start(type), compute_type(type))
        if self.even and self.fused.varies[ins.inputs[0]]:
            return value
        return f"tl.where({'c >= 0' if self.even else 'inside_c'}, {value}, {start})"

    def _folded(self, ins: Instruction, tile: str) -> str:
        """A tile's columns as one, of the accumulator's type: sums of small integers come back wider."""
        type = accumulated(ins)
        text = REDUCERS[ins.op.__class__].fold.format(tile)
        if (
            self.parts > 1 and self.plan.height == 1
        ):  # a number: of tiles of one element copies are made in shared memory
            text = text.replace(", 1", ", None", 1).replace(", keep_dims=True", "")
        return self.row.bind(f"{text}.to({compute_type(type)})" if type in dtypes.INTEGERS else text)

    def _total(self, ins: Instruction, folded: str) -> str:
        """The reduction's value."""
        type, own = accumulated(ins), ins.inputs[0].shape.type
        if isinstance(ins.op, ReduceMean):
            count = self.row.bind(f"{self._columns}.to({compute_type(type)})")
            folded = self.row.bind(f"scalar_div({folded}, {count})")
        if own == "bool":
            return self.row.bind(f"({folded} != 0)")
        if type == "int64" and own != "int64":
            return self.row.bind(f"{folded}.to({compute_type(own)})")
        return folded

    # ---- passes ----

    def _reduce(self, stage: Stage) -> None:
        for ins, folded in zip(stage.reductions, self._accumulate(stage), strict=True):
            self.names[ins] = self._total(ins, folded)

    def _accumulate(self, stage: Stage) -> list[str]:
        """The names of a stage's reductions over what the program has of its rows."""
        row = self.row
        if self.pieces:
            return [self._folded(i, self._joined(i)) for i in stage.reductions]
        if not self.plan.loop:
            values = [self._value(i.inputs[0], row, {}) for i in stage.reductions]
            live = [row.bind(self._live(i, v)) for i, v in zip(stage.reductions, values, strict=True)]
            return [self._folded(i, v) for i, v in zip(stage.reductions, live, strict=True)]
        inner, done, updates, before = row.inner(), dict[Instruction, str](), [], []
        inner.lines += self._block("at")
        names = [f"acc{self.fused.level[i]}_{n}" for n, i in enumerate(stage.reductions)]
        for name, ins in zip(names, stage.reductions, strict=True):
            reducer, type = REDUCERS[ins.op.__class__], accumulated(ins)
            start = constant_text(reducer.start(type), compute_type(type))
            before.append(f"{name} = tl.broadcast_to({start}, [ROWS, COLS])")
            live = self._live(ins, self._value(ins.inputs[0], inner, done))
            updates.append(f"{name} = {reducer.join.format(name, live)}")
        self._loop(before, [*inner.lines, *updates])
        return [self._folded(i, name) for i, name in zip(stage.reductions, names, strict=True)]

    def _piece(self, k: int) -> None:
        """The elements of the row's piece k are those that are loaded and stored from here on."""
        self.row.lines.append(f"c0 = ({k * self.plan.width} + tl.arange(0, COLS))[None, :]")

    def _joined(self, ins: Instruction) -> str:
        """A tile of what the pieces of a row have in the same place, reduced."""
        join, found = REDUCERS[ins.op.__class__].join, ""
        for scope, done in self.pieces:
            live = scope.bind(self._live(ins, self._value(ins.inputs[0], scope, done)))
            found = scope.bind(join.format(found, live)) if found else live
        return found

    def _finish(self) -> None:
        """The output, of which every element is computed."""
        for k, (scope, done) in enumerate(self.pieces):
            self._piece(k)
            self._store_tile(scope, done)
        if self.pieces:
            return
        inner = self.row.inner() if self.plan.loop else self.row
        if self.plan.loop:
            inner.lines += self._block("at")
        self._store_tile(inner, {})
        if self.plan.loop:
            self._loop([], inner.lines)

    def _store_tile(self, inner: Scope, done: dict[Instruction, str]) -> None:
        value = self._value(self.fused.module.outputs[0], inner, done)
        where, mask = f"({self._offset(self.fused.out)})", self._mask(True, True)
        type = self.fused.views[-1].type
        if not self.also or not self.also.alone:
            inner.lines.append(store_text("out", type, where, value, mask))
        if self.also:
            inner.lines += self.also.lines(value, type, "out" if self.also.alone else "out1", where, mask)

    @property
    def _stride(self) -> str:
        return f"COLS // {self.plan.run}" if self.plan.run else "COLS"

    def _loop(self, before: Sequence[str], lines: Sequence[str]) -> None:
        """A pass over the program's part of its rows."""
        self.row.lines += [
            *before,
            f"for at in range(start, stop, {self._stride}):",
            *(f"    {line}" for line in lines),
        ]
