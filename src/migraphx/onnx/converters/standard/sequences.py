"""Sequences and optionals: they exist only while the model is read, as Python lists and None."""

from __future__ import annotations

from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import MOST_NUMBERS, OnnxBuilder, axis_in
from migraphx.onnx.converters.standard.movement import pieces
from migraphx.onnx.graph import Graph, OnnxError
from migraphx.onnx.registry import converter

Value = Instruction


@converter("SequenceConstruct")
def construct(b: OnnxBuilder, *items: Value) -> list[Value]:
    return list(items)


@converter("SequenceEmpty")
def empty(b: OnnxBuilder, *, dtype: int | None = None) -> list[Value]:
    return []


@converter("SequenceLength")
def length(b: OnnxBuilder, items: list[Value]) -> Value:
    return b.literal(np.array(len(items), np.int64))


@converter("SequenceAt")
def at(b: OnnxBuilder, items: list[Value], position: Value) -> Value:
    return items[b.number(position, "position")]


@converter("SequenceInsert")
def insert(b: OnnxBuilder, items: list[Value], item: Value, position: Value | None = None) -> list[Value]:
    place = len(items) if position is None else b.number(position, "position")
    if not -len(items) <= place <= len(items):
        raise OnnxError(f"position {place} is not in a sequence of {len(items)}")
    made = list(items)
    made.insert(place, item)
    return made


@converter("SequenceErase")
def erase(b: OnnxBuilder, items: list[Value], position: Value | None = None) -> list[Value]:
    made = list(items)
    made.pop(-1 if position is None else b.number(position, "position"))
    return made


@converter("SplitToSequence")
def split_to_sequence(b: OnnxBuilder, x: Value, sizes: Value | None = None, *, axis: int, keepdims: int) -> list[Value]:
    axis = axis_in(axis, x.shape.ndim)
    total = x.shape.lens[axis]
    if sizes is None or not sizes.shape.ndim:
        each = 1 if sizes is None else int(b.number(sizes, "split"))
        if each < 1 or total > each * MOST_NUMBERS:
            raise OnnxError(f"{total} in pieces of {each}; at most {MOST_NUMBERS} pieces are supported")
        lengths = tuple(min(each, total - k) for k in range(0, total, each))
    else:
        lengths = b.ints(sizes, "split") or ()
    parts = pieces(b, x, lengths, axis)
    return [b.squeeze(p, axes=(axis,)) for p in parts] if sizes is None and not keepdims else parts


@converter("ConcatFromSequence")
def concat_from_sequence(b: OnnxBuilder, items: list[Value], *, axis: int, new_axis: int) -> Value:
    if not items:
        raise OnnxError("the sequence is empty")
    if new_axis:
        place = axis_in(axis, items[0].shape.ndim + 1)
        items = [b.unsqueeze(i, axes=(place,)) for i in items]
    return b.concat(*items, axis=axis_in(axis, items[0].shape.ndim)) if len(items) > 1 else items[0]


@converter("SequenceMap")
def sequence_map(b: OnnxBuilder, items: list[Value], *others: Any, body: Graph) -> tuple[list[Value], ...]:
    """The outputs of `body` on each item; other sequences go along, tensors are the same for all."""
    for other in others:
        if isinstance(other, list) and len(other) != len(items):
            raise OnnxError(f"sequences of {len(items)} and {len(other)} do not go together")
    made = [
        b.subgraph(body, [item, *(o[k] if isinstance(o, list) else o for o in others)]) for k, item in enumerate(items)
    ]
    return tuple([row[n] for row in made] for n in range(len(body.outputs)))


@converter("Optional")
def optional(b: OnnxBuilder, value: Any = None, *, type: Any = None) -> Any:
    return value


@converter("OptionalHasElement")
def has_element(b: OnnxBuilder, value: Any = None) -> Value:
    return b.literal(np.array(value is not None))


@converter("OptionalGetElement")
def get_element(b: OnnxBuilder, value: Any) -> Any:
    if value is None:
        raise OnnxError("the optional is empty")
    return value
