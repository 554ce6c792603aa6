"""Element types by MIGraphX's names, and their NumPy counterparts."""

from __future__ import annotations

import ml_dtypes
import numpy as np

NUMPY_TYPES: dict[str, np.dtype] = {
    "bool": np.dtype(np.bool_),
    "half": np.dtype(np.float16),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "uint8": np.dtype(np.uint8),
    "int8": np.dtype(np.int8),
    "uint16": np.dtype(np.uint16),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint32": np.dtype(np.uint32),
    "uint64": np.dtype(np.uint64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "fp8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "fp8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
}
NAMES: dict[np.dtype, str] = {dtype: name for name, dtype in NUMPY_TYPES.items()}
FLOATS = frozenset(n for n in NUMPY_TYPES if n in ("half", "float", "double", "bf16") or n.startswith("fp8"))
NARROW_FLOATS = FLOATS - {"float", "double"}
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
INTEGERS = SIGNED | UNSIGNED


def to_numpy(name: str) -> np.dtype:
    """The NumPy dtype of a MIGraphX type name; ValueError for an unknown name."""
    dtype = NUMPY_TYPES.get(name.removesuffix("_type"))
    if dtype is None:
        raise ValueError(f"unknown type {name!r}; the types are {', '.join(NUMPY_TYPES)}")
    return dtype


def from_numpy(dtype: np.typing.DTypeLike) -> str:
    """The MIGraphX type name of a NumPy dtype; ValueError where there is none."""
    name = NAMES.get(np.dtype(dtype))
    if name is None:
        raise ValueError(f"no MIGraphX type for the NumPy dtype {np.dtype(dtype)}")
    return name


def accumulator(name: str) -> np.dtype:
    """The dtype in which `ref` computes: narrow floats in float, everything else in itself."""
    return np.dtype(np.float32) if name in NARROW_FLOATS else to_numpy(name)
