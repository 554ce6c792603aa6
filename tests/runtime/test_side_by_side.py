"""Work in several threads: in order, errors, signals; also where pools take no work any more."""

import subprocess
import sys
import threading
from collections import deque
from threading import Barrier
from typing import Any

import pytest

from migraphx.runtime import side_by_side as implementation
from migraphx.runtime.side_by_side import side_by_side
from tests.limits import HANG

AFTER_THE_MAIN_THREAD = """
import atexit, threading
from migraphx.runtime.side_by_side import side_by_side

def work(when):
    print(when, side_by_side(lambda k: k * k, range(5), 3), flush=True)

def later():
    threading.main_thread().join()
    work("thread")

atexit.register(work, "atexit")
threading.Thread(target=later).start()
"""


def test_values_are_in_order():
    together = Barrier(3)

    def one(k: int) -> int:
        if k < 3:
            together.wait(HANG)  # three threads work
        return k * k

    assert side_by_side(one, range(20), 3) == [k * k for k in range(20)]
    assert side_by_side(one, range(3, 5), 1) == [9, 16] and side_by_side(one, [], 4) == []


def test_the_first_items_error_is_raised():
    def one(k: int) -> float:
        return 1 / (k % 2)

    for threads in (1, 3):
        with pytest.raises(ZeroDivisionError):
            side_by_side(one, range(4), threads)


def test_each_thread_begins():
    begun: list[str] = []
    where = side_by_side(lambda _: threading.current_thread().name, [1], 1, lambda: begun.append("begun"))
    assert begun == ["begun"] and where != [threading.current_thread().name]


def test_where_the_system_gives_no_thread(monkeypatch):
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert side_by_side(abs, [-1, 2], 2) == [1, 2]


def test_what_is_left_is_not_begun_behind_a_signal(monkeypatch):
    begun: list[int] = []
    together, cleared = Barrier(3), threading.Event()

    class Work(deque[Any]):
        def clear(self) -> None:
            super().clear()
            cleared.set()

    def interrupted(_: object) -> None:
        together.wait(HANG)
        raise KeyboardInterrupt

    def one(k: int) -> None:
        begun.append(k)
        together.wait(HANG)
        cleared.wait(HANG)

    monkeypatch.setattr(implementation, "deque", Work)
    monkeypatch.setattr(implementation, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        side_by_side(one, range(9), 2)
    assert sorted(begun) == [0, 1]


def test_when_the_main_thread_has_ended():
    got = subprocess.run(
        [sys.executable, "-c", AFTER_THE_MAIN_THREAD], capture_output=True, text=True, timeout=HANG, check=True
    )
    assert got.stdout.splitlines() == [f"{when} [0, 1, 4, 9, 16]" for when in ("thread", "atexit")] and not got.stderr
