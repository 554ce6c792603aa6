"""In-place operations of a traced graph as functional ones, where that gives the same answer."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import fx
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from torch_migraphx.fx.border import foreign
from torch_migraphx.fx.graph_info import draws
from torch_migraphx.log import get_logger

from .acc_normalizer import find_mapping
from .proxies import AccTraceError

logger = get_logger(__name__)


def mutated_by(node: fx.Node, versions: dict[fx.Node, list[int]]) -> bool:
    """Whether running `node` changed one of its inputs; `versions` are their versions before."""
    return any(versions[i] != tensor_versions(i) for i in versions)


def tensor_versions(node: fx.Node) -> list[int]:
    """How often each fake tensor of `node` has been changed in place so far."""
    return [t._version for t in _tensors(node)]


def _tensors(node: fx.Node) -> list[torch.Tensor]:
    return [t for t in tree_leaves(node.meta.get("val")) if isinstance(t, torch.Tensor)]


def storages(node: fx.Node) -> set[StorageWeakRef]:
    """The blocks of memory in which the fake tensors of `node` lie, as far as they have some of their own."""
    return {StorageWeakRef(t.untyped_storage()) for t in _tensors(node) if not foreign(t)}


def changed_by(node: fx.Node) -> fx.Node:
    """What an operation in place changes: its first input, by place or by name."""
    return node.all_input_nodes[0]


def _same_view(a: Any, b: Any) -> bool:
    """Whether both fake values are the same elements in the same order."""
    return (
        isinstance(a, torch.Tensor)
        and isinstance(b, torch.Tensor)
        and (a.shape, a.stride(), a.storage_offset()) == (b.shape, b.stride(), b.storage_offset())
    )


def functionalize(graph: fx.Graph) -> None:
    """Make every reader of a tensor that was changed in place read the new value instead.

    Works on nodes marked `meta["mutates"]`. A graph input that the model changes is left alone, with a
    warning. Raises AccTraceError where the change would be lost: to a weight or buffer, or to memory that
    is read later through another view.
    """
    mutating = [n for n in graph.nodes if n.meta.get("mutates")]
    owners = _owners(graph) if mutating else {}
    for node in mutating:
        target = changed_by(node)
        if not storages(target) & storages(node):
            _refuse(node, "changes a tensor, which it does not return,")
        aliases = dict.fromkeys(n for memory in storages(target) for n in owners[memory] if n < node)
        for alias in aliases:
            _redirect(alias, target, node)
        node.target = _functional(node)


def _functional(node: fx.Node) -> Any:
    """What gives the value that a call in place writes: `relu` for `relu_`; the same target where nothing does.

    Operators that have a mapping stay as well. Drawn random numbers would be others, and a view is no new value.
    """
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name.partition("::")[2]
        packet = getattr(getattr(torch.ops, target.namespace), name.removesuffix("_"), None)
        return getattr(packet, target._overloadname, target)
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if not name.endswith("_") or name.endswith("__") or find_mapping(node.op, target) is not None:
        return target
    packet = getattr(torch.ops.aten, name[:-1], None)
    found = getattr(torch.Tensor if isinstance(target, str) else torch, name[:-1], None)
    overloads = [getattr(packet, o) for o in packet.overloads()] if packet is not None else []
    if found is None or not overloads or any(draws(o) or _is_view(o) for o in overloads):
        return target
    return name[:-1] if isinstance(target, str) else found


def _is_view(overload: torch._ops.OpOverload) -> bool:
    """Whether it gives the memory of an input, which it does not write to."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in overload._schema.returns)


def _owners(graph: fx.Graph) -> dict[StorageWeakRef, list[fx.Node]]:
    """The nodes whose values lie in each block of memory."""
    owners: dict[StorageWeakRef, list[fx.Node]] = defaultdict(list)
    for node in graph.nodes:
        for memory in storages(node):
            owners[memory].append(node)
    return owners


def _redirect(alias: fx.Node, target: fx.Node, node: fx.Node) -> None:
    """Make the users of `alias` after `node` read `node`."""
    if alias.op == "get_attr":
        _refuse(node, f"changes {alias.target}, a constant or a part of the module,")
    if alias.op == "placeholder":
        logger.warning(
            "the model changes its input %r in place; the traced graph does not.\n  %s",
            alias.target,
            node.stack_trace,
        )
    later = [user for user in alias.users if user is not node and node < user]
    if not later:
        return
    if not _same_view(alias.meta["val"], target.meta["val"]):
        _refuse(node, f"changes memory that is read later through {alias}")
    for user in later:
        user.replace_input_with(alias, node)


def _refuse(node: fx.Node, reason: str) -> None:
    raise AccTraceError(
        f"{node.target} {reason} in place; use the ATen tracer (use_aten=True) or torch.compile.\n  {node.stack_trace}"
    )
