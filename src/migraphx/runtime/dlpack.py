"""DLPack for the types that NumPy's own cannot carry: bf16 and the 8-bit floats (https://dmlc.github.io/dlpack)."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.shape import ROW_MAJOR, Shape, strided
from migraphx.runtime.argument import Memory

CPU_DEVICES = (1, 3)  # main memory, and main memory pinned for CUDA
CODES = {
    "bf16": (4, 16),
    "fp8e4m3fn": (10, 8),
    "fp8e4m3fnuz": (11, 8),
    "fp8e5m2": (12, 8),
    "fp8e5m2fnuz": (13, 8),
}
TYPES = {pair: name for name, pair in CODES.items()}
NAME = b"dltensor"

_api = ctypes.pythonapi
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_raw_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _api))


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    """DLManagedTensor of dlpack.h."""

    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def read(data: Any) -> np.ndarray | None:
    """View a CPU tensor of a type in CODES, alive as long as the array is; None for other types."""
    device, _ = data.__dlpack_device__()
    if device not in CPU_DEVICES:
        raise ValueError(f"the data is on device type {device} (DLPack's number), not in main memory: copy it first")
    capsule = data.__dlpack__()  # whose destructor frees the tensor: kept as the array's owner
    tensor = _Managed.from_address(_pointer_of(capsule, NAME)).tensor
    name = TYPES.get((tensor.code, tensor.bits))
    if name is None or tensor.lanes != 1:
        return None
    lens = tuple(tensor.shape[: tensor.ndim])
    shape = Shape(name, lens, tuple(tensor.strides[: tensor.ndim]) if tensor.strides else ROW_MAJOR)
    dtype = dtypes.to_numpy(name)
    if not shape.elements:
        return np.empty(lens, dtype)
    memory = Memory(tensor.data + tensor.byte_offset, shape.bytes, capsule)
    return strided(np.asarray(memory).view(dtype), shape)


_exported: dict[int, tuple[Any, ...]] = {}  # by the address of its _Managed: what must stay alive


def write(array: np.ndarray) -> Any:
    """A capsule over an array of a type in CODES; its memory lives until the consumer is done with it."""
    shape = Shape.of(array)
    code, bits = CODES[shape.type]
    lens, strides = ((ctypes.c_int64 * shape.ndim)(*v) for v in (shape.lens, shape.strides))
    tensor = _Tensor(
        array.__array_interface__["data"][0], CPU_DEVICES[0], 0, shape.ndim, code, bits, 1, lens, strides, 0
    )
    managed = _Managed(tensor, None, ctypes.cast(_release, ctypes.c_void_p).value)
    _exported[ctypes.addressof(managed)] = (managed, lens, strides, array)
    return _new(ctypes.addressof(managed), NAME, ctypes.cast(_drop, ctypes.c_void_p))


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _release(managed: int) -> None:
    """The consumer is done."""
    _exported.pop(managed, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _drop(capsule: int) -> None:
    """Nobody took the capsule: a consumer would have renamed it."""
    if _is_valid(capsule, NAME):
        _exported.pop(_raw_pointer_of(capsule, NAME), None)
