"""What the engine can hold: asked of every tensor that comes to its border (inputs, weights, constants, results).

The engine reads memory by address, so an address must be that of strided elements of a type that it knows. What it
cannot hold stays in torch, with the operators that read it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves

from torch_migraphx.devices import TYPES
from torch_migraphx.fx.dtypes import TYPES as ENGINE_TYPES

MKLDNN: torch.layout = vars(torch)["_mkldnn"]


def has_own_operators(x: torch.Tensor) -> bool:
    """Whether the class of `x` answers torch's operators itself: its elements are wherever it keeps them."""
    kind: Any = type(x)
    return kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl


def of_torchao(x: torch.Tensor) -> bool:
    """Whether `x` is a weight that torchao quantized: its operators are written in those of plain tensors."""
    return any(c.__module__.partition(".")[0] == "torchao" for c in type(x).__mro__)


def opaque(x: torch.Tensor) -> str:
    """Why no fake tensor can stand for `x`, so that nothing that reads it can be traced; "" where one can."""
    if x.is_quantized:
        return f"is quantized ({x.dtype})"
    if x.layout is MKLDNN or (x.is_nested and not has_own_operators(x)):
        return f"has the layout {x.layout}" + (", nested" if x.is_nested else "")
    return ""


def foreign(x: torch.Tensor) -> str:
    """Why `x` is not plain, strided memory of its own; "" where it is. Strides and storage may be asked of no other."""
    if is_functorch_wrapped_tensor(x):
        return "belongs to a transform of torch.func"
    if has_own_operators(x) and not isinstance(x, FakeTensor):
        return f"is of the class {type(x).__name__}, which has operators of its own"
    if x.layout is not torch.strided:
        return f"has the layout {x.layout}"
    return opaque(x)


def not_held(x: torch.Tensor, devices: Collection[str] = TYPES) -> str:
    """Why the engine cannot hold `x`, real or fake, of one of these device types; "" where it can."""
    why = foreign(x)
    if why:
        return why
    if x.dtype not in ENGINE_TYPES:
        return f"is {x.dtype}, a type that the engine does not have"
    if x.device.type not in devices:
        return f"is on {x.device.type}; the engine compiles for {', '.join(sorted(devices))}"
    return "" if isinstance(x, FakeTensor) or _has_memory(x) else "has no memory"


def _has_memory(x: torch.Tensor) -> bool:
    """Whether the elements of a strided tensor are there: those of a freed or imaginary storage are not."""
    try:
        return x.numel() == 0 or x.untyped_storage().data_ptr() != 0
    except RuntimeError:
        return False


def fake_of(x: Any, mode: FakeTensorMode) -> Any:
    """A fake tensor for `x` alone, whatever it is a view of; what is no tensor as it is."""
    if not isinstance(x, torch.Tensor):
        return x
    if foreign(x):
        return mode.from_tensor(x)
    with mode:
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def first_not_held(value: Any, devices: Collection[str]) -> str:
    """Why the engine cannot hold one of the tensors of a nested value; "" where it can hold them all."""
    tensors = (x for x in tree_leaves(value) if isinstance(x, torch.Tensor))
    return next(filter(None, (not_held(x, devices) for x in tensors)), "")
