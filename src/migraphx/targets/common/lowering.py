"""From optimised instructions to kernel calls on views of buffers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, OpenLiteral, Parameter, Return, operation
from migraphx.ir.refusal import Refusal
from migraphx.ir.shape import Shape, permuted
from migraphx.ir.size import is_open, most_of
from migraphx.ops.movement import Contiguous, Layout, Reshaping
from migraphx.passes.constants import closed_value, is_constant
from migraphx.passes.manager import graphs
from migraphx.targets.common.call import Call
from migraphx.targets.common.constants import Constants
from migraphx.targets.common.lowerings import Emitter, Lowerings
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.target import UnsupportedOperator, from_


@dataclass(frozen=True)
class Counter:
    """The trips of a loop: its slot, and how many there are at most."""

    slot: int
    most: int


@dataclass
class LoweringContext:
    """A module on its way to calls: every value's view, and the calls so far, in order."""

    module: Module
    lowerings: Lowerings
    emit: Emitter
    fast_math: bool = True
    constants: Constants | None = None  # those of other programs too, where they are shared
    calls: list[Call[Any]] = field(default_factory=list[Call[Any]])
    sources: list[Instruction | None] = field(default_factory=list[Instruction | None])
    """Whose work each call does; None: a final copy."""
    views: dict[Instruction, View] = field(default_factory=dict[Instruction, View])
    inputs: list[Buffer] = field(default_factory=list[Buffer])
    outputs: list[Buffer] = field(default_factory=list[Buffer])
    in_place: dict[int, int] = field(default_factory=dict[int, int])
    """Outputs that may lie in the memory of an input, and that input: all that is read of it is what they replace."""
    arena: list[Buffer] = field(default_factory=list[Buffer])
    weights: list[np.ndarray] = field(default_factory=list[np.ndarray])
    concat_slots: dict[Instruction, tuple[Instruction, int]] = field(
        default_factory=dict[Instruction, tuple[Instruction, int]]
    )
    """What is computed where a concat wants it: the concat, and the first index along its axis."""
    checks: list[str] = field(default_factory=list[str])  # what went wrong, should the check of that number fail
    refusals: list[Refusal[Instruction]] = field(default_factory=list[Refusal[Instruction]])
    """What `explain` shows: slower ways taken."""
    tuples: dict[Instruction, tuple[View, ...]] = field(default_factory=dict[Instruction, tuple[View, ...]])
    inner: set[Module] = field(default_factory=set[Module])  # modules of control flow that have been lowered
    instruction: Instruction | None = None  # that is being lowered
    slots: int = 0  # of loops, so far
    output_views: dict[Instruction, View] = field(default_factory=dict[Instruction, View])
    """Where the caller wants outputs."""
    counters: dict[Instruction, Counter] = field(default_factory=dict[Instruction, Counter])
    """Parameters that are the number of a loop's trip."""
    status: View = field(default_factory=lambda: View(Buffer("status", 64), "int64", (8,), (1,)))
    watch: Callable[[Call[Any]], None] | None = None
    """Is told of each call at once; one may be replaced later."""
    _packed: dict[Hashable, View] = field(default_factory=dict[Hashable, View])
    _identities: dict[Hashable, Hashable] = field(default_factory=dict[Hashable, Hashable])  # by the literals' keys

    # ---- values ----

    def view(self, ins: Instruction) -> View:
        """Where a value lies. Literals become weights when somebody reads them as they are."""
        if ins not in self.views:
            assert isinstance(ins.op, Literal)
            value = ins.op.value
            self.views[ins] = self.packed(self.identity(value), lambda: value)
        return self.views[ins]

    def reads(self, ins: Instruction) -> list[View]:
        return [self.view(i) for i in ins.inputs]

    def packed(self, key: Hashable, make: Callable[[], np.ndarray]) -> View:
        """A constant of the program, perhaps in a layout of its own, made once for each key."""
        if key not in self._packed:
            array = self.constants.one(key, make) if self.constants else make()
            shape = Shape.of(array)
            buffer = Buffer("weight", shape.bytes, len(self.weights))
            self.weights.append(array)
            self._packed[key] = View(buffer, shape.type, shape.lens, shape.strides)
        return self._packed[key]

    def identity(self, array: np.ndarray) -> Hashable:
        """Equal for equal constants; `array` is a literal's value, or a view of it."""
        key = Literal(array).key
        if self.constants is None:
            return key
        if key not in self._identities:
            self._identities[key] = self.constants.identity(array)
        return self._identities[key]

    def temporary(self, shape: Shape) -> View:
        """New arena memory."""
        buffer = Buffer("arena", most_of(shape.element_space, 1) * shape.numpy_dtype.itemsize, len(self.arena))
        self.arena.append(buffer)
        return View(buffer, shape.type, shape.lens, shape.strides)

    def result(self, ins: Instruction) -> View:
        """Where a kernel must write this instruction: a program output, a part of a concat, or new memory."""
        if ins not in self.views:
            self.views[ins] = self._destination(ins)
        return self.views[ins]

    def _destination(self, ins: Instruction) -> View:
        if ins in self.output_views:
            return self.output_views[ins]
        if ins in self.concat_slots:
            concat, start = self.concat_slots[ins]
            axis: int = concat.op.attributes()["axis"]
            return self.result(concat).sliced(axis, start, start + ins.shape.lens[axis])
        return self.temporary(permuted(ins.shape.type, ins.shape.lens, ins.shape.permutation))

    def standard(self, view: View, origin: str = "") -> View:
        """The view itself if row-major, else a row-major copy."""
        if view.standard:
            return view
        copy = self.temporary(Shape(view.type, view.lens))
        self.copy(view, copy, origin)
        return copy

    def row_major(self, ins: Instruction, write: Callable[[View], None]) -> None:
        """Let a kernel that writes row-major only write this instruction, through a temporary where it must."""
        place = self.result(ins)
        if place.standard:
            write(place)
            return
        made = self.temporary(ins.shape.as_standard())
        write(made)
        self.copy(made, place, ins.origin)

    def updates(self, ins: Instruction, write: View) -> bool:
        """Whether `ins`, written to a whole output, may change its first input in the caller's memory: notes it.

        Nothing else reads that input, so that nobody can meet what has replaced it.
        """
        source = ins.inputs[0]
        if (
            not isinstance(source.op, Parameter)
            or source.owner is not self.module
            or list(ins.inputs).count(source) > 1
        ):
            return False
        read, out = self.view(source), write.buffer
        alone = len(source.users) == 1 and read.buffer.kind == "input" and out.kind == "output"
        alike = (read.type, read.lens, read.standard) == (write.type, write.lens, write.standard) and read.standard
        if not (alone and alike and read.buffer.nbytes == out.nbytes):
            return False
        self.in_place[out.index] = read.buffer.index
        return True

    def check(self, message: str) -> int:
        """The number of a check that kernels do at run time; its failure raises IndexError(message)."""
        self.checks.append(message)
        return len(self.checks) - 1

    def copy(self, read: View, write: View, origin: str = "") -> None:
        self.call(self.emit.copy(read, write, origin))

    def convert(self, read: View, write: View, origin: str = "") -> None:
        """Copy, into another type where they differ."""
        if read.type == write.type:
            self.copy(read, write, origin)
            return
        body = Module("convert")
        value = body.add_parameter("x", Shape(read.type, (1,)))
        body.add_return([body.add_instruction(operation("convert", target_type=write.type), [value])])
        self.call(self.emit.pointwise(body, [read], write, origin))

    def call(self, call: Call[Any]) -> None:
        """Append a call; one that computes no element is dropped."""
        if all(v.elements for v in call.writes):
            self.calls.append(call)
            if self.watch is not None:
                self.watch(call)

    def replace_call(self, at: int, call: Call[Any]) -> None:
        """Let a call stand where number `at` was, which it computes too."""
        self.calls[at] = call
        if self.watch is not None:
            self.watch(call)

    def refuse(self, ins: Instruction, rule: str, why: str) -> None:
        """Note that an instruction does not get the kernel, or the place, that others of its kind get."""
        self.refusals.append(Refusal(ins, rule, why))

    # ---- constants ----

    def constant(self, ins: Instruction) -> tuple[np.ndarray, tuple[Hashable, ...]] | None:
        """The value of an instruction that is a literal seen through views, with a key; else None.

        Along dimensions that it is broadcast to, and that differ from run to run, it has one element.
        """
        if not is_constant(ins):
            return None
        value, views = closed_value(ins), list[Hashable]()
        while not isinstance(ins.op, Literal):
            views.append(
                (ins.name, tuple(1 if is_open(n) else n for n in ins.shape.lens)) if is_open(ins.shape.lens) else ins.op
            )
            ins = ins.inputs[0]
        return value, (self.identity(ins.op.value), *views)


