"""Whether many tensors have the memory, the sizes, the strides and the type that they had, in one go.

Torch answers this for one tensor after the other: for 300 weights that a run has pushed out of the caches it takes a
third of a millisecond. Torch keeps what is asked in a few words of each tensor: in the Python object the address of its
TensorImpl, in that sizes, strides, type and the address of a StorageImpl, in that the address of the elements. Here
NumPy gathers these words for all tensors, and they are compared with what they were. Words are only read of objects
that are alive: what holds an address was found unchanged before it is followed.

Where the words lie is found out by experiment, once a process, and so is whether they tell every kind of change. Where
they do not (another torch, another C library), tensors are asked one by one.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._C._dynamo.guards import TensorGuards
from torch.utils._python_dispatch import _disable_current_modes

logger = logging.getLogger(__name__)

FEW = 32  # tensors: fewer are asked one by one
WORD = 8  # bytes
MOST_DIMS = 5  # sizes and strides of more lie elsewhere
MOST_WORDS = 32


class _Memory:
    """All of this process's memory but the first words, for NumPy."""

    __array_interface__ = {"shape": (1 << 44,), "typestr": "<u8", "data": (WORD, False), "version": 3}  # noqa: RUF012


_memory = np.asarray(_Memory())


def _numbers(addresses: np.ndarray) -> np.ndarray:
    """Which words of `_memory` lie at these addresses."""
    return addresses // WORD - 1


def _words(addresses: np.ndarray) -> np.ndarray:
    """The words at these addresses, each of which has to be of something alive."""
    return _memory.take(_numbers(addresses))


@dataclass(frozen=True)
class _Layout:
    """Where a Python tensor has its TensorImpl's address, that one its StorageImpl's, and that one its elements'."""

    impl: int  # bytes from the beginning, as all
    storage: int
    data: int
    described: tuple[int, ...]  # words of a TensorImpl that say what the tensor is


class Placement:
    """Whether tensors, which have to be alive when it is asked, are where they were, as they were."""

    def __init__(self, tensors: Sequence[torch.Tensor], layout: _Layout) -> None:
        objects = np.array([id(t) for t in tensors], np.int64)
        impls = np.array([t._cdata for t in tensors], np.int64)
        storages = _words(impls + layout.storage).astype(np.int64)
        places = objects + layout.impl, (impls[:, None] + layout.described).ravel(), storages + layout.data
        self._places = [_numbers(at) for at in places]
        self._kept = [_memory.take(at).tobytes() for at in self._places]

    def same(self) -> bool:
        """Whether they are as they were; false also for some changes that mean nothing."""
        take = _memory.take  # the next words only where those before are the same
        return all(take(at).tobytes() == kept for at, kept in zip(self._places, self._kept, strict=True))


def placement(tensors: Sequence[torch.Tensor]) -> Placement | None:
    """A Placement of these tensors; None where their words cannot be read."""
    layout = _layout()
    plain = all(type(t) in (torch.Tensor, nn.Parameter) and t.is_cpu and t.dim() <= MOST_DIMS for t in tensors)
    strided = plain and all(t.layout is torch.strided for t in tensors)
    return Placement(tensors, layout) if layout is not None and strided else None


def unchanged(tensors: Sequence[torch.Tensor]) -> Callable[[], bool]:
    """Whether these tensors, which it keeps alive, still have the sizes, strides and types that they have now."""
    if not tensors:
        return lambda: True
    kept, known = list(tensors), placement(tensors) if len(tensors) >= FEW else None
    if known is not None:
        return lambda: known.same() and bool(kept)
    fixed: dict[str, Any] = {"dynamic_dims_sizes": None, "dynamic_dims_strides": None}
    check = TensorGuards(*kept, **fixed).check
    return lambda: check(*kept)


@cache
def _layout() -> _Layout | None:
    """Found in a tensor, whatever mode the caller is in; None where it is not found, or does not tell changes."""
    try:
        usable = ctypes.CDLL(None).malloc_usable_size  # says how large an object of torch's is
        usable.argtypes, usable.restype = [ctypes.c_void_p], ctypes.c_size_t
        with _disable_current_modes(), torch.device("cpu"), torch.inference_mode(False), torch.no_grad():
            return _found(usable)
    except (OSError, AttributeError, TypeError, RuntimeError) as error:
        logger.info("tensors' words are not read: %s", error)
        return None


def _found(usable: Callable[[int], int]) -> _Layout | None:
    t = torch.empty(3, 4)
    memory = t.untyped_storage()
    impl, storage = t._cdata, memory._cdata
    sizes = [torch.Tensor.__basicsize__, *(min(usable(at), MOST_WORDS * WORD) for at in (impl, storage))]
    if min(sizes) < 4 * WORD:
        return None
    places = [
        _find(at, size, value)
        for at, size, value in zip((id(t), impl, storage), sizes, (impl, storage, memory.data_ptr()), strict=True)
    ]
    if None in places:
        return None
    every = tuple(at for at in range(0, sizes[1] - WORD + 1, WORD) if at != WORD)  # the second counts references
    whole = _Layout(*places, every)  # type: ignore[arg-type]
    told = np.any([_differing(whole, change) for change in _CHANGES[1:]], axis=0)
    layout = replace(whole, described=tuple(at for at, tells in zip(every, told, strict=True) if tells))
    return layout if all(_tells(layout, change) for change in _CHANGES) and _lasts(layout) else None


def _find(address: int, size: int, value: int) -> int | None:
    """How many bytes behind `address` this value lies."""
    found = np.flatnonzero(_words(address + np.arange(0, size - WORD + 1, WORD)) == value)
    return int(found[0]) * WORD if len(found) else None


def _other(t: torch.Tensor) -> None:
    t.data = torch.empty(3, 4)


def _turned(t: torch.Tensor) -> None:
    t.data = t.data.t()


def _fewer(t: torch.Tensor) -> None:
    t.data = t.data[:2]


def _behind(t: torch.Tensor) -> None:
    t.data = t.data.view(-1)[4:8].view(2, 2)


def _typed(t: torch.Tensor) -> None:
    t.data = t.data.view(torch.int32)


def _moved(t: torch.Tensor) -> None:
    t.untyped_storage().resize_(1 << 16)


def _deeper(t: torch.Tensor) -> None:
    t.data = t.data.view(1, 3, 2, 1, 2)


def _negated(t: torch.Tensor) -> None:
    t.data = torch._neg_view(t.data)


def _swapped(t: torch.Tensor) -> None:
    torch.utils.swap_tensors(t, torch.empty(3, 4))


_CHANGES = (_swapped, _other, _turned, _fewer, _behind, _typed, _moved, _deeper, _negated)
"""The first gives the Python object another TensorImpl."""


def _tells(layout: _Layout, change: Callable[[torch.Tensor], None]) -> bool:
    t = torch.zeros(3, 4)
    known = Placement([t], layout)
    change(t)
    return not known.same()


def _differing(layout: _Layout, change: Callable[[torch.Tensor], None]) -> np.ndarray:
    """Which words of its TensorImpl a change changes."""
    t = torch.zeros(3, 4)
    at = t._cdata + np.array(layout.described)
    before = _words(at)
    change(t)
    return _words(at) != before


def _lasts(layout: _Layout) -> bool:
    """Whether reading a tensor, or writing to it, leaves the words as they are."""
    t = torch.zeros(3, 4)
    known = Placement([t], layout)
    also = t
    also += t.sum() + t.detach()[0].numpy()[1]
    return known.same()
