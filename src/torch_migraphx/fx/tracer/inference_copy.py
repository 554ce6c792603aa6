"""A copy of a module's structure, in inference form, that shares every weight with the original."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch import nn


def inference_copy(mod: nn.Module) -> nn.Module:
    """`mod` with all training flags off, without touching `mod` and without copying a tensor.

    Modules are new objects (a module that occurs twice stays one); whatever else they hold is shared, apart
    from the plain containers and bound methods that lead to a module. Scripted modules are shared.
    """
    return _Copier().module(mod)


class _Copier:
    def __init__(self) -> None:
        self._modules: dict[int, nn.Module] = {}

    def module(self, old: nn.Module) -> nn.Module:
        if isinstance(old, torch.jit.ScriptModule):
            return old
        if id(old) not in self._modules:
            new = object.__new__(type(old))
            self._modules[id(old)] = new
            # Assigned in one go: nn.Module.__setattr__ would register, and needs what is being copied.
            new.__dict__.update({k: self.value(v) for k, v in old.__dict__.items()})
            new.__dict__["training"] = False
        return self._modules[id(old)]

    def value(self, old: Any) -> Any:
        """`old` with the modules in it replaced by their copies."""
        if isinstance(old, nn.Module):
            return self.module(old)
        if isinstance(old, types.MethodType) and isinstance(old.__self__, nn.Module):
            return types.MethodType(old.__func__, self.module(old.__self__))
        if isinstance(old, dict) and type(old).__module__ in ("builtins", "collections"):
            new = old.copy()
            new.update({k: self.value(v) for k, v in old.items()})
            return new
        for plain in (list, tuple, set):
            if type(old) is plain:
                return plain(self.value(v) for v in old)
        return old
