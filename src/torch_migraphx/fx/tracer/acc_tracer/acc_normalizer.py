"""The registry of acc operators, and the pass that rewrites a traced graph into them.

An acc operator is one declaration: `declare` where it is one function of torch, `@acc_op` where it has a body of its
own. A mapping binds a torch function (`call_function`) or a tensor method (`call_method`, named by a string) to an acc
operator. Arguments are bound by the Python signature of the acc operator or of the custom mapper, in torch's order, so
no mapper counts arguments.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import fx
from torch.fx.node import map_arg

from torch_migraphx.fx.graph_info import called, copy_origin, note_unmapped, set_value

ACC_OPS_MODULE = "torch_migraphx.fx.tracer.acc_tracer.acc_ops"

OpAndTarget = tuple[str, "Callable[..., Any] | str"]

# What torch calls one argument in different places; the left names never occur in an acc signature.
_ALIASES = {"self": "input", "axis": "dim", "keepdims": "keepdim"}


class Unmappable(Exception):
    """Raised by a mapper: these arguments have no acc form; the node stays as torch wrote it."""


@dataclass(frozen=True)
class Mapping:
    """How one torch target becomes acc operators.

    `signature` binds torch's arguments; `rename` maps torch's keyword names to the names in it. Exactly one
    of `acc_op` (one node, same arguments), `mapper` (any number of nodes) and `of_node` (a mapper that takes the node
    and the module) is set.
    """

    signature: inspect.Signature
    rename: dict[str, str]
    acc_op: Callable[..., Any] | None = None
    mapper: Callable[..., Any] | None = None
    of_node: Callable[..., Any] | None = None

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments by name, in the signature's order, without the defaults.

        Raises TypeError for an argument that the signature does not have.
        """
        kwargs = {k: v for k, v in kwargs.items() if k != "out" or v is not None}
        names = {k: self.rename.get(k, _ALIASES.get(k, k)) for k in kwargs}
        given = {k if k in self.signature.parameters else names[k]: v for k, v in kwargs.items()}
        return self.signature.bind(*args, **given)


@dataclass(frozen=True)
class Conversion:
    """How an acc operator that is one operator of the engine is converted; `aten` are overloads that mean the same.

    `form` says what is done to the operands first. "direct": nothing, and all other arguments are attributes of the
    same names. "unary": they become floating point. "pointwise": they are promoted and broadcast.
    """

    acc_op: Callable[..., Any]
    form: Literal["direct", "unary", "pointwise"]
    operator: str
    aten: tuple[Callable[..., Any], ...]


CONVERSIONS: list[Conversion] = []
_acc_ops: dict[str, Callable[..., Any]] = {}
_mappings: dict[OpAndTarget, Mapping] = {}


def register_acc_op(acc_op: Callable[..., Any]) -> Callable[..., Any]:
    """Declare an acc operator: keyword-only arguments, in torch's positional order.

    Raises ValueError when the name is taken or an argument is positional.
    """
    name = acc_op.__name__
    if name in _acc_ops:
        raise ValueError(f"acc op {name!r} is registered twice")
    for parameter in inspect.signature(acc_op).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise ValueError(f"acc op {name!r}: argument {parameter.name!r} is not keyword-only")
    # Graphs print and generate code by the public module, where every acc op is found by name.
    acc_op.__module__ = ACC_OPS_MODULE
    acc_op.__qualname__ = name
    _acc_ops[name] = acc_op
    return acc_op


def is_acc_op(target: object) -> bool:
    """Whether `target` is a registered acc operator."""
    return callable(target) and _acc_ops.get(getattr(target, "__name__", "")) is target


def acc_ops() -> dict[str, Callable[..., Any]]:
    """All acc operators by name, sorted."""
    return dict(sorted(_acc_ops.items()))


def find_mapping(op: str, target: Any) -> Mapping | None:
    """The mapping of a node's `op` and `target`, if there is one."""
    try:
        return _mappings.get((op, target))
    except TypeError:  # an unhashable callable object: nobody can have registered it
        return None


