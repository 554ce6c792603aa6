"""A line on the terminal for work that takes long, and what its parts took."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

SILENT_SECONDS = 2.0
TICK_SECONDS = 0.5


@contextmanager
def progress(what: str) -> Generator[None, None, None]:
    """Show `what` and the seconds gone on stderr, from two seconds on, where that is a terminal; erased at the end."""
    if not sys.stderr.isatty():
        yield
        return
    done, start = threading.Event(), time.monotonic()
    shown = threading.Thread(target=_show, args=(what, start, done), daemon=True)
    shown.start()
    try:
        yield
    finally:
        done.set()
        shown.join()


class Stages:
    """Seconds of each part of some work, in order: `with stages("passes"): ...`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Generator[None, None, None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {s:.2f}" for name, s in self.seconds.items())
        return f"{sum(self.seconds.values()):.2f} s: {parts}"


def _show(what: str, start: float, done: threading.Event) -> None:
    if done.wait(SILENT_SECONDS):
        return
    while not done.wait(TICK_SECONDS):
        print(f"\r{what}: {time.monotonic() - start:.0f} s", end="", file=sys.stderr, flush=True)
    print("\r\033[K", end="", file=sys.stderr, flush=True)
