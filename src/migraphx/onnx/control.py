"""Operators that hold graphs: branches become modules, loops of a known length are unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, axis_in
from migraphx.onnx.graph import Graph, OnnxError
from migraphx.onnx.registry import converter

Value = Instruction
MOST_TRIPS = 2**16  # of a loop that is unrolled


@converter("If")
def if_(b: OnnxBuilder, condition: Value, *, then_branch: Graph, else_branch: Graph) -> tuple[Any, ...]:
    """A condition known now leaves one branch, in place."""
    known = b.constant(condition)
    if known is not None:
        return tuple(b.subgraph(then_branch if known.reshape(-1)[0] else else_branch))
    modules = []
    for graph in (then_branch, else_branch):
        module = b.program.fresh_module(f"{graph.name or 'if'}_")
        outputs = b.subgraph(graph, into=replace(b, module=module))
        if not all(isinstance(o, Instruction) for o in outputs):
            b.known(condition, "condition (of branches that give sequences or optionals)")
        module.add_return([b.at(None).contiguous(o) if not o.shape.standard else o for o in outputs])
        modules.append(module)
    return tuple(b.outputs(b.instruction("if", [condition], modules), len(then_branch.outputs)))


@converter("Loop")
def loop(
    b: OnnxBuilder, trips: Value | None = None, condition: Value | None = None, *state: Any, body: Graph
) -> tuple[Any, ...]:
    """Unrolled: the number of trips and each condition must be known when the model is read."""
    count = None if trips is None else int(b.number(trips, "trip count"))
    if count is not None and count > MOST_TRIPS:
        raise OnnxError(f"makes {count} trips, at most {MOST_TRIPS} are unrolled")
    going = condition is None or bool(b.number(condition, "condition"))
    values, scans, k = list(state), [], 0
    while going and (count is None or k < count):
        if count is None and k == b.options.max_loop_iterations:
            raise OnnxError(f"loops more than max_loop_iterations={k} times")
        given = [b.literal(np.array(k, np.int64)), b.literal(np.array(going)), *values]
        going_value, *outputs = b.subgraph(body, given)
        going = bool(b.number(going_value, "condition")) if condition is not None or count is None else going
        values = outputs[: len(state)]
        scans.append(outputs[len(state) :])
        k += 1
    return (*values, *stacked(b, scans, len(body.outputs) - 1 - len(state)))


def stacked(
    b: OnnxBuilder, rows: Sequence[Sequence[Value]], count: int, axes: Sequence[int] = ()
) -> list[Value]:
    """What each trip gave, one after another along a new dimension."""
    if count and not rows:
        raise OnnxError("the loop makes no trip; the shape of what it gathers is not known")
    made = []
    for k, column in enumerate(zip(*rows, strict=True)):
        axis = axes[k] if axes else 0
        parts = [b.unsqueeze(v, axes=(axis_in(axis, v.shape.ndim + 1),)) for v in column]
        made.append(b.concat(*parts, axis=axis_in(axis, parts[0].shape.ndim)) if len(parts) > 1 else parts[0])
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
    """Unrolled along the scanned dimension."""
    carried = len(inputs) - num_scan_inputs
    state, scanned = list(inputs[:carried]), inputs[carried:]
    axes = [
        axis_in(a, v.shape.ndim) for a, v in zip(scan_input_axes or (0,) * len(scanned), scanned, strict=True)
    ]
    length = scanned[0].shape.lens[axes[0]]
    backwards = tuple(scan_input_directions) or (0,) * len(scanned)
    rows = []
    for k in range(length):
        given = []
        for v, axis, back in zip(scanned, axes, backwards, strict=True):
            at = length - 1 - k if back else k
            given.append(b.squeeze(b.slice(v, axes=(axis,), starts=(at,), ends=(at + 1,)), axes=(axis,)))
        outputs = b.subgraph(body, [*state, *given])
        state = outputs[:carried]
        rows.append(outputs[carried:])
    gathered = len(body.outputs) - carried
    out_axes = tuple(scan_output_axes) or (0,) * gathered
    made = stacked(b, rows, gathered, out_axes)
    turned = tuple(scan_output_directions) or (0,) * gathered
    for k, back in enumerate(turned):
        if back:
            made[k] = b.reverse(made[k], axes=(axis_in(out_axes[k], made[k].shape.ndim),))
    return (*state, *made)
