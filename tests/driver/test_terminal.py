"""The line that spins: on a terminal only, late, and gone at the end."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from migraphx.driver import terminal as module
from migraphx.driver.terminal import spinner
from migraphx.targets.common.progress import progress, shown_by
from tests.limits import HANG


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, silent: float, work: Callable[[], object]) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(module, "SILENT_SECONDS", silent)
    monkeypatch.setattr(module, "TICK_SECONDS", 0.02)
    with spinner("compiling program"):
        work()
    return stream.getvalue()


def test_long_work_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, end = Terminal(), time.monotonic() + HANG

    def until_shown() -> None:
        while not terminal.getvalue() and time.monotonic() < end:
            time.sleep(0.01)

    text = shown(monkeypatch, terminal, 0.05, until_shown)
    assert re.match(r"\rcompiling program: \d+ s", text)
    assert text.endswith("\r\033[K")


def test_short_work_and_no_terminal_stay_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), HANG, lambda: None) == ""
    assert shown(monkeypatch, io.StringIO(), 0.05, lambda: time.sleep(0.2)) == ""


def test_one_inside_another_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, end = Terminal(), time.monotonic() + HANG

    def inner() -> None:
        while not terminal.getvalue() and time.monotonic() < end:
            with spinner("inner"):
                time.sleep(0.01)

    assert "inner" not in shown(monkeypatch, terminal, 0.05, inner)


def test_a_library_shows_nothing_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    @contextmanager
    def tell(what: str) -> Iterator[None]:
        told.append(what)
        yield
        told.append("done")

    monkeypatch.setattr("sys.stderr", Terminal())
    with progress("unseen"):
        pass
    with shown_by(tell), progress("compiling"):
        told.append("work")
    with progress("unseen"):
        pass
    assert told == ["compiling", "work", "done"]
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
