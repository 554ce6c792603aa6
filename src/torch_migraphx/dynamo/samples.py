"""A few words of every weight: writes that torch does not count show in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

WORD = 4  # bytes
EACH = 2  # words of a weight: more would cost what small models notice


class _Memory:
    """All words from `address` on, as NumPy's array interface names them; only some of them may be read."""

    def __init__(self, address: int, words: int) -> None:
        self.__array_interface__ = {"data": (address, True), "shape": (words,), "typestr": "<u4", "version": 3}


class Samples:
    """Reads the same words of the same tensors at each call, all of them in a few microseconds.

    What changes a whole weight (`p.data.copy_(...)`, an average of weights, NumPy) changes its samples, save by
    chance; a write to single elements need not. The tensors' memory must be alive and in its place at each `read`.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        found = [(k, address) for k, t in enumerate(tensors) for address in set(_addresses(t))]
        self.owners = [k for k, _ in found]
        words = np.array([address for _, address in found], np.int64) // WORD
        first = int(words.min(initial=np.iinfo(np.int64).max)) if found else 0
        self._at = words - first
        self._memory: Any = np.asarray(_Memory(first * WORD, int(self._at.max()) + 1)) if found else np.zeros(0, "<u4")
        self.words = self.read()

    def read(self) -> np.ndarray:
        return self._memory.take(self._at)

    def changed(self) -> set[int]:
        """Which of the tensors are not what they were when the samples were taken first."""
        return {self.owners[n] for n in np.flatnonzero(self.read() != self.words)}

    def __bool__(self) -> bool:
        """Whether nothing has changed."""
        return self.read().tobytes() == self.words.tobytes()


def _addresses(t: torch.Tensor) -> Iterator[int]:
    if t.layout is not torch.strided or not t.is_cpu or t.numel() * t.element_size() < WORD:
        return
    last = t.numel() - 1
    for n in range(EACH):
        at = np.unravel_index(last * n // (EACH - 1), t.shape) if t.dim() else ()
        yield t.data_ptr() + t.element_size() * sum(int(i) * s for i, s in zip(at, t.stride(), strict=True))
