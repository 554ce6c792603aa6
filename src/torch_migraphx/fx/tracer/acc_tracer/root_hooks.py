"""The forward hooks of the traced module itself, which run outside of its forward: leaves of the graph.

Hooks are Python functions, which may do anything: they run at each call, in torch, before and after the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from torch_migraphx.fx.tracer.structure import known

from .proxies import AccTraceError

# Hooks that are part of the trace: by some, transformers' models collect what their own forward reads or returns, by
# others torch's quantization calls observers and fake quantizers, which are modules.
TRACED_HOOKS = ("transformers.utils.output_capturing", "torch.ao.quantization.quantize")
BEFORE, AFTER = "hooks_before_forward", "hooks_after_forward"


def is_traced(hook: Any) -> bool:
    """Whether a hook is part of the trace, instead of a leaf."""
    return getattr(hook, "__module__", None) in TRACED_HOOKS


class RootHooks(nn.Module):
    """Takes and gives the leaves of what some hooks of a module take and give."""

    def __init__(self, root: nn.Module) -> None:
        super().__init__()
        self._root = (root,)  # a tuple hides it from nn.Module: this module is a part of it
        self.takes: TreeSpec | None = None
        self.gives: TreeSpec | None = None

    def hooks(self) -> list[tuple[Any, bool]]:
        """Each hook, and whether it takes keyword arguments."""
        raise NotImplementedError

    def run(self, value: Any) -> Any:
        """What the hooks make of `value`."""
        raise NotImplementedError

    def forward(self, *leaves: Any) -> tuple[Any, ...]:
        assert self.takes is not None
        given, self.gives = tree_flatten(known(self.run(tree_unflatten(leaves, self.takes))))
        return tuple(given)


def _own(hooks: Mapping[int, Any], with_kwargs: Mapping[int, Any]) -> list[tuple[Any, bool]]:
    return [(hook, key in with_kwargs) for key, hook in hooks.items() if not is_traced(hook)]


class BeforeForward(RootHooks):
    """Forward pre-hooks: (args, kwargs) to what they leave of them."""

    def hooks(self) -> list[tuple[Any, bool]]:
        root = self._root[0]
        return _own(root._forward_pre_hooks, root._forward_pre_hooks_with_kwargs)

    def run(self, value: Any) -> Any:
        args, kwargs = value
        for hook, with_kwargs in self.hooks():
            result = hook(self._root[0], args, kwargs) if with_kwargs else hook(self._root[0], args)
            if with_kwargs and result is not None:
                args, kwargs = result
            elif result is not None:
                args = result if isinstance(result, tuple) else (result,)
        return args, kwargs


class AfterForward(RootHooks):
    """Forward hooks: (output, args, kwargs) to the output that they leave."""

    def hooks(self) -> list[tuple[Any, bool]]:
        root = self._root[0]
        return _own(root._forward_hooks, root._forward_hooks_with_kwargs)

    def run(self, value: Any) -> Any:
        out, args, kwargs = value
        for hook, with_kwargs in self.hooks():
            given = (args, kwargs, out) if with_kwargs else (args, out)
            result = hook(self._root[0], *given)
            out = out if result is None else result
        return out


def hooked(root: nn.Module) -> nn.Module:
    """`root` with its own hooks as parts that a trace can call."""
    for name, kind in ((BEFORE, BeforeForward), (AFTER, AfterForward)):
        part = kind(root)
        if part.hooks():
            root.add_module(name, part)
    return root


def with_hooks(root: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`forward(*args, **kwargs)` with the hooks of `root` before and after it, while all of it is traced."""
    before, after = root._modules.get(BEFORE), root._modules.get(AFTER)
    if before is not None:
        args, kwargs = _called(before, (args, kwargs))
    out = forward(*args, **kwargs)
    return out if after is None else _called(after, (out, args, kwargs))


def _called(part: Any, value: Any) -> Any:
    leaves, part.takes = tree_flatten(known(value))
    result = part(*leaves)
    values = result.value
    if values is None:
        raise AccTraceError("a hook of the model can't be run on fake tensors")
    given = [result[k] if isinstance(v, torch.Tensor) else v for k, v in enumerate(values)]
    return tree_unflatten(given, part.gives)
