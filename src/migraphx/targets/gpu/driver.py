"""The driver's library by ctypes: functions under neutral names, each of which raises what its status says.

The names and orders of arguments are those that CUDA's and HIP's drivers have in common, so that a second library is a
second table. Source: cuda.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from migraphx.ir.operation import Unsupported

SUCCESS, OUT_OF_MEMORY, NOT_READY = 0, 2, 600
CAPTURE_FORBIDS = 900  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: somebody records a stream, and nothing may be asked
RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: calls that could disturb another thread's capture are allowed
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: no order with the default stream
WITHOUT_TIMING = 2  # CU_EVENT_DISABLE_TIMING
PINNED_FOR_ALL = 3  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
RELEASE_THRESHOLD = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
CLUSTER, OVERLAP = 4, 6  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, ..._PROGRAMMATIC_STREAM_SERIALIZATION
DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
MEMORY_TYPE, DEVICE_ORDINAL = 2, 9  # CU_POINTER_ATTRIBUTE_...
HOST_MEMORY, DEVICE_MEMORY = 1, 2  # CU_MEMORYTYPE_...
CLOCK, PROCESSORS, MAJOR, MINOR, MOST_SHARED = 13, 16, 75, 76, 97  # CUdevice_attribute


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute; of its value only whole numbers are used."""

    _fields_ = [("id", c_int), ("pad", c_int), ("value", c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)),
        ("attribute_count", c_uint),
    ]


class NodeParameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("arguments", c_void_p),
        ("extra", c_void_p),
        ("kernel", c_void_p),
        ("context", c_void_p),
    ]


_handle, _address, _numbers = POINTER(c_void_p), c_uint64, POINTER(c_int)

CUDA: dict[str, tuple[str, tuple[Any, ...]]] = {
    "init": ("cuInit", (c_uint,)),
    "version": ("cuDriverGetVersion", (_numbers,)),
    "device_count": ("cuDeviceGetCount", (_numbers,)),
    "device": ("cuDeviceGet", (_numbers, c_int)),
    "device_name": ("cuDeviceGetName", (c_char_p, c_int, c_int)),
    "device_attribute": ("cuDeviceGetAttribute", (_numbers, c_int, c_int)),
    "device_pool": ("cuDeviceGetDefaultMemPool", (_handle, c_int)),
    "pool_attribute": ("cuMemPoolSetAttribute", (c_void_p, c_int, c_void_p)),
    "pool_trim": ("cuMemPoolTrimTo", (c_void_p, c_size_t)),
    "primary_context": ("cuDevicePrimaryCtxRetain", (_handle, c_int)),
    "context": ("cuCtxGetCurrent", (c_void_p,)),  # of each run, as is the next: an address is taken quickest
    "context_device": ("cuCtxGetDevice", (_numbers,)),
    "context_push": ("cuCtxPushCurrent_v2", (c_void_p,)),
    "context_pop": ("cuCtxPopCurrent_v2", (_handle,)),
    "context_synchronise": ("cuCtxSynchronize", ()),
    "memory_info": ("cuMemGetInfo_v2", (POINTER(c_size_t), POINTER(c_size_t))),
    "allocate": ("cuMemAlloc_v2", (POINTER(c_uint64), c_size_t)),
    "free": ("cuMemFree_v2", (_address,)),
    "allocate_async": ("cuMemAllocAsync", (POINTER(c_uint64), c_size_t, c_void_p)),
    "free_async": ("cuMemFreeAsync", (_address, c_void_p)),
    "pointer_attribute": ("cuPointerGetAttribute", (c_void_p, c_int, _address)),
    "host_allocate": ("cuMemHostAlloc", (_handle, c_size_t, c_uint)),
    "host_free": ("cuMemFreeHost", (c_void_p,)),
    "to_device": ("cuMemcpyHtoDAsync_v2", (_address, c_void_p, c_size_t, c_void_p)),
    "to_host": ("cuMemcpyDtoHAsync_v2", (c_void_p, _address, c_size_t, c_void_p)),
    "copy": ("cuMemcpyDtoDAsync_v2", (_address, _address, c_size_t, c_void_p)),
    "stream_create": ("cuStreamCreate", (_handle, c_uint)),
    "stream_destroy": ("cuStreamDestroy_v2", (c_void_p,)),
    "stream_synchronise": ("cuStreamSynchronize", (c_void_p,)),
    "stream_wait": ("cuStreamWaitEvent", (c_void_p, c_void_p, c_uint)),
    "stream_capturing": ("cuStreamIsCapturing", (c_void_p, c_void_p)),
    "capture_begin": ("cuStreamBeginCapture_v2", (c_void_p, c_int)),
    "capture_end": ("cuStreamEndCapture", (c_void_p, _handle)),
    "capture_info": (
        "cuStreamGetCaptureInfo_v3",
        (c_void_p, _numbers, POINTER(c_uint64), _handle, POINTER(_handle), _handle, POINTER(c_size_t)),
    ),
    "capture_mode": ("cuThreadExchangeStreamCaptureMode", (_numbers,)),
    "event_create": ("cuEventCreate", (_handle, c_uint)),
    "event_record": ("cuEventRecord", (c_void_p, c_void_p)),
    "event_query": ("cuEventQuery", (c_void_p,)),
    "event_elapsed": ("cuEventElapsedTime", (POINTER(c_float), c_void_p, c_void_p)),
    "event_destroy": ("cuEventDestroy_v2", (c_void_p,)),
    "graph_instantiate": ("cuGraphInstantiateWithFlags", (_handle, c_void_p, c_uint64)),
    "graph_launch": ("cuGraphLaunch", (c_void_p, c_void_p)),
    "graph_update": ("cuGraphExecKernelNodeSetParams_v2", (c_void_p, c_void_p, POINTER(NodeParameters))),
    "graph_executable_destroy": ("cuGraphExecDestroy", (c_void_p,)),
    "graph_destroy": ("cuGraphDestroy", (c_void_p,)),
    "library_load": (
        "cuLibraryLoadData",
        (_handle, c_void_p, c_void_p, c_void_p, c_uint, c_void_p, c_void_p, c_uint),
    ),
    "library_kernel": ("cuLibraryGetKernel", (_handle, c_void_p, c_char_p)),
    "kernel_function": ("cuKernelGetFunction", (_handle, c_void_p)),
    "function_set": ("cuFuncSetAttribute", (c_void_p, c_int, c_int)),
    "launch": ("cuLaunchKernelEx", (POINTER(LaunchConfig), c_void_p, c_void_p, c_void_p)),
    "error_name": ("cuGetErrorName", (c_int, POINTER(c_char_p))),
    "error_text": ("cuGetErrorString", (c_int, POINTER(c_char_p))),
}

