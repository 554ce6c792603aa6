"""Whether many small pieces of this process's memory hold what they held: natively, as memory_image.hpp says."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from functools import cache

import numpy as np

from migraphx.targets.cpu.executable import address
from migraphx.targets.cpu.headers import constant
from migraphx.targets.cpu.toolchain import build
from migraphx.targets.target import CompilerError, Ranges

log = logging.getLogger(__name__)
SOURCE = """#include "memory_image.hpp"
extern "C" int mgx_same(const mgx::Image* image) { return mgx::same(*image); }
extern "C" void mgx_take(const mgx::Image* image, char* kept) { mgx::take(*image, kept); }
"""


class _Image(ctypes.Structure):
    _fields_ = [
        ("pieces", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("stages", ctypes.c_int64),
        ("kept", ctypes.c_void_p),
    ]


class NativeImage:
    """As MemoryImage. Python's lock is held while it is asked, so that what other threads of Python's have stays."""

    def __init__(self, library: ctypes.PyDLL, stages: Sequence[Ranges]) -> None:
        pieces = [_pieces(*ranges) for ranges in stages]
        ends = np.cumsum([len(p) for p in pieces], dtype=np.int64)
        every = np.concatenate([np.empty(0, np.uint64), *pieces])
        kept = np.empty(int((every >> _ADDRESS_BITS).sum()), np.uint8)
        self._image = _Image(address(every), address(ends), len(pieces), address(kept))
        self._alive = every, ends, kept
        self._at = ctypes.addressof(self._image)
        self._same = library.mgx_same
        library.mgx_take(self._at, address(kept))

    def same(self) -> bool:
        """Whether all pieces hold what they held."""
        return self._same(self._at) == 1


def memory_image(stages: Sequence[Ranges]) -> NativeImage | None:
    """As Target.memory_image; None where there is no C++ compiler, which is logged."""
    library = _library()
    return None if library is None else NativeImage(library, stages)


@cache
def _library() -> ctypes.PyDLL | None:
    try:
        library = ctypes.PyDLL(str(build([SOURCE], "memory_image")))
    except CompilerError as error:
        log.info("memory is not compared natively: %s", error)
        return None
    library.mgx_same.argtypes = [ctypes.c_void_p]
    library.mgx_take.argtypes, library.mgx_take.restype = [ctypes.c_void_p] * 2, None
    return library


_ADDRESS_BITS = np.uint64(constant("ADDRESS_BITS", "memory_image.hpp"))
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
