"""Leaf modules without a converter are looked into: their own graph takes the place of the call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.node import map_arg
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._pytree import tree_leaves, tree_map

from torch_migraphx.fx.converter import converter_of, module_of
from torch_migraphx.fx.fake_mode import fake_mode
from torch_migraphx.fx.graph_info import described, unmapped
from torch_migraphx.fx.mgx_module import ForInference
from torch_migraphx.fx.tracer.acc_tracer import acc_ops, acc_tracer
from torch_migraphx.fx.tracer.acc_tracer.root_hooks import RootHooks
from torch_migraphx.log import get_logger

logger = get_logger(__name__)


def look_into_leaves(gm: fx.GraphModule) -> None:
    """Replace in place each call of a leaf module without a converter by what the module does, where that is traced.

    Compiled modules, observers, scripted modules and modules with hooks stay whole.
    """
    changed = False
    for n in list(gm.graph.nodes):
        if n.op != "call_module" or unmapped(n) or converter_of(n) is not None:
            continue
        module = module_of(n)
        if module is not None and _may_be_traced(module):
            changed |= _replaced(gm, n, module)
    if changed:
        gm.graph.eliminate_dead_code()
        _with_one_mode(gm)


def _may_be_traced(module: nn.Module) -> bool:
    hooks = any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())
    stays = (ForInference, torch.jit.ScriptModule, RootHooks)
    return not hooks and not any(isinstance(m, stays) or acc_tracer.is_observer(m) for m in module.modules())


def _replaced(gm: fx.GraphModule, n: fx.Node, module: nn.Module) -> bool:
    """Whether the graph of `module` took the place of `n`."""
    leaves = tree_leaves((n.args, n.kwargs))
    if any(isinstance(x, fx.Node) and "val" not in x.meta for x in leaves):
        return False
    args, kwargs = map_arg((n.args, n.kwargs), lambda x: x.meta["val"])
    try:
        inner = acc_tracer.trace_leaves(module, tree_map(_plain, args), sample_kwargs=tree_map(_plain, dict(kwargs)))
    except acc_tracer.AccTraceError as error:
        logger.info("%s stays whole: %s", described(n), str(error).replace("\n", " "))
        return False
    result = inner.graph.output_node().args[0]
    if not all(user.target is acc_ops.getitem or user.op == "output" for user in n.users) and not _is_node(result):
        return False
    new = dict(zip(inner.graph.find_nodes(op="placeholder"), leaves, strict=True))
    with gm.graph.inserting_before(n):
        for m in inner.graph.nodes:
            if m.op in ("placeholder", "output"):
                continue
            new[m] = gm.graph.node_copy(m, new.__getitem__)
            if m.op != "call_function":
                new[m].target = _attached(gm, n, inner, m)
    _give(n, map_arg(result, new.__getitem__))
    return True


def _plain(x: Any) -> Any:
    """An immutable list of fx as Python's own."""
    return list(x) if isinstance(x, list) else x


def _is_node(x: Any) -> bool:
    return isinstance(x, fx.Node)


def _attached(gm: fx.GraphModule, n: fx.Node, inner: fx.GraphModule, m: fx.Node) -> str:
    """The name in `gm` of a weight or a module that `m` names in `inner`: its own where it has one."""
    own, value = f"{n.target}.{m.target}", fetched(inner, str(m.target))
    try:
        if fetched(gm, own) is value:
            return own
    except AttributeError:
        pass
    name = f"_{n.name}_{str(m.target).replace('.', '_')}"
    if isinstance(value, nn.Module):
        gm.add_module(name, value)
    elif isinstance(value, torch.Tensor):
        gm.register_buffer(name, value, persistent=False)
    else:
        setattr(gm, name, value)
    return name


def fetched(gm: nn.Module, target: str) -> Any:
    """The attribute of a module that a dotted name leads to; AttributeError where there is none."""
    value: Any = gm
    for part in target.split("."):
        value = getattr(value, part)
    return value


def _give(n: fx.Node, result: Any) -> None:
    """Let all who read `n` read `result`, nodes in plain containers."""
    if _is_node(result):
        n.replace_all_uses_with(result)
    for user in list(n.users):
        if user.op == "output":
            user.args = _with(user.args, n, result)
        else:
            _give(user, result[user.kwargs["idx"]])
    n.graph.erase_node(n)


def _with(args: Any, n: fx.Node, result: Any) -> Any:
    if args is n:
        return result
    if isinstance(args, dict):
        return {k: _with(v, n, result) for k, v in args.items()}
    if isinstance(args, tuple | list):
        return type(args)(_with(v, n, result) for v in args)
    return args


def _with_one_mode(gm: fx.GraphModule) -> None:
    """Fake values of one mode again: what was traced apart brought those of another."""
    inputs = [n.meta.get("val") for n in gm.graph.find_nodes(op="placeholder")]
    mode = next(_modes(inputs), None) or fake_mode()
    try:
        with torch.no_grad():
            FakeTensorProp(gm, mode).propagate_dont_convert_inputs(*inputs)
    except Exception as error:  # what depends on data has no fake value
        logger.debug("shapes are not all known: %s", error)


def _modes(values: Any) -> Iterator[FakeTensorMode]:
    return (x.fake_mode for x in tree_leaves(values) if isinstance(x, FakeTensor))
