"""Compilations beside runs."""

import os
import subprocess
import sys
import threading
from typing import Any, cast

import pytest

from migraphx.targets.common.beside import BRISK, begin_beside, beside_runs, give_way, is_beside
from tests.limits import HANG


def test_threads_take_turns_more_often_until_the_last_compilation_ends() -> None:
    before = sys.getswitchinterval()
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with beside_runs():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with beside_runs():
        assert is_beside() and sys.getswitchinterval() == pytest.approx(BRISK)
        thread.start()
        entered.wait()
    assert not is_beside() and sys.getswitchinterval() == pytest.approx(BRISK)
    leave.set()
    thread.join()
    assert sys.getswitchinterval() == pytest.approx(before)


def test_what_somebody_else_sets_meanwhile_stays() -> None:
    before = sys.getswitchinterval()
    try:
        with beside_runs():
            sys.setswitchinterval(0.003)
        assert sys.getswitchinterval() == pytest.approx(0.003)
    finally:
        sys.setswitchinterval(before)


def test_only_the_thread_itself_gives_way() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: (give_way(), found.append(os.getpriority(os.PRIO_PROCESS, 0))))
    before = os.getpriority(os.PRIO_PROCESS, 0)
    thread.start()
    thread.join()
    assert os.getpriority(os.PRIO_PROCESS, 0) == before <= found[0]


ENDS = """
import time
from concurrent.futures import ThreadPoolExecutor
from migraphx.targets.common.beside import begin_beside

def until_the_end():
    while True:
        try:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(int)
        except RuntimeError:
            return
        time.sleep(0.001)

def work():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(until_the_end).result()
        pool.submit(int)

begin_beside(work)
"""


def test_a_process_that_ends_meanwhile_says_nothing() -> None:
    """The pools of a compiler take no work any more."""
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=HANG, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(str(args.exc_value)))
    begin_beside(cast(Any, lambda: int("x"))).join()
    assert len(told) == 1 and "invalid literal" in told[0]
