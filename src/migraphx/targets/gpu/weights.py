"""Constants on a device: uploaded once, however many programs share them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from migraphx.runtime.argument import Argument
from migraphx.targets.gpu.accelerator import Accelerator, Block
from migraphx.targets.gpu.kernel import Kernel


class Weight(Block):
    """The device's copy of an array. What it keeps of the array itself is its shape, or all of it where `keep` says."""

    def __init__(self, device: Accelerator, array: np.ndarray, keep: bool) -> None:
        argument = Argument.of(array)
        self.device, self.shape = device, argument.shape
        super().__init__(device, self.shape.bytes)
        self._array = array if keep else None
        device.write(self.address, argument.pointer, self.shape.bytes, device.stream())

    @property
    def array(self) -> np.ndarray:
        """The array, or a copy from the device."""
        if self._array is not None:
            return self._array
        copy = Argument.empty(self.shape)
        self.device.read(copy.pointer, self.address, self.shape.bytes)
        return copy.array


REACH = 1 << 40
"""Bytes that a stride of a tensor descriptor stays below; one leads from a gate's weights to the other product's."""


def check_reach(kernels: Iterable[Kernel], weights: Sequence[Weight]) -> None:
    """RuntimeError where a kernel computes a gated layer and weights lie too far apart: it would read elsewhere."""
    places = [w.address for w in weights]
    apart = max(places, default=0) - min(places, default=0)
    if apart >= REACH and any("gated_sums(" in kernel.source for kernel in kernels):
        raise RuntimeError(
            f"weights of a gated layer may lie {apart} bytes apart on the device, and a tensor descriptor spans less "
            f"than {REACH}: load the program where less memory is taken, or reserved"
        )


_known: WeakKeyDictionary[Accelerator, WeakValueDictionary[int, Weight]] = WeakKeyDictionary()
_lock = Lock()


def uploaded(device: Accelerator, arrays: Sequence[np.ndarray], keep: bool) -> list[Weight]:
    """The arrays on the device, there when this returns.

    `keep`: arrays come again, as those of one program for several lengths do; the same one is the same block as long
    as one of its users lives. Else a program's own, which need not stay in main memory.
    """
    found = [_shared(device, a) if keep else Weight(device, a, False) for a in arrays]
    there = device.event()
    there.record(device.stream())
    while not there.done():
        pass
    return found


def _shared(device: Accelerator, array: np.ndarray) -> Weight:
    with _lock:
        own = _known.setdefault(device, WeakValueDictionary())
        weight = own.get(id(array))  # which is this array: its block keeps it
        if weight is None:
            weight = own[id(array)] = Weight(device, array, True)
        return weight
