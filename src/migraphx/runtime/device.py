"""Devices: where memory lies and programs run. The host is one of them."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
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
    stream that the device takes by default. There is one object for each device: `is` tells devices apart.
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

    def allocate(self, nbytes: int, stream: int | None = None) -> tuple[int, Any]:
        """The address of so many uninitialised bytes, and what keeps them; MemoryError where none are left.

        `stream` is where they are used, and where their last use lies before they are given back.
        """
        ...

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        """The address of so many zero bytes of main memory that the device can use too, and what keeps them."""
        ...

    def copy(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        """Copy bytes within the device; without a stream, this is done when it returns."""
        ...

    def read(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        """Copy bytes from the device to main memory; they are there when it returns."""
        ...

    def write(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        """Copy bytes from main memory to the device; `source` may be reused when it returns.

        Without a stream they are there by then.
        """
        ...

    def holds(self, pointer: int) -> bool:
        """Whether an address is one of the device's memory, as far as the device can tell."""
        ...

    def synchronise(self, stream: int | None = None) -> None:
        """Wait for what a stream (None: every stream) has to do. Errors found meanwhile are raised here."""
        ...


class Host:
    """Main memory and the processor."""

    kind, index, name = 1, 0, "cpu"

    def identity(self) -> str:
        return f"{platform.system()} {platform.machine()} {platform.processor()}".strip()

    def allocate(self, nbytes: int, stream: int | None = None) -> tuple[int, Any]:
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = raw.__array_interface__["data"][0]
        return -(-start // ALIGNMENT) * ALIGNMENT, raw

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        address, owner = self.allocate(nbytes)
        ctypes.memset(address, 0, nbytes)
        return address, owner

    def copy(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        ctypes.memmove(to, source, nbytes)

    read = write = copy

    def holds(self, pointer: int) -> bool:
        return True

    def synchronise(self, stream: int | None = None) -> None:
        """Runs on the host are over when they return."""

    def check_stream(self, stream: int | None) -> None:
        """ValueError for any stream but 0, the default one of other devices: the host has none to order runs by."""
        if stream:
            raise ValueError(f"stream {stream:#x}: programs on the {self.name} run in no stream")


HOST = Host()
PINNED = 3  # DLPack's device type of main memory that is pinned for CUDA: the host reads it as its own


def on_host(kind: int) -> bool:
    """Whether memory of DLPack's device type `kind` is main memory."""
    return kind in (HOST.kind, PINNED)


# ---- every device of this process ----

CUDA, ROCM = 2, 10
NAMES = {CUDA: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", ROCM: "rocm", 13: "cuda managed", 14: "oneapi"}

_makers: dict[int, Callable[[int], Device]] = {}
_devices: dict[tuple[int, int], Device] = {}
_lock = Lock()


def provide(kind: int, make: Callable[[int], Device]) -> None:
    """Let `make(index)` give the devices of DLPack's type `kind`. It is called when the first memory of one arrives."""
    _makers[kind] = make


def device_of(kind: int, index: int) -> Device:
    """The device of DLPack's type and number; ValueError where no target of this build has such devices."""
    if on_host(kind):
        return HOST
    with _lock:
        found = _devices.get((kind, index))
        if found is None:
            if kind not in _makers:
                name = f"{NAMES.get(kind, f'device type {kind}')}:{index}"
                raise ValueError(f"the data is on {name}, where no target of this build runs: copy it to the cpu first")
            found = _devices[kind, index] = _makers[kind](index)
    return found
