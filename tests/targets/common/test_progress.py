"""The progress line: on a terminal only, late, and gone at the end."""

from __future__ import annotations

import io
import time

import pytest

from migraphx.targets.common import progress as module
from migraphx.targets.common.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, seconds: float) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(module, "TICK_SECONDS", 0.02)
    with progress("compiling program"):
        time.sleep(seconds)
    return stream.getvalue()


def test_long_work_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal(), 0.4)
    assert text.startswith("\rcompiling program: 0 s")
    assert text.endswith("\r\033[K")


def test_short_work_and_no_terminal_stay_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), 0.0) == ""
    assert shown(monkeypatch, io.StringIO(), 0.2) == ""
