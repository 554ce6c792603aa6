"""Models whose lengths are known only at run time: what waits for them stays as a node of ONNX in the program."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.expansion import Expansion, ValueNeeded
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Operation, RunModule, Value
from migraphx.ir.program import Program
from migraphx.ir.ranges import hull, ranges
from migraphx.ir.shape import UNBOUNDED, UNKNOWN, DynamicDimension, Shape
from migraphx.ir.text import parse_shape
from migraphx.onnx.builder import OnnxBuilder, Options, Scope
from migraphx.onnx.graph import DeferredStrings, Function, Graph, Model, Node, OnnxError, Reference, ValueInfo
from migraphx.onnx.importer import Importer, ImportResult, import_model
from migraphx.onnx.order import all_nodes, captured

LARGEST_BOUND = 2**24  # elements of an input up to which the model is read at its largest lengths
SHAPES = 2**16  # elements of constants that are computed there, where shapes alone matter


class OnnxNode(Operation, name="onnx"):
    """A node of ONNX whose lengths are not known yet: it is converted when they are.

    `node` is the node as JSON, `shapes` what is known of its outputs. Inputs are the node's that are given, then the
    values around it that its graphs use. Several outputs are a tuple.
    """

    deferred: ClassVar[bool] = True
    takes_dynamic: ClassVar[bool] = True
    op: str
    node: str
    shapes: tuple[str, ...]

    def infer(self, *inputs: Shape) -> Shape:
        made = [parse_shape(s) for s in self.shapes]
        return made[0] if len(made) == 1 else Shape.tuple_of(made)

    def expand(self, context: Expansion, inputs: Sequence[Any]) -> Any:
        data = json.loads(self.node)
        node = Node(**decoded(data["node"]))
        most, limit = data["max_loop_iterations"], data.get("limit_max_iterations")
        options = Options(max_loop_iterations=most, limit_max_iterations=limit, dynamic=True)
        functions = {(f["domain"], f["name"]): Function(**decoded(f["body"])) for f in data["functions"]}
        importer = Importer(Model(Graph("", []), functions), options, context.program)
        b = OnnxBuilder(
            context.module, None, context.origin, context.program, options, importer, node, values=context.values,
            ramps=context.ramps,
            scope=Scope(dict(zip(data["names"], inputs, strict=True))),
        )  # fmt: skip
        b.scope[""] = None
        try:
            importer.convert(b, node)
        except OnnxError as error:
            if not error.values:
                raise
            raise ValueNeeded(str(error), sources(error.values, inputs)) from error
        made = tuple(b.scope.get(o) if o else None for o in node.outputs)
        made = tuple(None if isinstance(v, DeferredStrings) else v for v in made)
        return made[0] if len(made) == 1 else made

    def compute_with(self, args: Sequence[Value], modules: Sequence[Module], run: RunModule) -> Value:
        """The node is converted for these arrays, every value known, and evaluated."""
        program = Program()
        arrays: list[np.ndarray] = []
        context = Expansion(program, program.main)
        inputs = [_entered(a, context, arrays) for a in args]
        made = self.expand(context, inputs)
        outputs: list[Instruction] = []
        form = _numbered(made, outputs)
        program.main.add_return(outputs)
        return _restored(form, run(program.main, arrays))


def _entered(value: Any, context: Expansion, arrays: list[np.ndarray]) -> Any:
    """Parameters of known value for an array, or for each of a sequence."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_entered(v, context, arrays) for v in value]
    array = np.asarray(value)
    made = context.module.add_parameter(f"x{len(arrays)}", Shape(dtypes.from_numpy(array.dtype), array.shape))
    arrays.append(array)
    context.values[made] = array
    return made


def _numbered(made: Any, outputs: list[Instruction]) -> Any:
    if isinstance(made, (list, tuple)):
        return type(made)(_numbered(m, outputs) for m in made)
    if made is None:
        return None
    outputs.append(made)
    return len(outputs) - 1