def _register(op_and_target: OpAndTarget, mapping: Mapping) -> None:
    op, target = op_and_target
    if op not in ("call_function", "call_method"):
        raise ValueError(f"op is 'call_function' or 'call_method', not {op!r}")
    if op_and_target in _mappings:
        raise ValueError(f"{op} {target} is mapped twice")
    _mappings[op_and_target] = mapping


def register_acc_op_mapping(
    op_and_target: OpAndTarget, arg_replacement_tuples: Iterable[tuple[Any, ...]] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Map a torch target one-to-one to the decorated acc operator.

    `arg_replacement_tuples` holds (torch's keyword, acc keyword) where the two differ; further entries, which say
    whether torch's argument may be left out, are what the operator's defaults say here. Raises ValueError when
    the target is mapped already.
    """
    rows = list(arg_replacement_tuples)

    def decorate(acc_op: Callable[..., Any]) -> Callable[..., Any]:
        if not is_acc_op(acc_op):
            raise ValueError(f"{acc_op.__name__} is not a registered acc op")
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([p.replace(kind=kind) for p in inspect.signature(acc_op).parameters.values()])
        _register(op_and_target, Mapping(signature, {row[0]: row[1] for row in rows}, acc_op=acc_op))
        return acc_op

    return decorate


def register_custom_acc_mapper_fn(
    op_and_target: OpAndTarget,
    arg_replacement_tuples: Iterable[tuple[Any, ...]] = (),
    needs_shapes_for_normalization: bool = False,
    allow_normalize_from_torch_package: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Map a torch target to acc operators through the decorated function, as Torch-MIGraphX has it.

    `arg_replacement_tuples` are torch's arguments in order: (torch's name, name in the mapper), and a third entry that
    is true where the argument may be left out; "*" is torch's `*args`. The function is called as `mapper(node, mod)`
    with the node that is replaced, whose arguments are keyword arguments of these names, and returns the node that
    replaces it, or raises Unmappable. Shapes are always known (`node.meta["tensor_meta"]`), so that the other two
    arguments change nothing. Raises ValueError when the target is mapped already.
    """
    rows: list[tuple[Any, ...]] = [(*row, False)[:3] for row in arg_replacement_tuples]
    optional, parameters = False, []
    for theirs, name, may_miss in rows:
        optional = optional or may_miss
        kind = inspect.Parameter.VAR_POSITIONAL if theirs == "*" else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = None if optional and theirs != "*" else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, kind, default=default))
    signature = inspect.Signature(parameters)

    def decorate(mapper: Callable[..., Any]) -> Callable[..., Any]:
        _register(op_and_target, Mapping(signature, {theirs: name for theirs, name, _ in rows}, of_node=mapper))
        return mapper

    return decorate


def _op_and_target(target: Callable[..., Any] | str) -> OpAndTarget:
    return ("call_method" if isinstance(target, str) else "call_function", target)


