"""Control flow: the steps of modules inside loops and branches of one table of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from migraphx.ir.module import Instruction, Module
from migraphx.ir.shape import Shape
from migraphx.ops.control import Loop
from migraphx.targets.common.call import AGAIN, IF, JUMP, LOOP, NUMBER, Call
from migraphx.targets.common.lower.views import fill
from migraphx.targets.common.lowering import Counter, LoweringContext, described, lower_into
from migraphx.targets.common.lowerings import NEUTRAL
from migraphx.targets.common.views import View

NO_TARGET = -1


def _append_flow(
    ctx: LoweringContext, kind: int, slot: int, rest: Sequence[int], reads: Sequence[View], label: str
) -> int:
    """Append a step of control flow; the result is its number."""
    ctx.calls.append(Call(None, tuple(reads), (), (kind, slot, NO_TARGET, *rest), label))
    return len(ctx.calls) - 1


def _set_target(ctx: LoweringContext, step: int, target: int) -> None:
    """Let a step of control flow jump to another step."""
    call = ctx.calls[step]
    kind, slot, _, *rest = call.numbers
    ctx.calls[step] = replace(call, numbers=(kind, slot, target, *rest))


def _destination(ctx: LoweringContext, ins: Instruction, k: int) -> View:
    """Where element k of a tuple is computed: in an output, or in new memory."""
    for user in ins.users:
        if user.name == "get_tuple_elem" and user.op.attributes()["index"] == k and user in ctx.output_views:
            return ctx.output_views[user]
    return ctx.temporary(ins.shape.sub_shapes[k])


def _unique_body(ctx: LoweringContext, module: Module) -> Module:
    """The module, or a copy where another instruction runs it, too: each has views of its own."""
    own = module.clone() if module in ctx.inner else module
    ctx.inner.add(own)
    return own


def _bind(ctx: LoweringContext, module: Module, given: Sequence[Instruction]) -> None:
    for parameter, i in zip(module.parameters.values(), given, strict=True):
        ctx.views[parameter] = ctx.view(i)


@NEUTRAL.of("if")
def if_(ctx: LoweringContext, ins: Instruction) -> None:
    """Both modules write the same views; one of them is jumped over."""
    condition, *given = ins.inputs
    then, otherwise = (_unique_body(ctx, m) for m in ins.modules)
    destinations = [_destination(ctx, ins, k) for k in range(len(ins.shape.sub_shapes))]
    test = _append_flow(ctx, IF, 0, (), [ctx.view(condition)], "if")
    _bind(ctx, then, given)
    lower_into(ctx, then, destinations)
    skip = _append_flow(ctx, JUMP, 0, (), [], "else")
    _set_target(ctx, test, len(ctx.calls))
    _bind(ctx, otherwise, given)
    lower_into(ctx, otherwise, destinations)
    _set_target(ctx, skip, len(ctx.calls))
    ctx.tuples[ins] = tuple(destinations)


@dataclass(frozen=True)
class CarriedValue:
    """A value that one trip of a loop hands to the next: the views where a trip reads it and writes the next one.

    Both views move with the trip's number.
    """

    now: View
    next: View


@dataclass(frozen=True)
class Trips:
    """How often a loop runs: at most `most` times, fewer by a number or by a condition that are read in every trip."""

    most: int
    number: View | None
    condition: CarriedValue | None

    @property
    def count(self) -> int | None:
        """How many, where that is known."""
        return self.most if self.number is None and self.condition is None else None

    def step(self, ctx: LoweringContext, kind: int, slot: int, label: str) -> int:
        condition = self.condition.now if self.condition else None
        reads = [v for v in (self.number, condition) if v is not None]
        rest = (self.most, int(self.number is not None), int(condition is not None))
        return _append_flow(ctx, kind, slot, rest, reads, label)


def _trips(ctx: LoweringContext, ins: Instruction, body: Module, slot: int) -> Trips:
    """Constant numbers and conditions are compiled in; a condition that changes is a carried value."""
    number, condition, *_ = ins.inputs
    most = ins.op.attributes()["max_iterations"]
    count, first, after = (ctx.constant(i) for i in (number, condition, body.outputs[0]))
    if count is not None:
        most = min(most, max(0, int(count[0].reshape(-1)[0])))
    if first is not None and not first[0].all():
        most = 0
    stays = body.outputs[0] is list(body.parameters.values())[1] or (after is not None and bool(after[0].all()))
    always = first is not None and (stays or not most)
    carried = None if always else _double_buffer(ctx, condition.shape, slot)
    return Trips(most, ctx.view(number) if count is None else None, carried)


def _double_buffer(ctx: LoweringContext, shape: Shape, slot: int) -> CarriedValue:
    """Two buffers: trip k reads buffer k % 2 and writes the other one."""
    both = ctx.temporary(Shape(shape.type, (2, *shape.lens)))
    return CarriedValue(both.row(0, 0, slot, mask=1).first(), both.row(0, 0, slot, phase=1, mask=1).first())


def _scan_buffer(
    ctx: LoweringContext, shape: Shape, most: int, backwards: bool, slot: int
) -> tuple[CarriedValue, View]:
    """A row for the first value and one for each trip: what a loop carries and what it gathers share memory.

    The second result is the gathered array, the rows without the first value.
    """
    rows = ctx.temporary(Shape(shape.type, (most + 1, *shape.lens)))
    start, by = (most, -1) if backwards else (0, 1)
    carried = CarriedValue(rows.row(0, start, slot, by).first(), rows.row(0, start + by, slot, by).first())
    return carried, rows.sliced(0, 0, most) if backwards else rows.sliced(0, 1, most + 1)


@NEUTRAL.of("loop")
def loop(ctx: LoweringContext, ins: Instruction) -> None:
    """Count, test, run the module's steps, again; `_trips`, `_double_buffer` and `_scan_buffer` place its values."""
    op, state, body = ins.op, ins.inputs[2:], _unique_body(ctx, ins.modules[0])
    assert isinstance(op, Loop)
    slot, ctx.slots = ctx.slots, ctx.slots + 1
    trips = _trips(ctx, ins, body, slot)
    kept, gathered = body.outputs[1 : 1 + len(state)], body.outputs[1 + len(state) :]
    whole: dict[int, View] = {}  # of what is gathered
    rows: dict[int, View] = {}  # where a trip leaves it, unless that is where it is carried
    carried: list[CarriedValue] = []
    for i, o in zip(state, kept, strict=True):
        shared = next((n for n, g in enumerate(gathered) if g is o and n not in whole and kept.count(o) == 1), None)
        if shared is None:
            carried.append(_double_buffer(ctx, i.shape, slot))
        else:
            found, whole[shared] = _scan_buffer(ctx, i.shape, op.max_iterations, op.backwards(shared), slot)
            carried.append(found)
    for n in range(len(gathered)):
        if n not in whole:
            whole[n] = _destination(ctx, ins, len(state) + n)
            start, by = (op.max_iterations - 1, -1) if op.backwards(n) else (0, 1)
            rows[n] = whole[n].row(0, start, slot, by).first()
    if trips.count is None or trips.count < op.max_iterations:
        for view in whole.values():
            fill(ctx, view, 0, ins.origin)
    _append_loop(ctx, ins, body, slot, trips, carried, [rows.get(n) for n in range(len(gathered))])
    ctx.tuples[ins] = (*(c.now for c in carried), *(whole[n] for n in range(len(gathered))))


