"""Programs whose arguments lie on the device: streams, addresses that change, odd addresses, threads, captures."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from migraphx.ir.operation import Unsupported
from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.device import HOST
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.device import CudaDevice, current_device
from migraphx.targets.gpu.executable import GpuExecutable
from tests.targets.gpu.test_executable import axpy, executable, floats, vector

N = 50


def doubled(accelerator: Accelerator, weight: np.ndarray | None = None, keep_weights: bool = True) -> GpuExecutable:
    """out = 2 x + x + w: through a temporary, with a weight."""
    x, w, t, out = (vector(kind, 0, N) for kind in ("input", "weight", "arena", "output"))
    calls = [axpy(x, x, t, 2.0), axpy(t, w, out)]
    weights = [floats(N, 9) if weight is None else weight]
    return executable(accelerator, calls, [x], [out], 0, weights, (), False, keep_weights=keep_weights)


def on(accelerator: Accelerator, array: np.ndarray, offset: int = 0) -> Argument:
    """A copy on the device, from `offset` bytes behind an aligned address on."""
    address, owner = accelerator.allocate(array.nbytes + offset)
    accelerator.write(address + offset, array.__array_interface__["data"][0], array.nbytes)
    return Argument(Shape.of(array), address + offset, owner, accelerator)


def values(argument: Argument) -> np.ndarray:
    return argument.to(HOST).array


def test_arguments_move(accelerator: Accelerator) -> None:
    """Other addresses in each run, odd ones among them; the answer is where it was asked for, or in new memory."""
    made, given = doubled(accelerator), []
    for k, offset in enumerate((0, 0, 4, 16, 0)):
        x = floats(N, k)
        given.append((x, on(accelerator, x, offset), on(accelerator, np.zeros_like(x), offset if k % 2 else 0)))
    for x, argument, place in [*given, *given[::-1]]:
        made.run([argument], [place])
        accelerator.synchronise()
        np.testing.assert_allclose(values(place), 3 * x + floats(N, 9), rtol=1e-5, atol=1e-5)
    (fresh,) = made.run([given[0][1]], None)
    assert fresh.device is accelerator
    np.testing.assert_allclose(values(fresh), 3 * given[0][0] + floats(N, 9), rtol=1e-5, atol=1e-5)
    assert made.run([given[0][1]], [given[0][2]])[0] is given[0][2]


def test_threads_on_streams_of_their_own(accelerator: Accelerator) -> None:
    made, wrong = doubled(accelerator), []

    def work(k: int) -> None:
        with accelerator.current():
            stream = accelerator.stream()
            for n in range(4):
                x = floats(N, 100 * k + n)
                place = on(accelerator, np.zeros_like(x))
                made.run([on(accelerator, x)], [place], stream)
                accelerator.synchronise(stream)
                if not np.allclose(values(place), 3 * x + floats(N, 9), rtol=1e-5, atol=1e-5):
                    wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.device
def test_many_runs_do_not_grow() -> None:
    """On a GPU: 10,000 runs take no memory, there or here; more than there is, is an error that leaves nothing."""
    try:
        device = current_device()
    except Unsupported as error:
        pytest.skip(str(error))
    made, x = doubled(device), on(device, floats(N))
    for _ in range(100):
        made.run([x], None)
    device.synchronise()
    before, host = in_pool(device), resident()
    for _ in range(10_000):
        made.run([x], None)
    device.synchronise()
    assert in_pool(device) <= before
    assert resident() - host <= 16 << 20
    with pytest.raises(MemoryError, match="bytes cannot be had on cuda"):
        device.allocate(2 * device.memory()[1])
    np.testing.assert_allclose(values(made.run([x], None)[0]), 3 * floats(N) + floats(N, 9), rtol=1e-5)


def in_pool(device: CudaDevice) -> int:
    """Bytes of the device that this process has in use, whatever other processes do there."""
    number, used = 7, ctypes.c_uint64()  # CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    pool = ctypes.c_void_p(device.driver.handle("device_pool", device.driver.number("device", device.index)))
    assert ctypes.CDLL("libcuda.so.1").cuMemPoolGetAttribute(pool, number, ctypes.byref(used)) == 0
    return used.value


def resident() -> int:
    """Bytes of main memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_given_back(accelerator: Accelerator) -> None:
    """With the executable; what it keeps for its next run, with `release`."""
    before = in_use(accelerator)
    made = doubled(accelerator)
    for _ in range(3):
        made.run([on(accelerator, floats(N))], None)
    accelerator.synchronise()
    made.release()
    gc.collect()
    assert in_use(accelerator) <= before + 2 * N * 4 + 4096  # the weight
    del made
    gc.collect()
    assert in_use(accelerator) <= before


def in_use(accelerator: Accelerator) -> int:
    if hasattr(accelerator, "driver"):
        pytest.skip("the driver counts memory in pages of its own")
    return accelerator.memory.bytes  # type: ignore[attr-defined]


def test_weights_leave_main_memory_and_are_shared(accelerator: Accelerator) -> None:
    """Their arrays are not kept; files and other programs get them from the device."""
    weight = floats(N, 9)
    gone = weakref.ref(weight)
    made = doubled(accelerator, weight=weight, keep_weights=False)
    del weight
    gc.collect()
    assert gone() is None
    _, tensors = made.sections()
    np.testing.assert_array_equal(tensors["weight.0"], floats(N, 9))
    other = doubled(accelerator)
    other.share_weights([made])
    assert other._program.weights[0] is made._program.weights[0]
    x = on(accelerator, floats(N))
    (result,) = other.run([x], None)
    accelerator.synchronise()
    np.testing.assert_allclose(values(result), 3 * floats(N) + floats(N, 9), rtol=1e-5, atol=1e-5)
