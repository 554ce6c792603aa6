"""Cutting graphs: few pieces, no cycle, order kept where it matters."""

import random

import pytest
import torch
from torch import fx

from torch_migraphx.fx.partition import partition, weight
from torch_migraphx.fx.tracer.acc_tracer import acc_ops


def chain(kinds: str) -> tuple[fx.Graph, list[fx.Node]]:
    """A chain of relus, one a letter: `e` for the engine, `t` for torch."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    for _ in kinds:
        x = graph.call_function(acc_ops.relu, (), {"input": x})
    graph.output(x)
    nodes = [n for n in graph.nodes if n.op == "call_function"]
    return graph, [n for n, k in zip(nodes, kinds, strict=True) if k == "t"]


@pytest.mark.parametrize(
    ("kinds", "minimum", "want"),
    [
        ("eee", 10, "E"),
        ("ttt", 1, "T"),
        ("ette", 1, "ETE"),
        ("eeteteee", 2, "ETE"),
        ("etetet", 2, "T"),
        ("eeeteee", 4, "T"),
    ],
)
def test_pieces_of_a_chain(kinds, minimum, want):
    pieces = partition(*chain(kinds), minimum)
    assert "".join("TE"[p.engine] for p in pieces) == want


def test_what_is_independent_shares_a_piece():
    """Two branches, each engine-torch-engine, make three pieces and not six."""
    graph = fx.Graph()
    refused, ends = [], []
    for name in "xy":
        n = graph.placeholder(name)
        for k in range(3):
            n = graph.call_function(acc_ops.relu, (), {"input": n})
            refused += [n] if k == 1 else []
        ends.append(n)
    graph.output(tuple(ends))
    assert [p.engine for p in partition(graph, refused, 1)] == [True, False, True]


def test_random_graphs_have_no_cycle():
    rng = random.Random(0)
    for _ in range(50):
        graph = fx.Graph()
        nodes = [graph.placeholder("x")]
        for _ in range(30):
            a, b = rng.choice(nodes), rng.choice(nodes)
            nodes.append(graph.call_function(acc_ops.add, (), {"input": a, "other": b}))
        graph.output(nodes[-1])
        refused = rng.sample(nodes[1:], 8)
        pieces = partition(graph, refused, rng.choice([1, 3]))
        at = {n: k for k, p in enumerate(pieces) for n in p.nodes}
        assert len(at) == 30
        for n, k in at.items():
            assert all(at[i] <= k for i in n.all_input_nodes if i in at)
            assert n not in refused or not pieces[k].engine


def test_random_numbers_are_drawn_in_order():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(acc_ops.relu, (), {"input": x})
    a = graph.call_function(torch.ops.aten.native_dropout.default, (y, 0.5, True))
    b = graph.call_function(torch.ops.aten.native_dropout.default, (x, 0.5, True))
    graph.output((a, b))
    order = [n for p in partition(graph, [a, b], 1) for n in p.nodes]
    assert order.index(a) < order.index(b)


def test_weights():
    graph = fx.Graph()
    x = graph.placeholder("x")
    linear = graph.call_function(acc_ops.linear, (), {"input": x, "weight": x})
    view = graph.call_function(torch.ops.aten.view.default, (x, [1]))
    add = graph.call_function(torch.ops.aten.add.Tensor, (x, x))
    assert (weight(linear), weight(view), weight(add)) == (10, 0, 1)