def lower(
    module: Module, lowerings: Lowerings, emit: Emitter, fast_math: bool = True, constants: Constants | None = None,
    watch: Callable[[Call[Any]], None] | None = None,
) -> LoweringContext:  # fmt: skip
    """Every instruction of an optimised main module as calls; UnsupportedOperator lists what has no lowering."""
    check(module, lowerings)
    ctx = LoweringContext(module, lowerings, emit, fast_math, constants, watch=watch)
    for ins in module.parameters.values():
        buffer = Buffer("input", ins.shape.bytes, len(ctx.inputs))
        ctx.inputs.append(buffer)
        ctx.views[ins] = View(buffer, ins.shape.type, ins.shape.lens, ins.shape.strides)
    for shape in (s.as_standard() for s in module.output_shapes):
        ctx.outputs.append(Buffer("output", shape.bytes, len(ctx.outputs)))
    destinations = [
        View(buffer, shape.type, shape.lens, shape.as_standard().strides)
        for buffer, shape in zip(ctx.outputs, module.output_shapes, strict=True)
    ]
    lower_into(ctx, module, destinations)
    _drop_unread_weights(ctx)
    return ctx


def lower_into(ctx: LoweringContext, module: Module, destinations: Sequence[View | None]) -> None:
    """Lower the instructions of a module; outputs go to `destinations`, or stay where they are computed (None).

    An output is computed at its destination where it can be; else it is copied there at the end.
    """
    for ins, place in zip(module.outputs, destinations, strict=True):
        if place is not None and place.standard:
            made, at = _as_computed(ins, place)
            if made.shape.standard and _can_be_placed(ctx, made, module):
                ctx.output_views[made] = at
    _plan_concats(ctx, module)
    for ins in module:
        if isinstance(ins.op, Return):
            break
        if not isinstance(ins.op, (Parameter, Literal)) or isinstance(ins.op, OpenLiteral):
            lowering = ctx.lowerings.find(ins)
            assert lowering is not None, ins.name  # `check` has looked
            ctx.instruction = ins
            lowering(ctx, ins)
            ctx.sources += [ins] * (len(ctx.calls) - len(ctx.sources))
    for ins, place in zip(module.outputs, destinations, strict=True):
        view = ctx.view(ins) if place is not None else None
        if view is not None and place is not None and not view.same(place):
            ctx.copy(view, place, ins.origin)
    ctx.sources += [None] * (len(ctx.calls) - len(ctx.sources))


