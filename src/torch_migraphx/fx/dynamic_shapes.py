"""Models for ranges of lengths: a graph with symbols for sizes, compiled for each set of lengths that it meets."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from operator import getitem
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten

import migraphx
from torch_migraphx.fx.concrete import concrete
from torch_migraphx.fx.graph_info import value_of
from torch_migraphx.fx.graphs import copied
from torch_migraphx.fx.lower_graph import lower
from torch_migraphx.fx.mgx_module import ForInference
from torch_migraphx.options import Options

Range = Mapping[str, Any]
"""`{"min": 1, "max": 8, "optimals": [1, 4]}`, each key optional."""
RANGE = frozenset({"min", "max", "optimals"})


@dataclass(frozen=True)
class Length:
    """What one dimension of an input may be: a number, a symbol, or an expression of symbols."""

    text: str
    symbols: tuple[str, ...]
    coefficients: Any  # a sympy expression
    sample: int

    def of(self, values: Mapping[str, int]) -> int:
        """The length for these values of the symbols."""
        if not self.symbols:
            return self.sample
        return int(self.coefficients.subs({s: values[str(s)] for s in self.coefficients.free_symbols}))


def for_export(dynamic_shapes: Any) -> tuple[Any, dict[tuple[Any, ...], Range]]:
    """`dynamic_shapes` as torch.export takes them, and the Ranges among them by (path of the input..., dimension).

    A dimension is what torch.export takes, `{"min": 1, "max": 8, "optimals": [1, 4]}` (each key optional), or a
    `migraphx.shape.dynamic_dimension`.
    """
    ranges: dict[tuple[Any, ...], Range] = {}

    def converted(x: Any, path: tuple[Any, ...]) -> Any:
        if isinstance(x, migraphx.shape.dynamic_dimension):
            x = {"min": x.min, "max": x.max, "optimals": sorted(x.optimals)}
        if isinstance(x, Mapping) and x and x.keys() <= RANGE:
            ranges[path] = x
            return Dim.AUTO(**{k: x[k] for k in ("min", "max") if x.get(k) is not None})
        if isinstance(x, Mapping):
            return {k: converted(v, (*path, k)) for k, v in x.items()}
        if isinstance(x, tuple | list):
            return type(x)(converted(v, (*path, k)) for k, v in enumerate(x))
        return x

    return converted(dynamic_shapes, ()), ranges


class ModuleBySizes(ForInference):
    """Runs a graph whose sizes are symbols: takes its leaves, and gives a tuple of leaves.

    Each set of lengths is lowered when it is met first; of more than `max_specialisations` the one used longest ago is
    forgotten. ValueError for lengths outside the ranges, or that do not fit each other. Many threads may call it.
    """

    def __init__(
        self,
        graph: fx.GraphModule,
        lengths: Sequence[Sequence[Length] | None],
        ranges: Mapping[str, tuple[float, float]],
        options: Options,
    ) -> None:
        super().__init__()
        self.options, self.lengths, self.ranges = options, list(lengths), dict(ranges)
        self.names = [str(n.target) for n in graph.graph.find_nodes(op="placeholder")]
        self._graph = [graph]  # not a submodule: what is compiled holds the weights
        self._restart()

    def _restart(self) -> None:
        self._forms = migraphx.SingleFlightLRU[Any, fx.GraphModule](self.options.max_specialisations)
        self._lock = threading.RLock()

    def forward(self, *leaves: Any) -> Any:
        """The leaves of the answer."""
        return self.form(leaves)(*leaves)

    def form(self, leaves: Sequence[Any]) -> fx.GraphModule:
        """What is compiled for the lengths of these leaves."""
        key = tuple(tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in leaves)
        found = self._forms.find(key)
        if found is not None:
            return found
        self._check(leaves)
        return self._forms.get(key, lambda: self._lowered(leaves))

    def _lowered(self, leaves: Sequence[Any]) -> fx.GraphModule:
        with self._lock, _disable_current_modes(), torch.no_grad():
            return lower(concrete(self._graph[0], leaves), leaves, self.options)

    def _check(self, leaves: Sequence[Any]) -> None:
        values: dict[str, tuple[int, str]] = {}
        derived = []
        for name, lengths, x in zip(self.names, self.lengths, leaves, strict=True):
            if lengths is None or not isinstance(x, torch.Tensor):
                continue
            if x.dim() != len(lengths):
                raise ValueError(f"input {name!r} must have {len(lengths)} dimensions; got {list(x.shape)}")
            for d, (length, n) in enumerate(zip(lengths, x.shape, strict=True)):
                where = f"dimension {d} of input {name!r}"
                if length.text in length.symbols:
                    known, first = values.setdefault(length.text, (int(n), where))
                    least, most = self.ranges.get(length.text, (0, inf))
                    if known != n:
                        raise ValueError(f"{where} is {n}, and {first}, which must be equal, is {known}")
                    if not least <= n <= most:
                        raise ValueError(f"{where} must be from {least:g} to {most:g}; got {n}")
                else:
                    derived.append((length, n, where))
        for length, n, where in derived:
            want = length.of({s: v for s, (v, _) in values.items()})
            if want != n:
                raise ValueError(f"{where} must be {want}{f' ({length.text})' if length.symbols else ''}; got {n}")

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_forms", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._restart()

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleBySizes:
        """The copy shares what is compiled, which nothing changes."""
        return self


def dynamic_form(
    gm: fx.GraphModule,
    ranges: Mapping[Any, Any],
    inputs: Sequence[Any],
    given: Mapping[tuple[int, int], Range],
    options: Options,
) -> fx.GraphModule:
    """A graph that calls a ModuleBySizes of `gm`, whose inputs have symbols of these `ranges`; nested as `gm` is.

    `inputs` are samples of its leaves; `given` are the caller's own ranges by (number of the input, dimension), whose
    optimal lengths are compiled now. ValueError where the graph fixes one of these dimensions.
    """
    placeholders = gm.graph.find_nodes(op="placeholder")
    lengths = [_lengths(n, x) for n, x in zip(placeholders, inputs, strict=True)]
    limits = {str(s): (_number(r.lower, 0), _number(r.upper, inf)) for s, r in ranges.items()}
    optimals: dict[str, list[int]] = {}
    for (k, d), asked in given.items():
        own = (lengths[k] or [])[d]
        if not own.symbols:
            raise ValueError(f"dynamic_shapes: the model fixes dimension {d} of input {k} to {own.text}")
        if own.text in own.symbols:
            least, most = limits.get(own.text, (0, inf))
            least = 1 if least == 2 else least  # torch.export reserves 0 and 1 for itself
            limits[own.text] = max(asked.get("min", 0), least), min(asked.get("max") or inf, most)
            optimals.setdefault(own.text, []).extend(asked.get("optimals", ()))
    whole = copied(gm)
    output = whole.graph.output_node()
    results, spec = tree_flatten(output.args[0])
    output.args = (tuple(results),)
    whole.recompile()
    root, graph = nn.Module(), fx.Graph()
    special = ModuleBySizes(whole, lengths, limits, options.beside(inputs))
    root.add_module("specialised", special)
    call = graph.call_module("specialised", tuple(graph.placeholder(str(n.target)) for n in placeholders))
    graph.output(tree_unflatten([graph.call_function(getitem, (call, k)) for k in range(len(results))], spec))
    for sizes in _combinations(optimals):
        special.form(_samples(inputs, lengths, sizes))
    made = fx.GraphModule(root, graph, class_name=type(gm).__name__)
    made.meta["structure"] = gm.meta["structure"]
    return made


def _number(x: Any, otherwise: float) -> float:
    try:
        return int(x)
    except (TypeError, ValueError, OverflowError, AttributeError):  # an infinity of sympy
        return otherwise


def _lengths(n: fx.Node, sample: Any) -> list[Length] | None:
    value = value_of(n)
    if not isinstance(value, torch.Tensor):
        return None
    found = []
    for size, own in zip(value.shape, sample.shape, strict=True):
        expression = size.node.expr if isinstance(size, torch.SymInt) else None
        symbols = tuple(map(str, expression.free_symbols)) if expression is not None else ()
        found.append(Length(str(expression if symbols else int(own)), symbols, expression, int(own)))
    return found


def _combinations(optimals: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """Values of the symbols, for each set of optimal lengths."""
    wanted = {symbol: list(dict.fromkeys(lengths)) for symbol, lengths in optimals.items() if lengths}
    for values in product(*wanted.values()) if wanted else ():
        yield dict(zip(wanted, values, strict=True))


def _samples(inputs: Sequence[Any], lengths: Sequence[Any], values: Mapping[str, int]) -> list[Any]:
    """Fake tensors like the inputs, with these values of the symbols; others keep the samples' lengths."""
    kept = {s.text: s.sample for own in lengths if own for s in own if s.text in s.symbols}
    with FakeTensorMode():
        return [
            torch.empty([s.of({**kept, **values}) for s in own], dtype=x.dtype, device=x.device) if own else x
            for x, own in zip(inputs, lengths, strict=True)
        ]
