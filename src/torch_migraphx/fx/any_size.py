"""Graphs of symbolic sizes as one program for all of them, where all of the graph runs in the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

import migraphx
from torch_migraphx.fx.border import not_held
from torch_migraphx.fx.builder import Builder, UnsupportedError, Value, type_name
from torch_migraphx.fx.decompose import decompose
from torch_migraphx.fx.fx2mgx import MGXInterpreter
from torch_migraphx.fx.graph_info import value_of
from torch_migraphx.fx.graphs import copied
from torch_migraphx.log import get_logger
from torch_migraphx.options import PRECISIONS, Options
from torch_migraphx.random_state import same_random_state

logger = get_logger(__name__)
UNBOUNDED = 2**63 - 1
OUTPUT = "main:#output_"
Length = int | tuple[str, int, int]
Normalized = Callable[[fx.GraphModule, Sequence[Any]], fx.GraphModule]


def for_any_size(
    gm: fx.GraphModule, samples: Sequence[Any], args: Sequence[Any], options: Options, constants: Collection[int],
    normalized: Normalized,
) -> Callable[..., Any] | None:  # fmt: skip
    """A function that runs `gm` for tensors of any size that its symbols allow; None where it takes one a size.

    `samples`: the inputs that it was traced with, whose sizes are symbols; `args`: those of the first call.
    """
    if not hasattr(migraphx, "deferred_program"):  # AMD's own
        return None
    try:
        with _disable_current_modes(), torch.no_grad(), _no_new_guards(gm):
            graph = copied(normalized(gm, samples))
            graph.graph.eliminate_dead_code()
            decompose(graph)
            made = AnySize(graph, args, options, constants)
        made(*args)
        count = sum(n.op.startswith("call_") for n in graph.graph.nodes)
        logger.info("all %d nodes of a compiled graph run in the engine, for all sizes", count)
    except Exception as error:  # of torch, of converters, of the target: each size is tried by itself
        logger.info("compiled for each size: %s", next(iter(str(error).splitlines()), type(error).__name__))
        return None
    return made


def _no_new_guards(gm: fx.GraphModule) -> Any:
    """In this context torch raises where a symbol would have to be a number: its guards have been made."""
    for n in gm.graph.nodes:
        value = value_of(n) if n.op == "placeholder" else None
        symbols = [value] if isinstance(value, torch.SymInt) else [*getattr(value, "shape", ())]
        for s in symbols:
            if isinstance(s, torch.SymInt):
                return s.node.shape_env.error_on_new_guards()
    raise UnsupportedError("no size is a symbol")


def takes(options: Options) -> bool:
    """Whether AnySize takes these options, which name a target."""
    looks = options.save_subgraph_programs or options.verbose_log or options.report is not None
    return options.target == "cpu" and not (PRECISIONS[options.lower_precision] or options.int4_weights or looks)


class AnySize:
    """Runs a graph of symbolic sizes as one program with dynamic dimensions.

    `written`: which outputs are written to the memory of which inputs, by number, and returned as these. `least`: the
    least length of every symbol, where that is another than the trace took for granted.
    """

    def __init__(
        self, graph: fx.GraphModule, args: Sequence[Any], options: Options, constants: Collection[int],
        written: Mapping[int, int] | None = None, least: int | None = None,
    ) -> None:  # fmt: skip
        options = options.beside(args)
        if not takes(options):
            raise UnsupportedError("its options ask for a program of one size")
        nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
        fixed = {n.name: args[k] for k, n in enumerate(nodes) if k in constants}
        self.inputs = [k for k, n in enumerate(nodes) if isinstance(value_of(n), torch.Tensor) and k not in constants]
        self.names = [nodes[k].name for k in self.inputs]
        parameters = {n.name: _parameter(n, least) for n in (nodes[k] for k in self.inputs)}
        outputs, self.places = _outputs(graph)
        self.written = dict(written or {})
        self._at = migraphx.SingleFlightLRU[Any, Any](options.max_specialisations)
        self._made = [_maker(n) for n in outputs] if self.written else []
        self._symbols = {d[0]: (k, at) for k, (_, dims) in zip(self.inputs, parameters.values(), strict=True)
                         for at, d in enumerate(dims) if not isinstance(d, int)}  # fmt: skip

        def convert(main: migraphx.module, given: list[Value]) -> list[Value]:
            lengths = _lengths(parameters, given)
            with same_random_state(), torch.no_grad(), _no_new_guards(graph):
                return _Converter(graph, main, dict(zip(self.names, given, strict=True)), lengths, fixed).values()

        self.program = migraphx.deferred_program(parameters, convert, [_shape(n) for n in outputs])
        keywords = migraphx.CompileOptions.of(**options.module_keywords(), offload_copy=False).compile_keywords()
        self.program.compile(migraphx.get_target(options.target), **keywords)
        self._order = [self.names.index(n) for n in self.program.get_parameter_names() if n in self.names]

    def __call__(self, *args: Any) -> list[torch.Tensor]:
        if self.written:
            return self._in_place(args)
        made = [torch.from_dlpack(a) for a in self.program.run(self._given(args))]
        return [made[k] for k in self.places]

    def _given(self, args: Sequence[Any]) -> dict[str, torch.Tensor]:
        return {name: args[k].detach().resolve_neg() for name, k in zip(self.names, self.inputs, strict=True)}

    def _in_place(self, args: Sequence[Any]) -> list[torch.Tensor]:
        """With outputs in memory of inputs. The first run of some lengths checks all; the next ones take addresses."""
        made, given = self._bound(args), [args[k] for k in self.inputs]
        lens = tuple([x.shape for x in given])
        run = self._at.find(lens)
        if run is not None and all(map(torch.Tensor.is_contiguous, given)):
            run([given[k].data_ptr() for k in self._order], [x.data_ptr() for x in made])
        else:
            bound = {f"{OUTPUT}{k}": x for k, x in enumerate(made)}
            try:
                self.program.run({**self._given(args), **bound})
            except ValueError as error:  # at these lengths an input is read after it would be written
                logger.info("not in place: %s", error)
                made = [torch.from_dlpack(a) for a in self.program.run(self._given(args))]
            else:
                self._at.put(lens, self.program.at(dict(zip(self.names, lens, strict=True))))
        return [made[k] for k in self.places]

    def _bound(self, args: Sequence[Any]) -> list[torch.Tensor]:
        """Memory for the outputs: an input's, or new."""
        lengths = {symbol: args[k].shape[at] for symbol, (k, at) in self._symbols.items()}
        return [
            args[self.written[k]] if k in self.written else _empty(sizes, lengths, dtype)
            for k, (sizes, dtype) in enumerate(self._made)
        ]


