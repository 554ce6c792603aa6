"""What `lower_to_mgx` returns: a graph module for inference, which is saved as data wherever that is possible."""

from __future__ import annotations

import keyword
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import getitem
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.module import _IncompatibleKeys
from torch.utils._pytree import tree_unflatten

import migraphx
from torch_migraphx.fx.border import foreign
from torch_migraphx.fx.mgx_module import MGXModule, SplitModule, is_observed
from torch_migraphx.fx.tracer.structure import Structure

RETURN_TYPES = {f"torch.return_types.{t.__name__}": t for t in torch.return_types.all_return_types}
CONTAINERS: dict[str, type] = {"tuple": tuple, "list": list, "dict": dict, "OrderedDict": OrderedDict, **RETURN_TYPES}
"""The containers whose structure can be saved as data: no file may name another class."""


class NotData(Exception):
    """Something that can only be saved as Python's pickled code."""


class Inputs(nn.Module):
    """Takes the arguments of a call apart, after a check that they are nested as the samples were.

    `expected` are the samples' leaves, None in place of tensors: what is no tensor was compiled in.
    """

    def __init__(self, structure: Structure, names: Sequence[str], expected: Sequence[Any]) -> None:
        super().__init__()
        self.structure, self.names, self.expected = structure, list(names), list(expected)

    def forward(self, args: Any, kwargs: Any) -> list[Any]:
        """The leaves. TypeError where the structure differs, ValueError where a number does."""
        try:
            leaves = self.structure.spec.flatten_up_to((tuple(args), dict(kwargs)))
        except ValueError as error:
            raise TypeError(f"the inputs are not nested as the samples were: {error}") from error
        for name, leaf, constant in zip(self.names, leaves, self.expected, strict=True):
            if isinstance(leaf, torch.Tensor) != (constant is TENSOR):
                raise TypeError(f"input {name!r} must be {_expected(constant)}; got a {type(leaf).__name__}")
            if constant is not TENSOR and (type(leaf) is not type(constant) or leaf != constant):
                raise ValueError(f"input {name!r} must be {_expected(constant)}; got {leaf!r}: lower the model for it")
        return leaves


TENSOR = "<a tensor>"
"""Stands for a tensor among the samples of `Inputs`."""


def _expected(constant: Any) -> str:
    return "a tensor" if constant is TENSOR else f"{constant!r}, which was compiled in"


class Outputs(nn.Module):
    """Nests the values of the graph as eager does, in the classes that eager gives."""

    def __init__(self, structure: Structure) -> None:
        super().__init__()
        self.structure = structure

    def forward(self, leaves: Sequence[Any]) -> Any:
        return tree_unflatten(leaves, self.structure.spec)


