"""Compilations beside runs, which they must not hold up."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Lock, Thread

BRISK = 2e-4  # seconds: a run that comes back from compiled code waits so long for Python's lock, not 5 ms
NICE = 10  # of compilers: a tenth of a core that a run wants too
_beside: ContextVar[bool] = ContextVar("beside", default=False)
_lock = Lock()
_count = 0
_interval = 0.0  # how long threads kept Python's lock before


@contextmanager
def beside_runs() -> Generator[None]:
    """Meanwhile Python's threads take turns more often, and what this one has compiled is of low priority."""
    token = _beside.set(True)
    _entered(1)
    try:
        yield
    finally:
        _entered(-1)
        _beside.reset(token)


def begin_beside(work: Callable[[], None]) -> Thread:
    """Start a compilation in a thread of its own; a process that ends meanwhile has no use for it."""

    def run() -> None:
        try:
            with beside_runs():
                work()
        except Exception:  # whatever it was: pools take no work then, temporary files go
            if not _process_ends():
                raise

    thread = Thread(target=run, name="migraphx-beside", daemon=True)
    thread.start()
    return thread


def _process_ends() -> bool:
    """Whether Python has begun to shut down; a pool that takes no work is the first to tell."""
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int)
    except RuntimeError:
        return True
    return False


def is_beside() -> bool:
    """Whether this is such a compilation, in the thread that asked for it."""
    return _beside.get()


def give_way() -> None:
    """Let this thread, and the processes that it starts, have what others leave of the cores."""
    with suppress(OSError, AttributeError):  # not Linux, or not allowed
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _entered(by: int) -> None:
    """The first one makes threads take turns more often, the last one puts back what was."""
    global _count, _interval
    with _lock:
        _count += by
        if by > 0 and _count == 1:
            _interval = sys.getswitchinterval()
            sys.setswitchinterval(min(BRISK, _interval))
        elif _count == 0 and abs(sys.getswitchinterval() - min(BRISK, _interval)) < 1e-6:  # as nobody else set it
            sys.setswitchinterval(_interval)
