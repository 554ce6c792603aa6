"""What a program for all sizes returns: tensors that it computes, inputs, numbers made of the inputs' sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import fx
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from torch_migraphx.fx.concrete import expression_of
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.graph_info import value_of


@dataclass(frozen=True)
class Computed:
    """An output of the program."""

    number: int

    def of(self, args: Sequence[Any], made: Sequence[torch.Tensor]) -> Any:
        return made[self.number]


@dataclass(frozen=True)
class Given:
    """An input."""

    number: int

    def of(self, args: Sequence[Any], made: Sequence[torch.Tensor]) -> Any:
        return args[self.number]


@dataclass(frozen=True)
class Number:
    """What is computed of the sizes of inputs: `symbols` says where each lies, in which input and dimension of it."""

    expression: Any  # sympy's
    symbols: Places

    def of(self, args: Sequence[Any], made: Sequence[torch.Tensor]) -> Any:
        return self.at({s: length_at(args, place) for s, place in self.symbols.items()})

    def at(self, lengths: dict[Any, int]) -> Any:
        """What it is where the symbols are these numbers."""
        return sympy_interp(PythonReferenceAnalysis, lengths, self.expression)


@dataclass(frozen=True)
class Constant:
    """What is the same for all sizes."""

    value: Any

    def of(self, args: Sequence[Any], made: Sequence[torch.Tensor]) -> Any:
        return self.value


@dataclass(frozen=True)
class Told:
    """A number that data tells: an output of the program of one element."""

    number: int

    def of(self, args: Sequence[Any], made: Sequence[torch.Tensor]) -> Any:
        return made[self.number].item()


Result = Computed | Given | Number | Constant | Told
Places = Mapping[Any, tuple[int, int]]
"""Of symbols: in which input, and which dimension of it, each is a length."""


def results_of(graph: fx.GraphModule, placeholders: Sequence[fx.Node]) -> tuple[list[fx.Node], list[Result] | None]:
    """The nodes that the program returns, and what becomes of them; None where that is all."""
    returned: Any = graph.graph.output_node().args[0]
    known = sizes_of(placeholders)
    outputs = list(
        dict.fromkeys(n for n in returned if isinstance(n, fx.Node) and (_is_computed(n) or _is_told(n, known)))
    )
    if not outputs:
        raise UnsupportedError("it computes no tensor")
    results = [_result(n, outputs, placeholders, known) for n in returned]
    return outputs, None if results == [Computed(k) for k in range(len(outputs))] else results


def _result(n: Any, outputs: Sequence[fx.Node], placeholders: Sequence[fx.Node], known: Places) -> Result:
    if not isinstance(n, fx.Node):
        return Constant(n)
    value = value_of(n)
    if n in outputs:
        return (Computed if isinstance(value, torch.Tensor) else Told)(outputs.index(n))
    if isinstance(value, torch.SymInt | torch.SymFloat):
        return _number(value, known)
    if n in placeholders and isinstance(value, torch.Tensor):
        return Given(placeholders.index(n))
    raise UnsupportedError(f"%{n.name} is returned, which the program does not compute")


def numbers_of_sizes(
    numbers: Sequence[int | torch.SymInt], known: Places
) -> Callable[[Sequence[Any]], tuple[int, ...]]:
    """What says these numbers of a call's inputs; UnsupportedError where their sizes do not tell them."""
    found = [Constant(s) if isinstance(s, int) else _number(s, known) for s in numbers]
    symbols = {s: place for f in found if isinstance(f, Number) for s, place in f.symbols.items()}

    @lru_cache(maxsize=64)
    def told(*lengths: int) -> tuple[int, ...]:
        at = dict(zip(symbols, lengths, strict=True))
        return tuple([f.at(at) if isinstance(f, Number) else f.value for f in found])

    return lambda args: told(*[length_at(args, place) for place in symbols.values()])


def length_at(args: Sequence[Any], place: tuple[int, int]) -> int:
    """The length of an input, by its place and the dimension's; an input that is a number has no dimension."""
    x = args[place[0]]
    return x.shape[place[1]] if isinstance(x, torch.Tensor) else x


def _number(value: torch.SymInt | torch.SymFloat, known: Places) -> Number | Constant:
    """A size, of those of the inputs."""
    expression = expression_of(value)
    if expression.is_Integer:
        return Constant(int(expression))
    if not expression.free_symbols <= known.keys():
        raise UnsupportedError(f"it returns {expression}, which no input's size tells")
    return Number(expression, {s: known[s] for s in expression.free_symbols})


def sizes_of(placeholders: Iterable[fx.Node]) -> Places:
    """Where the symbols lie that are lengths of the inputs; a ragged tensor's are no numbers."""
    known: dict[Any, tuple[int, int]] = {}
    for k, p in enumerate(placeholders):
        x = value_of(p)
        sizes = x.shape if isinstance(x, torch.Tensor) else [x]
        open_sizes = {d: s for d, s in enumerate(sizes) if isinstance(s, torch.SymInt) and s.node.is_symbolic()}
        known |= {expression_of(s): (k, d) for d, s in open_sizes.items() if not is_number(s)}
    return known


def _is_told(n: fx.Node, known: Places) -> bool:
    """Whether a node is a number that data tells."""
    value = value_of(n)
    if not isinstance(value, torch.SymInt | torch.SymFloat) or expression_of(value).free_symbols <= known.keys():
        return False
    return isinstance(value, torch.SymInt) or n.op.startswith("call_")


def _is_computed(n: fx.Node) -> bool:
    return n.op.startswith("call_") and isinstance(value_of(n), torch.Tensor)


def is_number(size: Any) -> bool:
    return isinstance(size, int) or size.node.expr.is_Integer
