"""Runs end early: by a signal or by their timeout; and the program runs again.

Limits of time here only tell a run that ends from one that hangs.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import migraphx
from migraphx.targets.cpu.toolchain import find_compiler
from tests.limits import HANG
from tests.tiers import few

SOON = 0.1
TARGETS = ("ref", "cpu")

LOOP = """<ir_version: 10, opset_import: ["" : 21]>
net (float[N] x, float[N] step) => (float[N] y) {{
  most = Constant <value = int64 {{{trips}}}> ()
  always = Constant <value = bool {{1}}> ()
  limit = Constant <value = float {{100.0}}> ()
  y = Loop ({given}, always, x) <body = adding (int64 i, bool c, float[N] v) => (bool more, float[N] w) {{
    w = Add (v, step)
    largest = ReduceMax <keepdims = 0> (w)
    more = {condition}
  }}>
}}
"""
X, ONES, ZEROS = np.zeros(4, np.float32), np.ones(4, np.float32), np.zeros(4, np.float32)


def loop(
    target: str,
    condition: str = "Less (largest, limit)",
    trips: int | None = None,
    dynamic: bool = False,
    num_threads: int = 0,
) -> migraphx.program:
    """x + 100 for steps of 1; without end for steps of 0."""
    text = LOOP.format(trips=trips or 0, given='""' if trips is None else "most", condition=condition)
    dims = {"N": migraphx.shape.dynamic_dimension(1, 8) if dynamic else 4}
    p = migraphx.parse_onnx_buffer(onnx.parser.parse_model(text).SerializeToString(), dim_params=dims)
    p.compile(migraphx.get_target(target), num_threads=num_threads)
    return p


def product(target: str, n: int) -> migraphx.program:
    p = migraphx.program()
    main = p.get_main_module()
    a, b = (main.add_parameter(name, migraphx.shape("float", [n, n])) for name in "ab")
    main.add_return([main.add_instruction(migraphx.op("dot"), [a, b])])
    p.compile(migraphx.get_target(target))
    return p


@contextmanager
def alarm(
    error: type[BaseException], after: float = SOON, times: int = 1, call: Callable[[], object] = int
) -> Iterator[None]:
    """`times` SIGALRMs, each so many seconds after the last was handled. The handler calls, and the last one raises."""
    left = times

    def handler(*_: object) -> None:
        nonlocal left
        left -= 1
        call()
        if not left:
            raise error("enough")
        signal.setitimer(signal.ITIMER_REAL, after)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("target", "more"),
    [("ref", {}), ("cpu", {}), ("cpu", {"num_threads": 3}), ("ref", {"dynamic": True}), ("cpu", {"dynamic": True})],
)
def test_an_endless_loop(target: str, more: dict[str, Any]) -> None:
    p = loop(target, **more)

    def runs() -> None:
        assert np.array(p.run({"x": X, "step": ONES}, timeout=HANG)[0]).tolist() == [100] * 4

    runs()
    with pytest.raises(TimeoutError, match=r"its timeout of 0\.1 s"):
        p.run({"x": X, "step": ZEROS}, timeout=SOON)
    runs()
    with pytest.raises(KeyboardInterrupt), alarm(KeyboardInterrupt):
        p.run({"x": X, "step": ZEROS}, timeout=HANG)
    runs()
    with pytest.raises(TimeoutError):
        p.run_async({"x": X, "step": ZEROS}, timeout=0)
    runs()


@pytest.mark.parametrize("target", TARGETS)
def test_an_endless_loop_at_addresses(target: str) -> None:
    p, y = loop(target), np.empty_like(X)
    with pytest.raises(TimeoutError):
        p.run_at([X.ctypes.data, ZEROS.ctypes.data], [y.ctypes.data], timeout=SOON)
    p.run_at([X.ctypes.data, ONES.ctypes.data], [y.ctypes.data], timeout=HANG)
    assert y.tolist() == [100] * 4


@pytest.mark.slow
def test_a_loop_without_kernels() -> None:
    p = loop("cpu", "Identity (c)")
    with pytest.raises(TimeoutError):
        p.run({"x": X, "step": ZEROS}, timeout=SOON)
    text = LOOP.format(trips=0, given='""', condition="Identity (c)").replace("Add (v, step)", "Identity (v)")
    p = migraphx.parse_onnx_buffer(onnx.parser.parse_model(text).SerializeToString(), dim_params={"N": 4})
    for target in TARGETS:
        q = p.clone()
        q.compile(migraphx.get_target(target))
        with pytest.raises(TimeoutError):
            q.run({"x": X, "step": ZEROS}, timeout=SOON)


def test_handlers_run_while_a_program_does() -> None:
    p = loop("cpu")
    values: list[float] = []

    def again() -> None:  # the same program, inside its own run
        values.append(float(np.array(p.run({"x": X, "step": ONES})[0])[0]))

    with pytest.raises(LookupError, match="enough"), alarm(LookupError, 0.05, 3, again):
        p.run({"x": X, "step": ZEROS}, timeout=HANG)
    assert values == [100] * 3


@pytest.mark.parametrize("target", few(TARGETS, "cpu"))
def test_a_long_product(target: str) -> None:
    """One kernel, one call of NumPy."""
    n = 2500
    p, rng = product(target, n), np.random.default_rng(0)
    a, b = rng.standard_normal((2, n, n), np.float32)
    with pytest.raises(TimeoutError):
        p.run({"a": a, "b": b}, timeout=5e-4)
    with pytest.raises(KeyboardInterrupt), alarm(KeyboardInterrupt, 0.05):
        for _ in range(10000):
            p.run({"a": a, "b": b}, timeout=HANG)
    got = np.array(p.run({"a": a, "b": b}, timeout=HANG)[0])
    assert np.abs(got[:20] - a[:20].astype(np.float64) @ b).max() < 1e-2


def test_threads_end_alone() -> None:
    """Runs of other threads go on while one times out; threads other than the main one see no signals."""
    p = loop("cpu", num_threads=2)

    def ends(_: int) -> bool:
        with pytest.raises(TimeoutError):
            p.run({"x": X, "step": ZEROS}, timeout=SOON)
        return True

    def goes_on(_: int) -> bool:
        return all(np.array(p.run({"x": X, "step": ONES}, timeout=HANG)[0])[0] == 100 for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        ended, went = [pool.submit(ends, k) for k in range(2)], [pool.submit(goes_on, k) for k in range(4)]
        assert all(f.result(HANG) for f in (*ended, *went))


def test_a_host_step_ends() -> None:
    """What NumPy does between compiled parts, where lengths depend on data."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[N] x) => (int64[r, k] y) { y = NonZero (x) }"""
    model = onnx.parser.parse_model(text).SerializeToString()
    p = migraphx.parse_onnx_buffer(model, dim_params={"N": migraphx.shape.dynamic_dimension(1, 1 << 26)})
    p.compile(migraphx.get_target("cpu"))
    x = np.ones(1 << 22, np.float32)
    p.run({"x": x})
    with pytest.raises(TimeoutError):
        p.run({"x": x}, timeout=1e-4)
    assert np.array(p.run({"x": x}, timeout=HANG)[0]).shape == (1, 1 << 22)


