"""From optimised instructions to kernel calls on views of buffers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter, Return, Unsupported, operation
from migraphx.ir.refusal import Refusal
from migraphx.ir.shape import Shape, permuted
from migraphx.ops.movement import Contiguous, Layout, Reshaping
from migraphx.passes.manager import graphs
from migraphx.targets.common.call import Call
from migraphx.targets.common.constants import Constants
from migraphx.targets.common.lowerings import Emitter, Lowerings
from migraphx.targets.common.views import Buffer, View


class UnsupportedOperator(Unsupported):
    """A target cannot compile the instructions of `refusals`: names each with its shape and origin."""

    def __init__(self, target: str, refusals: Sequence[Refusal[Instruction]]) -> None:
        named = (f"{r.instruction.name} -> {r.instruction.shape}{from_(r.instruction)}: {r.why}" for r in refusals)
        super().__init__(f"the {target} target refuses " + "; ".join(dict.fromkeys(named)))
        self.refusals = tuple(refusals)


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
    calls: list[Call] = field(default_factory=list)
    sources: list[Instruction | None] = field(default_factory=list)  # whose work each call does; None: a final copy
    views: dict[Instruction, View] = field(default_factory=dict)
    inputs: list[Buffer] = field(default_factory=list)
    outputs: list[Buffer] = field(default_factory=list)
    arena: list[Buffer] = field(default_factory=list)
    weights: list[np.ndarray] = field(default_factory=list)
    homes: dict[Instruction, tuple[Instruction, int]] = field(default_factory=dict)  # input -> (concat, start)
    checks: list[str] = field(default_factory=list)  # what went wrong, should the check of that number fail
    refusals: list[Refusal[Instruction]] = field(default_factory=list)  # what `explain` shows: slower ways taken
    tuples: dict[Instruction, tuple[View, ...]] = field(default_factory=dict)
    inner: set[Module] = field(default_factory=set)  # modules of control flow that have been lowered
    slots: int = 0  # of loops, so far
    counters: dict[Instruction, Counter] = field(default_factory=dict)  # parameters that are a trip's number
    status: View = field(default_factory=lambda: View(Buffer("status", 64), "int64", (8,), (1,)))
    _packed: dict[Hashable, View] = field(default_factory=dict)
    _identities: dict[tuple, Hashable] = field(default_factory=dict)  # by the literals' own keys
    _output_views: dict[Instruction, View] = field(default_factory=dict)

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
        buffer = Buffer("arena", max(shape.element_space, 1) * shape.numpy_dtype.itemsize, len(self.arena))
        self.arena.append(buffer)
        return View(buffer, shape.type, shape.lens, shape.strides)

    def result(self, ins: Instruction) -> View:
        """Where a kernel must write this instruction: a program output, a part of a concat, or new memory."""
        if ins not in self.views:
            self.views[ins] = self._place(ins)
        return self.views[ins]

    def _place(self, ins: Instruction) -> View:
        if ins in self._output_views:
            return self._output_views[ins]
        if ins in self.homes:
            concat, start = self.homes[ins]
            axis = concat.op.attributes()["axis"]
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

    def call(self, call: Call) -> None:
        """Append a call; one that computes no element is dropped."""
        if all(v.elements for v in call.writes):
            self.calls.append(call)

    def refuse(self, ins: Instruction, rule: str, why: str) -> None:
        """Note that an instruction does not get the kernel, or the place, that others of its kind get."""
        self.refusals.append(Refusal(ins, rule, why))

    # ---- constants ----

    def constant(self, ins: Instruction) -> tuple[np.ndarray, tuple] | None:
        """The value of an instruction that is a literal seen through views, with a key; else None."""
        chain = []
        while ins.op.view and len(ins.inputs) == 1:
            chain.append(ins)
            ins = ins.inputs[0]
        if not isinstance(ins.op, Literal):
            return None
        value = ins.op.value
        for step in reversed(chain):
            value = step.op.compute(value)
        return value, (self.identity(ins.op.value), *(c.op for c in chain))


def lower(
    module: Module, lowerings: Lowerings, emit: Emitter, fast_math: bool = True, constants: Constants | None = None
) -> LoweringContext:
    """Every instruction of an optimised main module as calls; UnsupportedOperator lists what has no lowering."""
    check(module, lowerings)
    lowered = LoweringContext(module, lowerings, emit, fast_math, constants)
    for ins in module.parameters.values():
        buffer = Buffer("input", ins.shape.bytes, len(lowered.inputs))
        lowered.inputs.append(buffer)
        lowered.views[ins] = View(buffer, ins.shape.type, ins.shape.lens, ins.shape.strides)
    for shape in (s.as_standard() for s in module.output_shapes):
        lowered.outputs.append(Buffer("output", shape.bytes, len(lowered.outputs)))
    places = [
        View(buffer, shape.type, shape.lens, shape.as_standard().strides)
        for buffer, shape in zip(lowered.outputs, module.output_shapes, strict=True)
    ]
    lower_into(lowered, module, places)
    _drop_unread_weights(lowered)
    return lowered


def lower_into(lowered: LoweringContext, module: Module, places: Sequence[View | None]) -> None:
    """Lower the instructions of a module, so that its outputs come into `places`; None: they may stay where they are.

    What is computed is computed in its place where it can be; else it is copied at the end.
    """
    for ins, place in zip(module.outputs, places, strict=True):
        if place is not None and place.standard and ins.shape.standard and _free(lowered, ins, module):
            lowered._output_views[ins] = place
    _prepare_homes(lowered, module)
    for ins in module:
        if isinstance(ins.op, Return):
            break
        if not isinstance(ins.op, (Parameter, Literal)):
            lowering = lowered.lowerings.find(ins)
            assert lowering is not None, ins.name  # `check` has looked
            lowering(lowered, ins)
            lowered.sources += [ins] * (len(lowered.calls) - len(lowered.sources))
    for ins, place in zip(module.outputs, places, strict=True):
        view = lowered.view(ins) if place is not None else None
        if view is not None and place is not None and view != place:
            lowered.copy(view, place, ins.origin)
    lowered.sources += [None] * (len(lowered.calls) - len(lowered.sources))


def described(ins: Instruction) -> str:
    """An operator's name and origin, for messages."""
    return ins.name + from_(ins)


