"""What some memory of a process held, which a run may depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

Ranges = tuple[np.ndarray, np.ndarray]
"""Addresses (int64) of first bytes, and of those behind the last."""


Requests = tuple[int, int, Sequence[bytes | bytearray]]
"""Calls of `ioctl(file, number, argument)`, each of which answers 0 where nothing changed. Arguments have 96 bytes."""


class MemoryImage(Protocol):
    """What some memory of this process held when it was made."""

    native: tuple[int, int]
    """A function, which answers whether it holds that still, and its argument: addresses of C++."""

    def same(self) -> bool:
        """Whether it holds that still, and no request is answered otherwise."""
        ...

    def differing(self) -> list[tuple[int, int]]:
        """The ranges that do not."""
        ...

    def asking(self, requests: Requests) -> MemoryImage:
        """The image with other requests."""
        ...
