"""The calls of the CUDA device on a driver that only keeps CUDA's rules: every call has the arguments that it takes."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import migraphx
from migraphx.ir.shape import Shape
from migraphx.runtime import device as device_module
from migraphx.runtime.argument import Argument
from migraphx.targets.cpu.toolchain import find_compiler
from migraphx.targets.gpu import device as module
from migraphx.targets.gpu import diagnose
from migraphx.targets.gpu.device import STAGE, CudaDevice
from migraphx.targets.gpu.driver import CUDA, Driver, DriverError, Library
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.gpu.side_by_side import built
from tests.targets.gpu.test_driver import HEADER
from tests.targets.gpu.test_executable import axpy, executable, floats, vector

N = 64
SOURCE = Path(__file__).with_name("stub.cpp")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    made = tmp_path_factory.mktemp("stub") / "libstub.so"
    flags = ["-std=c++20", "-O0", "-fPIC", "-shared", "-I", str(HEADER.parent)]
    subprocess.run([*find_compiler().command, *flags, str(SOURCE), "-o", str(made)], check=True)
    return Library(str(made), CUDA, "stub")


@pytest.fixture(scope="module")
def driver(library: Library) -> Driver:
    return Driver(library)


@pytest.fixture
def device(driver: Driver, monkeypatch: pytest.MonkeyPatch, own_objects: None) -> Iterator[CudaDevice]:
    """Behind a test nothing is left of what it allocated."""
    monkeypatch.setattr(module, "cuda_driver", lambda: driver)
    made = CudaDevice(0)
    before = made.memory()
    yield made
    gc.collect()
    assert made.memory() == before


def test_functions_are_spelt_with_the_versions_that_the_engine_asks_for() -> None:
    """What a plain name means depends on the header, which differs between Triton's versions."""
    text = SOURCE.read_text()
    assert [symbol for symbol, _ in CUDA.values() if not re.search(rf"\b{symbol}\(", text)] == []


def test_programs_run(device: CudaDevice) -> None:
    """Both ways of giving arguments, nodes that are updated, another thread, the clock."""
    x, t, out = (vector(k, 0, N) for k in ("input", "arena", "output"))
    calls = [axpy(x, x, t), axpy(t, x, out)]
    made = executable(device, calls, [x], [out])
    made.run_at([floats(N).ctypes.data], [np.empty(N, np.float32).ctypes.data])
    made = executable(device, calls, [x], [out], weights=[floats(N)], offload_copy=False)
    given = [device.allocate(4 * N + 16) for _ in range(3)]
    for place, _ in given[:2]:
        made.run_at([place], [given[2][0]], device.stream())
    with ThreadPoolExecutor(1) as other:
        other.submit(made.run_at, [given[0][0] + 4], [given[2][0]], 0).result()
    (state,) = made._states.values()  # which the thread's run waited for
    with device.current():
        assert np.allclose(made._timed(state, device.stream()), 1e-3)
    device.synchronise()