class LoweredModule(SplitModule):
    """A compiled model. It computes no gradients, and stays in inference mode.

    `torch.save(lowered, f)` writes data, without code, where all of it runs in the engine and it returns plain
    containers or torch's named tuples: then `torch.load(f)` reads it as it is, once torch_migraphx is imported, and
    runs nothing that the file brings. Where parts run in torch, or a class of the model's own is returned, the file
    holds Python code, which `torch.load(f, weights_only=False)` runs: only for files that you trust.

    `refusals` says which nodes run in torch, each as text with its line of Python, and why; files do not hold it.
    """

    refusals: tuple[migraphx.Refusal[str], ...] = ()
    weights: frozenset[str] = frozenset()
    """The names of the model's weights that it reads."""
    others: frozenset[str] = frozenset()
    """The names of the model's other weights."""

    _alone: str | None = None
    """The name of the program that the graph is: one call of it, with the inputs as they come."""

    def recompile(self) -> Any:
        code = super().recompile()
        if "__call__" in vars(type(self)):  # torch.fx's, which shows the line of generated code that raised
            del type(self).__call__
        self._alone = _program_of(self.graph)
        return code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The answer. A graph that is one program is that program's call: small models are called in microseconds."""
        program = self._modules.get(self._alone) if self._alone and not kwargs else None
        if isinstance(program, MGXModule) and not is_observed(self, program):
            return program.run(args)
        return super().__call__(*args, **kwargs)

    def note_weights(self, model: nn.Module, read: Collection[int]) -> None:
        """Note the names of the weights of `model`; it reads those in the memory at these addresses."""
        tensors = model.state_dict(keep_vars=True)
        known = {n: x for n, x in tensors.items() if isinstance(x, torch.Tensor) and not foreign(x)}
        self.weights = frozenset(n for n, x in known.items() if not x.is_meta and x.data_ptr() in read)
        self.others = frozenset(known) - self.weights
        for module in self.modules():
            if isinstance(module, MGXModule):
                module.note_weights({n: known[n] for n in self.weights})

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take other weights, under the names that they have in the model that was lowered, or a state of its own.

        No code is compiled for them. RuntimeError for missing and unknown names, unless `strict` is False, for other
        shapes and types, and for weights that cannot be changed any more: those of parts that run in torch, those that
        were converted, those of models for ranges of lengths.
        """
        if not state_dict or any(name.endswith("_extra_state") for name in state_dict):
            return super().load_state_dict(state_dict, strict, assign)
        given = {n: x for n, x in state_dict.items() if n in self.weights}
        missing = sorted(self.weights - state_dict.keys())
        unexpected = sorted(state_dict.keys() - self.weights - self.others)
        if strict and (missing or unexpected):
            raise RuntimeError(f"load_state_dict: missing weights {missing}, unexpected names {unexpected}")
        parts = [m for m in self.modules() if isinstance(m, MGXModule)]
        fixed = sorted(given.keys() - {name for part in parts for name in part.weights})
        if fixed:
            raise RuntimeError(f"load_state_dict: the compiled module cannot change {', '.join(fixed)}: lower it again")
        try:
            programs = [part.refitted(given) for part in parts]
        except ValueError as error:
            raise RuntimeError(f"load_state_dict: {error}") from error
        for part, program in zip(parts, programs, strict=True):
            part.program = program
        return _IncompatibleKeys(missing, unexpected)

    def __reduce__(self) -> Any:
        try:
            return restored, (state_of(self),)
        except NotData:
            return _of_code, (super().__reduce__(), self.weights, self.others)

    def __copy__(self) -> LoweredModule:
        return self._noting(LoweredModule(self, self.graph, type(self).__name__))

    def __deepcopy__(self, memo: dict[int, Any]) -> LoweredModule:
        return self._noting(super().__deepcopy__(memo))

    def _noting(self, copied: Any) -> LoweredModule:
        """A copy, which torch.fx makes of what the graph refers to, with the rest."""
        copied.weights, copied.others, copied.refusals = self.weights, self.others, self.refusals
        return copied


def _program_of(graph: fx.Graph) -> str | None:
    """The name of the module that a graph calls with its inputs, in their order, and whose result it returns."""
    if len(graph.nodes) < 2:
        return None
    *inputs, call, output = graph.nodes
    if call.op != "call_module" or any(n.op != "placeholder" or n.args for n in inputs):
        return None
    return str(call.target) if call.args == (*inputs,) and not call.kwargs and output.args[0] is call else None


def _of_code(reduced: Any, weights: frozenset[str], others: frozenset[str]) -> LoweredModule:
    """The module that torch.fx has pickled as Python code."""
    function, arguments = reduced
    made = function(*arguments)
    lowered = LoweredModule(made, made.graph, type(made).__name__)
    lowered.weights, lowered.others = weights, others
    return lowered


# ---- as data ----


def state_of(module: fx.GraphModule) -> dict[str, Any]:
    """A lowered module in lists, dicts, numbers, strings, tensors and MGXModules. Raises NotData."""
    number = {n: k for k, n in enumerate(module.graph.nodes)}
    nodes = []
    parts: dict[str, Any] = {}
    for n in module.graph.nodes:
        target = "" if n.op == "output" else str(n.target)
        if n.op == "get_attr":
            parts[target] = module.get_buffer(target) if target in dict(module.named_buffers()) else _no_data(n)
        elif n.op == "call_module":
            parts[target] = _part_state(module.get_submodule(target))
        elif n.op == "call_function":
            target = "getitem" if n.target is getitem else _no_data(n)
        nodes.append([n.op, target, _encoded((n.args, n.kwargs), number)])
    name = type(module).__name__
    names = {k: sorted(getattr(module, k, ())) for k in ("weights", "others")}
    return {"class": name if name.isidentifier() else "LoweredModule", "nodes": nodes, "parts": parts, **names}


def _no_data(n: Any) -> Any:
    raise NotData(str(n))


def _part_state(part: nn.Module) -> Any:
    if isinstance(part, MGXModule):
        return part
    if isinstance(part, Inputs):
        return ["inputs", _structure_state(part.structure), part.names, _encoded(part.expected, {})]
    return ["outputs", _structure_state(part.structure)] if isinstance(part, Outputs) else _no_data(part)


def _encoded(value: Any, number: dict[fx.Node, int]) -> Any:
    """An argument of a node: [kind, content]."""
    if isinstance(value, fx.Node):
        return ["node", number[value]]
    if isinstance(value, dict):
        return ["dict", [[_encoded(k, number), _encoded(v, number)] for k, v in value.items()]]
    if isinstance(value, tuple | list):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [_encoded(v, number) for v in value]]
    return ["value", value if type(value) in (bool, int, float, str, type(None)) else _no_data(value)]


def _structure_state(structure: Structure) -> Any:
    """A structure: None for a leaf, else [the container's name, what it holds, a dict's keys]."""

    def state(value: Any) -> Any:
        if value is leaf:
            return None
        (name,) = [name for name, kind in CONTAINERS.items() if kind is type(value)] or [_no_data(type(value))]
        values, keys = (value.values(), list(value)) if isinstance(value, dict) else (value, [])
        return [name, [state(v) for v in values], [_encoded(k, {}) for k in keys]]

    leaf = object()
    try:
        return state(tree_unflatten([leaf] * structure.spec.num_leaves, structure.spec))
    except Exception as error:  # a class of the model's own may check what it is given
        raise NotData(str(error)) from error


# ---- and back: from a file that nobody vouches for ----


def restored(state: dict[str, Any]) -> LoweredModule:
    """The module of `state_of`. ValueError where it is no such state; nothing in it is run."""
    root, graph, made = nn.Module(), fx.Graph(), []
    for name, part in state["parts"].items():
        if isinstance(part, torch.Tensor):
            root.register_buffer(_identifier(name), part, persistent=False)
        else:
            root.add_module(_identifier(name), _part(part))
    for op, target, arguments in state["nodes"]:
        args, kwargs = _decoded(arguments, made)
        if op in ("call_module", "get_attr") and target not in state["parts"]:
            raise ValueError(f"a node asks for {target!r}, which the file does not hold")
        if op == "placeholder":
            made.append(graph.placeholder(_identifier(target)))
        elif op == "get_attr":
            made.append(graph.get_attr(target))
        elif op == "call_module":
            made.append(graph.call_module(target, args, kwargs))
        elif op == "call_function" and target == "getitem":
            made.append(graph.call_function(getitem, args))
        elif op == "output":
            made.append(graph.output(args[0]))
        else:
            raise ValueError(f"a lowered module has no node {op} {target!r}")
    lowered = LoweredModule(root, graph, class_name=_identifier(state["class"]))
    lowered.weights, lowered.others = (frozenset(map(str, state.get(k, ()))) for k in ("weights", "others"))
    return lowered.eval()


def _identifier(name: Any) -> str:
    """`name`; ValueError where it is no plain name, for it becomes a part of generated Python."""
    if type(name) is not str or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is no name")
    return name


def _part(state: Any) -> nn.Module:
    if isinstance(state, MGXModule):
        return state
    if state[0] == "inputs":
        return Inputs(Structure.of(_dummy(state[1])), state[2], [_constant(x) for x in _decoded(state[3], [])])
    if state[0] == "outputs":
        return Outputs(Structure.of(_dummy(state[1])))
    raise ValueError(f"a lowered module has no part {state[0]!r}")


def _constant(x: Any) -> Any:
    return TENSOR if x == TENSOR else x


def _decoded(state: Any, made: Sequence[fx.Node]) -> Any:
    kind, content = state
    if kind == "node":
        return made[content]
    if kind == "dict":
        return {_decoded(k, made): _decoded(v, made) for k, v in content}
    if kind in ("tuple", "list"):
        values = [_decoded(v, made) for v in content]
        return values if kind == "list" else tuple(values)
    if kind == "value" and type(content) in (bool, int, float, str, type(None)):
        return content
    raise ValueError(f"no argument is a {kind!r}")


def _dummy(state: Any) -> Any:
    """A value of the structure, with a number for each leaf."""
    if state is None:
        return 0
    name, children, keys = state
    values = [_dummy(c) for c in children]
    if name in ("dict", "OrderedDict"):
        return CONTAINERS[name](zip([_decoded(k, []) for k in keys], values, strict=True))
    if name not in CONTAINERS:
        raise ValueError(f"no container is called {name!r}")
    build: Callable[[Any], Any] = CONTAINERS[name]
    return build(values)


torch.serialization.add_safe_globals([MGXModule, restored])