def from_(ins: Instruction) -> str:
    """Where an instruction came from, in parentheses; "" where that is not known."""
    return f" ({ins.origin})" if ins.origin else ""


def _free(lowered: LoweringContext, ins: Instruction, module: Module) -> bool:
    """Whether an output can be computed in a place of the caller's choice, as control flow computes its tuple."""
    if ins in lowered._output_views or ins.owner is not module or isinstance(ins.op, (Parameter, Literal)):
        return False
    return not ins.op.view or (ins.name == "get_tuple_elem" and bool(ins.inputs[0].modules))


def check(module: Module, lowerings: Lowerings) -> None:
    """UnsupportedOperator before any work is done."""
    working = (i for m in graphs(module) for i in m if not i.name.startswith("@"))
    if refusals := [refusal for ins in working if (refusal := lowerings.refusal(ins))]:
        raise UnsupportedOperator(lowerings.target, refusals)


def _drop_unread_weights(lowered: LoweringContext) -> None:
    """Forget constants that no call reads as they are: a dot's weights are read packed."""
    read = {v.buffer for call in lowered.calls for v in call.views if v.buffer.kind == "weight"}
    kept = sorted(read, key=lambda buffer: buffer.index)
    lowered.weights = [lowered.weights[buffer.index] for buffer in kept]
    for n, buffer in enumerate(kept):
        buffer.index = n


def _prepare_homes(lowered: LoweringContext, module: Module) -> None:
    """Let what is concatenated be computed in its place: the largest concat first, its prefixes come for free."""
    concats = [i for i in module if i.name == "concat"]
    for concat in sorted(concats, key=lambda c: -c.shape.elements):
        axis, start = concat.op.attributes()["axis"], 0
        for i in concat.inputs:
            free = i.owner is module and i not in lowered.homes and i not in lowered._output_views
            if free and placeable(i, concat):
                lowered.homes[i] = (concat, start)
            start += i.shape.lens[axis]


def placeable(ins: Instruction, concat: Instruction) -> bool:
    """Whether a kernel can write this value straight into a part of the concat."""
    if isinstance(ins.op, (Parameter, Literal, Reshaping, Contiguous, Layout)) or ins.op.view:
        return False
    same_order = ins.shape.permutation == concat.shape.permutation or ins.shape.elements == max(
        ins.shape.lens, default=1
    )
    return same_order and list(concat.inputs).count(ins) == 1
