"""Constants on a device: uploaded once, however many programs share them."""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from migraphx.runtime.argument import Argument
from migraphx.targets.gpu.accelerator import Accelerator, Block


class Weight(Block):
    """The device's copy of an array; it keeps the array, by which other programs find it."""

    def __init__(self, device: Accelerator, array: np.ndarray) -> None:
        argument = Argument.of(array)
        super().__init__(device, argument.shape.bytes)
        self.array = array
        device.write(self.address, argument.pointer, argument.shape.bytes, device.stream())


_known: WeakKeyDictionary[Accelerator, WeakValueDictionary[int, Weight]] = WeakKeyDictionary()
_lock = Lock()


def uploaded(device: Accelerator, array: np.ndarray) -> Block:
    """The array on the device; the same block as long as one of its users lives."""
    with _lock:
        own = _known.setdefault(device, WeakValueDictionary())
        found = own.get(id(array))  # which is this array: its block keeps it
        if found is None:
            found = own[id(array)] = Weight(device, array)
        return found
