"""Cutting a graph into pieces for the engine and pieces for torch: few, in an order that has no cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from torch_migraphx.fx.graph_info import called, origin_of

HEAVY = ("linear", "matmul", "conv", "mm", "bmm", "addmm", "baddbmm", "attention", "einsum", "bilinear", "_dot")
FREE = frozenset(
    {
        "getitem", "reshape", "view", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "permute",
        "transpose", "t", "expand", "slice", "slice_tensor", "select", "split", "chunk", "unbind", "clone",
        "contiguous", "detach", "alias",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """Nodes, in order, that run in one place."""

    engine: bool
    nodes: tuple[fx.Node, ...]


def weight(node: fx.Node) -> int:
    """What a node counts towards `min_acc_module_size`: 10 for products and convolutions, 0 for views."""
    name = called(node).removeprefix("aten.").removeprefix("acc_ops.").partition(".")[0]
    if name in FREE:
        return 0
    return 10 if any(word in name for word in HEAVY) else 1


def partition(graph: fx.Graph, refused: Iterable[fx.Node], minimum: int) -> list[Piece]:
    """Pieces in an order in which each reads only earlier ones.

    `refused` nodes run in torch. An engine piece whose nodes weigh less than `minimum` is not worth the crossing and
    runs in torch as well.
    """
    nodes = [n for n in graph.nodes if n.op.startswith("call_")]
    in_torch = set(refused)
    while True:
        pieces = _fewest(nodes, in_torch)
        if len(pieces) == 1:
            return pieces
        small = [p for p in pieces if p.engine and sum(map(weight, p.nodes)) < minimum]
        if not small:
            return pieces
        in_torch.update(n for p in small for n in p.nodes)


def _fewest(nodes: Sequence[fx.Node], in_torch: set[fx.Node]) -> list[Piece]:
    """The better of starting with the engine and starting with torch."""
    return min((_alternate(nodes, in_torch, first) for first in (True, False)), key=len)


def _alternate(nodes: Sequence[fx.Node], in_torch: set[fx.Node], engine: bool) -> list[Piece]:
    """Take all that is ready for one place, then for the other, until nothing is left.

    Each turn takes everything that can be reached without the other place, so no order has fewer turns.
    """
    order = {n: k for k, n in enumerate(nodes)}
    needs = _dependencies(nodes)
    done: set[fx.Node] = set()
    pieces: list[Piece] = []
    while len(done) < len(nodes):
        taken = []
        for n in nodes:  # one pass is enough: nodes are in topological order
            if n not in done and (n not in in_torch) == engine and needs[n] <= done:
                taken.append(n)
                done.add(n)
        if taken:
            pieces.append(Piece(engine, tuple(sorted(taken, key=order.__getitem__))))
        engine = not engine
    return pieces


def _dependencies(nodes: Sequence[fx.Node]) -> dict[fx.Node, set[fx.Node]]:
    """What must run before each node: its inputs, and for what draws random numbers or writes, what did so before."""
    known = set(nodes)
    needs: dict[fx.Node, set[fx.Node]] = {}
    last: fx.Node | None = None
    for n in nodes:
        needs[n] = {i for i in n.all_input_nodes if i in known}
        if is_ordered(n):
            if last is not None:
                needs[n].add(last)
            last = n
    return needs


def is_ordered(node: fx.Node) -> bool:
    """Whether a node draws random numbers, changes its inputs or waits for other processes: it must keep its turn."""
    if isinstance(node.target, torch._ops.OpOverload):
        if node.target.namespace == "_c10d_functional":
            return True
        return torch.Tag.nondeterministic_seeded in node.target.tags or node.target._schema.is_mutable
    if node.op == "call_module":
        return True
    name = called(node).rpartition(".")[2]
    return name.endswith("_") or any(word in name for word in ("rand", "dropout", "bernoulli", "multinomial"))


def piece_text(piece: Piece, why: Callable[[fx.Node], str], most: int = 5) -> str:
    """What a piece computes, from which lines, and why it is where it is."""
    chosen = [n for n in piece.nodes if why(n)] or list(piece.nodes)
    names = list(dict.fromkeys(map(called, chosen)))
    lines = list(dict.fromkeys(filter(None, map(origin_of, chosen))))
    reasons = list(dict.fromkeys(filter(None, map(why, chosen))))
    more = [f"{', '.join(v[:most])}{', ...' if len(v) > most else ''}" for v in (names, lines)]
    text = f"{len(piece.nodes)} nodes ({more[0]})" + (f" from {more[1]}" if lines else "")
    return text + (f": {'; '.join(reasons[:most])}" if reasons else "")
