"""What is told of work that takes long: to whoever asked to be told, and what its parts took."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

Show = Callable[[str], AbstractContextManager[object]]
_show: Show = nullcontext


@contextmanager
def shown_by(show: Show) -> Generator[None]:
    """Meanwhile `show("compiling ...")` is entered round each long piece of work, in whatever thread that is done.

    Without this nothing is shown: a library prints nothing by itself.
    """
    global _show
    before, _show = _show, show
    try:
        yield
    finally:
        _show = before


def progress(what: str) -> AbstractContextManager[object]:
    """Round work that may take seconds."""
    return _show(what)


class Stages:
    """Seconds of each part of some work, in order: `with stages("passes"): ...`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Generator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {s:.2f}" for name, s in self.seconds.items())
        return f"{sum(self.seconds.values()):.2f} s: {parts}"
