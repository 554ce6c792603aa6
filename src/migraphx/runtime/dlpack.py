"""DLPack for what NumPy's own cannot carry: other devices, bf16 and the 8-bit floats (https://dmlc.github.io/dlpack)."""

from __future__ import annotations

import ctypes
from sys import getrefcount
from typing import Any

from migraphx.ir.shape import ROW_MAJOR, Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.device import CUDA, ROCM, device_of

BEYOND_NUMPY = {
    "bf16": (4, 16),
    "fp8e4m3fn": (10, 8),
    "fp8e4m3fnuz": (11, 8),
    "fp8e5m2": (12, 8),
    "fp8e5m2fnuz": (13, 8),
}
CODES = {
    **{f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)},
    "half": (2, 16),
    "float": (2, 32),
    "double": (2, 64),
    "bool": (6, 8),
    **BEYOND_NUMPY,
}
"""DLPack's type code and bits of each type."""
TYPES = {pair: name for name, pair in CODES.items()}
DEFAULT_STREAMS = {CUDA: 1, ROCM: 0}  # as __dlpack__ is told of them
NAME = b"dltensor"
UNREFERENCED = 4  # counts of a capsule that only `_waiting` holds, looked at in a loop over a copy of it

_api = ctypes.pythonapi
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
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


def read(data: Any, stream: int | None = None) -> Argument | None:
    """View a tensor where it is, alive as long as the argument is; None for a type that is not in CODES.

    It is ready for what its device's stream does next. ValueError where no target of this build has its device.
    """
    device = device_of(*map(int, data.__dlpack_device__()))
    default = DEFAULT_STREAMS.get(device.kind)
    capsule = data.__dlpack__() if default is None else data.__dlpack__(stream=stream or default)
    tensor = _Managed.from_address(_pointer_of(capsule, NAME)).tensor
    name = TYPES.get((tensor.code, tensor.bits))
    if name is None or tensor.lanes != 1:
        return None
    lens = tuple(tensor.shape[: tensor.ndim])
    shape = Shape(name, lens, tuple(tensor.strides[: tensor.ndim]) if tensor.strides else ROW_MAJOR)
    start = (tensor.data or 0) + tensor.byte_offset
    return Argument(shape, start, capsule, device)  # the capsule's destructor frees the tensor


_exported: dict[int, tuple[Any, ...]] = {}  # by the address of its _Managed: what must stay alive
_waiting: dict[int, Any] = {}  # the capsules that nobody had taken yet


def write(argument: Argument) -> Any:
    """A capsule over the memory of a type in CODES, which lives until the consumer is done with it.

    It has no destructor: Python cannot run one where a consumer has raised, as NumPy does for these types. What nobody
    took is given back when the next one is written.
    """
    alive()
    shape, device = argument.shape, argument.device
    code, bits = CODES[shape.type]
    lens, strides = ((ctypes.c_int64 * shape.ndim)(*v) for v in (shape.lens, shape.strides))
    tensor = _Tensor(argument.pointer, device.kind, device.index, shape.ndim, code, bits, 1, lens, strides, 0)
    managed = _Managed(tensor, None, ctypes.cast(_release, ctypes.c_void_p).value)
    place = ctypes.addressof(managed)
    _exported[place] = (managed, lens, strides, argument)
    _waiting[place] = capsule = _new(place, NAME, None)
    return capsule


def alive() -> int:
    """How many exported tensors somebody has, once those that nobody took are given back."""
    for place, capsule in list(_waiting.items()):
        taken = not _is_valid(id(capsule), NAME)  # consumers rename it
        if taken or getrefcount(capsule) <= UNREFERENCED:
            _waiting.pop(place, None)
        if not taken and place not in _waiting:
            _exported.pop(place, None)
    return len(_exported)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _release(managed: int) -> None:
    """The consumer is done."""
    _exported.pop(managed, None)
