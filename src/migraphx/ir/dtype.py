"""Element types by MIGraphX's names, and their NumPy counterparts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

_DTYPES: dict[str, np.dtype | str] = {
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
    "bf16": "bfloat16",
    "fp8e4m3fnuz": "float8_e4m3fnuz",
    "fp8e4m3fn": "float8_e4m3fn",
    "fp8e5m2": "float8_e5m2",
    "fp8e5m2fnuz": "float8_e5m2fnuz",
    "fp8e8m0fnu": "float8_e8m0fnu",
    "fp4e2m1fn": "float4_e2m1fn",
    "int4": "int4",
    "uint4": "uint4",
    "int2": "int2",
    "uint2": "uint2",
    "fp4x2": np.dtype([("codes", np.uint8)]),
}
"""A text is a type of ml_dtypes, whose import takes 10 ms: programs without such types need not wait for it."""


class NumpyTypes(Mapping[str, np.dtype]):
    """Type name -> NumPy dtype."""

    def __getitem__(self, name: str) -> np.dtype:
        found = _DTYPES[name]
        if isinstance(found, str):
            found = _DTYPES[name] = np.dtype(getattr(import_module("ml_dtypes"), found))
        return found

    def __contains__(self, name: object) -> bool:
        return name in _DTYPES

    def __iter__(self) -> Iterator[str]:
        return iter(_DTYPES)

    def __len__(self) -> int:
        return len(_DTYPES)


NUMPY_TYPES = NumpyTypes()
"""What is narrower than a byte takes a byte each. pack_int4 puts two into one, and so does pack_fp4, whose type is
fp4x2: such bytes are moved and unpacked, not computed with."""
_NAMES: dict[np.dtype, str] = {dtype: name for name, dtype in _DTYPES.items() if isinstance(dtype, np.dtype)}
COMPUTED = frozenset(NUMPY_TYPES) - {"fp4x2"}
FLOATS = frozenset(n for n in COMPUTED if n in ("half", "float", "double", "bf16") or n.startswith("fp"))
NARROW_FLOATS = FLOATS - {"float", "double"}
SIGNED = frozenset({"int2", "int4", "int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint2", "uint4", "uint8", "uint16", "uint32", "uint64"})
NARROW_INTEGERS = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8"}
"""Integers narrower than a byte, and the type in which they are computed."""
INTEGERS = SIGNED | UNSIGNED


def to_numpy(name: str) -> np.dtype:
    """The NumPy dtype of a MIGraphX type name; ValueError for an unknown name."""
    plain = name.removesuffix("_type")
    if plain not in _DTYPES:
        raise ValueError(f"unknown type {name!r}; the types are {', '.join(_DTYPES)}")
    return NUMPY_TYPES[plain]


def from_numpy(dtype: np.typing.DTypeLike) -> str:
    """The MIGraphX type name of a NumPy dtype; ValueError where there is none."""
    dtype = np.dtype(dtype)
    name = _NAMES.get(dtype)
    if name is None:
        _NAMES.update((found, narrow) for narrow, found in NUMPY_TYPES.items())
        name = _NAMES.get(dtype)
    if name is None:
        raise ValueError(f"no MIGraphX type for the NumPy dtype {dtype}")
    return name


def numbers(array: np.ndarray) -> np.ndarray:
    """The array, or, where its type is not computed with, a view of its bytes."""
    return array.view(np.uint8) if array.dtype.fields else array


def accumulator(name: str) -> np.dtype:
    """The dtype in which `ref` computes: narrow floats in float, narrow integers in bytes, the rest in itself."""
    return np.dtype(np.float32) if name in NARROW_FLOATS else to_numpy(NARROW_INTEGERS.get(name, name))


def wide(array: np.ndarray) -> np.ndarray:
    """The array in the type in which `ref` sums: floats in double, the rest in that of `accumulator`.

    A sum in double that is rounded once hardly depends on the order in which some processor's BLAS adds.
    """
    name = from_numpy(array.dtype)
    return array.astype(np.float64 if name in FLOATS else accumulator(name), copy=False)


def limits(name: str) -> tuple[float, float]:
    """The lowest and the largest finite number of a type."""
    info = import_module("ml_dtypes").iinfo(to_numpy(name)) if name in INTEGERS else _float_limits(name)
    return float(info.min), float(info.max)


def smallest_normal(name: str) -> float:
    """The least positive float of a type that has all its digits."""
    return float(_float_limits(name).smallest_normal)


def _float_limits(name: str) -> Any:
    return import_module("ml_dtypes").finfo(to_numpy(name))
