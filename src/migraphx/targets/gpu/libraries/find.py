"""CUDA's libraries: of the wheels nvidia-*, else of the system."""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

MAJORS = (13, 12)
DISTRIBUTIONS = {
    "cublasLt": ("nvidia-cublas", "nvidia-cublas-cu12"),
    "cudnn": ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"),
}


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


@cache
def wheel(name: str) -> str | None:
    """The version of the wheel that brings a library; None where none does."""
    for distribution in DISTRIBUTIONS[name]:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(distribution)
    return None


@cache
def version(name: str) -> int:
    """As the library itself says it (130100 for 13.1.0), of a wheel without loading it; 0 where there is none."""
    text = wheel(name)
    if text is not None:
        major, minor, patch = map(int, (*text.split("."), "0", "0")[:3])
        return 10000 * major + 100 * minor + patch
    found = load(name)
    if found is None:
        return 0
    ask = getattr(found, f"{name}GetVersion")
    ask.restype = ctypes.c_size_t
    return ask()


def versions() -> dict[str, int]:
    """Of all libraries that may compute for us."""
    return {name: version(name) for name in DISTRIBUTIONS}
