"""Checking a graph's names, and putting its nodes in an order in which each comes after its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from migraphx.onnx.graph import Graph, Node, OnnxError


def inner_graphs(value: Any) -> Iterator[Graph]:
    """The graphs in one attribute's value."""
    if isinstance(value, Graph):
        yield value
    elif isinstance(value, tuple):
        yield from (v for v in value if isinstance(v, Graph))


def all_nodes(nodes: list[Node]) -> Iterator[Node]:
    """The nodes and those of the graphs in their attributes."""
    for node in nodes:
        yield node
        for value in node.attributes.values():
            for graph in inner_graphs(value):
                yield from all_nodes(graph.nodes)


def captured(node: Node) -> set[str]:
    """The names that the graphs in the node's attributes use from around them."""
    used: set[str] = set()
    for value in node.attributes.values():
        for graph in inner_graphs(value):
            own = {*graph.inputs, *graph.initializers, *(o for n in graph.nodes for o in n.outputs)}
            names = {*graph.outputs, *(i for n in graph.nodes for i in n.inputs)}
            names |= {name for n in graph.nodes for name in captured(n)}
            used |= names - own
    return used - {""}


def ordered(graph: Graph, outer: Set[str] = frozenset()) -> list[Node]:
    """The graph's nodes, inputs first, otherwise as they were.

    `outer`: names known from around it. OnnxError for a name made twice, one that nothing makes, and a cycle.
    """
    known = {*outer, *graph.inputs, *graph.initializers, ""}
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        for name in filter(None, node.outputs):
            if name in makers or name in graph.inputs or name in graph.initializers:
                raise OnnxError(f"node {node.label}: output {name!r} is made twice")
            makers[name] = node
    wants = {id(n): [*n.inputs, *sorted(captured(n))] for n in graph.nodes}
    for node in graph.nodes:
        for name in wants[id(node)]:
            if name not in known and name not in makers:
                raise OnnxError(f"node {node.label}: nothing makes its input {name!r}")
    for name in graph.outputs:
        if not name or (name not in known and name not in makers):
            raise OnnxError(f"graph {graph.name!r}: nothing makes its output {name!r}")
    return _sorted(graph.nodes, makers, wants)


def _sorted(nodes: list[Node], makers: dict[str, Node], wants: dict[int, list[str]]) -> list[Node]:
    done: dict[int, Node] = {}
    for root in nodes:
        path: dict[int, Node] = {}
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) in done:
                stack.pop()
                continue
            path[id(node)] = node
            missing = [makers[w] for w in wants[id(node)] if w in makers and id(makers[w]) not in done]
            cycle = next((m for m in missing if id(m) in path), None)
            if cycle is not None:
                at = list(path).index(id(cycle))
                names = [n.label for n in list(path.values())[at:]]
                raise OnnxError(f"the graph has a cycle: {' -> '.join([*names, names[0]])}")
            if missing:
                stack.append(missing[0])
            else:
                done[id(node)] = node
                path.pop(id(node))
                stack.pop()
    return list(done.values())
