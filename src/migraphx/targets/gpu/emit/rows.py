"""The kernels of fused reductions: a program's rows in tiles, each value computed where it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.ir.operation import Literal
from migraphx.ir.size import divides, is_open
from migraphx.ops.reduce import ReduceMax, ReduceMean
from migraphx.targets.common.body import Scope, apply
from migraphx.targets.common.stages import FusedReduction, Stage
from migraphx.targets.common.views import Loops, View
from migraphx.targets.gpu.emit.also import Also
from migraphx.targets.gpu.emit.body import LINE, compute_type, load_text, pointer_type, reading_of, store_text
from migraphx.targets.gpu.emit.pieces import Ends, Piece
from migraphx.targets.gpu.emit.plans import LONGEST_BEHIND, Plan
from migraphx.targets.gpu.emit.reducers import REDUCERS, accumulated
from migraphx.targets.gpu.emit.scalar import constant_text
from migraphx.targets.gpu.emit.shell import WAITS
from migraphx.targets.gpu.emit.source import complete
from migraphx.targets.gpu.emit.tiles import Numbers, blocks, is_wide, pointer_marks, power_of_two
from migraphx.targets.gpu.kernel import GpuCall, Kernel, Launch

FLOAT = compute_type("float")
FIRST_NAME = 10_000  # of the values in a tile, of many


def _where(mask: str, text: str) -> str:
    """A value where there is an element, else 0."""
    return f"tl.where({mask}, {text}, 0)" if mask else text


@dataclass(frozen=True)
class Row:
    """A function `row_of` of views, numbers, and a tile of {1, COLS}: the only row of a reduction's output, else 0."""

    text: str
    reads: tuple[View, ...]
    numbers: tuple[int, ...]
    wide: bool
    length: int


