"""How many cores a process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def available() -> int:
    """Cores this process may use: OMP_NUM_THREADS, else affinity and cgroup quota."""
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if given.isdigit() and int(given) > 0:
        return int(given)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        groups = Path("/proc/self/cgroup").read_text()
    except OSError:
        groups = ""
    quota = cgroup_quota(CGROUPS, groups)
    return max(1, min(cores, math.ceil(quota)) if quota else cores)


def cgroup_quota(root: Path, groups: str) -> float | None:
    """The least quota in cores of this process's control groups and those around them; None without a limit.

    `groups` is the text of /proc/self/cgroup: lines `0::/path` (v2) or `4:cpu,cpuacct:/path` (v1).
    """
    quotas: list[float | None] = []
    for line in groups.splitlines() or ["0::/"]:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        place = base / path.lstrip("/")
        for folder in (place, *place.parents):
            quotas.append(_quota(folder))
            if folder == base:
                break
    return min((q for q in quotas if q), default=None)


def _quota(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{n}_us").read_text() for n in ("quota", "period"))
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else None
    except (OSError, ValueError):
        return None
