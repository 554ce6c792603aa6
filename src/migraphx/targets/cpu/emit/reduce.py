"""Fused reductions: each stage (common/stages.py) is a loop over the reduced elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Operation, Parameter
from migraphx.ir.size import likely_less
from migraphx.ops.reduce import (
    ReduceAll,
    ReduceAny,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
)
from migraphx.targets.common.body import Scope, apply
from migraphx.targets.common.call import Call
from migraphx.targets.common.stages import FusedReduction, Stage
from migraphx.targets.common.views import Loops, View
from migraphx.targets.cpu.emit.body import CPP, indented, load_text, pointers, store_text
from migraphx.targets.cpu.emit.kernel import Kernel, function
from migraphx.targets.cpu.emit.params import Nest, Numbers
from migraphx.targets.cpu.emit.scalar import COMPUTE_TYPES, STORAGE_TYPES, cpp_type

REDUCERS: dict[type[Operation], str] = {
    ReduceSum: "Sum",
    ReduceMean: "Sum",
    ReduceMax: "Max",
    ReduceMin: "Min",
    ReduceProd: "Prod",
    ReduceAny: "Any",
    ReduceAll: "All",
}
"""The struct of reduce.hpp that accumulates each reduction."""


SHORT_ROW, LONG_ROW = (
    64,
    1024,
)  # columns at once; the latter where their sums are in memory and rows enough for all threads
MANY_ROWS = 8


def holds(type: str) -> bool:
    """Whether memory of a type holds all that is computed in it."""
    return cpp_type(STORAGE_TYPES, type) == cpp_type(COMPUTE_TYPES, type)


def reduce_call(module: Module, axes: Sequence[int], reads: Sequence[View], write: View, origin: str = "") -> Call:
    """`module`: the body of a `fused_reduce` over `axes`."""
    generator = _Reduction(FusedReduction.of(module, axes, reads, write, holds))
    names = [i.name for i in module if not i.name.startswith("@")]
    label = " ".join(w for w in names if w != "multibroadcast")
    numbers = Numbers()
    numbers.all(generator.outer.numbers)
    start = numbers.all(generator.inner.numbers)
    return Call(generator.kernel(label, start), tuple(reads), (write,), numbers.values, label, origin)


@dataclass(frozen=True)
class _Accumulator:
    """A variable of the generated code that takes vectors of a type."""

    name: str
    reducer: str
    type: str

    @property
    def rounds(self) -> bool:
        """Whether a long row loses more the longer it is: floats that are not just compared."""
        return self.reducer in ("Sum", "Prod") and self.type in ("float", "double")

    @property
    def part(self) -> str:
        """The variable that takes the elements of one piece of a row."""
        return f"{self.name}_part" if self.rounds else self.name

    def start(self, name: str) -> str:
        """A variable like it, under another name, before it took any."""
        return f"auto {name} = start_like<{self.reducer}, vec<{self.type}>>();"


@dataclass
class _Reduction:
    of: FusedReduction
    names: dict[Instruction, str] = field(default_factory=dict)  # of values that are the same for a whole row

    @property
    def outer(self) -> Nest:
        return Nest(self.of.kept, "a")

    @property
    def inner(self) -> Nest:
        return Nest(self.of.reduced, "b")

    def kernel(self, label: str, start: str) -> Kernel:
        """`start`: where the numbers of the inner nest begin."""
        count, rank = len(self.of.views), self.of.kept.rank
        lines = [*pointers(self.of.views), f"const int64_t* const b = {start};", *self._steps()]
        if self.of.rowwise:
            lines += [
                f"const Range mine = t.share(product(a, {rank}));",
                f"int64_t o[{count}];",
                "for (int64_t u = mine.begin; u < mine.end; ++u) {",
                f"    locate<{rank}, {count}>(a, {rank}, u, o);",
                "    " + indented(self._stages(), 1),
                "}",
            ]
        else:
            waits = self._waits_in_memory
            inner = self._sums_in_memory() if waits else _for_lanes(self._stages())
            grain = f"product(a, {rank - 1}) < {MANY_ROWS} ? {SHORT_ROW} : {LONG_ROW}" if waits else f"{SHORT_ROW}"
            lines += [
                f"for_rows<{rank}, {count}>(t, a, {grain}, [&](const int64_t* o, int64_t begin, int64_t end) {{",
                "    " + indented(inner, 1),
                "});",
            ]
        return Kernel(f"// {label}\n" + function(lines), ("loops.hpp", "math.hpp", "reduce.hpp"))

    def _vector_loop(self) -> tuple[Loops, int]:
        return (self.of.reduced, 0) if self.of.rowwise else (self.of.kept, 1)

    def _steps(self) -> list[str]:
        nest = self.inner if self.of.rowwise else self.outer
        return [
            f"const int64_t s{k} = {nest.stride(k, nest.loops.rank - 1)};"
            for k, s in enumerate(nest.loops.strides)
            if s[-1] not in (0, 1)
        ]

    # ---- one reduction of many columns ----

    @property
    def _waits_in_memory(self) -> bool:
        """Whether it is one reduction of so many columns that elements had better be read in their order in memory.

        The sums are in the output meanwhile, which is in the first-level cache.
        """
        (result,), first = self.of.module.outputs, self.of.stages[0]
        alone = first.reductions == (result,) and not self.of.rowwise and result.shape.type in dtypes.FLOATS
        return alone and holds(result.shape.type) and not likely_less(self.of.kept.lens[-1], SHORT_ROW)

    def _sums_in_memory(self) -> list[str]:
        (result,), out, inner = self.of.module.outputs, self.of.out, Scope(CPP)
        type, reducer = cpp_type(COMPUTE_TYPES, result.shape.type), REDUCERS[result.op.__class__]
        stride, step, at = self.of.kept.strides[out][-1], f"s{out}", f"o[{out}]"
        known = load_text(out, stride, step, at, "i")

        def put(value: str) -> str:
            return store_text(out, stride, step, at, "i", value)

        value = self._value(result.inputs[0], inner, inner, {}, None)
        joined = put(f"accumulate<{reducer}>({known}, {value}, Full{{}})")
        lines = _for_lanes([put(f"start_like<{reducer}, vec<{type}>>()")])
        lines += self._loop(_for_lanes([*inner.lines, joined]), [])
        if isinstance(result.op, ReduceMean):
            lines += _for_lanes([put(f"{known} / {type}(product(b, {self.of.reduced.rank}))")])
        return lines

    # ---- stages ----

    def _stages(self) -> list[str]:
        """The statements for one row (or one vector of rows)."""
        row = Scope(CPP)
        for level, stage in enumerate(self.of.stages, 1):
            if stage.reductions:
                self._stage(stage, level, row)
        (result,), out, last = self.of.module.outputs, self.of.out, self.of.stages[-1]
        if self.of.full_output:
            inner = row.inner()
            value = self._value(result, row, inner, {}, last.waiting)
            row.lines += self._loop([*inner.lines, self._store(value)], [])
        else:
            value = self._value(result, row, row, {}, None)
            if self.of.rowwise:
                type = cpp_type(STORAGE_TYPES, result.shape.type)
                row.lines.append(f"p{out}[o[{out}]] = narrow_to<{type}>({value}[0]);")
            else:
                row.lines.append(store_text(out, self.of.kept.strides[out][-1], f"s{out}", f"o[{out}]", "i", value))
        return row.lines

    def _stage(self, stage: Stage, level: int, row: Scope) -> None:
        inner, done = row.inner(), dict[Instruction, str]()
        updates: list[str] = []
        accumulators: list[_Accumulator] = []
        after: list[tuple[Instruction, str]] = []
        for n, ins in enumerate(stage.reductions):
            reducer, acc = REDUCERS[ins.op.__class__], f"acc{level}_{n}"
            own = type = cpp_type(COMPUTE_TYPES, ins.inputs[0].shape.type)
            value = self._value(ins.inputs[0], row, inner, done, stage.waiting)
            mean = isinstance(ins.op, ReduceMean)
            if mean and ins.shape.type in dtypes.INTEGERS:  # a mean fits where its sum does not
                type, value = "int64_t", f"mgx::cast<int64_t>({value})"
            accumulators.append(_Accumulator(acc, reducer, type))
            part = accumulators[-1].part if self.of.rowwise else acc
            tail = "n" if self.of.rowwise else "Full{}"
            updates.append(f"{part} = accumulate<{reducer}>({part}, {value}, {tail});")
            total = f"splat<{type}>({reducer}::fold({acc}))" if self.of.rowwise else acc
            if mean:
                total = f"{total} / {type}(product(b, {self.of.reduced.rank}))"
            if type != own:
                total = f"mgx::cast<{own}>({total})"
            after.append((ins, total))
        if stage.kept:
            updates.append(self._store(done[stage.kept]))
        row.lines += [a.start(a.name) for a in accumulators]
        row.lines += self._loop([*inner.lines, *updates], accumulators)
        for ins, total in after:
            self.names[ins] = row.bind(total)

    def _value(
        self, ins: Instruction, row: Scope, inner: Scope, done: dict[Instruction, str], waiting: Instruction | None
    ) -> str:
        """The name of a value, computed in `inner` where it varies within a row and else once in `row`.

        `waiting` is the value that stands in the output.
        """
        known = self.names.get(ins) or done.get(ins)
        if known:
            return known
        scope = inner if self.of.varies[ins] else row
        if isinstance(ins.op, Parameter):
            name = scope.bind(self._load(ins))
        elif isinstance(ins.op, Literal):
            name = scope.bind(CPP.literal(ins))
        elif ins is waiting:
            name = scope.bind(self._load_view(self.of.out, self._at(self.of.out)))
        else:
            name = apply(ins, [self._value(i, row, inner, done, waiting) for i in ins.inputs], scope)
        if self.of.varies[ins]:
            done[ins] = name
        else:
            self.names[ins] = name
            inner.known |= row.known
        return name

    def _load(self, ins: Instruction) -> str:
        k = self.of.number[ins]
        return self._load_view(k, self._at(k) if self.of.varies[ins] else f"o[{k}]")

    def _load_view(self, k: int, at: str) -> str:
        nest, _ = self._vector_loop()
        return load_text(k, nest.strides[k][-1], f"s{k}", at, "i")

    def _store(self, value: str) -> str:
        nest, out = self._vector_loop()[0], self.of.out
        return store_text(out, nest.strides[out][-1], f"s{out}", self._at(out), "i", value)

    # ---- the loop over the reduced elements ----

    def _at(self, k: int) -> str:
        """Where view k stands inside the reduced loops (the vector loop apart)."""
        loops_outside = self.of.reduced.rank - 1 if self.of.rowwise else self.of.reduced.rank
        terms = [f"r{d} * {self.inner.stride(k, d)}" for d in range(loops_outside)]
        return f"o[{k}]" + "".join(f" + {t}" for d, t in enumerate(terms) if self.of.reduced.strides[k][d])

    def _loop(self, lines: Sequence[str], accumulators: Sequence[_Accumulator]) -> list[str]:
        """`lines` for all reduced elements; each piece of a row has a part of its own of what rounds."""
        ends = [self.inner.length(d) for d in range(self.of.reduced.rank)]
        if self.of.rowwise:
            rounding = [a for a in accumulators if a.rounds]
            lines = [
                f"for_pieces(t, {ends.pop()}, [&](int64_t begin, int64_t end) {{",
                *(f"    {a.start(a.part)}" for a in rounding),
                "    " + indented(_for_lanes(lines), 1),
                *(f"    {a.name} = {a.reducer}::join({a.name}, {a.part});" for a in rounding),
                "});",
            ]
        for d, end in reversed([*enumerate(ends)]):
            lines = [f"for (int64_t r{d} = 0; r{d} < {end}; ++r{d}) {{", "    " + indented(lines, 1), "}"]
        return list(lines)


def _for_lanes(lines: Sequence[str]) -> list[str]:
    """`lines` for every vector from begin to end."""
    return ["for_lanes(begin, end, [&](int64_t i, auto n) {", "    " + indented(lines, 1), "});"]
