"""NVIDIA GPUs as devices: memory, streams, kernels and graphs by the driver's own functions."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from ctypes import byref
from functools import cached_property
from typing import Any

from migraphx.ir.operation import Unsupported
from migraphx.runtime.device import CUDA, device_of
from migraphx.targets.gpu import driver as names
from migraphx.targets.gpu.accelerator import Findings
from migraphx.targets.gpu.binaries import Ahead, Binary, binaries
from migraphx.targets.gpu.driver import Driver, DriverError, LaunchAttribute, LaunchConfig, NodeParameters, cuda_driver
from migraphx.targets.gpu.kernel import Grid, Kernel

CURRENT = nullcontext()  # the context is this thread's already
STATIC_SHARED = 48 << 10  # bytes: a kernel that needs more must be told so
KEPT = 256 << 20  # bytes of given-back memory that the driver keeps for the next run
STAGE = 8 << 20  # bytes of pinned memory for each half of a large copy to the device
DENSE = {75: 1024, 80: 2048, 86: 1024, 90: 4096, 100: 8192, 120: 2048}
"""Compute capability -> operations of a processor in a clock on fp16 in matrix units, a multiply-add as two."""
ARGUMENTS = {
    "i1": ctypes.c_int8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "fp32": ctypes.c_float,
    "fp64": ctypes.c_double,
}


def device_count() -> int:
    """How many devices there are; Unsupported where there is no driver."""
    return cuda_driver().number("device_count")


def current_device() -> CudaDevice:
    """The device of this thread's context, as torch and CUDA's runtime set it; the first one where there is none."""
    driver = cuda_driver()
    index = driver.number("context_device") if driver.handle("context") else 0
    found = device_of(CUDA, index)
    assert isinstance(found, CudaDevice)
    return found


class CudaDevice:
    """One GPU, in its primary context, which torch and CUDA's libraries use too."""

    kind = CUDA

    def __init__(self, index: int) -> None:
        """Unsupported where there is no such device."""
        self.driver, self.index, self.name = cuda_driver(), index, f"cuda:{index}"
        count = self.driver.number("device_count")
        if not 0 <= index < count:
            raise Unsupported(f"there is no {self.name}: the driver shows {count} devices (CUDA_VISIBLE_DEVICES?)")
        self._device = self.driver.number("device", index)
        self._context = self.driver.handle("primary_context", self._device)
        self.chip = f"cuda:{10 * self.attribute(names.MAJOR) + self.attribute(names.MINOR)}"
        self.findings = Findings()
        self._own = _Own()
        self._functions: dict[Kernel, CudaFunction] = {}
        self._lock = threading.Lock()
        self.capture_lock = threading.RLock()  # CUDA refuses to wait for a context of which a stream is captured
        self._staging = Staging(self)
        with self.current():
            self._pool = self.driver.handle("device_pool", self._device)
            self.driver.pool_attribute(self._pool, names.RELEASE_THRESHOLD, byref(ctypes.c_uint64(KEPT)))

    # ---- what it is ----

    def attribute(self, number: int) -> int:
        """A CUdevice_attribute."""
        return self.driver.number("device_attribute", number, self._device)

    @cached_property
    def model(self) -> str:
        name = ctypes.create_string_buffer(256)
        self.driver.device_name(name, len(name), self._device)
        return name.value.decode()

    def peak_flops(self) -> float:
        number = int(self.chip.removeprefix("cuda:"))
        known = max((n for n in DENSE if n <= number), default=min(DENSE))
        return DENSE[known] * self.attribute(names.PROCESSORS) * self.attribute(names.CLOCK) * 1e3

    def identity(self) -> str:
        return f"{self.model}, {self.chip}, driver {self.driver.number('version')}"

    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and all."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with self.current():
            self.driver.memory_info(byref(free), byref(total))
        return free.value, total.value

    # ---- contexts and streams ----

    def current(self) -> AbstractContextManager[Any]:
        own = self._own
        if status := self.driver.context(own.context_at):
            self.driver.raise_for(status, "context")
        return CURRENT if own.context.value == self._context else self._pushed()

    @contextmanager
    def _pushed(self) -> Iterator[None]:
        self.driver.context_push(self._context)
        try:
            yield
        finally:
            self.driver.handle("context_pop")

    @contextmanager
    def _beside_captures(self) -> Iterator[None]:
        """In the context; what would disturb another thread's capture, such as an allocation, does not."""
        mode = ctypes.c_int(names.RELAXED)
        with self.current():
            self.driver.capture_mode(byref(mode))
            try:
                yield
            finally:
                self.driver.capture_mode(byref(mode))

    def stream(self) -> int:
        own = self._own
        if own.stream is None:
            own.stream = _Stream(self)
        return own.stream.handle

    def capturing(self, stream: int) -> bool:
        own = self._own
        if status := self.driver.stream_capturing(stream, own.status_at):
            self.driver.raise_for(status, "stream_capturing")
        return own.status.value != 0

    def synchronise(self, stream: int | None = None) -> None:
        with self.current():
            if stream is None:
                self._wait_for_all()
            else:
                self.driver.stream_synchronise(stream)
        self.findings.raise_any()

    def _wait_for_all(self) -> None:
        with self.capture_lock:
            self.driver.context_synchronise()

    def event(self, timed: bool = False) -> CudaEvent:
        return CudaEvent(self, timed)

    # ---- memory ----

    def allocate(self, nbytes: int, stream: int | None = None) -> tuple[int, Any]:
        with self._beside_captures():
            try:
                return self._allocated(nbytes, stream)
            except MemoryError:
                self._wait_for_all()  # what was given back in streams
                self.driver.pool_trim(self._pool, 0)
                return self._allocated(nbytes, stream)

    def _allocated(self, nbytes: int, stream: int | None) -> tuple[int, Any]:
        address, size = ctypes.c_uint64(), max(nbytes, 1)
        try:
            if stream is None:
                self.driver.allocate(byref(address), size)
                return address.value, _Owner(self, self.driver.free, address.value)
            self.driver.allocate_async(byref(address), size, stream)
            return address.value, _Owner(self, self.driver.free_async, address.value, stream)
        except DriverError as error:
            if error.status != names.OUT_OF_MEMORY:
                raise
            free, total = self.memory()
            raise MemoryError(
                f"{nbytes:,} bytes cannot be had on {self.name} ({self.model}): {free:,} of {total:,} are free"
            ) from None

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        with self._beside_captures():
            address = self.driver.handle("host_allocate", nbytes, names.PINNED_FOR_ALL)
        ctypes.memset(address, 0, nbytes)
        return address, _Owner(self, self.driver.host_free, address)

    def holds(self, pointer: int) -> bool:
        """Memory that was allocated on this device, by whom ever; not main memory that is pinned for it."""
        index = ctypes.c_int(-1)
        with self.current():
            kind = self._memory_type(pointer)
            self.driver.pointer_attribute(byref(index), names.DEVICE_ORDINAL, pointer)
        return kind == names.DEVICE_MEMORY and index.value == self._device

    def _memory_type(self, pointer: int) -> int:
        """0 for memory that CUDA does not know, such as what NumPy allocates."""
        kind = ctypes.c_uint()
        self.driver.pointer_attribute(byref(kind), names.MEMORY_TYPE, pointer)
        return kind.value

    def copy(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        if nbytes:
            with self.current():
                self.driver.copy(to, source, nbytes, stream)
                self._finish(stream)

    def read(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        with self.current():
            if nbytes:
                self.driver.to_host(to, source, nbytes, stream)
            self.driver.stream_synchronise(stream)
        self.findings.raise_any()

    def write(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        with self.current():
            if nbytes > STAGE:
                self._staging.write(to, source, nbytes, stream)
            elif nbytes:
                self.driver.to_device(to, source, nbytes, stream)
                if stream is not None and self._memory_type(source) == names.HOST_MEMORY:  # pinned: it is read later
                    self.driver.stream_synchronise(stream)
            self._finish(stream)

    def _finish(self, stream: int | None) -> None:
        """Wait for a copy that names no stream: streams of programs do not wait for the default one."""
        if stream is None:
            self.driver.stream_synchronise(None)

    # ---- kernels and graphs ----

    @contextmanager
    def ahead(self) -> Iterator[Callable[[Kernel], None]]:
        def want(kernel: Kernel) -> None:
            if kernel not in self._functions:
                begun.want(kernel)

        with Ahead(self.chip) as begun:
            before, self._own.ahead = self._own.ahead, begun
            try:
                yield want
            finally:
                self._own.ahead = before

    def load(self, kernels: Sequence[Kernel], codes: Sequence[Binary] = ()) -> list[CudaFunction]:
        with self._lock:
            missing = [k for k in dict.fromkeys(kernels) if k not in self._functions]
        given = dict(zip(kernels, codes, strict=True)) if codes else {}
        made = {k: given[k] for k in missing} if codes else binaries(missing, self.chip, self._own.ahead)
        with self._lock, self._beside_captures():
            for kernel, binary in made.items():
                if kernel not in self._functions:
                    self._functions[kernel] = CudaFunction(self, kernel, binary)
            return [self._functions[k] for k in kernels]

    def work(self, function: Any, grid: Grid, values: Sequence[int], scratch: int = 0) -> CudaWork:
        return CudaWork(function, grid, values, scratch)

    def graph(self, works: Sequence[Any]) -> CudaGraph:
        with self._beside_captures():
            return CudaGraph(self, works)


class _Own(threading.local):
    """What a thread has of a device, and where the driver writes answers that each run asks for."""

    def __init__(self) -> None:
        self.stream: _Stream | None = None
        self.ahead: Ahead | None = None
        self.context, self.status = ctypes.c_void_p(), ctypes.c_int()
        self.context_at, self.status_at = ctypes.addressof(self.context), ctypes.addressof(self.status)


class _Owner:
    """Memory that is given back with its last user, or with the process."""

    def __init__(self, device: CudaDevice, free: Callable[..., Any], *arguments: int) -> None:
        weakref.finalize(self, _give_back, device, free, *arguments).atexit = False


def _give_back(device: CudaDevice, free: Callable[..., Any], *arguments: int) -> None:
    with suppress(DriverError), device._beside_captures():  # at the end of the process the driver may be gone
        free(*arguments)


class _Stream:
    def __init__(self, device: CudaDevice) -> None:
        with device.current():
            self.handle = device.driver.handle("stream_create", names.NON_BLOCKING)
        self._owner = _Owner(device, device.driver.stream_destroy, self.handle)


class CudaEvent:
    def __init__(self, device: CudaDevice, timed: bool) -> None:
        self._driver = device.driver
        with device.current():
            self.handle = self._driver.handle("event_create", 0 if timed else names.WITHOUT_TIMING)
        self._owner = _Owner(device, self._driver.event_destroy, self.handle)

    def record(self, stream: int) -> None:
        if status := self._driver.event_record(self.handle, stream):
            self._driver.raise_for(status, "event_record")

    def wait(self, stream: int) -> None:
        self._driver.stream_wait(stream, self.handle, 0)

    def done(self) -> bool:
        """DriverError where it never will be: the device's context is lost."""
        status = self._driver.event_query(self.handle)
        if status not in (names.SUCCESS, names.NOT_READY, names.CAPTURE_FORBIDS):
            raise self._driver.error(status, "cuEventQuery")
        return status == names.SUCCESS

    def seconds(self, since: Any) -> float:
        milliseconds = ctypes.c_float()
        self._driver.event_elapsed(byref(milliseconds), since.handle, self.handle)
        return milliseconds.value / 1e3


class Staging:
    """Large copies to the device, by two pieces of pinned memory in turn: one is filled while the other is sent."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._halves: list[tuple[int, Any, CudaEvent]] = []
        self._lock = threading.Lock()

    def write(self, to: int, source: int, nbytes: int, stream: int | None) -> None:
        with self._lock:
            if not self._halves:
                self._halves = [(*self._device.pinned(STAGE), self._device.event()) for _ in range(2)]
            for n, start in enumerate(range(0, nbytes, STAGE)):
                address, _, sent = self._halves[n % 2]
                size = min(STAGE, nbytes - start)
                while not sent.done():
                    pass
                ctypes.memmove(address, source + start, size)
                self._device.driver.to_device(to + start, address, size, stream)
                sent.record(stream or 0)


class CudaFunction:
    """A kernel in a device's context; it stays loaded until the process ends."""

    def __init__(self, device: CudaDevice, kernel: Kernel, binary: Binary) -> None:
        driver, self.device, self.kernel, self.code = device.driver, device, kernel, binary
        self.scratch = binary.scratch * binary.blocks
        library = driver.handle("library_load", binary.code, None, None, 0, None, None, 0)
        handle = driver.handle("library_kernel", library, binary.name.encode())
        self.handle = driver.handle("kernel_function", handle)
        if binary.shared > STATIC_SHARED:
            most = device.attribute(names.MOST_SHARED)
            if binary.shared > most:
                raise Unsupported(
                    f"kernel {kernel.name} needs {binary.shared:,} bytes of shared memory, {device.name} has {most:,}"
                )
            driver.function_set(self.handle, names.DYNAMIC_SHARED, binary.shared)
        self.types = [ctypes.c_uint64 if a.startswith("*") else ARGUMENTS[a] for a in kernel.arguments]
        self.attributes = _attributes(binary)


def _attributes(binary: Binary) -> Any:
    """The attributes of a launch, an array of its own."""
    made = []
    if binary.pdl:
        made.append(LaunchAttribute(names.OVERLAP, 0, (1,)))
    if binary.blocks > 1:
        made.append(LaunchAttribute(names.CLUSTER, 0, (binary.blocks, 1, 1)))
    return (LaunchAttribute * len(made))(*made)


class CudaWork:
    """A function with a grid and arguments in memory of their own, which a launch, or a graph's node, reads."""

    def __init__(self, function: CudaFunction, grid: Grid, values: Sequence[int], scratch: int) -> None:
        self.function, binary = function, function.code
        self._values = [kind() for kind in function.types]
        hidden = [ctypes.c_uint64(scratch), *(ctypes.c_uint64() for _ in range(binary.hidden - 1))][: binary.hidden]
        places = [ctypes.addressof(v) for v in (*self._values, *hidden)]
        self._hidden = hidden
        self._arguments = (ctypes.c_void_p * len(places))(*places)
        blocks = (grid[0] * binary.blocks, grid[1], grid[2])
        threads = (binary.threads, 1, 1)
        at, attributes = ctypes.addressof(self._arguments), function.attributes
        self.config = LaunchConfig(blocks, threads, binary.shared, None, attributes, len(attributes))
        self.node = NodeParameters(function.handle, blocks, threads, binary.shared, at, None, None, None)
        self._launch = function.device.driver.launch
        self.bind(values)

    def bind(self, values: Sequence[int]) -> None:
        for own, value in zip(self._values, values, strict=True):
            own.value = value

    def launch(self, stream: int) -> None:
        self.config.stream = stream
        self._launch(byref(self.config), self.function.handle, self._arguments, None)


class CudaGraph:
    """Works, captured once, with the node of each."""

    def __init__(self, device: CudaDevice, works: Sequence[Any]) -> None:
        driver, stream = device.driver, device.stream()
        self._driver, self._works = driver, list(works)
        self._nodes: list[int | None] = []  # None: a library's, which stay as they are
        with device.capture_lock:
            driver.capture_begin(stream, names.RELAXED)
            try:
                for work in works:
                    work.launch(stream)
                    self._nodes.append(_last_node(driver, stream) if isinstance(work, CudaWork) else None)
            except BaseException:
                with suppress(DriverError):  # the stream goes on; that the capture is lost as well is no news
                    self._end_capture(device, stream)
                raise
            graph = self._end_capture(device, stream)
        self._executable = driver.handle("graph_instantiate", graph, 0)
        self._owner = _Owner(device, driver.graph_executable_destroy, self._executable)

    def _end_capture(self, device: CudaDevice, stream: int) -> int:
        graph = ctypes.c_void_p()
        self._driver.capture_end(stream, byref(graph))
        self._graph_owner = _Owner(device, self._driver.graph_destroy, graph.value or 0)
        return graph.value or 0

    def launch(self, stream: int) -> None:
        if status := self._driver.graph_launch(self._executable, stream):
            self._driver.raise_for(status, "graph_launch")

    def update(self, k: int) -> None:
        self._driver.graph_update(self._executable, self._nodes[k], byref(self._works[k].node))


def _last_node(driver: Driver, stream: int) -> int:
    """What the stream that is captured did last."""
    status, number, graph, edges = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
    nodes, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t()
    driver.capture_info(stream, byref(status), byref(number), byref(graph), byref(nodes), byref(edges), byref(count))
    if count.value != 1:
        raise RuntimeError(f"a launch in a capture left {count.value} nodes that the next one depends on")
    return nodes[0] or 0