def acc_op(*targets: Callable[..., Any] | str, **rename: str) -> Callable[..., Any]:
    """Declare an acc operator and map all `targets` to it: functions, or methods by name."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        register_acc_op(fn)
        # Some of torch's names are one object (F.relu_ and torch.relu_), which ones depends on its version.
        for target in dict.fromkeys(targets):
            register_acc_op_mapping(_op_and_target(target), rename.items())(fn)
        return fn

    return decorate


def declare(
    text: str,
    *targets: Callable[..., Any] | str,
    aten: Callable[..., Any] | Iterable[Callable[..., Any]] = (),
    direct: str = "",
    unary: str = "",
    pointwise: str = "",
    mapped: bool = True,
    **rename: str,
) -> Callable[..., Any]:
    """Declare the acc operator `text`, such as "celu(input, alpha=1.0)", which is the first of `targets`, a function.

    All `targets` are mapped to it (none where `mapped` is False, as a mapper does that), torch's keywords by `rename`;
    ValueError where one is mapped already. `direct`, `unary` or `pointwise` names the operator of the engine that it
    and the overloads `aten` become; see Conversion.
    """
    name, parameters = _parsed(text)
    function = targets[0]
    assert not isinstance(function, str)
    required = [p.name for p in parameters if p.default is p.empty]
    signature = inspect.Signature([p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters])

    def op(**arguments: Any) -> Any:
        signature.bind(**arguments)  # its TypeError names what is missing or unknown
        first = [arguments.pop(n) for n in required]  # Python's own operators take no keywords
        return function(*first, **arguments)

    vars(op)["__signature__"] = signature
    op.__name__, op.__doc__ = name, inspect.getdoc(function) or f"torch.{function.__name__}, as torch has it."
    acc_op(*(targets if mapped else ()), **rename)(op)
    overloads = tuple(aten) if isinstance(aten, Iterable) else (aten,)
    forms: dict[Any, str] = {"direct": direct, "unary": unary, "pointwise": pointwise}
    CONVERSIONS.extend(Conversion(op, form, operator, overloads) for form, operator in forms.items() if operator)
    return op


def _parsed(text: str) -> tuple[str, list[inspect.Parameter]]:
    """The name and the parameters of "celu(input, alpha=1.0)"."""
    parsed = ast.parse(f"def {text}: ...").body[0]
    assert isinstance(parsed, ast.FunctionDef)
    names, defaults = parsed.args.args, [ast.literal_eval(d) for d in parsed.args.defaults]
    values = [inspect.Parameter.empty] * (len(names) - len(defaults)) + defaults
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return parsed.name, [inspect.Parameter(n.arg, kind, default=v) for n, v in zip(names, values, strict=True)]


def narrower(op: Callable[..., Any], text: str, *targets: Callable[..., Any] | str, **refused: str) -> None:
    """Map `targets`, whose arguments are those of `text`, to `op`, which has fewer.

    `refused` names arguments that must be as their default, and says what is asked for where they are not; other ones
    that `op` does not have change no value.
    """
    signature = inspect.Signature(_parsed(text)[1])
    taken = inspect.signature(op).parameters

    def mapper(b: NodeBuilder, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, why in refused.items():
            if bound.arguments[name] != signature.parameters[name].default:
                raise Unmappable(why)
        return b(op, **{n: value for n, value in bound.arguments.items() if n in taken})

    for target in dict.fromkeys(targets):
        _register(_op_and_target(target), Mapping(signature, {}, mapper=mapper))


def acc_mapper(*targets: Callable[..., Any] | str, **rename: str) -> Callable[..., Any]:
    """Map all `targets` (functions, or methods by name) through the decorated function.

    It is called as `mapper(b, *args, **kwargs)` with a `NodeBuilder` and torch's own arguments; it returns what
    replaces the node, or raises Unmappable.
    """

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.Signature(list(inspect.signature(fn).parameters.values())[1:])
        for target in dict.fromkeys(targets):
            _register(_op_and_target(target), Mapping(signature, dict(rename), mapper=fn))
        return fn

    return decorate


class NodeBuilder:
    """Inserts acc nodes in front of the node that is being mapped; `b(acc_op, name=value, ...)`."""

    def __init__(self, node: fx.Node, fake_mode: AbstractContextManager[Any]) -> None:
        self.node = node
        self._fake_mode = fake_mode

    def __call__(self, acc_op: Callable[..., Any], known: dict[str, Any] | None = None, **kwargs: Any) -> fx.Node:
        """Append `acc_op(**kwargs)`, of which all is `known`, or its value is computed where that of its inputs is."""
        graph = self.node.graph
        with graph.inserting_before(self.node):
            new = graph.call_function(acc_op, (), kwargs)
        if known is not None:
            new.meta = dict(known)
            return new
        copy_origin(self.node, new)
        inputs = new.all_input_nodes
        if all("val" in i.meta for i in inputs):
            values = map_arg(kwargs, lambda n: n.meta["val"])
            with self._fake_mode, torch.no_grad():
                set_value(new, acc_op(**values))
        return new

    def value(self, x: Any) -> Any:
        """The fake tensor that `x` stands for; a number is its own value. Raises Unmappable if unknown."""
        if not isinstance(x, fx.Node):
            return x
        if "val" not in x.meta:
            raise Unmappable(f"the shape of {x} is not known while tracing")
        return x.meta["val"]

    def rank(self, x: Any) -> int:
        """The number of dimensions of `x`; 0 for a number."""
        value = self.value(x)
        return value.dim() if isinstance(value, torch.Tensor) else 0

    def shape(self, x: Any) -> tuple[int, ...]:
        """The lens of `x`; () for a number."""
        value = self.value(x)
        return tuple(value.shape) if isinstance(value, torch.Tensor) else ()

    def dtype(self, x: Any) -> torch.dtype:
        """The element type of `x`, which must be a tensor."""
        return self.value(x).dtype


def _by_users_mapper(node: fx.Node, of_node: Callable[..., Any], bound: inspect.BoundArguments, root: Any) -> Any:
    """What a user's mapper makes of a node, whose arguments are by name meanwhile."""
    given = node.args, node.kwargs
    several = {n for n, p in bound.signature.parameters.items() if p.kind is p.VAR_POSITIONAL}
    named = {n: v[0] if n in several and len(v) == 1 and not _is_node(v[0]) else v for n, v in bound.arguments.items()}
    node.args, node.kwargs = (), named
    try:
        return of_node(node, root)
    finally:
        node.args, node.kwargs = given