def _empty(sizes: Sequence[int | str], lengths: Mapping[str, int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty([s if isinstance(s, int) else lengths[s] for s in sizes], dtype=dtype)


def _maker(n: fx.Node) -> tuple[list[int | str], torch.dtype]:
    """The sizes of an output, numbers and symbols, and its type."""
    value = _tensor(n)
    return [d if isinstance(d, int) else d[0] for d in map(_length, value.shape)], value.dtype


def _parameter(n: fx.Node, least: int | None) -> tuple[str, list[Length]]:
    value = value_of(n)
    assert isinstance(value, torch.Tensor)
    if why := not_held(value, ("cpu",)):
        raise UnsupportedError(f"%{n.name} {why}")
    lens = [_length(s) for s in value.shape]
    return type_name(value.dtype), [d if least is None or isinstance(d, int) else (d[0], least, d[2]) for d in lens]


def _length(size: Any) -> Length:
    """A number, or a symbol with its range; UnsupportedError for what is computed of symbols."""
    if _is_number(size):
        if size == 0:
            raise UnsupportedError("an input is empty")
        return int(size)
    symbol, known = size.node.expr, size.node.shape_env.var_to_range
    if not isinstance(symbol, sympy.Symbol):
        raise UnsupportedError(f"an input has the size {symbol}")
    least, most = known[symbol].lower, known[symbol].upper
    return str(symbol), int(least), int(most) if most.is_Integer and most < UNBOUNDED else UNBOUNDED


def _lengths(parameters: Mapping[str, tuple[str, Sequence[Length]]], given: Sequence[Value]) -> dict[str, int]:
    """What each symbol is in this conversion."""
    found: dict[str, int] = {}
    for (_, dims), x in zip(parameters.values(), given, strict=True):
        found |= {d[0]: n for d, n in zip(dims, x.shape().lens(), strict=True) if not isinstance(d, int)}
    return found


def _outputs(graph: fx.GraphModule) -> tuple[list[fx.Node], list[int]]:
    """The nodes that are returned, tensors of their own and row-major, as the engine's outputs are; each one's place.

    A node may be returned several times: what the model writes, and returns too.
    """
    output: Any = graph.graph.output_node().args[0]
    taken = {StorageWeakRef(_tensor(n).untyped_storage()) for n in graph.graph.nodes if _is_given(n)}
    found: dict[fx.Node, int] = {}
    for n in output:
        if not isinstance(n, fx.Node) or not n.op.startswith("call_"):
            raise UnsupportedError("an output that is no tensor of the graph's own")
        if n in found:
            continue
        value = _tensor(n)
        memory = StorageWeakRef(value.untyped_storage())
        if memory in taken:
            raise UnsupportedError(f"%{n.name} is returned in memory that is shared")
        if not value.is_contiguous():
            raise UnsupportedError(f"%{n.name} is returned in another order than row by row")
        taken.add(memory)
        found[n] = len(found)
    return list(found), [found[n] for n in output]


def _is_given(n: fx.Node) -> bool:
    return n.op in ("placeholder", "get_attr") and isinstance(value_of(n), torch.Tensor)


def _tensor(n: fx.Node) -> torch.Tensor:
    value = value_of(n)
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(f"%{n.name} is no tensor")
    return value


def _shape(n: fx.Node) -> migraphx.shape:
    """Its shape, as far as it is known: nobody asks for more than type and rank."""
    value = _tensor(n)
    numbers = [int(s) for s in value.shape if _is_number(s)]
    if len(numbers) == value.ndim:
        return migraphx.shape(type_name(value.dtype), numbers)
    ends = [(int(s), int(s)) if _is_number(s) else (0, UNBOUNDED) for s in value.shape]
    return migraphx.shape(type_name(value.dtype), dyn_dims=[migraphx.shape.dynamic_dimension(a, b) for a, b in ends])


def _is_number(size: Any) -> bool:
    return isinstance(size, int) or size.node.expr.is_Integer


class _Converter(MGXInterpreter):
    """Writes the graph into a module, its symbols being `lengths`."""

    def __init__(
        self, graph: fx.GraphModule, main: migraphx.module, given: Mapping[str, Value], lengths: Mapping[str, int],
        fixed: Mapping[str, torch.Tensor],
    ) -> None:  # fmt: skip
        super().__init__(graph, [None] * len(graph.graph.find_nodes(op="placeholder")), constants=fixed, device="cpu")
        self.main, self.builder = main, Builder(main)
        self.given, self.lengths = given, lengths
        self.found: list[Value] = []

    def values(self) -> list[Value]:
        fx.Interpreter.run(self, *self.inputs, enable_io_processing=False)
        return self.found

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        name, value = self.node.name, value_of(self.node)
        if name in self.given or name in self.constants:
            return self.given[name] if name in self.given else self.constant(self.constants[name])
        if isinstance(value, torch.SymInt) and str(value.node.expr) in self.lengths:
            return self.lengths[str(value.node.expr)]
        if self.node.users:
            raise UnsupportedError(f"%{name} is a number that no input's size tells")
        return None

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        returned: Any = self.module.graph.output_node().args[0]
        self.found = [*dict(zip(returned, args[0], strict=True)).values()]  # each node once
        if not all(isinstance(v, Value) for v in self.found):
            raise UnsupportedError("an output is no tensor of the engine")
        return args[0]