def _append_loop(
    ctx: LoweringContext, ins: Instruction, body: Module, slot: int, trips: Trips, carried: Sequence[CarriedValue],
    rows: Sequence[View | None],
) -> None:  # fmt: skip
    """The first values, and the steps of the loop itself."""
    _, condition, *state = ins.inputs
    if trips.condition is not None:
        _store_first(ctx, condition, trips.condition)
    for i, c in zip(state, carried, strict=True):
        _store_first(ctx, i, c)
    test = trips.step(ctx, LOOP, slot, "loop")
    first = len(ctx.calls)
    number, going, *parameters = body.parameters.values()
    ctx.counters[number] = Counter(slot, trips.most)
    if any(not _is_moving_view(ctx, u) for u in number.users):
        ctx.views[number] = ctx.temporary(number.shape)
        _append_flow(ctx, NUMBER, slot, (), [ctx.views[number]], "trip number")
    ctx.views[going] = trips.condition.now if trips.condition else ctx.view(condition)
    for parameter, c in zip(parameters, carried, strict=True):
        ctx.views[parameter] = c.now
    following = None if trips.condition is None else trips.condition.next
    lower_into(ctx, body, [following, *(c.next for c in carried), *rows])
    again = trips.step(ctx, AGAIN, slot, "again")
    _set_target(ctx, again, first)
    _set_target(ctx, test, len(ctx.calls))


def _store_first(ctx: LoweringContext, ins: Instruction, carried: CarriedValue) -> None:
    """Copy a first value to where the first trip finds it."""
    ctx.copy(ctx.view(ins), replace(carried.now, moves=()), ins.origin)


def _is_moving_view(ctx: LoweringContext, ins: Instruction) -> bool:
    """Whether a scan_slice is a view that moves with its loop."""
    if ins.name != "scan_slice" or ins.inputs[1] not in ctx.counters or ins.inputs[0] is ins.inputs[1]:
        return False
    axis: int = ins.op.attributes()["axis"]
    return ctx.counters[ins.inputs[1]].most <= ins.inputs[0].shape.lens[axis]


@NEUTRAL.of("scan_slice")
def scan_slice(ctx: LoweringContext, ins: Instruction) -> None:
    """A view where the index is the number of a loop's trip; else a gather of one row."""
    attributes, view = ins.op.attributes(), ctx.view(ins.inputs[0])
    axis: int = attributes["axis"]
    backwards: int = attributes["direction"]
    length = view.lens[axis]
    if _is_moving_view(ctx, ins):
        start, by = (length - 1, -1) if backwards else (0, 1)
        ctx.views[ins] = view.row(axis, start, ctx.counters[ins.inputs[1]].slot, by)
        return
    data, index = ctx.standard(view.reversed(axis) if backwards else view, ins.origin), ctx.view(ins.inputs[1])
    check = ctx.check(f"{described(ins)}: an index is out of range for a length of {length}")
    ctx.row_major(ins, lambda out: ctx.call(ctx.emit.gather(data, index, out, ctx.status, axis, check, ins.origin)))


@NEUTRAL.of("run_on_target")
def run_on_target(ctx: LoweringContext, ins: Instruction) -> None:
    """The module runs on this target, whichever is named: the program has been compiled for it."""
    module = _unique_body(ctx, ins.modules[0])
    _bind(ctx, module, ins.inputs)
    destinations = [_destination(ctx, ins, k) for k in range(len(ins.shape.sub_shapes))]
    lower_into(ctx, module, destinations)
    ctx.tuples[ins] = tuple(destinations)
