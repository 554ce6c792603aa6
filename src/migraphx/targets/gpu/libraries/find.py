"""CUDA's libraries: of the wheels nvidia-*, else of the system."""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

MAJORS = (13, 12)


def _places(name: str) -> Iterator[str]:
    for base in dict.fromkeys(Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")):
        for folder in ("nvidia/cu13/lib", "nvidia/*/lib"):
            yield from map(str, sorted(base.glob(f"{folder}/lib{name}.so.*[0-9]"), reverse=True))
    for major in MAJORS:
        yield f"lib{name}.so.{major}"


@cache
def load(name: str) -> ctypes.CDLL | None:
    """The library `cublasLt`, `cudart`, ...; None where there is none that loads."""
    for place in _places(name):
        try:
            return ctypes.CDLL(place, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    return None
