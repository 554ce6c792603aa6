"""Graphs of symbolic sizes as one program for all of them, where all of the graph runs in the engine."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis
from torch.utils._sympy.value_ranges import bound_sympy

import migraphx
from torch_migraphx.devices import Place, on_device_of
from torch_migraphx.fx.any_size_results import is_number, results_of, sizes_of
from torch_migraphx.fx.border import not_held
from torch_migraphx.fx.builder import Builder, Value
from torch_migraphx.fx.decompose import decompose
from torch_migraphx.fx.dtypes import type_name
from torch_migraphx.fx.errors import FAULTS, REFUSES, LengthsByData, UnsupportedError
from torch_migraphx.fx.fx2mgx import MGXInterpreter
from torch_migraphx.fx.graph_info import value_of
from torch_migraphx.fx.graphs import copied
from torch_migraphx.fx.lasting import Lasting
from torch_migraphx.log import get_logger
from torch_migraphx.options import PRECISIONS, Options
from torch_migraphx.random_state import same_random_state

logger = get_logger(__name__)
aten = torch.ops.aten
UNHEARD = logging.Logger("unheard", logging.CRITICAL + 1)
UNBOUNDED = 2**63 - 1
ONCE = ("cpu", "gpu")  # targets that compile a program once for many lengths
NUMBERS = {torch.SymInt: torch.int64, torch.SymFloat: torch.float64}
"""The types of outputs that are numbers."""
Dimension = int | tuple[str, int, int, Collection[int]]
Made = TypeVar("Made")
Normalized = Callable[[fx.GraphModule, Sequence[Any]], fx.GraphModule]


class Limits(NamedTuple):
    """What a symbol may be, and the lengths for which the program is compiled ahead."""

    least: int
    most: int
    optimals: Collection[int] = ()


def for_any_size(
    gm: fx.GraphModule, samples: Sequence[Any], args: Sequence[Any], options: Options, constants: Collection[int],
    normalized: Normalized = lambda gm, _: gm, ranges: Mapping[str, Limits] | None = None,
    lasting: Lasting | None = None, written: Mapping[int, int] | None = None,
) -> AnySize | None:  # fmt: skip
    """A function that runs `gm` for tensors of any size that its symbols allow; None where it takes one a size.

    `samples`: the inputs that it was traced with, whose sizes are symbols; `args`: those of the first call. `ranges`:
    of symbols, where a caller said them. Its outputs are new tensors, row-major, whatever `gm`'s share, or inputs.
    `lasting`: the constants among `args`; graphs that are given the same one pack them once. `written`: outputs that
    may be written to the memory of inputs, as in `AnySize`.
    """
    if not hasattr(migraphx, "deferred_program"):  # AMD's own
        return None

    def make() -> AnySize:
        with on_device_of(args), _disable_current_modes(), torch.no_grad(), _no_new_guards(gm):
            graph = copied(normalized(gm, samples))
            graph.graph.eliminate_dead_code()
            decompose(graph)
            made = AnySize(graph, args, options, constants, ranges, lasting=lasting, written=written)
        made(*args)  # writes nothing in place: it is the first run
        count = sum(n.op.startswith("call_") for n in graph.graph.nodes)
        logger.info("all %d nodes of a compiled graph run in the engine, for all sizes", count)
        return made

    return or_each_size(make, options)


def for_data(
    graph: fx.GraphModule, args: Sequence[Any], options: Options, constants: Collection[int]
) -> AnySize | None:
    """A function that runs `graph`, whose lengths are symbols where data tells them; None where the engine cannot."""

    def make() -> AnySize:
        with on_device_of(args), _disable_current_modes(), torch.no_grad(), _no_new_guards_of_data(graph):
            made = AnySize(graph, args, options, constants, {}, by_data=True)
        made(*map(_at_hand, args))
        count = sum(n.op.startswith("call_") for n in graph.graph.nodes)
        logger.info("all %d nodes of a graph run in the engine, which waits for the lengths that data tells", count)
        return made

    return or_each_size(make, options)


def _at_hand(x: Any) -> Any:
    """A tensor to try a program with: zeros where it is none of memory."""
    fake = isinstance(x, FakeTensor)
    return torch.zeros([int(s) for s in x.shape], dtype=x.dtype, device=x.device) if fake else x


def or_each_size(make: Callable[[], Made], options: Options) -> Made | None:
    """What `make` compiles for all sizes; None where each must be compiled by itself, and the log says why.

    What refuses on purpose, or torch's guards, is information; a fault is a warning, or raised with `fallback="error"`.
    """
    try:
        return make()
    except (*REFUSES, RuntimeError) as error:  # of converters and the target; what torch raises: its guards, above all
        logger.info("not compiled for all sizes: %s", next(iter(str(error).splitlines()), type(error).__name__))
    except FAULTS:
        if options.fallback == "error":
            raise
        logger.warning("a bug in the compilation for all sizes; each is compiled by itself", exc_info=True)
    return None


@contextmanager
def _no_new_guards(gm: fx.GraphModule) -> Iterator[None]:
    """In this context torch raises where a symbol would have to be a number: its guards have been made.

    It would warn of each time, too; who catches the error says what it means.
    """
    known = _symbols_of(gm)
    if known is None:
        raise UnsupportedError("no size is a symbol")
    log, known.log = known.log, UNHEARD
    try:
        with known.error_on_new_guards() if hasattr(known, "error_on_new_guards") else _guards_refused(known):
            yield
    finally:
        known.log = log


def _symbols_of(gm: fx.GraphModule) -> ShapeEnv | None:
    """What knows the symbols of a graph; None where it has none."""
    for n in gm.graph.nodes:
        for value in tree_leaves(value_of(n)):
            sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
            for s in sizes:
                if isinstance(s, torch.SymInt):
                    return s.node.shape_env
    return None


def _no_new_guards_of_data(gm: fx.GraphModule) -> Any:
    """The same where it may be that nothing depends on data after all."""
    return nullcontext() if _symbols_of(gm) is None else _no_new_guards(gm)


@contextmanager
def _guards_refused(known: ShapeEnv) -> Iterator[None]:
    """`error_on_new_guards` for torch 2.11, by the method that torch calls before it makes a guard."""

    def refuse(expression: object, value: object) -> NoReturn:
        raise UnsupportedError(f"needs a guard: {expression} is {value}")

    if "_check_frozen" in vars(known):  # refused already
        yield
        return
    known._check_frozen = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        del known._check_frozen


def takes(options: Options) -> bool:
    """Whether AnySize takes these options, which name a target."""
    looks = options.save_subgraph_programs or options.verbose_log or options.report is not None
    return options.target in ONCE and not (PRECISIONS[options.lower_precision] or looks)


class AnySize:
    """Runs a graph of symbolic sizes as one program with dynamic dimensions.

    `by_data`: the symbols are lengths that data tells; those of its inputs are fixed, perhaps. `written`: which outputs
    are inputs as they are after the graph, by number: every run but the first may return these inputs.
    """

    def __init__(
        self, graph: fx.GraphModule, args: Sequence[Any], options: Options, constants: Collection[int],
        ranges: Mapping[str, Limits] | None, by_data: bool = False, lasting: Lasting | None = None,
        written: Mapping[int, int] | None = None,
    ) -> None:  # fmt: skip
        options = options.beside(args)
        if not (by_data or takes(options)):
            raise UnsupportedError("its options ask for a program of one size")
        self.place = Place.of(options.target)
        nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
        fixed = {n.name: args[k] for k, n in enumerate(nodes) if k in constants}
        lasting = lasting or Lasting(fixed.values())
        self.inputs = [k for k, n in enumerate(nodes) if isinstance(value_of(n), torch.Tensor) and k not in constants]
        if ranges is None:
            self.inputs += _lone_numbers(nodes)
        by_value = numbers_below_zero(graph) if ranges is None else []
        values = {str(value_of(nodes[k]).node.expr): int(args[k]) for k in by_value}
        self.names = [nodes[k].name for k in self.inputs]
        parameters = {
            n.name: _parameter(n, ranges or {}, self.place.device.type) for n in (nodes[k] for k in self.inputs)
        }
        if not by_data and any(0 in dims for _, dims in parameters.values()):
            raise UnsupportedError("an input is empty")
        outputs, self.results = results_of(graph, nodes)
        self.written = self._written(graph, outputs, written or {})
        """Which of the `inputs` these outputs of the program may be written to."""
        numbers = {n.name for n in nodes if isinstance(value_of(n), torch.SymInt)}

        def convert(main: migraphx.module, given: list[Value]) -> list[Value]:
            lengths = _lengths(parameters, given) | values
            with same_random_state(), torch.no_grad(), _no_new_guards_of_data(graph):
                inputs = {n: x for n, x in zip(self.names, given, strict=True) if n not in numbers}
                device, int4 = self.place.device.type, options.int4_weights
                converter = _Converter(graph, main, inputs, lengths, fixed, device, options.verbose_log, int4)
                return converter.values(outputs, lasting)

        self.program = migraphx.deferred_program(parameters, convert, [_shape(n) for n in outputs], lasting)
        if narrow := PRECISIONS[options.lower_precision]:
            getattr(migraphx, narrow)(self.program)
        keywords = migraphx.CompileOptions.of(**options.module_keywords(), offload_copy=False).compile_keywords()
        self.program.compile(migraphx.get_target(options.target), **keywords)

        self.types = [NUMBERS.get(type(value_of(n))) or value_of(n).dtype for n in outputs]
        self.order = [self.names.index(n) for n in self.program.get_parameter_names() if n in self.names]
        self.known = migraphx.SingleFlightLRU[Any, Any](options.max_specialisations)  # of some lengths, by addresses

    def _written(
        self, graph: fx.GraphModule, outputs: Sequence[fx.Node], written: Mapping[int, int]
    ) -> dict[int, int]:  # fmt: skip
        """Of the graph's outputs and inputs those of the program; what is returned twice is no input both times."""
        returned: Any = graph.graph.output_node().args[0]
        pairs = {returned[k]: self.inputs.index(n) for k, n in written.items() if n in self.inputs}
        return {k: pairs[o] for k, o in enumerate(outputs) if o in pairs and returned.count(o) == 1}

    def __call__(self, *args: Any) -> list[Any]:
        made = self._run([self._tensor(args[k]) for k in self.inputs])
        return made if self.results is None else [r.of(args, made) for r in self.results]

    def _run(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What the program makes of its inputs. The first run checks all; the next ones take addresses."""
        lens = tuple([x.shape for x in given])
        run = self.known.find(lens)
        if self.known and (run is None or not run.current()):  # there is a program, it seems, for all lengths
            run = self._kept(lens)
        if run is not None and all(map(self.place.holds, given)):
            kinds = enumerate(zip(run.outputs, self.types, strict=True))
            kept = {k: given[self.order[n]] for k, n in run.in_place.items() if self.written.get(k) == self.order[n]}
            made = [
                kept[k] if k in kept else torch.empty(s.lens, dtype=dtype, device=self.place.device)
                for k, (s, dtype) in kinds
            ]
            places = [x.data_ptr() for x in made]
            run([given[k].data_ptr() for k in self.order], places, self.place.stream())
        else:
            named = dict(zip(self.names, given, strict=True))
            with on_device_of(given):  # torch exports no tensors of another GPU than the current one
                made = [self.place.taken(a) for a in self.program.run_async(named, self.place.stream())]
            self._kept(lens)
        return made

    def _kept(self, lens: tuple[torch.Size, ...]) -> Any:
        """What runs the program on addresses at these lengths; None where it is not one program."""
        found = self.program.at(dict(zip(self.names, lens, strict=True)))
        if found is not None:
            self.known.put(lens, found)
        return found

    def _tensor(self, x: Any) -> torch.Tensor:
        """An input of the program, row-major; of a number, memory of that length, which nothing reads."""
        if isinstance(x, torch.Tensor):
            return (x.detach() if x.requires_grad else x).resolve_neg().contiguous()
        return torch.empty(x, dtype=torch.uint8, device=self.place.device)


def _lone_numbers(placeholders: Sequence[fx.Node]) -> list[int]:
    """Inputs that are symbols which are no tensor's length, such as how many positions a cache will have.

    The program takes each as the length of a tensor without contents.
    """
    return [k for k, least in _untold_numbers(placeholders) if least >= 0]


def numbers_below_zero(gm: fx.GraphModule) -> list[int]:
    """Inputs that are such numbers, and may be negative: there is a program for each value of these."""
    return [k for k, least in _untold_numbers(gm.graph.find_nodes(op="placeholder")) if not least >= 0]


def _untold_numbers(placeholders: Sequence[fx.Node]) -> Iterator[tuple[int, Any]]:
    """Which inputs are numbers that are read and that no tensor's sizes tell, and what each is at least."""
    told = sizes_of([n for n in placeholders if isinstance(value_of(n), torch.Tensor)])
    for k, n in enumerate(placeholders):
        value = value_of(n)
        if isinstance(value, torch.SymInt) and n.users and not is_number(value):
            expression, known = value.node.expr, value.node.shape_env.var_to_range
            if expression not in told and not expression.free_symbols <= told.keys():
                yield k, bound_sympy(expression, known).lower


def _parameter(n: fx.Node, ranges: Mapping[str, Limits], device: str) -> tuple[str, list[Dimension]]:
    value = value_of(n)
    if isinstance(value, torch.SymInt):
        return "uint8", [_dimension(value, ranges)]
    assert isinstance(value, torch.Tensor)
    if why := not_held(value, (device,)):
        raise UnsupportedError(f"%{n.name} {why}")
    return type_name(value.dtype), [_dimension(s, ranges) for s in value.shape]


def _dimension(size: Any, ranges: Mapping[str, Limits]) -> Dimension:
    """A number, or a symbol with its range; what is computed of symbols is one of its own."""
    if is_number(size):
        return int(size)
    expression, known = size.node.expr, size.node.shape_env.var_to_range
    name = str(expression)
    if name in ranges:
        least, most, optimals = ranges[name]
        return name, least, most, optimals
    limits = bound_sympy(expression, known)
    most = int(limits.upper) if limits.upper.is_Integer and limits.upper < UNBOUNDED else UNBOUNDED
    least = max(int(limits.lower), 0) if limits.lower.is_Integer else 0
    return name, least, most, ()


def _lengths(parameters: Mapping[str, tuple[str, Sequence[Dimension]]], given: Sequence[Value]) -> dict[str, int]:
    """What each symbol is in this conversion."""
    found: dict[str, int] = {}
    for (_, dims), x in zip(parameters.values(), given, strict=True):
        found |= {d[0]: n for d, n in zip(dims, x.shape().lens(), strict=True) if not isinstance(d, int)}
    return found


def _tensor(n: fx.Node) -> torch.Tensor:
    value = value_of(n)
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(f"%{n.name} is no tensor")
    return value


def _shape(n: fx.Node) -> migraphx.shape:
    """Its shape, as far as it is known: nobody asks for more than type and rank."""
    if type(value_of(n)) in NUMBERS:
        return migraphx.shape(type_name(NUMBERS[type(value_of(n))]), [1])
    value = _tensor(n)
    numbers = [int(s) for s in value.shape if is_number(s)]
    if len(numbers) == value.ndim:
        return migraphx.shape(type_name(value.dtype), numbers)
    ends = [(int(s), int(s)) if is_number(s) else (0, UNBOUNDED) for s in value.shape]
    return migraphx.shape(type_name(value.dtype), dyn_dims=[migraphx.shape.dynamic_dimension(a, b) for a, b in ends])


OF_TENSORS: Mapping[Any, Any] = {
    operator.truediv: aten.div.Tensor, operator.mul: aten.mul.Tensor, operator.add: aten.add.Tensor,
    operator.sub: aten.sub.Tensor, operator.neg: aten.neg.default, operator.pow: aten.pow.Tensor_Scalar,
    torch.sym_float: aten.clone.default,
}  # fmt: skip
"""Python's functions of numbers, and what they are of tensors."""


class _Converter(MGXInterpreter):
    """Writes the graph into a module, its symbols being `lengths`.

    What lies behind lengths that data tells waits: a deferred instruction, which writes it when these are known.
    """

    def __init__(
        self, graph: fx.GraphModule, main: migraphx.module, given: Mapping[str, Value], lengths: Mapping[str, int],
        fixed: Mapping[str, torch.Tensor], device: str, verbose_log: bool, int4: bool,
    ) -> None:  # fmt: skip
        inputs = [None] * len(graph.graph.find_nodes(op="placeholder"))
        super().__init__(graph, inputs, verbose_log, fixed, device)
        self.traced, self.int4 = graph, int4
        self.main, self.builder = main, Builder(main)
        self.builder.waits = True
        self.given, self.lengths = given, lengths
        self.waiting: dict[fx.Node, list[Value]] = {}  # and what those that began have found

    def values(self, outputs: Sequence[fx.Node], lasting: Callable[[], Sequence[np.ndarray]]) -> list[Value]:
        """Those of these nodes. `lasting`: memory of constants, as `migraphx.deferred_program` takes it."""
        fx.Interpreter.run(self, *self.inputs, enable_io_processing=False)
        return self._values(outputs, lasting)

    def _values(self, outputs: Sequence[fx.Node], lasting: Callable[[], Sequence[np.ndarray]]) -> list[Value]:
        found = {n: self._value(n) for n in outputs if n not in self.waiting}
        late = [n for n in outputs if n in self.waiting]
        found |= dict(zip(late, self._later(late, lasting), strict=True))
        if self.int4:
            migraphx.quantize_int4_weights(self.main)
        return [found[n] for n in outputs]

    def _value(self, n: fx.Node) -> Value:
        value = self.env[n]
        if isinstance(value_of(n), torch.SymFloat) and isinstance(value, Value):
            value = self.builder.cast(self.builder.view(value, [1]), NUMBERS[torch.SymFloat])
        elif isinstance(value_of(n), torch.SymInt):
            value = self.main.add_sizes([value])
        if not isinstance(value, Value):
            raise UnsupportedError("an output is no tensor of the engine")
        return value

    def _later(self, outputs: Sequence[fx.Node], lasting: Callable[[], Sequence[np.ndarray]]) -> list[Value]:
        """The values of nodes that wait."""
        if not outputs:
            return []
        nodes = self._needed(outputs)
        read = [i for i in dict.fromkeys(i for n in nodes for i in n.all_input_nodes) if i not in nodes]
        leaves, spec = tree_flatten(({i: self.env[i] for i in read}, {n: f for n, f in self.waiting.items() if f}))
        crossing = [x for x in leaves if isinstance(x, Value)]

        def convert(main: migraphx.module, given: list[Value]) -> list[Value]:
            values = iter(given)
            known = [next(values) if isinstance(x, Value) else x for x in leaves]
            with same_random_state(), torch.no_grad(), _no_new_guards_of_data(self.traced):
                device, log = self.device, self.verbose_log
                rest = _Converter(self.traced, main, {}, self.lengths, self.constants, device, log, self.int4)
                env, waiting = tree_unflatten(known, spec)
                return rest._resumed(nodes, outputs, env, waiting, lasting)

        return migraphx.add_deferred(self.main, convert, crossing, [_shape(n) for n in outputs], lasting)

    def _needed(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """The nodes of which nodes that wait are made, back to tensors: lengths are asked anew, weights read anew."""
        wanted, stack = set[fx.Node](), list(outputs)
        while stack:
            n = stack.pop()
            if n not in wanted:
                wanted.add(n)
                stack += [i for i in n.all_input_nodes if i in self.waiting or self._anew(i)]
        return [n for n in self.traced.graph.nodes if n in wanted]

    def _anew(self, n: fx.Node) -> bool:
        number = isinstance(value_of(n), torch.SymInt | torch.SymFloat | torch.SymBool)
        return n.op == "get_attr" or (number and n.op != "placeholder")

    def _resumed(
        self, nodes: Sequence[fx.Node], outputs: Sequence[fx.Node], env: dict[fx.Node, Any],
        found: dict[fx.Node, list[Value]], lasting: Callable[[], Sequence[np.ndarray]],
    ) -> list[Value]:  # fmt: skip
        """The values of `outputs`, where those of `env` and what nodes have `found` are known."""
        self.env = env
        for n in nodes:
            self.builder.found = found.get(n, [])
            env[n] = self.run_node(n)
        return self._values(outputs, lasting)

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "output" and any(i in self.waiting for i in n.all_input_nodes):
            self.waiting[n] = []
            return None
        self.builder.read = 0
        try:
            return super().run_node(n)
        except LengthsByData as wait:
            self.waiting[n] = wait.found
            return None

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        name, value = self.node.name, value_of(self.node)
        if name in self.given or name in self.constants:
            return self.given[name] if name in self.given else self.constant(self.constants[name])
        if isinstance(value, torch.SymInt | torch.SymFloat) and self.node.users:
            return self._number(value.node.expr)
        if self.node.users:
            raise UnsupportedError(f"%{name} is a number that no input's size tells")
        return None

    def _number(self, expression: Any) -> int | float:
        if str(expression) in self.lengths:
            return self.lengths[str(expression)]
        lengths = {s: self.lengths[str(s)] for s in expression.free_symbols if str(s) in self.lengths}
        if len(lengths) < len(expression.free_symbols):
            raise UnsupportedError(f"%{self.node.name} is a number that no input's size tells")
        return sympy_interp(PythonReferenceAnalysis, lengths, expression)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Floats that are computed of sizes differ from run to run as these do: they are tensors without dimensions."""
        if isinstance(value_of(self.node), torch.SymFloat):
            args, kwargs = tree_map(self._of_size, (args, kwargs))
            if any(isinstance(x, Value) for x in tree_leaves((args, kwargs))):
                target = OF_TENSORS.get(target, target)
        return super().call_function(target, args, kwargs)

    def _of_size(self, x: Any) -> Any:
        if x is None or isinstance(x, int | float | Value):
            return x
        return self.builder.full(x, torch.float64)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        return args[0]
