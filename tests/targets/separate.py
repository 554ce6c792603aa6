"""A device whose memory only it can read: its addresses mean nothing in main memory."""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from migraphx.runtime.device import HOST

KIND = 12  # DLPack's device type for what it does not know
FIRST, APART = 1 << 44, 1 << 12  # where addresses begin, and what lies between two blocks
ALIGNMENT = 64


class SeparateDevice:
    """Counts what crosses to main memory, in `read_bytes` and `written_bytes`."""

    kind, index, name = KIND, 0, "separate:0"

    def __init__(self) -> None:
        self._blocks: WeakValueDictionary[int, np.ndarray] = WeakValueDictionary()
        self._next = FIRST
        self.read_bytes = self.written_bytes = 0
        self.streams: list[int | None] = []  # of what was copied or allocated

    def identity(self) -> str:
        return self.name

    def allocate(self, nbytes: int, stream: int | None = None) -> tuple[int, Any]:
        block, address = np.full(nbytes, 0xA5, np.uint8), self._next
        self._next += -(-(nbytes + APART) // ALIGNMENT) * ALIGNMENT
        self._blocks[address] = block
        self.streams.append(stream)
        return address, block

    def bytes(self, pointer: int, nbytes: int) -> np.ndarray:
        """The memory of an address; ValueError where so many bytes are not there."""
        for start, block in list(self._blocks.items()):
            if start <= pointer and pointer + nbytes <= start + block.size:
                return block[pointer - start : pointer - start + nbytes]
        raise ValueError(f"{nbytes} bytes at {pointer:#x} are no memory of {self.name}")

    def copy(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        if nbytes:
            self.bytes(to, nbytes)[...] = self.bytes(source, nbytes)

    def read(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        self.read_bytes += nbytes
        self.streams.append(stream)
        ctypes.memmove(to, self.bytes(source, nbytes).ctypes.data, nbytes)

    def write(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        self.written_bytes += nbytes
        self.streams.append(stream)
        ctypes.memmove(self.bytes(to, nbytes).ctypes.data, source, nbytes)

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        return HOST.pinned(nbytes)

    def holds(self, pointer: int) -> bool:
        return pointer >= FIRST

    def synchronise(self, stream: int | None = None) -> None:
        """Nothing is pending."""


SEPARATE = SeparateDevice()
