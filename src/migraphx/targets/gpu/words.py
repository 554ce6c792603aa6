"""Status words: pinned memory in which kernels leave what they found, many from one allocation."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.targets.gpu.accelerator import Accelerator, Event

NUMBERS = 8  # of a word, of 8 bytes each
TOGETHER = 64


class Word:
    """A word is somebody's as long as this lives."""

    def __init__(self, address: int) -> None:
        self.address = address
        self._first = ctypes.c_int64.from_address(address)

    @property
    def marked(self) -> bool:
        """Whether something was found that is not told yet."""
        return self._first.value != 0

    @property
    def numbers(self) -> np.ndarray:
        return Argument(Shape("int64", (NUMBERS,)), self.address).array

    def found(self) -> Sequence[int]:
        """As runs left it: what failed, and the value found. It is told once."""
        numbers = self.numbers
        told = numbers.tolist()
        numbers[0] = 0
        return told


class Left:
    """Words of runs whose states are gone: what they find is still to be told, and nobody else's meanwhile."""

    def __init__(self, tell: Callable[[Sequence[int]], None]) -> None:
        """`tell` raises what a word says."""
        self._tell = tell
        self._words: dict[Word, Event] = {}  # and when their runs are over

    def add(self, word: Word, over: Event) -> None:
        self._words[word] = over

    def raise_found(self) -> None:
        for word in list(self._words):
            self._tell(word.found())

    def drop_told(self) -> bool:
        """Drop those whose runs are over and found nothing that was not told; whether some are left."""
        for word, over in list(self._words.items()):
            if over.done() and not word.marked:
                self._words.pop(word, None)
        return bool(self._words)


class Words:
    """Words of a device that nobody has; the driver takes longer to pin memory than to launch a program."""

    def __init__(self, device: Accelerator) -> None:
        self._device, self._lock = device, RLock()  # a finalizer may run anywhere
        self._free: list[int] = []
        self._pages: list[Any] = []

    def take(self) -> Word:
        """One that is all zero."""
        with self._lock:
            if not self._free:
                address, page = self._device.pinned(TOGETHER * NUMBERS * 8)
                self._pages.append(page)
                self._free += [address + k * NUMBERS * 8 for k in range(TOGETHER)]
            word = Word(self._free.pop())
        ctypes.memset(word.address, 0, NUMBERS * 8)
        weakref.finalize(word, self._give, word.address).atexit = False
        return word

    def _give(self, address: int) -> None:
        with self._lock:
            self._free.append(address)
            if len(self._free) == TOGETHER * len(self._pages):
                self._free, self._pages = [], []
