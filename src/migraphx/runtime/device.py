"""Devices: where memory lies and programs run. The host is one of them."""

from __future__ import annotations

import ctypes
import platform
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


@dataclass(frozen=True)
class Peaks:
    """A device's best in the same run: operations a second, bytes read and written a second."""

    flops: float
    bandwidth: float


class Device(Protocol):
    """One processor with its memory; addresses are its own.

    `kind` and `index` are DLPack's device type and number. A stream is the device's handle as an integer; None is the
    stream that the device takes by default.
    """

    kind: int
    index: int

    @property
    def name(self) -> str:
        """As messages call it: `cpu`, `cuda:0`."""
        ...

    def identity(self) -> str:
        """What numbers and code made for one such device may depend on: its model."""
        ...

    def allocate(self, nbytes: int) -> tuple[int, Any]:
        """The address of so many uninitialised bytes, and what keeps them; MemoryError where none are left."""
        ...

    def copy(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        """Copy bytes within the device."""
        ...

    def read(self, source: int, to: int, nbytes: int, stream: int | None = None) -> None:
        """Copy bytes from the device to main memory; they are there when it returns."""
        ...

    def write(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        """Copy bytes from main memory to the device; `source` may be reused when it returns."""
        ...

    def synchronise(self, stream: int | None = None) -> None:
        """Wait for what a stream (None: every stream) has to do. Errors found meanwhile are raised here."""
        ...


class Host:
    """Main memory and the processor."""

    kind, index, name = 1, 0, "cpu"

    def identity(self) -> str:
        return f"{platform.system()} {platform.machine()} {platform.processor()}".strip()

    def allocate(self, nbytes: int) -> tuple[int, Any]:
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = raw.__array_interface__["data"][0]
        return -(-start // ALIGNMENT) * ALIGNMENT, raw

    def copy(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        ctypes.memmove(to, source, nbytes)

    read = write = copy

    def synchronise(self, stream: int | None = None) -> None:
        """Runs on the host are over when they return."""


HOST = Host()
PINNED = 3  # DLPack's device type of main memory that is pinned for CUDA: the host reads it as its own


def on_host(kind: int) -> bool:
    """Whether memory of DLPack's device type `kind` is main memory."""
    return kind in (HOST.kind, PINNED)
