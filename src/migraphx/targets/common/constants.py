"""Constants of several compiled programs in one memory."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np
from numpy.lib.array_utils import byte_bounds

SMALL = 1024  # bytes: such a constant is told by its elements


class Constants:
    """Packed constants that compiled programs share: one array for equal ones, which lives while a program uses it.

    `given`: arrays that a file brought, read when the first other is made. `lasting`: asked for once, the literals
    of the program that is compiled again and again: they stay as they are, so that views of their memory are told apart
    by where they lie; other constants, such as those that passes compute, are compared by content.
    """

    def __init__(self, given: Iterable[np.ndarray] = (), lasting: Callable[[], Iterable[np.ndarray]] = tuple) -> None:
        self._given = list(given)
        self._lasting = lasting
        self._kept: list[np.ndarray] | None = None
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._by_key: WeakValueDictionary[Hashable, np.ndarray] = WeakValueDictionary()
        self._by_content: WeakValueDictionary[Hashable, np.ndarray] = WeakValueDictionary()
        self._lock = Lock()

    @classmethod
    def shared(cls, lasting: Callable[[], Iterable[np.ndarray]], options: Hashable) -> Constants:
        """Those of all programs whose literals this function gives, and which are compiled with equal options."""
        key = id(lasting), options  # of one that lives: its Constants hold it
        with _lock:
            found = _shared.get(key)
            if found is None:
                found = _shared[key] = cls(lasting=lasting)
        return found

    def identity(self, array: np.ndarray) -> Hashable:
        """Equal for arrays that are equal in type, shape and elements; where they last, for those in one place only."""
        form = array.dtype.name, array.shape, array.strides
        if array.nbytes <= SMALL:
            return (*form, array.tobytes())
        return (*form, array.ctypes.data) if self._lasts(array) else content(array)

    def one(self, key: Hashable, make: Callable[[], np.ndarray]) -> np.ndarray:
        """What `make` gives for the key, made once while it is in use."""
        with self._lock:
            known = self._by_key.get(key)
        if known is not None:
            return known
        made = make()
        with self._lock:
            while self._given:
                array = self._given.pop()
                self._by_content.setdefault(content(array), array)
            if len(self._by_content):
                made = self._by_content.setdefault(content(made), made)
            return self._by_key.setdefault(key, made)

    def _lasts(self, array: np.ndarray) -> bool:
        """Whether the array is a view of memory that stays as it is."""
        with self._lock:
            if self._kept is None:
                self._kept = sorted(self._lasting(), key=byte_bounds)
                bounds = list(map(byte_bounds, self._kept))
                self._starts, self._ends = [b for b, _ in bounds], [e for _, e in bounds]
        begin, end = byte_bounds(array)
        at = bisect_right(self._starts, begin) - 1
        return at >= 0 and end <= self._ends[at]


_shared: WeakValueDictionary[Hashable, Constants] = WeakValueDictionary()
_lock = Lock()


def content(array: np.ndarray) -> Hashable:
    data = np.ascontiguousarray(array.transpose(np.argsort(array.strides)[::-1]))  # as it lies: mostly no copy
    digest = hashlib.sha256(data.reshape(-1).view(np.uint8).data).digest()
    return array.dtype.name, array.shape, array.strides, digest


def shared_matrix(weights: np.ndarray) -> np.ndarray | None:
    """The matrix {K, N} that all batches of a dot have of weights {.., K, N}; None where they differ or are none."""
    batches = weights.shape[:-2]
    shared = all(n == 1 or (n and s == 0) for n, s in zip(batches, weights.strides[:-2], strict=True))
    return weights[(0,) * len(batches)] if shared else None