def _is_node(x: Any) -> bool:
    return isinstance(x, fx.Node)


def _replacement(node: fx.Node, mapping: Mapping, fake_mode: AbstractContextManager[Any], root: Any) -> Any:
    """The node, new or older, that replaces `node`. Raises Unmappable, TypeError."""
    bound = mapping.bind(node.args, node.kwargs)
    b, was = NodeBuilder(node, fake_mode), node.meta.get("val")
    if mapping.acc_op is not None:
        if "inplace" in bound.arguments:
            bound.arguments["inplace"] = False  # acc graphs are functional
        new = b(mapping.acc_op, known=None if node.meta.get("mutates") else node.meta, **bound.arguments)
    elif mapping.of_node is not None:
        new = _by_users_mapper(node, mapping.of_node, bound, root)
    else:
        assert mapping.mapper is not None
        new = mapping.mapper(b, *bound.args, **bound.kwargs)
    value = new.meta.get("val") if isinstance(new, fx.Node) else new
    if isinstance(was, torch.Tensor) and isinstance(value, int | float):
        raise Unmappable("a tensor made of numbers alone")  # torch.add(2, 2)
    if isinstance(was, torch.Tensor) and isinstance(value, torch.Tensor) and was.dtype != value.dtype:
        return b(_acc_ops["to_dtype"], input=new, dtype=was.dtype)  # what is changed in place keeps its type
    return new


def normalize(
    graph: fx.Graph,
    fake_mode: AbstractContextManager[Any],
    allowlist: Collection[OpAndTarget] | None = None,
    blocked: Collection[OpAndTarget] = (),
    root: Any = None,
) -> None:
    """Rewrite every mapped function and method node of `graph` into acc operators, in place.

    A node that has no mapping, is not in `allowlist` or in `blocked`, stays; `meta["acc_unmapped"]` says why. Users'
    mappers are given the module `root`.
    """
    for node in list(graph.nodes):
        if node.op not in ("call_function", "call_method") or is_acc_op(node.target):
            continue
        mapping = find_mapping(node.op, node.target)
        out = (allowlist is not None and (node.op, node.target) not in allowlist) or (node.op, node.target) in blocked
        if mapping is None or out:
            note_unmapped(node, f"{called(node)} has no converter")
            continue
        before = node.prev
        try:
            new = _replacement(node, mapping, fake_mode, root)
        except (Unmappable, TypeError) as error:
            note_unmapped(node, f"{called(node)}: {error}")
            while node.prev is not before:  # what a mapper built before it gave up
                graph.erase_node(node.prev)
            continue
        node.replace_all_uses_with(new)
        graph.erase_node(node)
