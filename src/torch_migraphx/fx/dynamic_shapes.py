"""Models for ranges of lengths: a graph with symbols for sizes, compiled for all of them or for each that it meets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from operator import getitem
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

import migraphx
from torch_migraphx.devices import Place
from torch_migraphx.fx.any_size import UNBOUNDED, AnySize, Limits, for_any_size
from torch_migraphx.fx.border import not_held
from torch_migraphx.fx.concrete import concrete, is_symbolic
from torch_migraphx.fx.graph_info import value_of
from torch_migraphx.fx.graphs import copied
from torch_migraphx.fx.inputs import no_gradient
from torch_migraphx.fx.lower_graph import lower
from torch_migraphx.fx.mgx_module import ForInference, refuse_recorders
from torch_migraphx.log import get_logger
from torch_migraphx.options import Options

logger = get_logger(__name__)

Range = Mapping[str, Any]
"""`{"min": 1, "max": 8, "optimals": [1, 4]}`, each key optional."""
RANGE = frozenset({"min", "max", "optimals"})
NONE = "each size is lowered"


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

    It is one program, where that can be. Else each set of lengths is lowered when it is met first; of more than
    `max_specialisations` the one used longest ago is forgotten. ValueError for lengths outside the ranges, or that do
    not fit each other, TypeError for another type. Many threads may call it.
    """

    def __init__(
        self,
        graph: fx.GraphModule,
        lengths: Sequence[Sequence[Length] | None],
        ranges: Mapping[str, Limits],
        options: Options,
        inputs: Sequence[Any],
    ) -> None:
        super().__init__()
        self.options, self.lengths, self.ranges = options, list(lengths), dict(ranges)
        self.types = [x.dtype if isinstance(x, torch.Tensor) else None for x in inputs]
        self.names = [str(n.target) for n in graph.graph.find_nodes(op="placeholder")]
        self._graph = [graph]  # not a submodule: what is compiled holds the weights
        self._restart()

    def _restart(self) -> None:
        self._forms = migraphx.SingleFlightLRU[Any, Callable[..., Any]](self.options.max_specialisations)
        self._lock = threading.RLock()
        self._every: AnySize | str | None = None  # None: nobody has tried

    def forward(self, *leaves: Any) -> Any:
        """The leaves of the answer. RuntimeError inside torch.jit.trace or torch.export."""
        refuse_recorders(leaves)
        form = self.form(leaves)
        if isinstance(form, AnySize):  # a lowered module looks at its inputs itself
            self._refuse(leaves, form.place)
        return form(*leaves)

    def _refuse(self, leaves: Sequence[Any], place: Place) -> None:
        """Raise for what the program cannot read."""
        grad = torch.is_grad_enabled()
        for name, x in zip(self.names, leaves, strict=True):
            if not isinstance(x, torch.Tensor):
                continue
            if why := not_held(x, (place.device.type,)):
                raise ValueError(f"input {name!r} {why}")
            if not place.holds(x):
                raise ValueError(f"input {name!r} is on {x.device}; the program runs on {place}")
            if grad and x.requires_grad:
                raise no_gradient(f"input {name!r}")

    def form(self, leaves: Sequence[Any]) -> Callable[..., Any]:
        """What is compiled for the lengths of these leaves."""
        key = tuple(
            (isinstance(x, FakeTensor), x.dtype, *x.shape) if isinstance(x, torch.Tensor) else x for x in leaves
        )
        found = self._forms.find(key)
        if found is not None:
            return found
        self._check(leaves)
        return self._forms.get(key, lambda: self._lowered(leaves))

    def every(self, leaves: Sequence[Any]) -> AnySize | None:
        """The program for all lengths, compiled where these leaves are the first; None where there is none."""
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        if any(isinstance(x, FakeTensor) or x.is_meta or not x.numel() for x in tensors):
            return None
        with self._lock:
            if self._every is None:
                graph, ranges = self._graph[0], self.ranges
                if not is_symbolic(graph):  # of a file
                    graph, ranges = with_symbols(graph, leaves, self.lengths, ranges)
                made = for_any_size(graph, leaves, leaves, self.options, (), ranges=ranges)
                self._every = made if made is not None else NONE
            return self._every if isinstance(self._every, AnySize) else None

    def _lowered(self, leaves: Sequence[Any]) -> Callable[..., Any]:
        with self._lock, _disable_current_modes(), torch.no_grad():
            return self.every(leaves) or lower(concrete(self._graph[0], leaves), leaves, self.options)

    def _check(self, leaves: Sequence[Any]) -> None:
        values: dict[str, tuple[int, str]] = {}
        derived = []
        for name, lengths, x, dtype in zip(self.names, self.lengths, leaves, self.types, strict=True):
            if lengths is None or not isinstance(x, torch.Tensor):
                continue
            if x.dtype is not dtype:
                raise TypeError(f"input {name!r} must be {dtype}; got {x.dtype}")
            if x.dim() != len(lengths):
                raise ValueError(f"input {name!r} must have {len(lengths)} dimensions; got {list(x.shape)}")
            for d, (length, n) in enumerate(zip(lengths, x.shape, strict=True)):
                where = f"dimension {d} of input {name!r}"
                if length.text in length.symbols:
                    known, first = values.setdefault(length.text, (int(n), where))
                    least, most, _ = self.ranges.get(length.text, Limits(0, UNBOUNDED))
                    if known != n:
                        raise ValueError(f"{where} is {n}, and {first}, which must be equal, is {known}")
                    if not least <= n <= most:
                        end = f"to {most}" if most < UNBOUNDED else "on"
                        raise ValueError(f"{where} must be from {least} {end}; got {n}")
                else:
                    derived.append((length, n, where))
        for length, n, where in derived:
            want = length.of({s: v for s, (v, _) in values.items()})
            if want != n:
                raise ValueError(f"{where} must be {want}{f' ({length.text})' if length.symbols else ''}; got {n}")

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_forms", "_lock", "_every")}

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
    limits = {str(s): Limits(_number(r.lower, 0), _number(r.upper, UNBOUNDED)) for s, r in ranges.items()}
    for (k, d), asked in given.items():
        own = (lengths[k] or [])[d]
        if not own.symbols:
            raise ValueError(f"dynamic_shapes: the model fixes dimension {d} of input {k} to {own.text}")
        if own.text in own.symbols:
            least, most, optimals = limits.get(own.text, Limits(0, UNBOUNDED))
            least = 1 if least == 2 else least  # torch.export reserves 0 and 1 for itself
            optimals = dict.fromkeys([*optimals, *asked.get("optimals", ())])
            limits[own.text] = Limits(
                max(asked.get("min", 0), least), min(asked.get("max") or UNBOUNDED, most), tuple(optimals)
            )
    whole = copied(gm)
    output = whole.graph.output_node()
    results, spec = tree_flatten(output.args[0])
    output.args = (tuple(results),)
    whole.recompile()
    root, graph = nn.Module(), fx.Graph()
    special = ModuleBySizes(whole, lengths, limits, options.beside(inputs), inputs)
    root.add_module("specialised", special)
    call = graph.call_module("specialised", tuple(graph.placeholder(str(n.target)) for n in placeholders))
    graph.output(tree_unflatten([graph.call_function(getitem, (call, k)) for k in range(len(results))], spec))
    if special.every(inputs) is None:
        for sizes in _combinations({symbol: limit.optimals for symbol, limit in limits.items()}):
            special.form(_samples(inputs, lengths, sizes))
    made = fx.GraphModule(root, graph, class_name=type(gm).__name__)
    made.meta["structure"] = gm.meta["structure"]
    return made


