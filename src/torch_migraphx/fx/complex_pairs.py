"""Complex numbers of a graph as pairs of real ones: the engine has no complex type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from torch_migraphx.fx.complex_rules import RULES, Pair, real_type
from torch_migraphx.fx.graph_info import BORDER, copy_origin, value_of
from torch_migraphx.fx.graphs import attribute
from torch_migraphx.fx.one_node import GETITEM, Table, as_graph, put_before, traced

aten = torch.ops.aten


def is_complex(value: Any) -> bool:
    """Whether a tensor, or one of several, is complex."""
    return any(isinstance(x, torch.Tensor) and x.is_complex() for x in tree_leaves(value))


def complex_as_pairs(gm: fx.GraphModule, table: Callable[[], Table]) -> None:
    """Let real numbers take the place of complex ones in `gm`; an operation that has no such form stays as it is.

    Between it and the rest, and where complex tensors come in or go out, they are put together and taken apart. Nodes
    need their values as `meta["val"]`; `table` gives what torch takes apart before, and is asked where there are any:
    torch looks through all its operators for it.
    """
    if not any(is_complex(value_of(n)) for n in gm.graph.nodes):
        return
    rewriting = _Rewriting(gm, table())
    for n in list(gm.graph.nodes):
        rewriting.visit(n)
    gm.graph.eliminate_dead_code()


def inside_as_pairs(gm: fx.GraphModule, n: fx.Node, table: Table) -> bool:
    """Replace a node between real tensors that computes with complex ones by one that does so with pairs, if it can."""
    around = [value_of(n), *map(value_of, n.all_input_nodes)]
    real = all(isinstance(x, torch.Tensor) and not x.is_complex() for x in around)
    return real and _Rewriting(gm, table).replaced(n)


class OfPairs(fx.Interpreter):
    """Runs an ATen graph with pairs for complex tensors."""

    def run_node(self, n: fx.Node) -> Any:
        self.node = n
        return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        leaves = tree_leaves((args, kwargs), is_leaf=lambda v: isinstance(v, Pair))
        known = value_of(self.node)
        if not is_complex(known) and not any(isinstance(x, Pair | complex) for x in leaves):
            return super().call_function(target, args, kwargs)
        if target in GETITEM:
            return args[0][args[1]]
        if target not in RULES:
            raise NotImplementedError(f"{target} has no form for pairs")
        return typed(RULES[target](*args, **kwargs), known)


def typed(made: Any, known: Any) -> Any:
    """A pair, or a tensor, of the type and shape that torch gives, whatever its parts were promoted to."""
    if isinstance(made, Pair):
        return Pair(*(x.to(real_type(known.dtype)).expand(known.shape) for x in made))
    return made.to(known.dtype) if isinstance(made, torch.Tensor) else made


class _Rewriting:
    """`made` has what each node became: a node, a pair of nodes, or a list of such."""

    def __init__(self, gm: fx.GraphModule, table: Table) -> None:
        self.gm, self.table = gm, table
        self.made: dict[fx.Node, Any] = {}
        self.parts: dict[fx.Node, tuple[fx.Node, fx.Node]] = {}
        self.whole: dict[fx.Node, Any] = {}

    def visit(self, n: fx.Node) -> None:
        read = [i for i in n.all_input_nodes if is_complex(value_of(i))]
        if n.op in ("placeholder", "get_attr") or not (read or is_complex(value_of(n))):
            return
        if n.target in GETITEM and read and read[0] in self.made and isinstance(value_of(read[0]), tuple | list):
            self._became(n, self.made[read[0]][n.args[1] if n.args else n.kwargs["idx"]])
            return
        self._put_together(n, [i for i in read if isinstance(value_of(i), tuple | list)])
        if n.op == "output" or not self.replaced(n):
            self._put_together(n, n.all_input_nodes)

    def _became(self, n: fx.Node, result: Any) -> None:
        self.made[n] = result
        if isinstance(result, fx.Node):
            n.replace_all_uses_with(result)

    def replaced(self, n: fx.Node) -> bool:
        """Whether `n` has a form for pairs, which is now in its place."""
        outer = traced(n, self.table)
        if outer is None or any(m.op == "get_attr" for m in outer.graph.nodes):
            return False
        inputs, values = n.all_input_nodes, []
        apart = [self._apart(i) if is_complex(value_of(i)) else (i,) for i in inputs]
        for i, nodes in zip(inputs, apart, strict=True):
            values += [_part(value_of(i)) for _ in nodes] if len(nodes) == 2 else [value_of(i)]

        def call(*tensors: torch.Tensor) -> list[Any]:
            rest = list(tensors)
            given = [Pair(rest.pop(0), rest.pop(0)) if len(nodes) == 2 else rest.pop(0) for nodes in apart]
            return tree_leaves(OfPairs(outer).run(*given, enable_io_processing=False))

        inner = as_graph(call, values, self.table, n)
        if inner is None or any(m.op == "get_attr" for m in inner.graph.nodes):
            return False
        leaves = list(put_before(n, inner, [node for nodes in apart for node in nodes]))
        self._became(n, _nested(value_of(n), leaves))
        return True

    def _apart(self, n: fx.Node) -> tuple[fx.Node, fx.Node]:
        """The parts of a complex node; of one that stays complex, they are taken out of its memory."""
        if n in self.made:
            return self.made[n]
        if n not in self.parts:
            graph = n.graph
            with graph.inserting_after(n):
                packed = (
                    self._constant(n) if n.op == "get_attr" else graph.call_function(aten.view_as_real.default, (n,))
                )
            packed.meta |= {"val": torch.stack([_part(value_of(n))] * 2, -1), BORDER: True}
            copy_origin(n, packed)
            with graph.inserting_after(packed):
                both = [graph.call_function(aten.select.int, (packed, -1, k)) for k in (1, 0)]
            for part in both:
                part.meta["val"] = _part(value_of(n))
            self.parts[n] = both[1], both[0]
        return self.parts[n]

    def _constant(self, n: fx.Node) -> fx.Node:
        """The real numbers of a complex constant as another one."""
        at = attribute(self.gm, n)
        name = f"_pairs_{str(n.target).replace('.', '_')}"
        self.gm.register_buffer(name, torch.view_as_real(at.detach().resolve_conj()).contiguous(), persistent=False)
        return n.graph.get_attr(name)

    def _put_together(self, n: fx.Node, inputs: list[fx.Node]) -> None:
        """Let `n` read complex nodes where these inputs were replaced."""
        for i in inputs:
            if i in self.made and i not in self.whole:
                self.whole[i] = self._joined(self.made[i], value_of(i), i, n)
        known = {i: self.whole[i] for i in inputs if i in self.whole}
        n.args, n.kwargs = map_arg((n.args, n.kwargs), lambda i: known.get(i, i))

    def _joined(self, made: Any, value: Any, n: fx.Node, before: fx.Node) -> Any:
        """Complex nodes of parts; of several, all of them."""
        if isinstance(value, tuple | list):
            return type(value)(self._joined(m, v, n, before) for m, v in zip(made, value, strict=True))
        if not is_complex(value):
            return made
        with n.graph.inserting_before(before):
            joined = n.graph.call_function(aten.complex.default, made)
        joined.meta |= {"val": value, BORDER: True}
        self.made[joined], self.whole[joined] = made, joined
        copy_origin(n, joined)
        return joined


def _part(value: torch.Tensor) -> torch.Tensor:
    """A fake tensor like the real part of a complex one, in memory of its own."""
    return torch.empty_like(value, dtype=real_type(value.dtype))


def _nested(value: Any, leaves: list[fx.Node]) -> Any:
    """Nodes in the structure of `value`, two for each complex tensor."""
    if isinstance(value, tuple | list):
        return tuple(_nested(v, leaves) for v in value)
    return (leaves.pop(0), leaves.pop(0)) if is_complex(value) else leaves.pop(0)
