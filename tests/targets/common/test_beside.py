"""Compilations beside runs."""

import os
import sys
import threading

import pytest

from migraphx.targets.common.beside import BRISK, beside_runs, give_way, is_beside


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
