"""Dynamo's guards on modules, asked again only where a module was written.

Of each module Dynamo asks ten questions a call: its type, its attributes, its parameters and their sizes. All are about
what lies in dictionaries: those of the modules' attributes, submodules, parameters and buffers. Here the guards of a
module, and of those within, become one: the versions of these dictionaries, the modules' types and the tensors' sizes
are as they were when Dynamo's own guards last held. Else these are asked, as for a module that is new. What is no item
of such a dictionary, or can change by itself (lists, objects), keeps Dynamo's guards. So do buffers of others' layers
than torch's own where a graph writes its inputs: there Dynamo asks that none of them is such a buffer.

torch names no place for this: the guards are those of its TracingContext, which it builds when a backend is done.
"""

from __future__ import annotations

import enum
import logging
import types
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import Any, cast

import torch
from torch import nn
from torch._C._dynamo.guards import TensorGuards, dict_version
from torch._dynamo import source as sources
from torch._guards import ChainedSource, Guard, Source, TracingContext

from torch_migraphx.dynamo.runner import Fetched
from torch_migraphx.dynamo.weights_at_once import Fetch, root_of
from torch_migraphx.dynamo.words import words_of

logger = logging.getLogger(__name__)

FEWEST = 20  # guards of a module: fewer are asked as they are
MOST_MODULES = 256  # are remembered for one graph
PATIENCE = 8  # calls in a row that find a module written, before it is no longer remembered