def described(ins: Instruction) -> str:
    """An operator's name and origin, for messages."""
    return ins.name + from_(ins)


def _as_computed(ins: Instruction, place: View) -> tuple[Instruction, View]:
    """What is computed for an output that only has other lens than that, and where, so that it lies at `place`."""
    while isinstance(ins.op, Reshaping) and ins.inputs[0].shape.standard and ins.owner is ins.inputs[0].owner:
        ins = ins.inputs[0]
        place = place.row_major(ins.shape.lens)
    return ins, place


def _can_be_placed(ctx: LoweringContext, ins: Instruction, module: Module) -> bool:
    """Whether an output can be computed where the caller wants it, as control flow computes its tuple."""
    if ins in ctx.output_views or ins.owner is not module or isinstance(ins.op, (Parameter, Literal)):
        return False
    return not ins.op.view or (ins.name == "get_tuple_elem" and bool(ins.inputs[0].modules))


def check(module: Module, lowerings: Lowerings) -> None:
    """UnsupportedOperator before any work is done."""
    working = (i for m in graphs(module) for i in m if not i.name.startswith("@"))
    if refusals := [refusal for ins in working if (refusal := lowerings.refusal(ins))]:
        raise UnsupportedOperator(lowerings.target, refusals)


def _drop_unread_weights(ctx: LoweringContext) -> None:
    """Forget constants that no call reads as they are: a dot's weights are read packed."""
    read = {v.buffer for call in ctx.calls for v in call.views if v.buffer.kind == "weight"}
    kept = sorted(read, key=lambda buffer: buffer.index)
    ctx.weights = [ctx.weights[buffer.index] for buffer in kept]
    for n, buffer in enumerate(kept):
        buffer.index = n


def _plan_concats(ctx: LoweringContext, module: Module) -> None:
    """Let the inputs of concats be computed inside the concats' memory.

    The largest concat is planned first: the prefixes of a dense block's concats then are views of it.
    """
    concats = [i for i in module if i.name == "concat"]
    for concat in sorted(concats, key=lambda c: -c.shape.elements):
        axis: int = concat.op.attributes()["axis"]
        start = 0
        for i in concat.inputs:
            free = i.owner is module and i not in ctx.concat_slots and i not in ctx.output_views
            if free and can_write_in_place(i, concat):
                ctx.concat_slots[i] = (concat, start)
            start += i.shape.lens[axis]


def can_write_in_place(ins: Instruction, concat: Instruction) -> bool:
    """Whether a kernel can write this value straight into a part of the concat."""
    if isinstance(ins.op, (Parameter, Literal, Reshaping, Contiguous, Layout)) or ins.op.view:
        return False
    same_order = ins.shape.permutation == concat.shape.permutation or ins.shape.elements == max(
        ins.shape.lens, default=1
    )
    return same_order and list(concat.inputs).count(ins) == 1