def with_symbols(
    graph: fx.GraphModule, leaves: Sequence[Any], lengths: Sequence[Sequence[Length] | None],
    ranges: Mapping[str, Limits],
) -> tuple[fx.GraphModule, dict[str, Limits]]:  # fmt: skip
    """A copy whose nodes have fake values with symbols for sizes, and the ranges of these: files hold neither.

    `lengths`: of the inputs; `leaves`: inputs of such lengths. Without symbols where torch finds no such values.
    """
    shapes, source_of = ShapeEnv(), import_module("torch._dynamo.source").ConstantSource  # Dynamo takes 2 s to import
    symbols: dict[str, Any] = {}
    for own, x in zip(lengths, leaves, strict=True):
        for d, s in enumerate(own or ()):
            if s.text in s.symbols and s.text not in symbols:
                source = source_of(f"size_{len(symbols)}")
                symbol = shapes.create_unspecified_symbol(x.shape[d], source, DimDynamic.DYNAMIC)
                symbols[s.text] = shapes.create_symintnode(symbol, hint=x.shape[d], source=source)

    def size(s: Length) -> Any:
        known = {symbol: symbols[str(symbol)] for symbol in s.coefficients.free_symbols} if s.symbols else {}
        return sympy_interp(PythonReferenceAnalysis, known, s.coefficients) if known else s.sample

    graph = copied(graph)
    with FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True) as mode:
        fakes = [
            torch.empty([size(s) for s in own], dtype=x.dtype, device=x.device) if own is not None else x
            for own, x in zip(lengths, leaves, strict=True)
        ]
    for n, x in zip(graph.graph.find_nodes(op="placeholder"), fakes, strict=True):
        n.meta["val"] = x
    try:
        FakeTensorProp(graph, mode).propagate_dont_convert_inputs(*fakes)
    except Exception as error:  # torch raises whatever it likes where values depend on data: those nodes run in torch
        logger.debug("sizes are not all known: %s", error)
    return graph, {str(symbols[s].node.expr): limits for s, limits in ranges.items() if s in symbols}


def _number(x: Any, otherwise: int) -> int:
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


def _combinations(optimals: Mapping[str, Collection[int]]) -> Iterator[dict[str, int]]:
    """Values of the symbols, for each set of optimal lengths."""
    wanted = {symbol: lengths for symbol, lengths in optimals.items() if lengths}
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
