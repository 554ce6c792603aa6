"""Operators that hold graphs: branches and loops become modules; what is known now is computed in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction, Module, captured
from migraphx.ir.program import reachable
from migraphx.ir.shape import Shape
from migraphx.onnx.builder import OnnxBuilder, axis_in, parameters
from migraphx.onnx.graph import Graph, OnnxError
from migraphx.onnx.registry import converter

Value = Instruction
MOST_TRIPS = 2**16  # of a loop that is unrolled
UNBOUNDED = 2**63 - 1
MOST_GUESSED = 10  # trips of a loop that is unrolled without a trip count, where max_loop_iterations does not say
MOST_STATED = 65535  # trips that a loop may state, where limit_max_iterations does not say


def module_of(b: OnnxBuilder, stem: str, write: Callable[[OnnxBuilder], Sequence[Any]]) -> Module:
    """A new module that returns what `write` returns, row-major; it sees the values around it."""
    module = b.program.fresh_module(stem)
    inner = replace(b, module=module, before=None)
    outputs = write(inner)
    if not all(isinstance(o, Instruction) for o in outputs):
        raise OnnxError("a branch or a loop gives a sequence or an optional; only tensors are supported")
    module.add_return([inner.contiguous(o) if not o.shape.standard else o for o in outputs])
    return module


def discard(b: OnnxBuilder, module: Module) -> None:
    for inner in reachable(module):
        inner.clear()
        b.program.modules.pop(inner.name, None)


@converter("If")
def if_(b: OnnxBuilder, condition: Value, *, then_branch: Graph, else_branch: Graph) -> tuple[Any, ...]:
    """A condition known now leaves one branch, in place."""
    if condition.shape.elements != 1:
        raise OnnxError(f"its condition must have one element, has lens {condition.shape.lens}")
    counts = [len(graph.outputs) for graph in (then_branch, else_branch)]
    if counts[0] != counts[1]:
        raise OnnxError(f"its branches give {counts[0]} and {counts[1]} values")
    known = b.constant(condition)
    if known is not None:
        return tuple(b.subgraph(then_branch if known.reshape(-1)[0] else else_branch))
    try:
        modules = [
            module_of(b, f"{graph.name or 'if'}_", lambda inner, graph=graph: b.subgraph(graph, into=inner))
            for graph in (then_branch, else_branch)
        ]
        lens, others = ([o.shape.lens for o in m.outputs] for m in modules)
        if lens != others:
            raise OnnxError(f"its branches give {lens} and {others}")
    except OnnxError as error:
        error.inputs |= parameters(condition)  # with a condition known now, one branch would not matter
        error.values = (*error.values, condition)
        raise
    types, others = ([o.shape.type for o in m.outputs] for m in modules)
    if types != others:
        raise OnnxError(f"its branches give {types} and {others}")
    return tuple(b.outputs(b.instruction("if", [condition], modules), len(then_branch.outputs)))


@converter("Loop")
def loop(
    b: OnnxBuilder, trips: Value | None = None, condition: Value | None = None, *state: Any, body: Graph
) -> tuple[Any, ...]:
    """A `loop`; unrolled where what it carries changes its shape, or where everything is known now."""
    if len(body.outputs) < 1 + len(state):
        raise OnnxError(f"its body gives {len(body.outputs)} values, a condition and {len(state)} carried ones are due")
    trips = bounded(b, trips)
    count = b.constant(trips)
    length = None if count is None else max(0, int(count.reshape(-1)[0]))
    length = None if length == UNBOUNDED else length
    condition = b.literal(np.array(True)) if condition is None else condition
    made = as_module(b, condition, state, body)
    if made is None:
        return unrolled(b, trips, condition, state, body)
    going, gathers = made.outputs[0], len(made.outputs) - 1 - len(state)
    first, after = b.constant(condition), b.constant(going)
    stays = going is list(made.parameters.values())[1] or (after is not None and bool(after.all()))
    never = length == 0 or (first is not None and not first.all())
    if gathers and not never and (length is None or first is None or not stays):  # how many rows is not known
        discard(b, made)
        return unrolled(b, trips, condition, state, body)
    most = 0 if never else UNBOUNDED if length is None else length
    ins = b.instruction("loop", [trips, condition, *state], [made], max_iterations=most)
    if 0 < most <= MOST_TRIPS and all(b.constant(i) is not None for i in (*ins.inputs, *captured(ins))):
        b.module.remove(ins)
        discard(b, made)
        return unrolled(b, trips, condition, state, body)
    return tuple(b.outputs(ins, len(state) + gathers))


def bounded(b: OnnxBuilder, trips: Value | None) -> Value:
    """The number of trips; for a Loop without one, what the options say, else UNBOUNDED."""
    most, limit = b.options.max_loop_iterations, b.options.limit_max_iterations
    known = UNBOUNDED if trips is None else b.constant(trips)
    length = None if known is None else int(np.reshape(known, -1)[0])
    if trips is not None and length != UNBOUNDED:
        allowed = MOST_STATED if limit is None else limit
        if length is not None and length > allowed:
            raise OnnxError(f"makes {length} trips, limit_max_iterations is {allowed}")
        return trips
    given = [n for n in (most if trips is None else None, limit) if n is not None]
    return b.literal(np.array(min(given, default=UNBOUNDED), np.int64))


def as_module(b: OnnxBuilder, condition: Value, state: Sequence[Any], body: Graph) -> Module | None:
    """The body as a module, or None.

    None where what it carries is no tensor or changes its shape, or where it must know the number of a trip.
    """
    if not all(isinstance(v, Instruction) for v in state):
        return None
    if len(body.inputs) != 2 + len(state):
        raise OnnxError(f"its body takes {len(body.inputs)} inputs, the loop carries {len(state)} values")

    def write(inner: OnnxBuilder) -> list[Any]:
        add = inner.module.add_parameter
        number, going = add("trip", Shape("int64", ())), add("condition", condition.shape.as_standard())
        carried = [add(f"state{k}", v.shape.as_standard()) for k, v in enumerate(state)]
        going, *rest = b.subgraph(body, [number, going, *carried], into=inner)
        return [inner.reshape(going, dims=condition.shape.lens) if going.shape != condition.shape else going, *rest]

    before = set(b.program.modules)
    try:
        module = module_of(b, f"{body.name or 'loop'}_", write)
    except OnnxError:  # unrolling says what is wrong, if it is
        module = None
    if module is not None:
        kept = [(o.shape.type, o.shape.lens) for o in module.outputs[1 : 1 + len(state)]]
        for v, (type, _) in zip(state, kept, strict=True):
            if v.shape.type != type:
                raise OnnxError(f"carries {v.shape.type}, its body gives {type}")
        if kept == [(v.shape.type, v.shape.lens) for v in state]:
            return module
    for name in [n for n in b.program.modules if n not in before]:
        b.program.modules.pop(name).clear()
    return None


def unrolled(b: OnnxBuilder, trips: Value, condition: Value, state: Sequence[Any], body: Graph) -> tuple[Any, ...]:
    """One copy of the body for each trip: their number and each condition must be known now."""
    count, going = int(b.number(trips, "trip count")), bool(b.number(condition, "condition"))
    if UNBOUNDED > count > MOST_TRIPS:
        raise OnnxError(f"makes {count} trips, at most {MOST_TRIPS} are unrolled")
    guessed = MOST_GUESSED if b.options.max_loop_iterations is None else b.options.max_loop_iterations
    values, scans, k = list(state), [], 0
    while going and k < count:
        if count == UNBOUNDED and k == guessed:
            raise OnnxError(f"loops more than max_loop_iterations={k} times")
        given = [b.literal(np.array(k, np.int64)), b.literal(np.array(going)), *values]
        going_value, *outputs = b.subgraph(body, given)
        going = bool(b.number(going_value, "condition"))
        values = outputs[: len(state)]
        scans.append(outputs[len(state) :])
        k += 1
    return (*values, *stacked(b, scans, len(body.outputs) - 1 - len(state)))


def stacked(b: OnnxBuilder, rows: Sequence[Sequence[Value]], count: int) -> list[Value]:
    """What each trip gave, one after another along a new dimension."""
    if count and not rows:
        raise OnnxError("the loop makes no trip; the shape of what it gathers is not known")
    made = []
    for column in zip(*rows, strict=True):
        parts = [b.unsqueeze(v, axes=(0,)) for v in column]
        made.append(b.concat(*parts, axis=0) if len(parts) > 1 else parts[0])
    return made


@converter("Scan", since=9)
def scan(
    b: OnnxBuilder,
    *inputs: Value,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Any, ...]:
    """A `loop` over the rows of what is scanned."""
    count = len(inputs) - num_scan_inputs
    if num_scan_inputs < 1 or count < 0:
        raise OnnxError(f"scans {num_scan_inputs} of {len(inputs)} inputs")
    state, scanned = inputs[:count], inputs[count:]
    given = scan_input_axes or (0,) * len(scanned)
    axes = [axis_in(a, v.shape.ndim) for a, v in zip(given, scanned, strict=True)]
    lengths = {v.shape.lens[a] for v, a in zip(scanned, axes, strict=True)}
    if len(lengths) > 1:
        raise OnnxError(f"what it scans differs in length: {sorted(lengths)}")
    (length,) = lengths
    backwards = tuple(scan_input_directions) or (0,) * len(scanned)
    for directions in (backwards, scan_output_directions):
        if any(d not in (0, 1) for d in directions):
            raise OnnxError(f"its directions {tuple(directions)} must be 0 or 1")

    def write(inner: OnnxBuilder) -> list[Any]:
        add = inner.module.add_parameter
        number, going = add("trip", Shape("int64")), add("condition", Shape("bool"))
        carried = [add(f"state{k}", v.shape.as_standard()) for k, v in enumerate(state)]
        rows = [
            inner.squeeze(inner.scan_slice(v, number, axis=a, direction=d), axes=(a,))
            for v, a, d in zip(scanned, axes, backwards, strict=True)
        ]
        return [going, *b.subgraph(body, [*carried, *rows], into=inner)]

    module = module_of(b, f"{body.name or 'scan'}_", write)
    gathered = len(module.outputs) - 1 - count
    directions = tuple(scan_output_directions) or (0,) * gathered
    first = [b.literal(np.array([length])), b.literal(np.array([True])), *state]
    ins = b.instruction("loop", first, [module], max_iterations=length, scan_output_directions=directions)
    made = b.outputs(ins, count + gathered)
    out_axes = tuple(scan_output_axes) or (0,) * gathered
    return (*made[:count], *(along(b, v, a) for v, a in zip(made[count:], out_axes, strict=True)))


def along(b: OnnxBuilder, x: Value, axis: int) -> Value:
    """The first dimension of x as number `axis`."""
    place = axis_in(axis, x.shape.ndim)
    order = [*range(1, place + 1), 0, *range(place + 1, x.shape.ndim)]
    return b.transpose(x, permutation=order) if place else x


@converter("Scan", since=8)
def scan_of_batches(
    b: OnnxBuilder,
    lengths: Value | None,
    *inputs: Value,
    body: Graph,
    num_scan_inputs: int,
    directions: Sequence[int] = (),
) -> tuple[Any, ...]:
    """As later, for each item of a batch, the first dimension."""
    if lengths is not None:
        raise OnnxError("sequence_lens of Scan in opset 8 are not supported")
    items, count = [], inputs[0].shape.lens[0]
    if count > MOST_TRIPS:
        raise OnnxError(f"a batch of {count}; at most {MOST_TRIPS} items are supported")
    for n in range(count):
        one = [b.squeeze(b.slice(v, axes=(0,), starts=(n,), ends=(n + 1,)), axes=(0,)) for v in inputs]
        items.append(scan(b, *one, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions))
    return tuple(stacked(b, items, len(items[0]) if items else 0))
