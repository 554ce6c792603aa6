"""Fused reductions: every reduction of the module is one stage, a loop over the reduced elements.

A value that later stages need again is computed again from the inputs, which are then in the cache; or it waits in
the output, where that is quicker.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Operation, Parameter
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import (
    ReduceAll,
    ReduceAny,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reduction,
)  # fmt: skip
from migraphx.ops.scalar import Cost
from migraphx.targets.common.body import Scope, apply
from migraphx.targets.common.call import Call
from migraphx.targets.common.views import Loops, View, loops
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

CHEAP = frozenset({Cost.ARITHMETIC, Cost.MASK})  # words that cost no more than a load


def reduce_call(module: Module, axes: Sequence[int], reads: Sequence[View], write: View, origin: str = "") -> Call:
    """`module`: the body of a `fused_reduce` over `axes`."""
    full = _full_lens(module)
    axes = sorted(axes)
    spread = [v.expanded(full) for v in reads]
    out = write.expanded(full) if write.lens != full else write
    views = (*spread, out)
    lead = next((k for k, v in enumerate(views) if all(v.strides[a] or full[a] == 1 for a in axes)), 0)
    kept = [d for d in range(len(full)) if d not in axes]
    generator = _Reduction(module, views, loops(views, lead, kept), loops(views, lead, axes), lead, write.lens == full)
    words = [i.name for i in module if not i.name.startswith("@")]
    label = " ".join(w for w in words if w != "multibroadcast")
    numbers = Numbers()
    numbers.all(generator.outer.numbers)
    start = numbers.all(generator.inner.numbers)
    return Call(generator.kernel(label, start), tuple(reads), (write,), numbers.values, label, origin)


def _full_lens(module: Module) -> tuple[int, ...]:
    reduction = next(i for i in module if isinstance(i.op, Reduction))
    return reduction.inputs[0].shape.lens


@dataclass
class _Reduction:
    module: Module
    views: Sequence[View]
    kept: Loops
    reduced: Loops
    lead: int
    full_output: bool
    level: dict[Instruction, int] = field(default_factory=dict)  # stages that must be over before a value is known
    varies: dict[Instruction, bool] = field(default_factory=dict)  # differs within a row
    names: dict[Instruction, str] = field(default_factory=dict)  # of values that are the same for a whole row
    waiting: Instruction | None = None  # the value that stands in the output until a later stage needs it

    @property
    def out(self) -> int:
        """The number of the output's view."""
        return len(self.views) - 1

    @property
    def rowwise(self) -> bool:
        """Vectors run along the reduced elements; else across rows, each lane a row of its own."""
        along, across = self.reduced.strides[self.lead][-1], self.kept.strides[self.lead][-1]
        return not (across == 1 and along != 1) or self.kept.lens == (1,)

    @property
    def outer(self) -> Nest:
        return Nest(self.kept, "a")

    @property
    def inner(self) -> Nest:
        return Nest(self.reduced, "b")

    def kernel(self, label: str, start: str) -> Kernel:
        """`start`: where the numbers of the inner nest begin."""
        self._analyse()
        count, rank = len(self.views), self.kept.rank
        lines = [*pointers(self.views), f"const int64_t* const b = {start};", *self._steps()]
        inner = self._stages()
        if self.rowwise:
            lines += [
                f"const Range mine = t.share(product(a, {rank}));",
                f"int64_t o[{count}];",
                "for (int64_t u = mine.begin; u < mine.end; ++u) {",
                f"    locate<{rank}, {count}>(a, {rank}, u, o);",
                "    " + indented(inner, 1),
                "}",
            ]
        else:
            lines += [
                f"for_rows<{rank}, {count}>(t, a, 64, [&](const int64_t* o, int64_t begin, int64_t end) {{",
                "    for_lanes(begin, end, [&](int64_t i, auto n) {",
                "        " + indented(inner, 2),
                "    });",
                "});",
            ]
        return Kernel(f"// {label}\n" + function(lines), ("loops.hpp", "math.hpp", "reduce.hpp"))

    def _analyse(self) -> None:
        for ins in self.module:
            if isinstance(ins.op, Parameter):
                k = list(self.module.parameters).index(ins.op.parameter)
                self.level[ins], self.varies[ins] = 0, any(self.reduced.strides[k])
            elif isinstance(ins.op, Reduction):
                self.level[ins], self.varies[ins] = self.level[ins.inputs[0]] + 1, False
            else:
                self.level[ins] = max((self.level[i] for i in ins.inputs), default=0)
                self.varies[ins] = any(self.varies[i] for i in ins.inputs)

    def _vector_loop(self) -> tuple[Loops, int]:
        return (self.reduced, 0) if self.rowwise else (self.kept, 1)

    def _steps(self) -> list[str]:
        nest = self.inner if self.rowwise else self.outer
        return [
            f"const int64_t s{k} = {nest.stride(k, nest.loops.rank - 1)};"
            for k, s in enumerate(nest.loops.strides)
            if s[-1] not in (0, 1)
        ]

    # ---- stages ----

    def _stages(self) -> list[str]:
        """The statements for one row (or one vector of rows)."""
        row = Scope(CPP)
        reductions = [i for i in self.module if isinstance(i.op, Reduction)]
        for stage in range(1, max(self.level[i] for i in reductions) + 1):
            self._stage([i for i in reductions if self.level[i] == stage], row)
        (result,), out = self.module.outputs, self.out
        if self.full_output:
            inner = row.inner()
            value = self._value(result, row, inner, {})
            row.lines += self._loop([*inner.lines, self._store(value)])
        else:
            value = self._value(result, row, row, {})
            if self.rowwise:
                type = cpp_type(STORAGE_TYPES, result.shape.type)
                row.lines.append(f"p{out}[o[{out}]] = narrow_to<{type}>({value}[0]);")
            else:
                row.lines.append(store_text(out, self.kept.strides[out][-1], f"s{out}", f"o[{out}]", "i", value))
        return row.lines

    def _stage(self, reductions: Sequence[Instruction], row: Scope) -> None:
        inner, done = row.inner(), dict[Instruction, str]()
        updates = []
        before: list[str] = []
        after: list[tuple[Instruction, str]] = []
        for n, ins in enumerate(reductions):
            reducer, acc = REDUCERS[ins.op.__class__], f"acc{self.level[ins]}_{n}"
            own = type = cpp_type(COMPUTE_TYPES, ins.inputs[0].shape.type)
            value = self._value(ins.inputs[0], row, inner, done)
            mean = isinstance(ins.op, ReduceMean)
            if mean and ins.shape.type in dtypes.INTEGERS:  # a mean fits where its sum does not
                type, value = "int64_t", f"mgx::cast<int64_t>({value})"
            before.append(f"auto {acc} = start_like<{reducer}, vec<{type}>>();")
            tail = "n" if self.rowwise else "Full{}"
            updates.append(f"{acc} = accumulate<{reducer}>({acc}, {value}, {tail});")
            total = f"splat<{type}>({reducer}::fold({acc}))" if self.rowwise else acc
            if mean:
                total = f"{total} / {type}(product(b, {self.reduced.rank}))"
            if type != own:
                total = f"mgx::cast<{own}>({total})"
            after.append((ins, total))
        kept = self._worth_keeping(self.level[reductions[0]], done)
        if kept:
            updates.append(self._store(done[kept]))
            self.waiting = kept
        row.lines += [*before, *self._loop([*inner.lines, *updates])]
        for ins, total in after:
            self.names[ins] = row.bind(total)

    def _value(self, ins: Instruction, row: Scope, inner: Scope, done: dict[Instruction, str]) -> str:
        """The name of a value, computed in `inner` where it varies within a row and else once in `row`."""
        known = self.names.get(ins) or done.get(ins)
        if known:
            return known
        scope = inner if self.varies[ins] else row
        if isinstance(ins.op, Parameter):
            name = scope.bind(self._load(ins))
        elif isinstance(ins.op, Literal):
            name = scope.bind(CPP.literal(ins))
        elif ins is self.waiting:
            name = scope.bind(self._load_view(self.out, self._at(self.out)))
        else:
            name = apply(ins, [self._value(i, row, inner, done) for i in ins.inputs], scope)
        if self.varies[ins]:
            done[ins] = name
        else:
            self.names[ins] = name
            inner.known |= row.known
        return name

    def _load(self, ins: Instruction) -> str:
        assert isinstance(ins.op, Parameter)
        k = list(self.module.parameters).index(ins.op.parameter)
        return self._load_view(k, self._at(k) if self.varies[ins] else f"o[{k}]")

    def _load_view(self, k: int, at: str) -> str:
        nest, _ = self._vector_loop()
        return load_text(k, nest.strides[k][-1], f"s{k}", at, "i")

    def _store(self, value: str) -> str:
        nest, out = self._vector_loop()[0], self.out
        return store_text(out, nest.strides[out][-1], f"s{out}", self._at(out), "i", value)

    # ---- the value that waits in the output ----

    def _worth_keeping(self, stage: int, done: dict[Instruction, str]) -> Instruction | None:
        """The last value of this stage that later ones need, is dear to compute again, and fits the output."""
        if not self.full_output:
            return None
        later = [i.inputs[0] for i in self.module if isinstance(i.op, Reduction) and self.level[i] > stage]
        needed = self._reached([*later, *self.module.outputs], done)
        type = self.views[-1].type
        fits = cpp_type(STORAGE_TYPES, type) == cpp_type(COMPUTE_TYPES, type)
        kept = [i for i in needed if i in done and fits and i.shape.type == type and self._dear(i)]
        return max(kept, key=list(self.module).index, default=None)

    def _reached(self, roots: Sequence[Instruction], ends: Container[Instruction]) -> set[Instruction]:
        """The values that differ within a row and go into the roots, up to the ends and what waits."""
        found, ahead = set[Instruction](), list(roots)
        while ahead:
            ins = ahead.pop()
            if self.varies[ins] and ins not in found:
                found.add(ins)
                if ins not in ends and ins is not self.waiting:
                    ahead += ins.inputs
        return found

    def _dear(self, ins: Instruction) -> bool:
        again = self._reached([ins], ())
        return any(isinstance(i.op, Pointwise) and not i.op.costs <= CHEAP for i in again if i is not self.waiting)

    # ---- the loop over the reduced elements ----

    def _at(self, k: int) -> str:
        """Where view k stands inside the reduced loops (the vector loop apart)."""
        loops_outside = self.reduced.rank - 1 if self.rowwise else self.reduced.rank
        terms = [f"r{d} * {self.inner.stride(k, d)}" for d in range(loops_outside)]
        return f"o[{k}]" + "".join(f" + {t}" for d, t in enumerate(terms) if self.reduced.strides[k][d])

    def _loop(self, lines: Sequence[str]) -> list[str]:
        ends = [self.inner.length(d) for d in range(self.reduced.rank)]
        if self.rowwise:
            lines = [f"for_lanes(0, {ends.pop()}, [&](int64_t i, auto n) {{", "    " + indented(lines, 1), "});"]
        for d, end in reversed([*enumerate(ends)]):
            lines = [f"for (int64_t r{d} = 0; r{d} < {end}; ++r{d}) {{", "    " + indented(lines, 1), "}"]
        return list(lines)
