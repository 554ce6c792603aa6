"""All converters: importing this module registers ours, which those of users then replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

import torch_migraphx.fx.converters  # noqa: F401  # fills CONVERTERS
from torch_migraphx.fx.converter import CONVERTERS, UserConverter

__all__ = ["CONVERTERS", "migraphx_converter"]


def migraphx_converter(
    target: Callable[..., Any] | type[nn.Module], enabled: bool = True, min_migraphx_ver: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a converter as Torch-MIGraphX has it, for a function (acc or ATen operator) or a class of modules.

    That of a function is called as `f(mgx_module, node, args, kwargs)`, that of modules, which the tracer must have
    kept whole (`leaf_modules`), as `f(mgx_module, torch_mod, node, args, kwargs)`; tensors among the arguments, and
    what it returns, are MGXInstructions. It replaces the converter that the target had. With `enabled=False` nothing is
    registered; every version in `min_migraphx_ver` counts as reached.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if enabled:
            CONVERTERS[target] = UserConverter(target, (), function)
        return function

    return register