def _restored(form: Any, values: Sequence[Value]) -> Value:
    if isinstance(form, (list, tuple)):
        return type(form)(_restored(f, values) for f in form)
    return None if form is None else values[form]


def sources(values: Sequence[Instruction], inputs: Sequence[Any]) -> list[Instruction]:
    """Those inputs on which the values depend."""
    flat = {i for v in inputs for i in (v if isinstance(v, list) else [v]) if i is not None}
    seen, stack = set(values), list(values)
    while stack:
        ins = stack.pop()
        if ins not in flat:
            new = [i for i in ins.inputs if i not in seen]
            seen.update(new)
            stack.extend(new)
    return [i for i in flat if i in seen]


# ---- deferring nodes ----


class NodeDeferrer:
    """Puts an `onnx` instruction where a node must wait.

    `bounds` are the shapes of values by call and name, as far as they are known.
    """

    def __init__(self, bounds: Mapping[tuple[str, str], Shape], functions: Mapping[tuple[str, str], Function]) -> None:
        self.bounds, self.functions = bounds, functions
        self.seen: dict[tuple[str, str], Shape] = {}

    def defers(self, b: OnnxBuilder, node: Node, inputs: Sequence[Any]) -> bool:
        around = [b.scope[n] for n in captured(node)]
        return any(i.shape.dynamic for v in (*inputs, *around) for i in _instructions(v))

    def defer(self, b: OnnxBuilder, node: Node, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
        names = list(dict.fromkeys(n for n in (*node.inputs, *sorted(captured(node))) if n))
        names = [n for n in names if b.scope[n] is not None]
        shapes = tuple(str(self.bounds.get((b.call, o), UNKNOWN)) for o in node.outputs)
        kept = replace(node, attributes=attributes, inputs=tuple(n if n in names else "" for n in node.inputs))
        data = {
            "node": encoded(vars(kept), b.bindings),
            "names": names,
            "max_loop_iterations": b.options.max_loop_iterations,
            "limit_max_iterations": b.options.limit_max_iterations,
            "functions": [
                {"domain": domain, "name": name, "body": encoded(vars(self.functions[domain, name]), None)}
                for domain, name in called(node, self.functions)
            ],
        }
        operands = [_packed(b, b.scope[n]) for n in names]
        made = b.instruction("onnx", operands, op=node.full_op, node=json.dumps(data), shapes=shapes)
        return tuple(b.outputs(made, len(shapes))) if len(shapes) > 1 else made

    def record(self, b: OnnxBuilder, name: str, value: Any) -> None:
        if isinstance(value, Instruction) and not b.inner:
            self.seen[b.call, name] = value.shape.as_standard()


def called(node: Node, functions: Mapping[tuple[str, str], Function]) -> list[tuple[str, str]]:
    """The functions of the model that the graphs of a node call, and those that these call."""
    found: dict[tuple[str, str], None] = {}
    stack = [node]
    while stack:
        for inner in all_nodes([stack.pop()]):
            key = (inner.domain, inner.op)
            if key in functions and key not in found:
                found[key] = None
                stack += functions[key].graph.nodes
    return list(found)


def _instructions(value: Any) -> list[Instruction]:
    if isinstance(value, list):
        return [i for v in value for i in _instructions(v)]
    return [value] if isinstance(value, Instruction) else []


def _packed(b: OnnxBuilder, value: Any) -> Instruction:
    return b.instruction("pack", [_packed(b, v) for v in value]) if isinstance(value, list) else value


def import_dynamic(model: Model, options: Options, print_program_on_error: bool = False) -> ImportResult:
    """As `import_model`; lengths may be ranges, and shapes may depend on inputs' values: such nodes are left.

    What is known of their outputs comes from reading the model twice more, at the least and at the largest lengths.
    """
    options = replace(options, dynamic=True)
    first = NodeDeferrer({}, model.functions)
    made = import_model(model, options, print_program_on_error, first)
    if not any(i.op.deferred for i in made.program.main):
        return made
    ends = [_shapes_at(model, options, end) for end in ("min", "max")]
    bounds = {key: _between(least, ends[1].get(key, UNKNOWN)) for key, least in ends[0].items()}
    for name, info in model.graph.results.items():
        if bounds.get(("", name), UNKNOWN) == UNKNOWN:
            bounds["", name] = _declared(info, made.program, ends[1].get(("", name), UNKNOWN))
    return import_model(model, options, print_program_on_error, NodeDeferrer(bounds, model.functions))


def _shapes_at(model: Model, options: Options, end: str) -> dict[tuple[str, str], Shape]:
    """The shapes of all values with every range at one end; of what comes before the first error, if there is one."""

    def fixed(dim: Any) -> Any:
        if isinstance(dim, DynamicDimension):
            return min(getattr(dim, end), LARGEST_BOUND)
        return [fixed(d) for d in dim] if isinstance(dim, (list, tuple)) else dim

    seen = NodeDeferrer({}, model.functions)
    at = replace(
        options,
        default_dim_value=fixed(options.default_dim_value),
        map_input_dims={n: fixed(d) for n, d in options.map_input_dims.items()},
        dim_params={n: fixed(d) for n, d in options.dim_params.items()},
        largest_constant=SHAPES,
    )
    with suppress(OnnxError, MemoryError):  # a kernel larger than the least image, a table as large as the largest
        import_model(model, at, deferral=seen)
    return seen.seen


def _declared(info: ValueInfo, program: Program, most: Shape) -> Shape:
    """What a model says of an output of which one of the two readings says nothing.

    Exporters write the lengths of their example, too: a number is believed where it is the length at the largest sizes.
    """
    if most != UNKNOWN and (most.dynamic or most.sub_shapes or most.type != info.type):
        return UNKNOWN
    if info.form or info.dims is None or info.type == "string":
        return UNKNOWN
    named = {d.symbol: d for i in program.main.parameters.values() for d in ranges(i.shape) if d.symbol}
    known = (UNBOUNDED,) * len(info.dims) if most == UNKNOWN else most.lens
    said = info.dims if len(info.dims) == len(known) else (None,) * len(known)
    dims: list[int | DynamicDimension] = []
    for dim, largest in zip(said, known, strict=True):
        any_length = DynamicDimension(0, largest)
        dims.append(named.get(dim, any_length) if isinstance(dim, str) else largest if dim == largest else any_length)
    return Shape.of_dims(info.type, dims)


def _between(least: Shape, most: Shape) -> Shape:
    try:
        return hull(least, most)
    except ValueError:
        return UNKNOWN


# ---- nodes as JSON ----


def encoded(value: Any, bindings: Mapping[str, Any] | None) -> Any:
    """What JSON holds; arrays as base64, references to a function's attributes replaced where these are given."""
    if isinstance(value, Reference):
        return {"Reference": value.name} if bindings is None else encoded(bindings.get(value.name), bindings)
    if isinstance(value, np.ndarray) and value.dtype != object:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [dtypes.from_numpy(value.dtype), list(value.shape), data]}
    if isinstance(value, (Graph, Node)):
        fields = {k: encoded(v, bindings) for k, v in vars(value).items()}
        return {type(value).__name__: fields}
    if isinstance(value, ValueInfo):
        return {"ValueInfo": {k: encoded(v, bindings) for k, v in asdict(value).items()}}
    if isinstance(value, Mapping):
        return {"dict": [[k, encoded(v, bindings)] for k, v in value.items() if v is not None]}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [encoded(v, bindings) for v in value]}
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise OnnxError(f"an attribute of type {type(value).__name__} must be known when the model is read")


def decoded(value: Any) -> Any:
    """What `encoded` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "array":
        type, lens, data = inner
        return np.frombuffer(base64.b64decode(data), dtypes.to_numpy(type)).reshape(lens)
    if kind == "dict":
        return {k: decoded(v) for k, v in inner}
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](decoded(v) for v in inner)
    if kind == "Reference":
        return Reference(inner)
    made = {k: decoded(v) for k, v in inner.items()}
    return {"Graph": Graph, "Node": Node, "ValueInfo": ValueInfo}[kind](**made)
