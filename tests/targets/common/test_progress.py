"""The progress line: on a terminal only, late, and gone at the end."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable

import pytest

from migraphx.targets.common import progress as module
from migraphx.targets.common.progress import progress
from tests.limits import HANG


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, silent: float, work: Callable[[], object]) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(module, "SILENT_SECONDS", silent)
    monkeypatch.setattr(module, "TICK_SECONDS", 0.02)
    with progress("compiling program"):
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
