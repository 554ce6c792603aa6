"""migraphx.AsyncQueue: runs beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Semaphore
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.runtime.cores import available
from migraphx.targets.cpu.threads import runtime
from migraphx.targets.registry import get_target
from tests.limits import HANG


def doubling(target: str = "cpu", dynamic: bool = False) -> migraphx.program:
    """x + x."""
    p = migraphx.program()
    main = p.get_main_module()
    n = migraphx.shape.dynamic_dimension(1, 8)
    s = migraphx.shape("float", dyn_dims=[n]) if dynamic else migraphx.shape("float", [5])
    x = main.add_parameter("x", s)
    main.add_return([main.add_instruction(migraphx.op("add"), [x, x])])
    p.compile(migraphx.get_target(target))
    return p


class Held:
    """A program whose runs wait for leave; `started` counts them."""

    def __init__(self) -> None:
        self.program = doubling("ref")
        self.executable = self.program.executable
        self.started, self.leave = Semaphore(0), Event()

    def run(self, params: Any, timeout: float | None = None) -> list[migraphx.argument]:
        self.started.release()
        assert self.leave.wait(HANG)
        return self.program.run(params, timeout)


@contextmanager
def held(**sizes: int) -> Iterator[tuple[Held, migraphx.AsyncQueue]]:
    p: Any = Held()
    with migraphx.AsyncQueue(p, **sizes) as queue:
        try:
            yield p, queue
        finally:
            p.leave.set()


@pytest.mark.parametrize(("target", "dynamic"), [("ref", False), ("cpu", False), ("cpu", True)])
def test_answers_come_in_order(target: str, dynamic: bool) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(1 + k % 8 if dynamic else 5, np.float32) for k in range(40)]
    with migraphx.AsyncQueue(doubling(target, dynamic), streams=3) as queue:
        for x, (y,) in zip(inputs, queue.map({"x": x} for x in inputs), strict=True):
            assert np.array_equal(np.array(y), x + x)
        futures = [queue.submit({"x": x}) for x in inputs]
        assert all(np.array_equal(np.array(f.result(HANG)[0]), x + x) for f, x in zip(futures, inputs, strict=True))


def test_submit_waits_for_room() -> None:
    x = {"x": np.ones(5, np.float32)}
    with held(streams=2, depth=3) as (p, queue), ThreadPoolExecutor(1) as producer:
        first = [queue.submit(x) for _ in range(3)]
        assert p.started.acquire(timeout=HANG) and p.started.acquire(timeout=HANG)
        fourth = producer.submit(queue.submit, x)
        with pytest.raises(TimeoutError):
            fourth.result(0.05)
        assert first[2].cancel()  # it makes room, and is not run
        later = fourth.result(HANG)
        p.leave.set()
        assert np.array(later.result(HANG)[0]).tolist() == [2] * 5
        assert first[0].result(HANG) and first[1].result(HANG)
    assert p.started.acquire(timeout=HANG) and not p.started.acquire(blocking=False)


def test_who_stops_reading_leaves_nothing_behind() -> None:
    x = {"x": np.ones(5, np.float32)}
    taken = []
    with held(streams=1, depth=2) as (p, queue):
        p.leave.set()
        results = queue.map(taken.append(k) or x for k in range(100))
        next(results)
        results.close()
    assert len(taken) <= 3


def test_errors_are_the_runs_own() -> None:
    with migraphx.AsyncQueue(doubling(), streams=2) as queue:
        wrong, late = (
            queue.submit({"y": np.ones(5, np.float32)}),
            queue.submit({"x": np.ones(5, np.float32)}, timeout=-1),
        )
        with pytest.raises(ValueError, match="given: y"):
            wrong.result(HANG)
        with pytest.raises(ValueError, match="is not a number of seconds"):
            late.result(HANG)
        assert queue.submit({"x": np.ones(5, np.float32)}).result(HANG)
    with pytest.raises(RuntimeError, match="shutdown"):
        queue.submit({"x": np.ones(5, np.float32)})


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"streams": -1}, "must not be negative"),
        ({"depth": -1}, "must not be negative"),
        ({"streams": 3, "depth": 2}, "leaves some of 3"),
    ],
)
def test_wrong_numbers(sizes: dict[str, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        migraphx.AsyncQueue(doubling("ref"), **sizes)
    with pytest.raises(RuntimeError, match="compile the program"):
        migraphx.AsyncQueue(migraphx.program())


def test_streams_share_the_cores() -> None:
    def threads(runs: int) -> int:
        get_target("cpu").share(runs)
        return runtime().max_threads()

    with ThreadPoolExecutor(1) as other:
        assert other.submit(threads, 1).result() == available()
        assert other.submit(threads, 2 * available()).result() == 1
    assert migraphx.AsyncQueue(doubling()).streams == available()
