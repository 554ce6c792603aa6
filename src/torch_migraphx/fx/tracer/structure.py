"""How the tensors of inputs and outputs are nested: torch's pytrees, and the classes that they do not know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from torch.utils._pytree import (
    KeyPath,
    MappingKey,
    TreeSpec,
    keystr,
    register_pytree_node,
    tree_flatten,
    tree_map,
    tree_structure,
    tree_unflatten,
)


@dataclass(frozen=True)
class _Instance:
    """Stands in a tree for an object of a class that pytree does not know, so that the tree goes on below it."""

    kind: type
    names: tuple[Any, ...]
    values: tuple[Any, ...]


def _made(values: Any, context: tuple[type, tuple[Any, ...]]) -> Any:
    """The object itself, which the stand-in stands for."""
    kind, names = context
    given = dict(zip(names, values, strict=True))
    if issubclass(kind, dict):
        return kind(**given) if all(isinstance(n, str) for n in names) else kind(given)
    made = kind(**{f.name: given[f.name] for f in fields(kind) if f.init})
    for f in fields(kind):
        if not f.init:
            object.__setattr__(made, f.name, given[f.name])
    return made


def _with_keys(x: _Instance) -> tuple[list[tuple[Any, Any]], Any]:
    return [(MappingKey(n), v) for n, v in zip(x.names, x.values, strict=True)], (x.kind, x.names)


register_pytree_node(_Instance, lambda x: (list(x.values), (x.kind, x.names)), _made, flatten_with_keys_fn=_with_keys)


class Structure:
    """A pytree's structure that can be copied and pickled (torch's own warns of itself)."""

    def __init__(self, spec: TreeSpec) -> None:
        self.spec = spec

    @classmethod
    def of(cls, value: Any) -> Structure:
        return cls(tree_structure(known(value)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Structure:
        return self

    def __reduce__(self) -> Any:
        try:
            return Structure.of, (tree_unflatten(range(self.spec.num_leaves), self.spec),)
        except Exception:  # a class of the model's own may check what it is given
            return Structure, (self.spec,)


def known(value: Any) -> Any:
    """`value` as a tree that pytree knows all of: dataclasses and classes derived from dict have a stand-in.

    The stand-ins are for flattening: what pytree unflattens, or maps, are the objects themselves.
    """

    def replaced(leaf: Any) -> Any:
        if isinstance(leaf, dict):
            return _Instance(type(leaf), tuple(leaf), tuple(map(known, leaf.values())))
        if is_dataclass(leaf) and not isinstance(leaf, type):
            names = tuple(f.name for f in fields(leaf))
            return _Instance(type(leaf), names, tuple(known(getattr(leaf, n)) for n in names))
        return leaf

    return tree_map(replaced, value)


def plain(value: Any) -> Any:
    """`value`, which is `known`, in Python's own tuples, lists and dicts; its leaves keep their order."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return (list if isinstance(value, list) else tuple)(plain(v) for v in value)
    children, spec = tree_flatten(value, is_leaf=lambda x: x is not value)
    return value if spec.is_leaf() else tuple(plain(v) for v in children)


def leaf_names(leaves: Sequence[tuple[KeyPath, Any]]) -> list[str]:
    """A name for each leaf of a dict of inputs: `x`, or `x_0` and `x_key` for what is inside `x`."""
    names: list[str] = []
    for path, _ in leaves:
        name = re.sub(r"\W+", "_", keystr(path)).strip("_")
        while name in names:
            name += "_"
        names.append(name)
    return names
