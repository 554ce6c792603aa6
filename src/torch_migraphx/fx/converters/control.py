"""Branches and loops: torch's higher-order operators, whose graphs become modules that see the values around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import getitem
from typing import Any

import torch
from torch import fx

import migraphx
from torch_migraphx.fx.builder import Builder, Value, dtype_of, lens
from torch_migraphx.fx.converter import CONVERTERS, converter
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.graph_info import described, is_python, refusal

higher_order = torch.ops.higher_order
ENDLESS = 2**63 - 1


class Inlined(fx.Interpreter):
    """Runs an ATen graph on values of a builder, where it stands."""

    def __init__(self, b: Builder, graph: fx.GraphModule) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.b = b
        self.extra_traceback = False

    def run_node(self, n: fx.Node) -> Any:
        self.node = n
        outer, self.b.node = self.b.node, n
        try:
            return super().run_node(n)
        finally:
            self.b.node = outer

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = self.fetch_attr(target)
        return self.b.literal(value) if isinstance(value, torch.Tensor) else value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target in CONVERTERS:
            return CONVERTERS[target](self.b, args, kwargs)
        if target is getitem or (is_python(target) and not any(isinstance(x, Value) for x in args)):
            return target(*args, **kwargs)
        raise UnsupportedError(f"inside of it, {described(self.node)}: {refusal(self.node)}")


def inlined(b: Builder, graph: fx.GraphModule, inputs: Sequence[Value]) -> list[Value]:
    """The results of a graph as values of `b`, row-major; all must be tensors."""
    made = Inlined(b, graph).run(*inputs, enable_io_processing=False)
    results = list(made) if isinstance(made, tuple | list) else [made]
    if not all(isinstance(x, Value) for x in results):
        raise UnsupportedError("a branch or a loop gives what is no tensor")
    return [x if x.shape().standard() else b.contiguous(x) for x in results]


def module_of(b: Builder, stem: str, write: Callable[[Builder], list[Value]]) -> tuple[migraphx.module, int]:
    """A new module that returns what `write` adds to it, and how many values these are."""
    inner = b.nested(stem)
    outputs: list[Value] = []
    try:
        outputs = write(inner)
    finally:
        inner.module.add_return(outputs)
    return inner.module, len(outputs)


def results(b: Builder, made: Value, count: int) -> tuple[Value, ...]:
    return tuple(b.get_tuple_elem(made, index=k) for k in range(count))


def of_tensors(inputs: Iterable[Any]) -> None:
    if not all(isinstance(x, Value) for x in inputs):
        raise UnsupportedError("a branch or a loop takes what is no tensor")


def of_unchanged(mutated: str | Sequence[int] | None) -> None:
    if mutated:
        raise UnsupportedError("a loop that writes to its inputs")


@converter(higher_order.cond)
def cond(b: Builder, pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Value] = ()) -> tuple[Value, ...]:
    """The results of the graph that the condition, one bool, chooses."""
    of_tensors(operands)
    if not isinstance(pred, Value):
        return tuple(inlined(b, true_fn if pred else false_fn, operands))
    branches = [module_of(b, "branch", lambda inner, g=g: inlined(inner, g, operands)) for g in (true_fn, false_fn)]
    (first, count), (second, _) = branches
    made = b.module.add_instruction(migraphx.op("if"), [b.cast(pred, torch.bool)], [first, second])
    return results(b, made, count)


def loop(
    b: Builder,
    trips: int,
    condition: Value,
    state: Sequence[Value],
    body: Callable[[Builder, Value, list[Value]], tuple[Value | None, list[Value], list[Value]]],
) -> tuple[Value, ...]:
    """What is carried last, then the rows that each of at most `trips` trips gives.

    `body` writes one trip, of its number and what is carried: whether another follows (None: always), what is carried
    on, and its rows.
    """

    def write(inner: Builder) -> list[Value]:
        number = inner.module.add_parameter("trip", migraphx.shape("int64", []))
        going = inner.module.add_parameter("going", migraphx.shape("bool", list(lens(condition))))
        kinds = [(dtype_of(x), lens(x)) for x in state]
        given = [
            inner.module.add_parameter(f"state{k}", migraphx.shape(x.shape().type_string(), list(lens(x))))
            for k, x in enumerate(state)
        ]
        again, carried, rows = body(inner, number, given)
        if [(dtype_of(x), lens(x)) for x in carried] != kinds:
            raise UnsupportedError("what a loop carries changes its shape or type")
        return [going if again is None else inner.view(again, lens(condition)), *carried, *rows]

    module, count = module_of(b, "loop", write)
    start = [x if x.shape().standard() else b.contiguous(x) for x in state]
    op = migraphx.op("loop", max_iterations=trips)
    made = b.module.add_instruction(op, [b.full(trips, torch.int64), condition, *start], [module])
    return results(b, made, count - 1)


@converter(higher_order.while_loop)
def while_loop(
    b: Builder,
    cond_fn: Any,
    body_fn: Any,
    carried_inputs: Sequence[Value],
    additional_inputs: Sequence[Value] = (),
    mutated_arg_indices: str | Sequence[int] | None = None,
) -> tuple[Value, ...]:
    """What is carried, after as many trips as the condition holds."""
    of_unchanged(mutated_arg_indices)
    of_tensors([*carried_inputs, *additional_inputs])
    (first,) = inlined(b, cond_fn, [*carried_inputs, *additional_inputs])

    def body(inner: Builder, number: Value, state: list[Value]) -> tuple[Value, list[Value], list[Value]]:
        carried = inlined(inner, body_fn, [*state, *additional_inputs])
        (going,) = inlined(inner, cond_fn, [*carried, *additional_inputs])
        return going, carried, []

    return loop(b, ENDLESS, first, carried_inputs, body)


def _rows(b: Builder, scanned: Sequence[Value], number: Value) -> list[Value]:
    return [b.squeeze(b.scan_slice(x, number, axis=0), axes=[0]) for x in scanned]


@converter(higher_order.scan)
def scan(
    b: Builder,
    combine_fn: Any,
    init: Sequence[Value],
    xs: Sequence[Value],
    additional_inputs: Sequence[Value] = (),
    mutated_arg_indices: str | Sequence[int] | None = None,
) -> tuple[Value, ...]:
    """What is carried last, and the rows that each trip gives, of the rows of `xs` one after another."""
    of_unchanged(mutated_arg_indices)
    of_tensors([*init, *xs, *additional_inputs])
    if not xs or not lens(xs[0])[0]:
        raise UnsupportedError("a scan of nothing")

    def body(inner: Builder, number: Value, state: list[Value]) -> tuple[None, list[Value], list[Value]]:
        made = inlined(inner, combine_fn, [*state, *_rows(inner, xs, number), *additional_inputs])
        return None, made[: len(state)], made[len(state) :]

    return loop(b, lens(xs[0])[0], b.full(True, torch.bool), init, body)


@converter(higher_order.map_impl)
def map_impl(
    b: Builder,
    f: Any,
    xs: Sequence[Value],
    pos_args: Sequence[Value] = (),
    mutated_arg_indices: str | Sequence[int] | None = None,
) -> tuple[Value, ...]:
    """The results of `f` for each row of `xs`."""
    return scan(b, f, [], xs, pos_args, mutated_arg_indices)
