"""What every node of a traced graph says about itself: its value's shape and type, and its origin."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.fx.passes.shape_prop import TensorMetadata

from ..border import foreign


def copy_origin(old: fx.Node, new: fx.Node) -> None:
    """Give `new` the source line and the module path of `old`."""
    for key in ("stack_trace", "nn_module_stack"):
        if key in old.meta:
            new.meta[key] = old.meta[key]


def tensor_metadata(value: Any) -> Any:
    """torch.fx's TensorMetadata of a strided tensor, or of each one of a tuple or list (None in between)."""
    if isinstance(value, torch.Tensor) and not foreign(value):
        return TensorMetadata(
            shape=value.shape,
            dtype=value.dtype,
            requires_grad=value.requires_grad,
            stride=value.stride(),
            memory_format=None,
            is_quantized=False,
            qparams={},
        )
    if isinstance(value, tuple | list):
        return tuple(tensor_metadata(v) for v in value)
    return None


def set_value(node: fx.Node, value: Any) -> None:
    """Record the fake `value` of `node` as `meta["val"]` and `meta["tensor_meta"]`."""
    node.meta["val"] = value
    meta = tensor_metadata(value)
    if meta is not None:
        node.meta["tensor_meta"] = meta
