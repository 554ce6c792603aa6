"""What tools ask of acc graphs: whether a node is an acc operator, what it takes, what is known of its tensors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.passes.shape_prop import TensorMetadata

from torch_migraphx.fx.tracer.acc_tracer import acc_normalizer


def is_acc_op(node_or_target: fx.Node | Callable[..., Any]) -> bool:
    """Whether a node calls an acc operator, or a function is one."""
    if isinstance(node_or_target, fx.Node):
        return node_or_target.op == "call_function" and acc_normalizer.is_acc_op(node_or_target.target)
    return acc_normalizer.is_acc_op(node_or_target)


def is_acc_op_with_kwarg(node_or_target: fx.Node | Callable[..., Any], kwarg: str) -> bool:
    """Whether it is an acc operator that has an argument of this name."""
    target = node_or_target.target if isinstance(node_or_target, fx.Node) else node_or_target
    return is_acc_op(node_or_target) and callable(target) and kwarg in inspect.signature(target).parameters


def build_raw_tensor_meta(
    shape: Any = None,
    dtype: torch.dtype | None = None,
    requires_grad: bool | None = None,
    stride: Any = None,
    memory_format: torch.memory_format | None = None,
    is_quantized: bool | None = None,
    qparams: dict[str, Any] | None = None,
) -> TensorMetadata:
    """A TensorMetadata of which only some fields are known; the others are None."""
    known: Any = (shape, dtype, requires_grad, stride, memory_format, is_quantized, qparams)
    return TensorMetadata(*known)


def get_field_from_acc_out_ty(acc_out_ty: TensorMetadata | dict[str, Any], field: str) -> Any:
    """A field of a TensorMetadata, or of a dict of its fields."""
    return acc_out_ty[field] if isinstance(acc_out_ty, dict) else getattr(acc_out_ty, field)


def map_tensor_metadata(a: Any, fn: Callable[[TensorMetadata], Any]) -> Any:
    """`fn` of each TensorMetadata in nested tuples, lists and dicts; numbers and None become 1."""
    if isinstance(a, TensorMetadata):  # a tuple itself
        return fn(a)
    if a is None or isinstance(a, int):
        return 1
    if isinstance(a, dict):
        return {key: map_tensor_metadata(value, fn) for key, value in a.items()}
    if isinstance(a, tuple | list):
        return (list if isinstance(a, list) else tuple)(map_tensor_metadata(value, fn) for value in a)
    raise TypeError(f"a {type(a).__name__} holds no TensorMetadata")


def get_unique_attr_name_in_module(mod_traced: fx.GraphModule, name: str) -> str:
    """`name` as an identifier that `mod_traced` has no attribute of yet; a number is appended where it has."""
    name = re.sub(r"\W+", "_", name)
    name = f"_{name}" if name[:1].isdigit() else name
    while hasattr(mod_traced, name):
        stem, _, number = name.rpartition("_")
        name = f"{stem}_{int(number) + 1}" if stem and number.isdecimal() else f"{name}_1"
    return name


def get_tensor_meta(node: fx.Node) -> TensorMetadata:
    """The TensorMetadata of a node; RuntimeError where no tracer or shape propagation gave it one."""
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(f"{node.format_node()} has no tensor_meta: run AccShapeProp(gm).propagate(*inputs) first")
    return meta