ANSWERS = {"event_query", "pointer_attribute", "error_name", "error_text"}
"""Functions whose status is an answer."""
OF_EACH_RUN = {"context", "stream_capturing", "graph_launch", "event_record"}
"""Functions whose callers see themselves whether they failed: to let ctypes do so takes half as long as a call."""


@dataclass(frozen=True)
class Library:
    """A driver: the file that the system's loader looks for, its functions, and what its status codes mean."""

    file: str
    functions: Mapping[str, tuple[str, tuple[Any, ...]]]
    vendor: str


CUDA_DRIVER = Library("libcuda.so.1", CUDA, "NVIDIA")


class DriverError(RuntimeError):
    """A call of the driver failed: says which, and the driver's name and text for it."""

    def __init__(self, function: str, status: int, name: str, text: str) -> None:
        super().__init__(f"{function}: {name} ({status}): {text}")
        self.status = status


class Driver:
    """The functions of a library, by the table's names: `driver.allocate(byref(address), nbytes)`.

    DriverError where one fails; MemoryError is the caller's to make, who knows what for. Those in ANSWERS and in
    OF_EACH_RUN return their status, whatever it is; `raise_for` makes an error of it.
    """

    def __init__(self, library: Library) -> None:
        """Unsupported where the library, one of its functions, or a device is missing."""
        try:
            loaded = ctypes.CDLL(library.file)
        except OSError as error:
            raise Unsupported(
                f"target gpu needs {library.file}, which comes with the driver of an {library.vendor} GPU: {error}"
            ) from None
        for name, (symbol, types) in library.functions.items():
            try:
                function = getattr(loaded, symbol)
            except AttributeError:
                raise Unsupported(f"{library.file} has no {symbol}: its driver is too old (12.3 has it)") from None
            function.argtypes, function.restype = types, c_int
            if name not in ANSWERS | OF_EACH_RUN:
                function.errcheck = self._check
            setattr(self, name, function)
        try:
            self.init(0)
        except DriverError as error:
            raise Unsupported(f"{library.file} is there, but no GPU can be used: {error}") from None

    def __getattr__(self, name: str) -> Any:  # for type checkers: functions are attributes of their own
        raise AttributeError(name)

    def _check(self, status: int, function: Any, _: Any) -> int:
        if status:
            raise self.error(status, function.__name__)
        return status

    def raise_for(self, status: int, name: str) -> None:
        """The error of a function that failed, by the table's name."""
        raise self.error(status, getattr(self, name).__name__)

    def error(self, status: int, function: str) -> DriverError:
        texts = []
        for ask in (self.error_name, self.error_text):
            found = c_char_p()
            ask(status, ctypes.byref(found))  # which fails for a status that the library does not know itself
            texts.append((found.value or b"unknown").decode())
        return DriverError(function, status, *texts)

    def number(self, name: str, *arguments: Any) -> int:
        """The whole number that a function puts behind its first argument."""
        found = c_int()
        getattr(self, name)(ctypes.byref(found), *arguments)
        return found.value

    def handle(self, name: str, *arguments: Any) -> int:
        """The handle that a function puts behind its first argument; 0 for none."""
        found = c_void_p()
        getattr(self, name)(ctypes.byref(found), *arguments)
        return found.value or 0


@cache
def cuda_driver() -> Driver:
    """NVIDIA's driver, initialised; Unsupported says what is missing."""
    return Driver(CUDA_DRIVER)
