"""Converters: one function per operation, bound by schema for every dialect.

`@converter(acc_ops.softmax, aten.softmax.int)` registers a function for several targets. Each target's own schema
(the signature of an acc operator, the ATen schema of an overload) gives the order and the defaults of its
arguments, so the function receives everything by name and counts nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_map

from torch_migraphx.fx.builder import Builder, Value
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.mgx_instruction import MGXInstruction

REQUIRED = inspect.Parameter.empty
SAME_NAME = {"self": "input"}
NO_MEANING_HERE = frozenset(
    {
        "inplace", "memory_format", "layout", "pin_memory", "device", "non_blocking", "copy", "out",
        "cudnn_enable", "cudnn_enabled", "requires_grad",
    }
)  # fmt: skip
"""Arguments that change no value on one device and are dropped; an `out` that is optional must not be given."""


@dataclass(frozen=True)
class RenamedTarget:
    """A target some of whose arguments the converter knows by other names."""

    target: Callable[..., Any]
    names: tuple[tuple[str, str], ...]


def named(target: Callable[..., Any], **names: str) -> RenamedTarget:
    """`named(aten.embedding.default, indices="input")`: the target's name, then the converter's."""
    return RenamedTarget(target, tuple(names.items()))


@dataclass(frozen=True)
class Converter:
    """How one target is converted: its arguments (its name, the converter's name, default) and the function."""

    target: Callable[..., Any]
    arguments: tuple[tuple[str, str, Any], ...]
    function: Callable[..., Any]

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Every argument by the converter's name; TypeError for a missing or unknown one."""
        own = [name for name, _, _ in self.arguments]
        if len(args) > len(own):
            raise TypeError(f"{target_name(self.target)} takes {len(own)} arguments, got {len(args)}")
        given = dict(zip(own, args, strict=False)) | dict(kwargs)
        for name in given:
            if name not in own:
                near = get_close_matches(name, own, 1)
                raise TypeError(f"{target_name(self.target)} has no argument {name!r}; nearest: {near or own}")
        bound = {known: given.get(name, default) for name, known, default in self.arguments}
        missing = [name for name, value in bound.items() if value is REQUIRED]
        if missing:
            raise TypeError(f"{target_name(self.target)}: missing {', '.join(missing)}")
        read = {known for _, known, default in self.arguments if known == "out" and default is REQUIRED}
        if bound.get("out") is not None and not read:
            raise UnsupportedError("writes into `out`")
        return {name: value for name, value in bound.items() if name not in NO_MEANING_HERE - read}

    def __call__(self, b: Builder, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return self.function(b, **self.bind(args, kwargs))


@dataclass(frozen=True)
class UserConverter(Converter):
    """How a user's function converts one target: a function, or the modules of a class that stay whole.

    The function takes the node's own arguments, so that `arguments` is empty.
    """

    def __call__(self, b: Builder, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        node = b.node
        assert node is not None
        given = tree_map(lambda x: MGXInstruction(x) if isinstance(x, Value) else x, (args, dict(kwargs)))
        modules = (module_of(node),) if node.op == "call_module" else ()
        made = self.function(b.module, *modules, node, *given)
        return tree_map(lambda x: x.instr_ref if isinstance(x, MGXInstruction) else x, made)


CONVERTERS: dict[Any, Converter] = {}


def module_of(node: fx.Node) -> nn.Module | None:
    """The module that a node calls; None where the graph belongs to none."""
    owner = node.graph.owning_module
    return None if owner is None else owner.get_submodule(str(node.target))


def converter_of(node: fx.Node) -> Converter | None:
    """The converter of a node that calls a function or a whole module; None where there is none."""
    if node.op == "call_module":
        return CONVERTERS.get(type(module_of(node)))
    return CONVERTERS.get(node.target) if node.op == "call_function" else None


def existing(name: str) -> tuple[torch._ops.OpOverload, ...]:
    """The overload `aten.cholesky.default`, where this version of torch has it: later ones drop some."""
    namespace, operator, overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    return (getattr(packet, overload),) if packet else ()


def converter(*targets: Callable[..., Any] | RenamedTarget) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function `f(b, *, name=...)` for targets of any dialect.

    It must take every argument of each target's schema but those without a meaning here (`inplace`, ...), so none
    is dropped unseen. TypeError at registration where it does not, or where a target has a converter already.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = dict(list(inspect.signature(function).parameters.items())[1:])
        for item in targets:
            target, names = (item.target, dict(item.names)) if isinstance(item, RenamedTarget) else (item, {})
            arguments = tuple(
                (name, names.get(name, SAME_NAME.get(name, name)), default)
                for name, default in schema(target, parameters)
            )
            known = {as_ for _, as_, _ in arguments}
            unseen = [n for n in known if n not in parameters and n not in NO_MEANING_HERE]
            unmet = [n for n, p in parameters.items() if p.default is REQUIRED and n not in known]
            if unseen or unmet:
                raise TypeError(f"{target_name(target)}: converter {function.__name__} misses {unseen or unmet}")
            if target in CONVERTERS:
                raise TypeError(f"{target_name(target)} has two converters")
            CONVERTERS[target] = Converter(target, arguments, function)
        return function

    return register


def schema(target: Callable[..., Any], known: Mapping[str, inspect.Parameter]) -> list[tuple[str, Any]]:
    """The arguments of a target in order, each with its default or REQUIRED.

    A higher-order operator names them in its call, in newer versions of torch in `gen_schema` only, and in others
    nowhere: then they are the parameters `known` to the converter.
    """
    if isinstance(target, torch._ops.OpOverload):
        return [(a.name, a.default_value if a.has_default_value() else REQUIRED) for a in target._schema.arguments]
    named = inspect.signature(target).parameters
    if isinstance(target, torch._ops.HigherOrderOperator):
        readings = (named, inspect.signature(target.gen_schema).parameters, known)
        named = next(n for n in readings if all(p.kind is not p.VAR_POSITIONAL for p in n.values()))
    return [(p.name, p.default) for p in named.values()]


def target_name(target: Any) -> str:
    """How a target is written: `acc_ops.relu`, `aten.relu.default`."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    if isinstance(target, str):
        return f"Tensor.{target}"
    module = (getattr(target, "__module__", None) or "").rpartition(".")[2].removeprefix("_")
    name = getattr(target, "__name__", str(target))
    return f"{module}.{name}" if module else name