def test_two_devices(device: CudaDevice, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program works on its own, whichever is current, from threads of either; memory of another is refused."""
    other = CudaDevice(1)
    before = other.memory()
    for maker in (device_module, module):
        monkeypatch.setattr(maker, "device_of", lambda kind, index: (device, other)[index])
    assert module.current_device() is device
    with other.current():
        assert module.current_device() is other
        with device.current():
            assert module.current_device() is device
    on_both(device, other)
    gc.collect()
    assert other.memory() == before


def on_both(*devices: CudaDevice) -> None:
    x, t, out = (vector(k, 0, N) for k in ("input", "arena", "output"))
    calls = [axpy(x, x, t), axpy(t, x, out)]
    programs = [executable(d, calls, [x], [out], weights=[floats(N)], offload_copy=False) for d in devices]
    given = [[d.allocate(4 * N) for _ in range(3)] for d in devices]

    def work(k: int) -> None:
        with devices[k // 2 % 2].current():
            for n in range(6):
                which = (k + n) % 2
                (a, _), (b, _), (c, _) = given[which]
                programs[which].run_at([a if n % 4 < 2 else b], [c], 0)
                devices[which].synchronise()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(8)))
    for d, own, others in zip(devices, given, given[::-1], strict=True):
        assert d.holds(own[0][0]) and not d.holds(others[0][0])
    argument = Argument(Shape("float", (N,)), *given[0][0], devices[0])
    moved = argument.to(devices[1])
    assert moved.device is devices[1] and devices[1].holds(moved.pointer)


def test_captures_of_others_are_recorded_into(device: CudaDevice) -> None:
    x, out = (vector(k, 0, N) for k in ("input", "output"))
    made = executable(device, [axpy(x, x, out)], [x], [out], offload_copy=False)
    given = [device.allocate(4 * N) for _ in range(2)]
    with device.current():
        stream, graph = device.stream(), module.ctypes.c_void_p()
        device.driver.capture_begin(stream, 0)
        made.run_at([given[0][0]], [given[1][0]], stream)  # allocates an arena meanwhile
        device.driver.capture_end(stream, module.byref(graph))
        assert not device.driver.graph_launch(device.driver.handle("graph_instantiate", graph.value, 0), stream)
        device.driver.graph_destroy(graph)
    assert made._captured and not made._states


def test_what_each_run_calls_says_how_it_failed(device: CudaDevice) -> None:
    with device.current():
        stream, graph, event = device.stream(), device.graph([]), device.event()
        with pytest.raises(DriverError, match=r"^cuGraphLaunch: CUDA_ERROR_STUB \(1\)"):
            graph.launch(stream)  # of nothing
    with pytest.raises(DriverError, match=r"^cuEventRecord: CUDA_ERROR_STUB \(201\)"):
        event.record(stream)  # in no context


def test_a_launch_that_fails_in_a_capture_is_what_is_told(device: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of the capture, and the stream goes on; also where the driver gives the capture up."""
    x, out = (vector(k, 0, N) for k in ("input", "output"))
    made = executable(device, [axpy(x, x, out)] * 2, [x], [out], offload_copy=False)
    given = [device.allocate(4 * N) for _ in range(2)]
    end = device.driver.capture_end

    def fails(driver: Driver, stream: int) -> int:
        raise RuntimeError("a launch failed")

    def lost(stream: int, _: object) -> None:
        left = module.ctypes.c_void_p()
        end(stream, module.byref(left))
        device.driver.graph_destroy(left)
        raise device.driver.error(901, "cuStreamEndCapture")

    monkeypatch.setattr(module, "_last_node", fails)
    for ending in (end, lost):
        monkeypatch.setattr(device.driver, "capture_end", ending)
        with pytest.raises(RuntimeError, match=r"^a launch failed$"):
            made.run_at([given[0][0]], [given[1][0]], device.stream())


def test_nobody_waits_for_a_device_that_is_lost(device: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor takes one that is recorded, of which nothing may be asked meanwhile, for lost."""
    with device.current():
        event = device.event()
    for status, done in ((0, True), (600, False), (900, False)):
        monkeypatch.setattr(device.driver, "event_query", lambda _, status=status: status)
        assert event.done() is done
    monkeypatch.setattr(device.driver, "event_query", lambda _: 700)
    with pytest.raises(DriverError, match=r"cuEventQuery: CUDA_ERROR_STUB \(700\)"):
        event.done()


def test_who_waits_for_the_device_waits_for_captures(device: CudaDevice) -> None:
    """CUDA refuses to wait for a context of which another thread captures a stream."""

    class Captured:
        def launch(self, stream: int) -> None:
            waited.append(other.submit(device.synchronise))
            with pytest.raises(TimeoutError):
                waited[0].result(timeout=0.05)

    waited: list[Future[None]] = []
    with ThreadPoolExecutor(1) as other:
        device.graph([Captured()])
    waited[0].result()


def test_memory(device: CudaDevice) -> None:
    """Large copies go by staging; what is asked of an address; what an error says."""
    array, back = np.arange(STAGE // 2 + 1000, dtype=np.int32), np.zeros(STAGE // 2 + 1000, np.int32)
    place, owner = device.allocate(array.nbytes)
    device.write(place, array.ctypes.data, array.nbytes)
    device.read(back.ctypes.data, place, array.nbytes)
    np.testing.assert_array_equal(back, array)
    source, _pinned = device.pinned(64)
    device.write(place, source, 64)
    module.ctypes.memset(source, 7, 64)  # it may be reused
    device.read(back.ctypes.data, place, 64)
    assert not back[:16].any()
    other, _keep = device.allocate(array.nbytes, 0)
    device.copy(other, place, array.nbytes)
    assert device.holds(place) and not device.holds(array.ctypes.data)
    del owner
    with pytest.raises(
        MemoryError, match=r"99,999,999,999 bytes cannot be had on cuda:0 \(Stub\): .* of 1,073,741,824"
    ):
        device.allocate(99_999_999_999)
    with pytest.raises(DriverError, match=r"cuMemcpyDtoDAsync_v2: CUDA_ERROR_STUB \(1\): a text"):
        device.copy(other, 16, 4)


def test_copies_without_a_stream_are_done(device: CudaDevice) -> None:
    """Who reads them in a stream that does not wait for the default one finds them: a stub's memory is ours to see."""
    array = np.arange(16, dtype=np.int32)
    (first, _own), (second, _keep) = device.allocate(64), device.allocate(64)
    device.write(first, array.ctypes.data, 64)
    assert module.ctypes.string_at(first, 64) == array.tobytes()
    device.copy(second, first, 64)
    assert module.ctypes.string_at(second, 64) == array.tobytes()


def test_what_doctor_says(device: CudaDevice, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose, "device_of", lambda kind, index: device)
    monkeypatch.setattr(diagnose, "cuda_driver", lambda: driver)
    said = {name: check() for name, check in diagnose.CHECKS.items()}
    assert "cuda:0 Stub (cuda:90), 1,073,741,824 of 1,073,741,824 bytes free" in said["gpu devices"]
    assert said["gpu driver"] == "libcuda.so.1 for CUDA 13.0"
    assert "compiles kernels" in said["gpu compiler"] and "cuBLASLt" in said["gpu libraries"]


def test_a_saved_program_runs_without_what_compiles(device: CudaDevice, library: Library, tmp_path: Path) -> None:
    """A process of its own loads neither lowerings nor Triton, nor torch."""
    made = built(lambda b, x: b.exp(b.add(x, x)), Shape("float", (3, 40)))
    made.compile(GpuTarget(device))
    migraphx.save(made, tmp_path / "p.mxr", code=True)
    code = f"""
import dataclasses, sys
import numpy as np
import migraphx
from migraphx.targets.gpu import driver
driver.CUDA_DRIVER = dataclasses.replace(driver.CUDA_DRIVER, file={library.file!r})
p = migraphx.load({str(tmp_path / "p.mxr")!r}, trust_code=True)
assert np.asarray(p.run({{"x0": np.zeros((3, 40), np.float32)}})[0]).shape == (3, 40)
heavy = ["triton", "torch", "onnx", "migraphx.ops", "migraphx.targets.gpu.target", "migraphx.targets.gpu.lower"]
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