OF_MODULES = {"TYPE_MATCH", "ID_MATCH", "NN_MODULE", "NOT_PRESENT_IN_GENERIC_DICT"}
OF_DICTS = {"TYPE_MATCH", "ID_MATCH", "SEQUENCE_LENGTH", "MAPPING_KEYS_CHECK", "DICT_CONTAINS", "DICT_KEYS_MATCH"}
"""Kinds of guards that ask nothing but what the versions of dictionaries tell."""
CONSTANT = (
    bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType, types.BuiltinFunctionType,
    torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip

Path = tuple[Any, ...]
"""From a module to what lies in it: attributes' names, and keys of dictionaries."""
Tree = dict[Any, "Tree"]
"""Paths by their first steps."""


@dataclass
class MergedGuards:
    """Of a graph: what its modules' guards become, once its backend is done."""

    fetches: dict[Source, Fetch] = field(default_factory=dict)
    """By modules. Their guards will remember the tensors that these are told."""
    writes_inputs: bool = True
    """Whether the graph may write its inputs. Else it does not matter whether one of them is also a buffer."""


def guard_modules_by_version() -> MergedGuards:
    """To be called by a backend, for a graph that asks for no gradients: merge the guards of each module."""
    merged = MergedGuards()
    context = TracingContext.try_get()
    if context is None:
        return merged
    guards = context.guards_context.dynamo_guards
    by_root: dict[Source, list[Guard]] = defaultdict(list)
    for guard in guards:
        by_root[root_of(guard.originating_source)].append(guard)
    for root, own in by_root.items():
        if len(own) >= FEWEST and type(root) in (sources.LocalSource, sources.GlobalSource):
            guards.inner -= type(guards.inner)(own)
            merged.fetches[root] = Fetch()
            guards.add(Guard(root, partial(_create, own, merged)))
    return merged


def _create(guards: Sequence[Guard], merged: MergedGuards, builder: Any, guard: Guard) -> None:
    """Called by Dynamo where it builds guards: build those that have to be asked each time, and one for the others."""
    root = cast(Any, guard.originating_source)
    fetch = merged.fetches[root]
    local = isinstance(root, sources.LocalSource)
    name = root.local_name if local else root.global_name
    module = builder.scope["L" if local else "G"].get(name)
    paths: dict[Source, Path | None] = {}
    ordered = sorted(guards)
    known = [(g, _path(g, module, paths)) for g in ordered] if isinstance(module, nn.Module) else []
    covered = {g: path for g, path in known if path is not None}
    if merged.writes_inputs:
        covered = {g: path for g, path in covered.items() if not _compared_with_inputs(g, _value(module, path))}
    asked = _apart(covered, builder) if covered else None
    for other in ordered:
        if asked is None or other not in covered:
            other.create(builder)
    if asked is not None:
        weights = [path for source in fetch.sources if (path := _place(source, module, paths))]
        same = ModuleGuard(asked, name, [*covered.values(), *weights], weights)
        if len(weights) == len(fetch.sources):
            fetch.remembered = same.remembered
        builder.get_guard_manager(guard).add_lambda_guard(
            same, [f"{guard.name} is as it was when its {len(covered)} guards held"], guard.user_stack
        )


def _apart(guards: Iterable[Guard], builder: Any) -> Any:
    """What asks these guards alone; None where torch's builder has other parts than those that are replaced here."""
    try:
        alone = type(builder.guard_manager)()
        root = alone.root
        own = {
            "guard_manager": alone,
            "_cached_guard_managers": {},
            "no_tensor_aliasing_names": [],  # else the builder would compare these tensors with others, by `alone`
            "no_tensor_aliasing_guard_managers": [],
        }
        kept = {name: getattr(builder, name) for name in own}
    except (AttributeError, TypeError) as error:
        logger.info("Dynamo's guards on modules stay as they are: %s", error)
        return None
    try:
        vars(builder).update(own)
        for guard in guards:
            guard.create(builder)
    finally:
        vars(builder).update(kept)
    return root


def _path(guard: Guard, root: nn.Module, paths: dict[Source, Path | None]) -> Path | None:
    """Where in `root` lies what a guard asks about; None where more than versions of dictionaries has to be asked."""
    of = guard.create_fn
    given = (*of.args, *of.keywords.values()) if isinstance(of, partial) else ()
    path = _place(guard.originating_source, root, paths)
    if path is None or any(isinstance(x, Source) for x in given):
        return None
    value, kind = _value(root, path), guard.create_fn_name()
    if isinstance(value, nn.Module):
        return path if kind in OF_MODULES else None
    if type(value) is dict:
        return path if kind in OF_DICTS else None
    return path if _is_constant(value) or type(value) in (torch.Tensor, nn.Parameter) else None


def _compared_with_inputs(guard: Guard, value: Any) -> bool:
    """Whether Dynamo also asks that no input is this tensor: of buffers, but for those of torch's own layers."""
    own = sources.is_from_unspecialized_builtin_nn_module_source(guard.originating_source)
    return type(value) is torch.Tensor and not own


def _is_constant(value: Any) -> bool:
    if type(value) in (tuple, torch.Size):
        return all(map(_is_constant, value))
    return type(value) in CONSTANT or isinstance(value, enum.Enum | type)


def _value(root: Any, path: Path) -> Any:
    for key in path:
        root = (root.__dict__ if isinstance(root, nn.Module) else root)[key]
    return root


def _place(source: Any, root: nn.Module, paths: dict[Source, Path | None]) -> Path | None:
    """Where a source lies, if each step to it is an item of a module's dictionary, or of one in it."""
    if source not in paths:
        paths[source] = _step(source, root, paths) if isinstance(source, ChainedSource) else ()
    return paths[source]


def _step(source: Any, root: nn.Module, paths: dict[Source, Path | None]) -> Path | None:
    base = _place(source.base, root, paths)
    if base is None or isinstance(source, sources.NNModuleSource):
        return base
    holder = _value(root, base)
    if isinstance(source, sources.AttrSource | sources.GenericAttrSource):
        return _attribute(holder, source.member, base)
    key = getattr(source, "index", None)
    if type(source) is sources.ConstDictKeySource:
        return base if type(holder) is dict else None
    if type(source) not in (sources.GetItemSource, sources.DictGetItemSource):
        return None
    if _is_constant(holder):
        return base
    return (*base, key) if type(holder) is dict and type(key) in (str, int) and key in holder else None


def _attribute(module: Any, name: str, base: Path) -> Path | None:
    if not isinstance(module, nn.Module):
        return None
    if name == "__dict__":
        return base
    if hasattr(getattr(type(module), name, None), "__set__"):  # a property stands before what lies in the dictionary
        return None
    if name in module.__dict__:
        return (*base, name)
    for kind in ("_parameters", "_buffers", "_modules"):
        if name in module.__dict__.get(kind, ()):
            return (*base, kind, name)
    return None


class ModuleGuard:
    """Whether a module passes the guards that `asked` has, which depend on what lies at these paths alone.

    It remembers the tensors at the paths `weights`, which are some of them.
    """

    def __init__(self, asked: Any, name: str, paths: Iterable[Path], weights: Sequence[Path] = ()) -> None:
        self._asked, self._name, self._weights = asked, name, weights
        self._tree: Tree = {}
        for path in paths:
            at = self._tree
            for key in path:
                at = at.setdefault(key, {})
        self._states: dict[int, State] = {}
        self._misses = 0
        self._passed: tuple[int, State] | None = None  # by which thread, and not yet asked for its tensors

    def __call__(self, module: Any) -> bool:
        self._passed = None
        state = self._states.get(id(module))
        if state is not None and state.module() is module:
            if state.lasts():
                self._misses = 0
                self._passed = get_ident(), state
                return True
            self._misses += 1
        now = self._state(module)  # as it is before it is asked about
        if not self._asked.check({self._name: module}):
            return False
        if now is not None:
            if len(self._states) >= MOST_MODULES:
                self._states.clear()
            self._states[id(module)] = now
        return True

    def remembered(self, module: Any) -> Fetched | None:
        """The tensors of a module that is as it was when it passed; right behind the guard nothing is asked again."""
        passed, self._passed = self._passed, None
        if passed is not None and passed[0] == get_ident() and passed[1].module() is module:
            return passed[1].fetched
        state = self._states.get(id(module))
        return state.fetched if state is not None and state.module() is module and state.lasts() else None

    def _state(self, module: Any) -> State | None:
        if self._misses > PATIENCE or not isinstance(module, nn.Module):
            return None
        number, states = id(module), self._states
        try:
            return State(module, self._tree, self._weights, lambda _: states.pop(number, None))
        except (KeyError, TypeError, AttributeError):  # the guards will not hold
            return None


class State:
    """The versions of a module's dictionaries, the types of the modules and the tensors in it, and their sizes.

    It holds the dictionaries, so that their versions are theirs, and what lies in them, until the module is gone.
    """

    def __init__(self, module: nn.Module, tree: Tree, weights: Sequence[Path], gone: Callable[[Any], Any]) -> None:
        self.module = weakref.ref(module, gone)
        self._dicts: list[dict[Any, Any]] = []
        self._modules: list[nn.Module] = []
        self._tensors: list[torch.Tensor] = []
        self._collect(module, tree)
        objects = self._dicts, self._modules, self._tensors
        words = words_of(*objects)
        self.fetched = Fetched([_value(module, path) for path in weights], words is not None)
        self.lasts: Callable[[], bool] = words.same if words is not None else _one_by_one(*objects)
        """Whether nothing was written since."""
        self._modules.pop(0)

    def _collect(self, value: Any, tree: Tree) -> None:
        is_module = isinstance(value, nn.Module)
        if is_module:
            self._modules.append(value)
        elif isinstance(value, torch.Tensor):
            self._tensors.append(value)
        if is_module or type(value) is dict:
            held = value.__dict__ if is_module else value
            self._dicts.append(held)
            for key, rest in tree.items():
                self._collect(held[key], rest)


def _one_by_one(
    dicts: Sequence[Any], modules: Sequence[nn.Module], tensors: Sequence[torch.Tensor]
) -> Callable[[], bool]:
    """Whether these are as they are now; asks each object. The first module may die, then nobody asks."""
    root, others = weakref.ref(modules[0]), modules[1:]
    own, types, versions = type(modules[0]), list(map(type, others)), list(map(dict_version, dicts))
    fixed: dict[str, Any] = {"dynamic_dims_sizes": None, "dynamic_dims_strides": None}
    alike = TensorGuards(*tensors, **fixed).check if tensors else lambda: True
    return lambda: (
        list(map(dict_version, dicts)) == versions
        and list(map(type, others)) == types
        and type(root()) is own
        and alike(*tensors)
    )