@dataclass
class RowKernel:
    """The text of one kernel.

    `given`: reductions whose `parts` are in memory, as `_at` says; `once`: as `is_spread` says, or of passes over a row
    that compute both reductions in one.
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
        run, vector = self.plan.run, self.plan.vector
        self.ends = Ends.of(self.fused, vector) if vector else None
        self.period = self.ends.period if self.ends else 1  # of rows that begin alike among vectors
        self.whole_rows = divides(self.plan.height * self.period, self.rows)
        self.pieces, self.whole = list[Piece](), Piece(self.row)
        self.across = self.length // self.fused.reduced.lens[-1] if run else self.length  # what tiles count: runs
        self.step = self.plan.width // max(run, 1)  # of that, a tile's
        share = blocks(self.across, self.plan.parts)
        tiled = self.plan.loop or self.plan.parts > 1
        self.share = blocks(share, self.step) * self.step if tiled else share  # of a part
        counted = self.share * self.plan.parts if tiled else self.step * self.plan.pieces
        self.even = not run and not is_open(self.length) and self.length == counted and not vector

    # ---- calls ----

    def call(self, stages: Sequence[Stage], reads: Sequence[View], write: View, label: str, origin: str) -> GpuCall:
        """All stages that are left, and the output."""
        writes = self.also.writes(write) if self.also else [write]
        self._begin(len(reads) + len(self.given) + len(writes))
        for piece in self.pieces:  # all loads at once
            for ins, k in self.fused.number.items():
                if not self.plan.late or any(self.fused.kept.strides[k]):
                    self._value(ins, piece)
        self._ask_ahead()
        self._take_all()
        if self.once and not self.given:
            self._reduce_once(stages[:2])
            stages = stages[2:]
        for stage in stages:
            if stage.reductions:
                self._reduce(stage)
            else:
                self._finish()
        if not self.fused.full_output:
            value = self._value(self.fused.module.outputs[0], self.whole)
            where, mask = f"({self._offset(self.fused.out)} + 0 * r)", self._mask(True, False)
            self.row.lines.append(store_text("out", self.fused.views[-1].type, where, value, mask))
        parts = self.plan.parts if any(not s.reductions for s in stages) else 1
        return self._made(reads, writes, parts, label, origin)

    def row_text(self, reads: Sequence[View]) -> Row:
        """A function of the tile that returns the output."""
        self._begin(len(reads))
        for ins in self.fused.number:  # all loads at once
            self._value(ins, self.pieces[0])
        for stage in self.fused.stages:
            if stage.reductions:
                self._reduce(stage)
        value = self._value(self.fused.module.outputs[0], self.pieces[0])
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
        self._take_all()
        at = self._at("part")
        outs = iter(["out", *(f"out{n}" for n in range(1, len(parts)))])
        for stage in stages:
            for ins, folded in zip(stage.reductions, self._accumulate(stage), strict=True):
                self.row.lines.append(store_text(next(outs), accumulated(ins), at, folded, self._mask(True, False)))
                if stage is not stages[-1]:
                    self.names[ins] = self.row.bind(self._own(ins, folded))
        return self._made(reads, parts, self.plan.parts, label, origin)

    def _own(self, ins: Instruction, folded: str) -> str:
        """What a part has for the row's mean, or its maximum, until that is known."""
        if isinstance(ins.op, ReduceMax):
            return f'tl.where({folded} == float("-inf"), 0, {folded})'
        return f"{folded} / tl.maximum({self._count('part', ins)}, 1)"

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
        lines, period, vector = self.row.lines, self.period, self.plan.vector
        if self.plan.parts > 1:
            down = self._number("down", blocks(self.rows, self.plan.height))
            lines += [f"block = {pid} % {down}", f"part = {pid} // {down}"]
            start = f"part * {self._number('share', self.share, vector=True)}"
        else:
            lines.append(f"block = {pid}" if period == 1 else f"block, beside = {pid} // {period}, {pid} % {period}")
            start = "0"
        r = "(block * ROWS + tl.arange(0, ROWS))[:, None]"
        lines.append(f"r = {r}" if period == 1 else f"r = {r} * {period} + beside")
        if not self.whole_rows:
            lines.append(f"inside_r = r < {self._number('rows', self.rows)}")
        lines += self._digits("r", self.fused.kept, "kept")
        if self.plan.pieces > 1 and self.length > LONGEST_BEHIND:
            lines.append(WAITS)  # such a row leaves no registers for what is known ahead
        for k in self.ends.own if self.ends else ():
            lines.append(f"begin{k} = (r * {self._begun(k)} + {vector - 1}) // {vector} * {vector}")
        self._tile(start)
        for piece in self.pieces:
            if piece.masked and not self.whole_rows:
                lines.append(f"inside{piece.tag} = inside_r & inside_c{piece.tag}")

    def _ask_ahead(self) -> None:
        """A line for each view with rows of its own, behind the program's loads."""
        kept, reduced = self.fused.kept, self.fused.reduced
        plain = self.plan.ahead and kept.rank == reduced.rank == 1
        for k, view in enumerate(self.fused.views[:-1]) if plain else ():
            if kept.strides[k][0] and reduced.strides[k][0] == 1:
                row = f"tl.minimum(r + {self.plan.ahead}, {self._number('rows', self.rows)} - 1)"
                each = LINE // view.itemsize
                lines = f"{self._columns}, {each}, {power_of_two(blocks(self.length, each))}"
                self.row.lines.append(f"prefetch_row(p{k} + {row} * {self._begun(k)}, {lines})")

    def _take_all(self) -> None:
        for n, (ins, view) in enumerate(self.given.items()):
            self._take(n, ins, view)

    def _begun(self, k: int) -> str:
        return self.numbers.name(("r", k, 0), self.fused.kept.strides[k][0])

    def _tile(self, start: str) -> None:
        """The tiles of a row, or of a part; a loop has its own."""
        lines = self.row.lines
        if self.plan.loop or self.plan.parts > 1:
            share = self._number("share", self.share, vector=True)
            lines += [f"start = {start}", f"stop = tl.minimum(start + {share}, {self._across})"]
        if self.ends:
            lines += self.ends.lines(self._columns)
            self._add_pieces(self.ends.most, self.ends.least)
        elif self.plan.pieces > 1:
            self._add_pieces(self.length, self.length)
        elif not self.plan.loop:
            self.pieces = [Piece(self.row, masked=not self.even)]
            lines += self._block("start" if self.plan.parts > 1 else "0", self.pieces[0])
        if self.ends and not self.ends.none:
            wide = 2 * self.ends.vector
            if self.plan.height > 1:  # a tile of fewer elements than threads is computed by all of them
                wide = max(wide, 32 * self.plan.warps // self.plan.height)
            self.pieces.append(Piece(self._scope(len(self.pieces)), "e", str(wide), True, True))
            lines += self.ends.last_lines(self._columns, wide)

    def _add_pieces(self, most: int, least: int) -> None:
        """Tiles of the plan's width for `most` elements; each row has `least`."""
        for n in range(blocks(most, self.plan.width)):
            end = (n + 1) * self.plan.width
            piece = Piece(self._scope(n), f"_{n}_", "COLS", end > least)
            self.pieces.append(piece)
            self.row.lines += self._block(str(end - self.plan.width), piece)

    def _scope(self, n: int) -> Scope:
        """Statements of tile n, among the row's, with names of their own."""
        return Scope(self.reading, self.row.lines, FIRST_NAME * (n + 1))

    def _take(self, n: int, ins: Instruction, view: View) -> None:
        """A reduction from its parts."""
        parts = f"tl.arange(0, {view.lens[self.fused.rowwise]})[None, :]"
        loaded = self.row.bind(load_text(f"q{n}", view.type, self._at(parts), self._mask(True, False)))
        if self.once and self.held:  # what its parts' means differ by
            (before,) = self.held
        if self.once and self.held and isinstance(before.op, ReduceMax):
            less = self.row.bind(f"{self.held[before]} - {self.names[before]}")
            loaded = self.row.bind(f"{loaded} * {self.reading.scalar(self.row).exp(less)}")
        elif self.once and self.held:
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
            "reduce",
            complete(text),
            (*pointers, *self.numbers.types),
            constants,
            divisible,
            self.plan.warps,
        )
        grid = (blocks(self.rows, self.plan.height * self.period) * self.period * parts, 1, 1)
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

    def _block(self, start: str, piece: Piece) -> list[str]:
        """Lines that name the elements of a tile across."""
        nest, run = self.fused.reduced, self.plan.run
        stop = "stop" if self.plan.loop or self.plan.parts > 1 else self._across
        c, inside = f"c{piece.tag}", f"inside_c{piece.tag}"
        if self.ends:
            w = f"w{piece.tag}"
            lines = [f"{w} = ({start} + tl.arange(0, {piece.width}))[None, :]", f"{c} = before + {w}"]
            lines += [f"{inside} = {w} < whole"] if piece.masked else []
            return [*lines, f"{c}0 = {c}"]
        if run:
            last, rank = f"c{nest.rank - 1}", nest.rank - 1
            lines = [
                f"c = ({start} + tl.arange(0, COLS) // {run})[None, :]",
                f"{last} = (tl.arange(0, COLS) % {run})[None, :]",
                f"inside_c = (c < {stop}) & ({last} < {self._fine(('run',), nest.lens[-1])})",
            ]
        else:
            lines, rank = [f"{c} = ({start} + tl.arange(0, {piece.width}))[None, :]"], nest.rank
            lines += [f"{inside} = {c} < {stop}"] if piece.masked else []
        return lines + self._digits(c, nest, "reduced", rank)

    def _mask(self, down: bool, across: bool, piece: Piece | None = None) -> str:
        down, across = down and not self.whole_rows, across and piece is not None and piece.masked
        name = {(True, True): "inside", (True, False): "inside_r", (False, True): "inside_c"}.get((down, across), "")
        return name + piece.tag if piece and across else name

    def _offset(self, k: int, piece: Piece | None = None) -> str:
        if self.ends and piece and not piece.ends and k in self.ends.own:
            return f"begin{k} + w{piece.tag}"
        terms = []
        for name, nest in (("r", self.fused.kept), (f"c{piece.tag if piece else ''}", self.fused.reduced)):
            for d, stride in enumerate(nest.strides[k]):
                if stride:
                    number = self._fine if self.plan.run else self.numbers.name
                    factor = "" if stride == 1 else f" * {number((name[0], k, d), stride)}"
                    terms.append(f"{name}{d}{factor}")
        return " + ".join(terms) or "0"

    def _fine(self, role: tuple[str | int, ...], value: int) -> str:
        """A number whose small powers of two the compiler knows: runs begin and end on vectors of so many elements."""
        for power in () if is_open(value) or value % 16 == 0 else (8, 4, 2):
            if value % power == 0:
                return f"({self.numbers.name((*role, power), value // power, False)} * {power})"
        return self.numbers.name(role, value)

    # ---- values ----

    def _value(self, ins: Instruction, piece: Piece) -> str:
        """The name of a value, computed for a tile where it varies within a row, else once for the rows."""
        known = self.names.get(ins) or piece.done.get(ins)
        if known:
            return known
        varies = self.fused.varies[ins]
        scope = piece.scope if varies else self.row
        if ins in self.fused.number:
            name = scope.bind(self._load(self.fused.number[ins], piece))
        elif isinstance(ins.op, Literal):
            name = scope.bind(self.reading.literal(ins))
        else:
            name = apply(ins, [self._value(i, piece) for i in ins.inputs], scope)
        if varies:
            piece.done[ins] = name
        else:
            self.names[ins] = name
            piece.scope.known |= self.row.known
        return name

    def _load(self, k: int, piece: Piece) -> str:
        down, across = (any(nest.strides[k]) for nest in (self.fused.kept, self.fused.reduced))
        mask, keep = self._mask(down, across, piece), piece.keep if down and across else ""
        return load_text(f"p{k}", self.fused.views[k].type, f"({self._offset(k, piece)})", mask, keep=keep)

    def _live(self, ins: Instruction, piece: Piece) -> str:
        """A value that is reduced, in the type of the accumulator; where there is no element, what changes nothing."""
        value, type = self._value(ins.inputs[0], piece), accumulated(ins)
        if type != dtypes.from_numpy(dtypes.accumulator(ins.inputs[0].shape.type)):
            value = f"{value}.to({compute_type(type)})"
        start = constant_text(REDUCERS[ins.op.__class__].start(type), compute_type(type))
        if not piece.masked and self.fused.varies[ins.inputs[0]]:
            return value
        inside = f"inside_c{piece.tag}" if piece.masked else f"c{piece.tag} >= 0"
        return f"tl.where({inside}, {value}, {start})"

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
        tiles = {i: dict[str, str]() for i in stage.reductions}  # by their widths
        if self.plan.loop:
            self._loop_over(stage, tiles)
        for ins, own in tiles.items():
            for piece in self.pieces:
                live = self._live(ins, piece)
                if piece.width in own:
                    live = REDUCERS[ins.op.__class__].join.format(own[piece.width], live)
                own[piece.width] = piece.scope.bind(live)
        found = []
        for ins, own in tiles.items():
            first, *others = (self._folded(ins, tile) for tile in own.values())
            for other in others:
                first = self.row.bind(REDUCERS[ins.op.__class__].join.format(first, other))
            found.append(first)
        return found

    def _loop_over(self, stage: Stage, tiles: dict[Instruction, dict[str, str]]) -> None:
        """A pass whose accumulators are `tiles`."""
        updates, before, piece = [], [], self._looped()
        for n, ins in enumerate(stage.reductions):
            name, reducer, type = f"acc{self.fused.level[ins]}_{n}", REDUCERS[ins.op.__class__], accumulated(ins)
            start = constant_text(reducer.start(type), compute_type(type))
            before.append(f"{name} = tl.broadcast_to({start}, [ROWS, COLS])")
            updates.append(f"{name} = {reducer.join.format(name, self._live(ins, piece))}")
            tiles[ins]["COLS"] = name
        self._loop(before, [*piece.scope.lines, *updates])

    def _reduce_once(self, stages: Sequence[Stage]) -> None:
        """Both reductions of a softmax or a norm in one pass: each lane has its own, which are joined behind it."""
        (first,), (second,) = (stage.reductions for stage in stages)
        if isinstance(first.op, ReduceMax):
            top, sums = self._running_maximum(first)
            self.names[first] = self._total(first, top)
        else:
            self.names[first], sums = self._running_mean(first)
        self.names[second] = self._total(second, self._folded(second, sums))

    def _running_maximum(self, first: Instruction) -> tuple[str, str]:
        """The maximum, and each lane's sum of exponentials of what is less than it."""
        piece, join = self._looped("last"), REDUCERS[ReduceMax].join
        scope = piece.scope
        value = scope.bind(self._live(first, piece))
        new = scope.bind(join.format("most", value))
        base = scope.bind(self._own(first, new))
        before, own = (self._exp(scope, f"{name} - {base}") for name in ("most", value))
        updates = [f"total = total * {before} + {own}", f"most = {new}"]
        begin = [f'most = tl.full([ROWS, COLS], float("-inf"), {FLOAT})', f"total = tl.zeros([ROWS, COLS], {FLOAT})"]
        self._loop(begin, [*scope.lines, *updates])
        top = self._folded(first, "most")
        less = self._exp(self.row, f"most - {self.row.bind(self._own(first, top))}")
        return top, self.row.bind(f"total * {less}")

    def _running_mean(self, first: Instruction) -> tuple[str, str]:
        """The mean, and each lane's sum of squares of what differs from it (Welford's, joined as parts are)."""
        piece = self._looped("last")
        scope, mask = piece.scope, "inside_c" if piece.masked else ""
        value = scope.bind(f"{self._value(first.inputs[0], piece)}.to({FLOAT})")
        apart = scope.bind(f"{value} - mean")
        step, square = f"{apart} / count", f"{apart} * ({value} - mean)"
        updates = ["count += 1", f"mean += {_where(mask, step)}", f"spread += {_where(mask, square)}"]
        zeros = [f"{name} = tl.zeros([ROWS, COLS], {FLOAT})" for name in ("mean", "spread")]
        self._loop([f"count = tl.zeros([1, 1], {FLOAT})", *zeros], [*scope.lines, *updates])
        counts = self.row.bind(f"((stop - start - tl.arange(0, COLS) + COLS - 1) // COLS)[None, :].to({FLOAT})")
        mean = self._total(first, self._folded(first, self.row.bind(f"mean * {counts}")))
        differs = self.row.bind(f"mean - {mean}")
        return mean, self.row.bind(f"spread + {differs} * {differs} * {counts}")

    def _exp(self, scope: Scope, text: str) -> str:
        return self.reading.scalar(scope).exp(scope.bind(text))

    def _looped(self, keep: str = "") -> Piece:
        """The tile that a trip of a loop takes; `keep`: as `load_text` says."""
        piece = Piece(self.row.inner(), masked=not self.even, keep=keep)
        piece.scope.lines += self._block("at", piece)
        if piece.masked and not self.whole_rows:
            piece.scope.lines.append("inside = inside_r & inside_c")
        return piece

    def _finish(self) -> None:
        """The output, of which every element is computed."""
        for piece in self.pieces:
            self._store_tile(piece)
        if self.plan.loop:
            piece = self._looped("first" if self.once else "")
            self._store_tile(piece)
            self._loop([], piece.scope.lines)

    def _store_tile(self, piece: Piece) -> None:
        value = self._value(self.fused.module.outputs[0], piece)
        offset, mask = self._offset(self.fused.out, piece), self._mask(True, True, piece)
        where = "(0 * r)" if offset == "0" else f"({offset})"  # one element is a tile, too
        type = self.fused.views[-1].type
        if not self.also or not self.also.alone:
            piece.scope.lines.append(store_text("out", type, where, value, mask))
        if self.also:
            piece.scope.lines += self.also.lines(value, type, "out" if self.also.alone else "out1", where, mask)

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