@pytest.mark.slow
def test_compiling_for_a_new_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits for the compiler ends, too; what the compiler makes serves the next run."""
    compiler, go = tmp_path / "slow-g++", tmp_path / "go"
    wait = f'case " $* " in *" -c "*) while [ ! -e {go} ]; do sleep 0.02; done;; esac'
    compiler.write_text(f'#!/bin/sh\n{wait}\nexec {shlex.join(find_compiler().command)} "$@"\n')
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "cache"))
    text = """<ir_version: 10, opset_import: ["" : 21]> net (float[N] x) => (float[N] y) { y = Neg (x) }"""
    model = onnx.parser.parse_model(text).SerializeToString()
    p = migraphx.parse_onnx_buffer(model, dim_params={"N": migraphx.shape.dynamic_dimension(1, 8)})
    p.compile(migraphx.get_target("cpu"))
    try:
        with pytest.raises(TimeoutError, match=r"its timeout of 0\.1 s"):
            p.run({"x": X}, timeout=SOON)
        with pytest.raises(KeyboardInterrupt), alarm(KeyboardInterrupt):
            p.run({"x": X})
    finally:
        go.touch()
    assert np.array(p.run({"x": ONES}, timeout=HANG)[0]).tolist() == [-1] * 4


@pytest.mark.parametrize("target", few(TARGETS, "cpu"))
def test_control_c(target: str) -> None:
    """A real SIGINT ends a process that is in an endless loop."""
    text = LOOP.format(trips=0, given='""', condition="Identity (c)")
    code = f"""
import signal, numpy as np, onnx.parser, migraphx
signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored behind a shell's &
p = migraphx.parse_onnx_buffer(onnx.parser.parse_model({text!r}).SerializeToString(), dim_params={{"N": 4}})
p.compile(migraphx.get_target({target!r}))
x = np.zeros(4, np.float32)
try:
    print("runs", flush=True)
    p.run({{"x": x, "step": x}})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    child = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None and child.stdout.readline() == "runs\n"
        timer = threading.Timer(SOON, child.send_signal, [signal.SIGINT])
        timer.start()
        said, _ = child.communicate(timeout=HANG)
    finally:
        child.kill()
    assert said == "interrupted\n" and child.returncode == 0


@pytest.mark.parametrize("timeout", [-1.0, float("nan")])
def test_what_is_no_timeout(timeout: float) -> None:
    p = product("ref", 2)
    with pytest.raises(ValueError, match="is not a number of seconds"):
        p.run({"a": np.ones((2, 2), np.float32), "b": np.ones((2, 2), np.float32)}, timeout=timeout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child(tmp_path: Path) -> None:
    """Its runs go to another thread than the one that signals reach."""
    migraphx.save(loop("cpu", num_threads=2), str(tmp_path / "loop.mxr"))
    code = f"""
import os, signal
import numpy as np, migraphx
p = migraphx.load({str(tmp_path / "loop.mxr")!r})
x, ones = np.zeros(4, np.float32), np.ones(4, np.float32)

def runs():
    assert np.array(p.run({{"x": x, "step": ones}}, timeout={HANG})[0]).tolist() == [100] * 4

def handler(*_):
    runs()  # while the other thread is in its run
    raise LookupError

runs()
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status))
runs()
for ends, error in ((lambda: signal.setitimer(signal.ITIMER_REAL, {SOON}), LookupError), (lambda: None, TimeoutError)):
    signal.signal(signal.SIGALRM, handler)
    ends()
    try:
        p.run({{"x": x, "step": x}}, timeout={HANG} if error is LookupError else {SOON})
    except error:
        runs()
    else:
        os._exit(1)
os._exit(0)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=2 * HANG, check=True)
