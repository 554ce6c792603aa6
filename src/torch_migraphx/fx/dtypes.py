"""Torch's types and tensors as the engine's: what running a lowered module needs of the vocabulary."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch

import migraphx
from torch_migraphx.fx.errors import UnsupportedError

TYPES: dict[torch.dtype, str] = {
    torch.bool: "bool",
    torch.float16: "half",
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "bf16",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
}
DTYPES: dict[str, torch.dtype] = {name: dtype for dtype, name in TYPES.items()}


def type_name(dtype: torch.dtype) -> str:
    """MIGraphX's name of a torch dtype; UnsupportedError where it has none."""
    name = TYPES.get(dtype)
    if name is None:
        raise UnsupportedError(f"the engine has no type for {dtype}")
    return name


def shape_of(tensor: torch.Tensor, standard: bool = False) -> migraphx.shape:
    """The engine's shape of a tensor, with its strides unless `standard`."""
    sizes = [int(n) for n in tensor.shape]
    if standard:
        return migraphx.shape(type_name(tensor.dtype), sizes)
    return migraphx.shape(type_name(tensor.dtype), sizes, list(tensor.stride()))


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as an array, over the same memory where that is main memory, which the array keeps alive."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    type_name(plain.dtype)
    return plain.numpy()
