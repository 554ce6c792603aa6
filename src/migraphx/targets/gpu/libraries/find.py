"""CUDA's libraries: of the wheels nvidia-*, else of the system."""

from __future__ import annotations

import ctypes
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


@cache
def _distribution(name: str) -> metadata.Distribution | None:
    """The wheel that brings a library, wherever on `sys.path` it lies; None where none does."""
    for distribution in DISTRIBUTIONS[name]:
        with suppress(metadata.PackageNotFoundError):
            return metadata.distribution(distribution)
    return None


def _places(name: str) -> Iterator[str]:
    if (brings := _distribution(name)) is not None:
        base = Path(str(brings.locate_file("")))
        for folder in ("nvidia/cu13/lib", "nvidia/*/lib"):
            yield from map(str, sorted(base.glob(f"{folder}/lib{name}.so.*[0-9]"), reverse=True))
    for major in MAJORS:
        yield f"lib{name}.so.{major}"


@cache
def load(name: str) -> ctypes.CDLL | None:
    """The library `cublasLt` or `cudnn`; None where there is none that loads."""
    for place in _places(name):
        try:
            return ctypes.CDLL(place, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    return None


def wheel(name: str) -> str | None:
    """The version of the wheel that brings a library; None where none does."""
    brings = _distribution(name)
    return None if brings is None else brings.version


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
