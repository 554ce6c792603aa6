"""What people see: notes, colours, progress, quantities with their units."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

COLOURS = {"good": "32", "bad": "31", "dim": "2", "strong": "1"}
BAR = 30  # characters
REDRAW_SECONDS = 0.1
SILENT_SECONDS = 2.0
TICK_SECONDS = 0.5
_spinning = threading.Lock()


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """`text` in a colour of COLOURS where the stream (default: standard output) is a terminal; https://no-color.org."""
    shown = (stream or sys.stdout).isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\033[{COLOURS[colour]}m{text}\033[0m" if shown else text


def note(text: str) -> None:
    """A remark on what is being done: on standard error, so that standard output holds the answer alone."""
    print(coloured(text, "dim", sys.stderr), file=sys.stderr, flush=True)


class Progress:
    """A bar on standard error; `advance()` after each of `total` steps."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done, self._drawn = what, total, 0, 0.0

    def advance(self) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self._drawn >= REDRAW_SECONDS or self.done >= self.total:
            self._drawn = now
            full = BAR * min(self.done, self.total) // max(self.total, 1)
            bar = "#" * full + "." * (BAR - full)
            print(f"\r{self.what} [{bar}] {self.done}/{self.total}", end="", file=sys.stderr, flush=True)


class _Silent(Progress):
    def advance(self) -> None:
        self.done += 1


@contextmanager
def progress(what: str, total: int) -> Iterator[Progress]:
    """A bar while the work lasts where standard error is a terminal, else nothing; erased at the end."""
    shown = sys.stderr.isatty()
    bar = Progress(what, total) if shown else _Silent(what, total)
    try:
        yield bar
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show `what` and the seconds gone on standard error, where that is a terminal, from two seconds on.

    It is erased at the end. One inside another shows nothing.
    """
    if not sys.stderr.isatty() or not _spinning.acquire(blocking=False):
        yield
        return
    done, start = threading.Event(), time.monotonic()
    shown = threading.Thread(target=_spin, args=(what, start, done), daemon=True)
    shown.start()
    try:
        yield
    finally:
        done.set()
        shown.join()
        _spinning.release()


def _spin(what: str, start: float, done: threading.Event) -> None:
    if done.wait(SILENT_SECONDS):
        return
    while not done.wait(TICK_SECONDS):
        print(f"\r{what}: {time.monotonic() - start:.0f} s", end="", file=sys.stderr, flush=True)
    print("\r\033[K", end="", file=sys.stderr, flush=True)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.6g}ms"


def quantity(value: float, unit: str) -> str:
    """With a decimal prefix: 1.23 MB, 45.6 GFLOP."""
    for prefix in ("", "k", "M", "G", "T"):
        if abs(value) < 1000 or prefix == "T":
            break
        value /= 1000
    return f"{value:.3g} {prefix}{unit}"


def table(rows: list[list[str]], head: list[str]) -> str:
    """Columns aligned to the left, but those whose cells all begin with a digit or are `-`."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, c)) for c in columns]
    right = [bool(rows) and all(cell[:1].isdigit() or cell[:1] in "+-" for cell in c[1:]) for c in columns]
    lines = []
    for n, row in enumerate([head, *rows]):
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        line = "  ".join(cells).rstrip()
        lines.append(coloured(line, "strong") if n == 0 else line)
    return "\n".join(lines)
