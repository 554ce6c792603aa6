"""Whether many small pieces of this process's memory hold what they held: natively, as memory_image.hpp says."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from copy import copy
from functools import cache

import numpy as np

from migraphx.runtime.argument import address
from migraphx.runtime.memory_image import Ranges, Requests
from migraphx.targets.cpu.headers import constant
from migraphx.targets.cpu.helpers import library


class _Image(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("pieces", "ends")),
        ("stages", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("kept", "random")),
        *((name, ctypes.c_int64) for name in ("file", "number", "requests")),
        ("arguments", ctypes.c_char_p),
    ]


class NativeImage:
    """A MemoryImage, natively."""

    def __init__(self, library: ctypes.CDLL, stages: Sequence[Ranges], requests: Requests | None) -> None:
        pieces = [_pieces(*ranges) for ranges in stages]
        self._ends = np.cumsum([len(p) for p in pieces], dtype=np.int64)
        self._pieces = np.concatenate([np.empty(0, np.uint64), *pieces])
        self._library, self._kept = library, np.empty(0, np.uint8)
        self._describe(requests)
        self._kept = np.empty(library.mgx_take(self._at), np.uint8)
        self._image.kept = address(self._kept)
        library.mgx_take(self._at)

    def _describe(self, requests: Requests | None) -> None:
        file, number, arguments = requests or (-1, 0, ())
        if any(len(x) != _REQUEST_BYTES for x in arguments):
            raise ValueError(f"arguments of requests have {_REQUEST_BYTES} bytes")
        kept = address(self._kept) if len(self._kept) else None
        self._image = _Image(
            address(self._pieces), address(self._ends), len(self._ends), kept, address(_random()),
            file, number, len(arguments), b"".join(arguments),
        )  # fmt: skip
        self._at = ctypes.addressof(self._image)
        self.native = ctypes.cast(self._library.mgx_same, ctypes.c_void_p).value or 0, self._at
        self._same = self._library.mgx_same

    def same(self) -> bool:
        return self._same(self._at) == 1

    def differing(self) -> list[tuple[int, int]]:
        differs = np.empty(len(self._pieces), np.bool_)
        self._library.mgx_compare(self._at, address(differs))
        found = self._pieces[differs]
        begin = found & ((np.uint64(1) << _ADDRESS_BITS) - np.uint64(1))
        return [*zip(begin.tolist(), (begin + (found >> _ADDRESS_BITS)).tolist(), strict=True)]

    def asking(self, requests: Requests) -> NativeImage:
        other = copy(self)
        other._describe(requests)
        return other


def memory_image(
    stages: Sequence[Ranges], requests: Requests | None = None, lasting: bool = False
) -> NativeImage | None:
    """As Target.memory_image; None where there is no C++ compiler, which is logged."""
    found = library(lasting)
    return None if found is None else NativeImage(found, stages, requests)


@cache
def _random() -> np.ndarray:
    """Numbers of this process's."""
    return np.frombuffer(os.urandom(constant("BLOCK_WORDS", "memory_image.hpp") * 8), np.uint64)


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
