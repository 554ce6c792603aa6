"""Random numbers that torch draws ahead of a graph of open sizes, which is then one program for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from torch_migraphx.fx.any_size_results import Places, numbers_of_sizes, sizes_of
from torch_migraphx.fx.decompose import reads_no_element
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.graph_info import called, draws, refusal, value_of
from torch_migraphx.fx.graphs import copied
from torch_migraphx.log import get_logger
from torch_migraphx.options import Options
from torch_migraphx.random_state import same_random_state

logger = get_logger(__name__)
OfInputs = Callable[[Sequence[Any]], Any]


class DrawsAhead:
    """A graph whose random numbers are further inputs; `of(inputs)` draws them, in the graph's order.

    UnsupportedError where a draw depends on what the graph computes, or nothing may run in torch.
    """

    def __init__(self, gm: fx.GraphModule, options: Options) -> None:
        self.graph, self._draws, self.values = gm, list[OfInputs](), list[torch.Tensor]()
        nodes = [n for n in gm.graph.nodes if n.op == "call_function" and draws(n.target) and refusal(n)]
        if not nodes:
            return
        if options.fallback == "error":
            raise UnsupportedError("torch draws the random numbers, so that they are eager's")
        inputs = gm.graph.find_nodes(op="placeholder")
        known = sizes_of(inputs)
        self._draws = [_draw(n, known) for n in nodes]
        self.values = [n.meta["val"] for n in nodes]
        self.graph = copied(gm)
        new = dict(zip(gm.graph.nodes, self.graph.graph.nodes, strict=True))
        with self.graph.graph.inserting_after(new[inputs[-1]]):
            for n in reversed(nodes):
                given = self.graph.graph.placeholder(f"drawn_{n.name}")
                given.meta["val"] = n.meta["val"]
                new[n].replace_all_uses_with(given)
                self.graph.graph.erase_node(new[n])
        self.graph.recompile()
        self._names = ", ".join(dict.fromkeys(map(called, nodes)))

    def of(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        return [draw(inputs) for draw in self._draws]

    def tried(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        """Numbers to try a program with: the next draw is as if these were not drawn."""
        with same_random_state():
            return self.of(inputs)

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` of `graph` as one of the graph's own inputs."""
        if not self._draws:
            return function
        logger.warning("torch draws the random numbers of a compiled graph, so that they are eager's: %s", self._names)
        return lambda *args: function(*args, *self.of(args))


def _draw(n: fx.Node, known: Places) -> OfInputs:
    """What draws as a node does, of the inputs' sizes."""
    if not isinstance(n.meta.get("val"), torch.Tensor):
        raise UnsupportedError(f"{called(n)} gives more than a tensor")
    leaves, spec = tree_flatten((n.args, n.kwargs))
    told = [_argument(x, n, known) if isinstance(x, fx.Node) else lambda _, x=x: x for x in leaves]
    target: Any = n.target

    def draw(given: Sequence[Any]) -> Any:
        args, kwargs = tree_unflatten([f(given) for f in told], spec)
        return target(*args, **kwargs)

    return draw


def _argument(x: fx.Node, n: fx.Node, known: Places) -> OfInputs:
    """A number, or a tensor of which only sizes, strides and type count."""
    value = value_of(x)
    if isinstance(value, torch.SymInt | int):
        number = numbers_of_sizes([value], known)
        return lambda given: number(given)[0]
    if not isinstance(value, torch.Tensor) or not reads_no_element(n.target):
        raise UnsupportedError(f"{called(n)} draws by what the graph computes")
    sizes, strides = (numbers_of_sizes(of, known) for of in (value.shape, value.stride()))
    how: dict[str, Any] = {"dtype": value.dtype, "device": value.device}
    return lambda given: torch.empty_strided(sizes(given), strides(given), **how)
