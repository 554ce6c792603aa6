"""How many threads a run may use, and the OpenMP runtime that provides them."""

from __future__ import annotations

import ctypes
import ctypes.util
import logging
import math
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

log = logging.getLogger(__name__)


def available() -> int:
    """Cores this process may use: OMP_NUM_THREADS, else affinity and cgroup quota."""
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if given.isdigit() and int(given) > 0:
        return int(given)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, min(cores, math.ceil(quota)) if quota else cores)


def _cgroup_quota() -> float | None:
    """Cores granted by cgroup v2, or None where there is no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Runtime:
    """Addresses of the OpenMP functions that generated code calls; zeros mean one thread."""

    path: str
    parallel: int = 0
    thread_num: int = 0
    num_threads: int = 0


@cache
def runtime() -> Runtime:
    """The OpenMP runtime already loaded in this process (torch's, if torch is), else the system's.

    One pool for all: two runtimes would spin against each other for the same cores.
    """
    for path in (*_loaded(), ctypes.util.find_library("gomp"), ctypes.util.find_library("omp")):
        if path:
            found = _open(path)
            if found:
                return found
    log.warning("no OpenMP runtime (libgomp or libomp) was found: programs run on one thread")
    return Runtime("")


def _loaded() -> list[str]:
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    return list(dict.fromkeys(re.findall(r"\S*/lib[ig]?omp\S*\.so\S*", maps)))


def _open(path: str) -> Runtime | None:
    try:
        library = ctypes.CDLL(path)
        names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
        addresses = [ctypes.cast(getattr(library, n), ctypes.c_void_p).value or 0 for n in names]
    except (OSError, AttributeError):
        return None
    return Runtime(path, *addresses)
