"""From an ONNX model to a program: names the inputs' shapes, walks the graph, calls one converter a node."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Protocol

from migraphx.ir.dtype import from_numpy
from migraphx.ir.module import Instruction
from migraphx.ir.origin import DebugSymbols
from migraphx.ir.program import Program
from migraphx.ir.shape import DynamicDimension, Shape
from migraphx.ir.text import program_text
from migraphx.onnx.builder import OnnxBuilder, Options, Scope, located
from migraphx.onnx.graph import (
    DeferredStrings,
    Function,
    Graph,
    Map,
    Model,
    Node,
    OnnxError,
    Reference,
    Strings,
    UnsupportedOperators,
    ValueInfo,
)
from migraphx.onnx.model import standard_function
from migraphx.onnx.order import all_nodes, ordered
from migraphx.onnx.registry import CHECKS, CONVERTERS, LEGACY, find, signature
from migraphx.onnx.schema import schema_of
from migraphx.onnx.types import check_types
from migraphx.passes.dead_code import dead_code

MOST_EXPANDED = 2**17  # nodes that functions and loops may make


def operators() -> list[str]:
    """The names of the operators that have a converter; of other domains with the domain."""
    return sorted(f"{domain}.{op}" if domain else op for domain, op in CONVERTERS)


Result = int | list["Result"] | Strings | None
"""One output of a model: the number of the program's output that holds it; a list of them for a sequence; strings
as they are; None for an empty optional."""


class DeferralPolicy(Protocol):
    """Which nodes must wait for lengths or values of a run, and what stands for them till then."""

    def defers(self, b: OnnxBuilder, node: Node, inputs: Sequence[Any]) -> bool: ...

    def defer(self, b: OnnxBuilder, node: Node, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any: ...

    def record(self, b: OnnxBuilder, name: str, value: Any) -> None: ...


@dataclass(frozen=True)
class ImportResult:
    """A model's program, and where its outputs are among the program's."""

    program: Program
    results: list[Result]
    deviations: tuple[str, ...] = ()  # nodes that are not as the standard has them, and how


def import_model(
    model: Model, options: Options, print_program_on_error: bool = False, deferral: DeferralPolicy | None = None
) -> ImportResult:
    """The program of a model; OnnxError names what is wrong and where.

    A sequence is one parameter (named `x[0]`, `x[1]`, ...), or one output, for each item.
    """
    program = Program()
    importer = Importer(model, options, program, deferral)
    try:
        return ImportResult(program, importer.run(), tuple(importer.deviations))
    except (OnnxError, RecursionError) as error:
        if print_program_on_error:
            sys.stderr.write(f"{program_text(program)}\n")
        if isinstance(error, RecursionError):
            raise OnnxError("graphs are nested too deeply, or a function calls itself") from None
        if getattr(error, "located", False) and importer.taken:
            names = ", ".join(importer.taken)
            error.args = (
                f"{error}; lengths that the model leaves open were taken as {options.default_dim_value}: {names}",
            )
        raise


def tied(infos: Iterable[ValueInfo], given: Mapping[str, Any]) -> dict[str, int | DynamicDimension]:
    """The lengths of named dimensions that the given shapes of other inputs tell; none where they disagree."""
    found: dict[str, int | DynamicDimension] = {}
    disagreed = set()
    for info in infos:
        lens = given.get(info.name)
        if info.form or not lens or not info.dims or len(lens) != len(info.dims):
            continue
        for dim, length in zip(info.dims, lens, strict=True):
            if isinstance(dim, str) and found.setdefault(dim, length) != length:
                disagreed.add(dim)
    return {dim: length for dim, length in found.items() if dim not in disagreed}


class Importer:
    """Converts one model."""

    def __init__(
        self, model: Model, options: Options, program: Program, deferral: DeferralPolicy | None = None
    ) -> None:
        self.model, self.options, self.program, self.deferral = model, options, program, deferral
        self.tied = tied(model.graph.infos.values(), options.map_input_dims)
        self.taken: dict[str, None] = {}  # open dimensions that have the default length
        self.expanded = 0  # nodes of functions and subgraphs, at each time
        self.deviations: dict[str, None] = {}

    def run(self) -> list[Result]:
        if not self.options.skip_unknown_operators and (rows := missing_operators(self.model)):
            raise UnsupportedOperators(rows)
        graph, main = self.model.graph, self.program.main
        if self.options.output_names:
            graph = replace(graph, outputs=list(self.options.output_names))
        b = OnnxBuilder(main, program=self.program, options=self.options, runner=self, deviations=self.deviations)
        self.check_options(graph)
        for name, count in Counter(graph.inputs).items():
            if count > 1:
                raise OnnxError(f"input {name!r} is there {count} times")
            if name in graph.refused:
                raise OnnxError(f"input {name!r} {graph.refused[name]}")
        names = [n for n in graph.inputs if n not in graph.initializers]
        inputs = [self.value(graph.infos[n]) for n in names]
        defaults = [n for n in graph.inputs if n in graph.initializers]
        outputs = self.graph(b, replace(graph, inputs=[n for n in graph.inputs if n not in defaults]), inputs)
        flat: list[Instruction] = []
        results = []
        for name, value in zip(graph.outputs, outputs, strict=True):
            with located(f"output {name!r}", str):
                results.append(numbered(value, flat))
        main.add_return(flat)
        self.program.drop_unused_modules()
        for module in self.program.modules.values():
            dead_code(module)
        return results

    # ---- inputs ----

    def check_options(self, graph: Graph) -> None:
        """ValueError for a name in the options that the model does not have."""
        params = {d for i in graph.infos.values() for d in i.dims or () if isinstance(d, str)}
        values = {*graph.inputs, *graph.initializers, *(o for n in graph.nodes for o in n.outputs)}
        for what, given, known in (
            ("map_input_dims", self.options.map_input_dims, set(graph.infos)),
            ("dim_params", self.options.dim_params, params),
            ("output_names", self.options.output_names, values),
        ):
            for name in given:
                if name not in known:
                    near = get_close_matches(name, known, 1)
                    hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(sorted(known)) or 'none'}"
                    raise ValueError(f"{what}: the model has no {name!r}{hint}")

    def value(self, info: ValueInfo) -> Any:
        """An input: its parameter, a list of them for a sequence, None for an optional that is said to be empty."""
        dims = self.options.map_input_dims
        if "optional" in info.form and info.name in dims and dims[info.name] is None:
            return None
        if "map" in info.form:
            return self.map(info)
        if "sequence" not in info.form:
            return self.parameter(info.name, info, dims.get(info.name))
        if dims.get(info.name) is None:
            raise OnnxError(f"input {info.name!r} is a sequence: give the lens of each item with map_input_dims")
        items = enumerate(dims[info.name])
        return [self.parameter(f"{info.name}[{k}]", info, lens) for k, lens in items]

    def map(self, info: ValueInfo) -> Map:
        """A map, whose values are a parameter; the options give its keys."""
        keys = self.options.constants.get(f"{info.name}.keys")
        if keys is None:
            how = "migraphx.backend.prepare(model).run(inputs) reads it with them"
            error = OnnxError(f"input {info.name!r} is a map, whose keys must be known when the model is read: {how}")
            error.inputs = frozenset({f"{info.name}.keys"})
            raise error
        return Map(tuple(keys.tolist()), self.parameter(f"{info.name}.values", info, (len(keys),)))

    def parameter(self, name: str, info: ValueInfo, lens: Sequence[int] | None) -> Instruction | Strings:
        """A parameter, or the value that the options give in its place."""
        known = self.options.constants.get(name)
        if info.type == "string":
            if known is None:
                how = "migraphx.backend.prepare(model).run(inputs) reads it with their values"
                error = OnnxError(f"input {name!r} holds strings, which must be known when the model is read: {how}")
                error.inputs = frozenset({name})
                raise error
            return Strings.of(known)
        if known is None:
            return self.program.main.add_parameter(name, self.shape(info, lens))
        return self.program.main.add_literal(known, name)

    def shape(self, info: ValueInfo, given: Sequence[int] | None) -> Shape:
        if given is None and info.dims is None:
            raise OnnxError(f"input {info.name!r} has no shape: give it with map_input_dims")
        if given is not None and info.dims is not None and len(given) != len(info.dims):
            raise OnnxError(f"input {info.name!r} has {len(info.dims)} dimensions, map_input_dims gives {len(given)}")
        dims = given if given is not None else info.dims or ()
        found = [self.dim(info.name, d) for d in dims]
        for k, (dim, name) in enumerate(zip(found, info.dims or (), strict=False)):
            if isinstance(dim, DynamicDimension) and isinstance(name, str) and dim == self.tied.get(name):
                found[k] = replace(dim, symbol=name)
        try:
            return Shape.of_dims(info.type, found)
        except ValueError as error:
            raise OnnxError(f"input {info.name!r}: {error}") from None

    def dim(self, name: str, dim: int | str | DynamicDimension | None) -> int | DynamicDimension:
        if isinstance(dim, DynamicDimension):
            return dim
        if isinstance(dim, str):
            known = self.options.dim_params.get(dim, self.tied.get(dim))
            known = self.default(dim) if known is None else known
            return replace(known, symbol=dim) if isinstance(known, DynamicDimension) else known
        return self.default(f"a dimension of {name}") if dim is None or dim < 0 else int(dim)

    def default(self, what: str) -> int | DynamicDimension:
        if isinstance(self.options.default_dim_value, int):
            self.taken[what] = None
        return self.options.default_dim_value

    # ---- the walk ----

    def graph(self, b: OnnxBuilder, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """Convert a graph with `b`; its outputs' values. It sees the names around it."""
        if len(inputs) != len(graph.inputs):
            raise OnnxError(f"graph {graph.name!r} takes {len(graph.inputs)} inputs, got {len(inputs)}")
        scope = b.scope.new_child(dict(zip(graph.inputs, inputs, strict=True)))
        for name, array in graph.initializers.items():
            if array.dtype == object:
                scope[name] = Strings.of(array)
                continue
            try:
                from_numpy(array.dtype)
            except ValueError:
                raise OnnxError(f"tensor {name!r}: element type {array.dtype} is not supported") from None
            scope[name] = b.module.add_literal(array, name)
        for node in ordered(graph, b.scope.keys()):
            self.convert(replace(b, scope=scope, node=node, origin=self.origin(node)), node)
        return [scope[name] for name in graph.outputs]

    def origin(self, node: Node) -> str:
        return DebugSymbols([f"{node.label} {node.source}".rstrip()]) if self.options.use_debug_symbols else node.label

    def convert(self, b: OnnxBuilder, node: Node) -> None:
        """Convert one node; its outputs come into the scope."""
        names = node.inputs
        while names and not names[-1]:
            names = names[:-1]
        self.expanded += b.inner or bool(b.call)
        if self.expanded > MOST_EXPANDED:
            raise OnnxError(f"node {node.label}: functions and loops make more than {MOST_EXPANDED} nodes")
        inputs = [b.scope[n] if n else None for n in names]
        with located(f"node {node.label}", lambda: _shapes(inputs)):
            for how in node.deviations:
                b.deviates(how)
            attributes = self.attributes(b, node, inputs)
            record = self.converted(b, node, inputs, attributes)
            results = record if isinstance(record, tuple) else (record,)
            for k, name in enumerate(node.outputs):
                if name and k >= len(results):
                    raise OnnxError(f"its output {k} ({name!r}) is not supported")
                if name:
                    b.scope[name] = results[k]
                    if self.deferral is not None:
                        self.deferral.record(b, name, results[k])

    def converted(self, b: OnnxBuilder, node: Node, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
        """The node's outputs; `deferral`, where there is one, takes what cannot be converted yet.

        Strings made of strings that are not known yet are not known yet either.
        """
        strings = [i for i in inputs if isinstance(i, DeferredStrings)]
        if strings:
            return tuple(strings[:1] * len(node.outputs))
        if self.deferral is None or b.inner:
            return self.outputs(b, node, inputs, attributes)
        function = (node.domain, node.op) in self.model.functions  # its nodes are converted, or left, one by one
        if not function and self.deferral.defers(b, node, inputs):
            return self.deferral.defer(b, node, inputs, attributes)
        try:
            return self.outputs(b, node, inputs, attributes)
        except OnnxError as error:
            if function or not error.values:
                raise
            return self.deferral.defer(b, node, inputs, attributes)

    def outputs(self, b: OnnxBuilder, node: Node, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
        """By the model's own function, by a converter, or by the standard's function."""
        function = self.model.functions.get((node.domain, node.op))
        convert = find(node.domain, node.op, node.version)
        if function is None and convert is not None:
            taken = signature(convert)
            taken.check(inputs, attributes)
            check_types(b, node, inputs, taken)
            return convert(b, *inputs, **attributes)
        schema = schema_of(node.domain, node.op, node.version)
        if function is None and schema:
            if None in (needed := list(inputs[: schema.inputs[0]])):
                raise OnnxError(f"its input {needed.index(None)} is missing")
            check_types(b, node, inputs, None)
            if not node.domain and node.op in CHECKS:
                CHECKS[node.op](b, *inputs, **attributes)
            types = [_type(i) for i in inputs]
            function = standard_function(replace(node, attributes=attributes), types)
        if function is not None:
            return self.expand(b, function, inputs, attributes)
        if not self.options.skip_unknown_operators:  # it is in a function of the standard
            raise OnnxError("the operator is not supported")
        known = [i for i in inputs if isinstance(i, Instruction)]
        return (b.instruction("unknown", known, op=node.full_op),) * len(node.outputs)

    def attributes(self, b: OnnxBuilder, node: Node, inputs: Sequence[Any]) -> dict[str, Any]:
        """Those written and the schema's defaults; a reference becomes the function's attribute."""
        schema = schema_of(node.domain, node.op, node.version)
        found = dict(schema.defaults) if schema else {}
        for name, value in node.attributes.items():
            value = b.bindings.get(value.name) if isinstance(value, Reference) else value
            if value is not None and name not in LEGACY:
                found[name] = value
        if schema is None:
            return found
        missing = schema.required - found.keys() - LEGACY
        if missing:
            raise OnnxError(f"attribute {min(missing)!r} is missing")
        fewest, most = schema.inputs
        if not fewest <= len(inputs) <= most and not node.deviations:
            count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            raise OnnxError(f"takes {count} inputs, got {len(inputs)}")
        return found

    def expand(self, b: OnnxBuilder, function: Function, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
        """The nodes of a function in place of its call; it sees no names but its own."""
        graph = function.graph
        padded = [*inputs, *[None] * (len(graph.inputs) - len(inputs))]
        record = {*graph.inputs, *(o for n in graph.nodes for o in n.outputs)}
        known = [o for o in graph.outputs if o in record]  # the standard's bodies leave out what nobody asks for
        call = f"{b.call}/{b.node.label if b.node else ''}"
        inner = replace(b, scope=Scope(), bindings={**function.defaults, **attributes}, call=call)
        results = dict(zip(known, self.graph(inner, replace(graph, outputs=known), padded), strict=True))
        return tuple(results.get(o) for o in graph.outputs)


def missing_operators(model: Model) -> list[str]:
    """One row for every operator of the model that cannot be converted, with its number of nodes and the first."""
    bodies = [model.graph, *(f.graph for f in model.functions.values())]
    missing: dict[str, list[str]] = {}
    for graph in bodies:
        for node in all_nodes(graph.nodes):
            schema = schema_of(node.domain, node.op, node.version)
            function = (node.domain, node.op) in model.functions or (schema is not None and schema.function)
            if not function and find(node.domain, node.op, node.version) is None:
                missing.setdefault(node.full_op, []).append(node.label)
    return [f"{op}: {len(at)} nodes, the first {at[0]}" for op, at in sorted(missing.items())]


def numbered(value: Any, flat: list[Instruction]) -> Result:
    """Append a value's instructions to `flat`, and say where they are there."""
    if isinstance(value, DeferredStrings):
        error = OnnxError("strings that a run would choose; output_names takes other outputs")
        error.inputs = value.inputs
        raise error
    if value is None or isinstance(value, Strings):
        return value
    if isinstance(value, list):
        return [numbered(item, flat) for item in value]
    flat.append(value)
    return len(flat) - 1


def _type(value: Any) -> tuple[str, tuple[int, ...]] | None:
    return (value.shape.type, value.shape.lens) if isinstance(value, Instruction) else None


def _shapes(inputs: Iterable[Any]) -> str:
    shown = [_shown(i) for i in inputs]
    return f" (inputs {', '.join(shown)})" if shown else ""


def _shown(value: Any) -> str:
    if isinstance(value, Instruction):
        return f"{value.shape.type}{list(value.shape.lens)}"
    if isinstance(value, Strings):
        return f"string{list(value.value.shape)}"
    if isinstance(value, Map):
        return f"a map of {len(value.keys)}"
    return f"a sequence of {len(value)}" if isinstance(value, list) else "none"
