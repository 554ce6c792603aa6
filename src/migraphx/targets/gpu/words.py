"""Status words: pinned memory in which kernels leave what they found, many from one allocation."""

from __future__ import annotations

import ctypes
import weakref
from threading import RLock
from typing import Any

from migraphx.targets.gpu.accelerator import Accelerator

NUMBERS = 8  # of a word, of 8 bytes each
TOGETHER = 64


class Word:
    """A word is somebody's as long as this lives."""


class Words:
    """Words of a device that nobody has; the driver takes longer to pin memory than to launch a program."""

    def __init__(self, device: Accelerator) -> None:
        self._device, self._lock = device, RLock()  # a finalizer may run anywhere
        self._free: list[int] = []
        self._pages: list[Any] = []

    def take(self) -> tuple[int, Any]:
        """The address of one, all zero, and what keeps it."""
        with self._lock:
            if not self._free:
                address, page = self._device.pinned(TOGETHER * NUMBERS * 8)
                self._pages.append(page)
                self._free += [address + k * NUMBERS * 8 for k in range(TOGETHER)]
            address, word = self._free.pop(), Word()
        ctypes.memset(address, 0, NUMBERS * 8)
        weakref.finalize(word, self._give, address).atexit = False
        return address, word

    def _give(self, address: int) -> None:
        with self._lock:
            self._free.append(address)
            if len(self._free) == TOGETHER * len(self._pages):
                self._free, self._pages = [], []
