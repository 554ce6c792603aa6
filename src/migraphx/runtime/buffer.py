"""The buffer protocol for classes written in Python: the language has it from 3.12 on, here it is for 3.11 too.

`class Values(Exporter)` has a method `__buffer__(flags)` that gives a memoryview; `memoryview(values)` calls it. On
3.11 what `__buffer__` raises is lost, and the caller sees a SystemError. Source: PEP 688; CPython's C API,
PyType_FromSpec and Py_bf_getbuffer.
"""

import ctypes
import sys
from typing import Any

SLOT, BASE_TYPE = 1, 1 << 10  # Py_bf_getbuffer, Py_TPFLAGS_BASETYPE


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


_GET_BUFFER = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)


@_GET_BUFFER
def _get_buffer(exporter: Any, view: int, flags: int) -> int:
    """Fill the C caller's view; -1 on failure, as a callback cannot raise."""
    fill = _GET_BUFFER(("PyObject_GetBuffer", ctypes.pythonapi))
    try:
        return fill(exporter.__buffer__(flags), view, flags)
    except (BufferError, ValueError):
        return -1


def _exporter() -> type:
    function = ctypes.cast(_get_buffer, ctypes.c_void_p)
    slots = (_Slot * 2)(_Slot(SLOT, function), _Slot(0, None))
    spec = _Spec(b"migraphx.runtime.buffer.Exporter", 0, 0, BASE_TYPE, slots)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Spec))(("PyType_FromSpec", ctypes.pythonapi))
    return make(spec)


Exporter: Any = object if sys.version_info >= (3, 12) else _exporter()
