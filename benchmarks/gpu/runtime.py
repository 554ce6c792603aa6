"""What running on target gpu costs beside its kernels: launches, addresses that change, copies, start, memory.

`python -m benchmarks.gpu.runtime [--only REGEX]` prints one JSON object; times are medians. Each case names what it
counts. Nothing here imports torch.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import migraphx
from migraphx.api.program import published
from migraphx.ir.builder import Builder
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.device import HOST
from migraphx.runtime.options import CompileOptions
from migraphx.targets.gpu.device import CudaDevice, CudaFunction, current_device
from migraphx.targets.gpu.executable import GpuExecutable
from migraphx.targets.gpu.target import GpuTarget

STEPS, ELEMENTS = 100, 1 << 16
START = """
import sys, time
begin = time.perf_counter()
import migraphx, numpy as np
imported = time.perf_counter() - begin
p = migraphx.load(sys.argv[1])
loaded = time.perf_counter() - begin
y = np.asarray(p.run({{"x": np.ones({n}, np.float32)}})[0])
print(imported, loaded, time.perf_counter() - begin, "torch" in sys.modules, "triton" in sys.modules)
"""


def chain(steps: int = STEPS, elements: int = ELEMENTS) -> Program:
    """Small kernels that no pass fuses: turn by turn a transposed copy and elementwise work."""
    made = Program()
    value = made.main.add_parameter("x", Shape("float", (elements,)))
    b = Builder(made.main)
    for _ in range(steps // 2):
        square = b.reshape(b.add(value, value), dims=(256, elements // 256))
        value = b.reshape(b.contiguous(b.transpose(square, permutation=(1, 0))), dims=(elements,))
    made.main.add_return([b.relu(value)])
    return made


def compiled(program: Program, device: CudaDevice, offload_copy: bool = False) -> GpuExecutable:
    made = GpuTarget(device).compile(program, CompileOptions(offload_copy=offload_copy))
    assert isinstance(made, GpuExecutable)
    return made


def median(call: Callable[[int], Any], repeats: int = 200) -> float:
    """Microseconds of a call on the host's clock."""
    spent = []
    for k in range(repeats):
        start = time.perf_counter()
        call(k)
        spent.append(time.perf_counter() - start)
    return statistics.median(spent[repeats // 10 :]) * 1e6


def on_device(device: CudaDevice, stream: int, call: Callable[[], Any], repeats: int = 50) -> float:
    """Microseconds of what a call appends, on the device's clock."""
    spent = []
    for _ in range(repeats):
        begin, end = device.event(timed=True), device.event(timed=True)
        begin.record(stream)
        call()
        end.record(stream)
        device.synchronise(stream)
        spent.append(end.seconds(begin))
    return statistics.median(spent[repeats // 10 :]) * 1e6


def launches(device: CudaDevice) -> dict[str, Any]:
    """A chain of small kernels, with and without their overlap (PDL), and what the host spends."""
    made, stream = compiled(chain(), device), device.stream()
    count = len(made.steps)
    places = [Argument.empty(Shape("float", (ELEMENTS,)), device) for _ in range(4)]
    a, b, c, d = (p.pointer for p in places)
    found: dict[str, Any] = {"kernels": count}
    found["overlapping us"] = on_device(device, stream, lambda: made.run_at([a], [b], stream))
    found["host us, same addresses"] = median(lambda k: made.run_at([a], [b], stream))
    device.synchronise()
    found["host us, both addresses change"] = median(lambda k: made.run_at([(a, c)[k % 2]], [(b, d)[k % 2]], stream))
    device.synchronise()
    loaded = dict(device._functions)
    with device.current():
        for kernel, function in loaded.items():
            device._functions[kernel] = CudaFunction(device, kernel, replace(function.code, pdl=False))
    plain = compiled(chain(), device)
    found["one after another us"] = on_device(device, stream, lambda: plain.run_at([a], [b], stream))
    device._functions.update(loaded)
    begin = time.perf_counter()
    fresh = compiled(chain(), device)
    found["compile again, warm cache, ms"] = (time.perf_counter() - begin) * 1e3
    begin = time.perf_counter()
    fresh.run_at([a], [b], stream)
    found["first run: arena, capture, instantiate, ms"] = (time.perf_counter() - begin) * 1e3
    return found


def copies(device: CudaDevice) -> dict[str, Any]:
    """GB/s of large copies between main memory and the device, and what a run with copies costs."""
    array = np.ones(1 << 28, np.float32)
    place = Argument.empty(Shape.of(array), device)
    at = array.ctypes.data

    def timed(call: Callable[[int], Any]) -> float:
        return array.nbytes / median(call, 5) / 1e3

    def plain(_: int) -> None:
        device.driver.to_device(place.pointer, at, array.nbytes, None)
        device.synchronise()

    def staged(_: int) -> None:
        device.write(place.pointer, at, array.nbytes)
        device.synchronise()

    with device.current():
        found = {"staged GB/s": timed(staged), "pageable GB/s": timed(plain)}
        found["back GB/s"] = timed(lambda k: device.read(at, place.pointer, array.nbytes))
    for n in (1 << 10, 1 << 20):
        made = compiled(chain(2, n), device, offload_copy=True)
        x, out = np.ones(n, np.float32), np.empty(n, np.float32)
        run = partial(made.run_at, [x.ctypes.data], [out.ctypes.data])
        found[f"run with copies of {4 * n} bytes us"] = median(lambda k, run=run: run())
    return found


def start(device: CudaDevice) -> dict[str, Any]:
    """Seconds from the start of a process to the first answer of a saved program, and whether torch or Triton came."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "p.mxr")
        made = published(chain())
        made.compile(migraphx.get_target("gpu"))
        migraphx.save(made, path, code=True)
        spent, said = [], ""
        for _ in range(4):
            begin = time.perf_counter()
            command = [sys.executable, "-c", START.format(n=ELEMENTS), path]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            spent.append(time.perf_counter() - begin)
    imported, loaded, answered, torch, triton = said.split()
    inside = {"import s": float(imported), "loaded s": float(loaded), "answered s": float(answered)}
    return {"process s": statistics.median(spent), **inside, "torch": torch, "triton": triton}


def memory(device: CudaDevice) -> dict[str, Any]:
    """10,000 runs without growth; more than there is asked for; 8 threads on streams of their own."""
    made = compiled(chain(10), device)
    x = Argument.of(np.ones(ELEMENTS, np.float32)).to(device)
    want = made.run([x], None)[0].to(HOST).array.copy()
    device.synchronise()
    before, pages = device.memory()[0], resident()
    for _ in range(10_000):
        made.run([x], None)
    device.synchronise()
    found: dict[str, Any] = {"growth bytes": before - device.memory()[0], "host growth bytes": resident() - pages}
    try:
        device.allocate(device.memory()[1])
        found["out of memory"] = "was not noticed"
    except MemoryError as error:
        found["out of memory"] = str(error)
    wrong: list[int] = []

    def work(k: int) -> None:
        with device.current():
            stream, place = device.stream(), Argument.empty(x.shape, device)
            for _ in range(200):
                made.run([x], [place], stream)
            device.synchronise(stream)
            if not np.array_equal(place.to(HOST).array, want):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {**found, "threads with wrong answers": wrong, "states": len(made._states)}


def resident() -> int:
    """Bytes of main memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


CASES = {case.__name__: case for case in (launches, copies, start, memory)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose names match")
    args = parser.parse_args()
    device = current_device()
    found: dict[str, Any] = {"device": device.identity(), "peaks": vars(GpuTarget(device).peaks(0))}
    for name, case in CASES.items():
        if re.search(args.only, name):
            try:
                found[name] = case(device)
            except Exception as error:
                found[name] = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps({name: found[name]}), file=sys.stderr, flush=True)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
