"""The OpenMP runtime that provides the threads of runs.

The pool of an OpenMP runtime belongs to the thread that began it. A child process made by fork has that thread
but not its pool, and libgomp waits for ever for a pool that is gone; so in such a child the runs of that one
thread are handed to a fresh thread, which gets a pool of its own.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
HELPERS = 2  # threads of a forked process that run for its first: one more where a signal handler runs a program
SYSTEM = ("libgomp.so.1", "libomp.so.5", "libomp.so")  # by the names that the loader knows


def _single() -> int:
    return 1


def _ignore(_: int) -> None:
    """One thread stays one thread."""


@dataclass(frozen=True)
class Runtime:
    """Addresses of the OpenMP functions that generated code calls; zeros mean one thread."""

    path: str
    parallel: int = 0
    thread_num: int = 0
    num_threads: int = 0
    max_threads: Callable[[], int] = _single
    """What the calling thread may use: follows omp_set_num_threads, and so torch.set_num_threads."""
    set_threads: Callable[[int], None] = _ignore
    """Say that of the calling thread."""


@cache
def runtime() -> Runtime:
    """The OpenMP runtime already loaded in this process (torch's, if torch is), else the system's.

    One pool for all: two runtimes would spin against each other for the same cores.
    """
    for path in (*_loaded(), *SYSTEM):
        found = _open(path)
        if found:
            return found
    log.warning("no OpenMP runtime (libgomp or libomp) was found: programs run on one thread")
    return Runtime("")


def _loaded() -> list[str]:
    """The runtimes in this process, torch's first: scikit-learn brings one of its own."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    return _torch_first(re.findall(r"(?<=\s)/\S*/lib[ig]?omp\S*\.so\S*", maps))  # no path begins elsewhere


def _torch_first(paths: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(paths), key=lambda path: "/torch/lib/" not in path)


def _open(path: str) -> Runtime | None:
    try:
        library = ctypes.PyDLL(path)
        names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
        parallel, number, count = (ctypes.cast(getattr(library, n), ctypes.c_void_p).value or 0 for n in names)
        return Runtime(path, parallel, number, count, library.omp_get_max_threads, library.omp_set_num_threads)
    except (OSError, AttributeError):
        return None


# ---- after a fork ----


class _Fork:
    """The thread that lived through the last fork of this process, and the thread that runs for it."""

    survivor = 0
    helper: ThreadPoolExecutor | None = None


def _forked() -> None:
    _Fork.survivor, _Fork.helper = threading.get_ident(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)  # here, so that a fork before the first program is known too


def pool_is_lost() -> bool:
    """Whether the calling thread's OpenMP pool stayed behind in the parent process."""
    return _Fork.survivor == threading.get_ident()


def call_with_pool(function: Callable[..., Any], *args: Any, stop: Callable[[], object]) -> Any:
    """The call's result, computed by a thread whose OpenMP pool is its own.

    What a signal handler raises here ends the call there, by `stop`, before it goes on: the memory of the call is the
    caller's.
    """
    if _Fork.helper is None:
        log.info("this process was forked: runs of its first thread go to another one")
        _Fork.helper = ThreadPoolExecutor(HELPERS, "openmgx-run")
    future = _Fork.helper.submit(function, *args)
    try:
        return future.result()
    except BaseException:
        stop()
        while not future.done():
            with suppress(BaseException):  # of further signals: the call ends in milliseconds
                wait([future])
        raise
