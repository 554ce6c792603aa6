"""Whether many small pieces of this process's memory hold what they held: natively, as memory_image.hpp says."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from copy import copy
from functools import cache
from pathlib import Path

import numpy as np

from migraphx.runtime.memory_image import Ranges, Requests
from migraphx.targets.cpu.executable import address
from migraphx.targets.cpu.headers import constant
from migraphx.targets.cpu.toolchain import build
from migraphx.targets.target import CompilerError

log = logging.getLogger(__name__)
SOURCE = """#include "memory_image.hpp"
extern "C" int mgx_same(const mgx::Image* image) { return mgx::same(*image); }
extern "C" void mgx_take(const mgx::Image* image, char* kept) { mgx::take(*image, kept); }
"""


class _Image(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("pieces", "ends")),
        ("stages", ctypes.c_int64),
        ("kept", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("file", "number", "requests")),
        ("arguments", ctypes.c_char_p),
    ]


class NativeImage:
    """A MemoryImage, natively."""

    def __init__(self, library: ctypes.CDLL, stages: Sequence[Ranges], requests: Requests | None) -> None:
        pieces = [_pieces(*ranges) for ranges in stages]
        self._ends = np.cumsum([len(p) for p in pieces], dtype=np.int64)
        self._pieces = np.concatenate([np.empty(0, np.uint64), *pieces])
        self._kept = np.empty(int((self._pieces >> _ADDRESS_BITS).sum()), np.uint8)
        self._same = library.mgx_same
        self._describe(requests)
        library.mgx_take(self._at, address(self._kept))

    def _describe(self, requests: Requests | None) -> None:
        file, number, arguments = requests or (-1, 0, ())
        if any(len(x) != _REQUEST_BYTES for x in arguments):
            raise ValueError(f"arguments of requests have {_REQUEST_BYTES} bytes")
        self._image = _Image(
            address(self._pieces), address(self._ends), len(self._ends), address(self._kept),
            file, number, len(arguments), b"".join(arguments),
        )  # fmt: skip
        self._at = ctypes.addressof(self._image)
        self.native = ctypes.cast(self._same, ctypes.c_void_p).value or 0, self._at

    def same(self) -> bool:
        return self._same(self._at) == 1

    def differing(self) -> list[tuple[int, int]]:
        sizes = (self._pieces >> _ADDRESS_BITS).astype(np.int64)
        begins = (self._pieces & ((np.uint64(1) << _ADDRESS_BITS) - np.uint64(1))).astype(np.int64)
        found: list[tuple[int, int]] = []
        for begin, size, at in zip(begins.tolist(), sizes.tolist(), (np.cumsum(sizes) - sizes).tolist(), strict=True):
            if ctypes.string_at(begin, size) != self._kept[at : at + size].tobytes():
                found.append((begin, begin + size))
        return found

    def asking(self, requests: Requests) -> NativeImage:
        other = copy(self)
        other._describe(requests)
        return other


def memory_image(
    stages: Sequence[Ranges], requests: Requests | None = None, lasting: bool = False
) -> NativeImage | None:
    """As Target.memory_image; None where there is no C++ compiler, which is logged."""
    path = _path()
    return None if path is None else NativeImage(_library(path, lasting), stages, requests)


@cache
def _path() -> Path | None:
    try:
        return build([SOURCE], "memory_image")
    except CompilerError as error:
        log.info("memory is not compared natively: %s", error)
        return None


@cache
def _library(path: Path, lasting: bool) -> ctypes.CDLL:
    library = (ctypes.CDLL if lasting else ctypes.PyDLL)(str(path))
    library.mgx_same.argtypes = [ctypes.c_void_p]
    library.mgx_take.argtypes, library.mgx_take.restype = [ctypes.c_void_p] * 2, None
    return library


_ADDRESS_BITS = np.uint64(constant("ADDRESS_BITS", "memory_image.hpp"))
_REQUEST_BYTES = constant("REQUEST_BYTES", "memory_image.hpp")
_MOST = (1 << 64 - int(_ADDRESS_BITS)) - 8  # bytes of a piece


def _pieces(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The ranges in the order of memory, those that touch united, long ones cut: each its address and its bytes."""
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.append(True, begin[1:] > end[:-1])[: len(begin)])
    begin, sizes = begin[first], np.append(end[first[1:] - 1], end[-1:]) - begin[first]
    counts = -(-sizes // _MOST)
    before = (np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)) * _MOST
    cut = np.minimum(np.repeat(sizes, counts) - before, _MOST)
    return cut.astype(np.uint64) << _ADDRESS_BITS | (np.repeat(begin, counts) + before).astype(np.uint64)
