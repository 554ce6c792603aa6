"""Whether many dictionaries, modules and tensors are as they were, by words of their memory that are read at once.

Asked one by one, the objects of a model with 200 layers cost a fifth of a millisecond: each answer waits for memory
that a run has pushed out of the caches. Native code (`migraphx.memory_image`) reads words of all of them without
waiting for one after the other. A dictionary has its version, a module its type; a tensor its type and the address of a
TensorImpl, that one sizes, strides, which kernels it takes, and two addresses: of a StorageImpl, which has the address
of the elements, and of what autograd knows, which is whether it requires gradients. Words are only read of objects that
are alive: what holds an address was found unchanged before it is followed.

Where the words lie is found out by experiment, once a process, and so is whether they tell every kind of change. Where
they do not (another Python, torch or C library, no C++ compiler), objects are asked one by one.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._C._dynamo.guards import TensorGuards
from torch.utils._python_dispatch import _disable_current_modes

import migraphx

logger = logging.getLogger(__name__)

WORD = 8  # bytes
MOST_DIMS = 5  # sizes and strides of more lie elsewhere
MOST_WORDS = 32


class _Memory:
    """All of this process's memory but the first word, for NumPy: 48 bits of addresses."""

    __array_interface__ = {"shape": (1 << 45,), "typestr": "<u8", "data": (WORD, False), "version": 3}  # noqa: RUF012


_memory = np.asarray(_Memory())


def _words(addresses: np.ndarray) -> np.ndarray:
    """The words at these addresses, each of which has to be of something alive."""
    return _memory.take(addresses // WORD - 1)


@dataclass(frozen=True)
class _Layout:
    """Bytes from the beginning of an object to its words."""

    version: int  # of a dictionary
    type: int
    impl: int  # of a tensor: the address of its TensorImpl
    storage: int  # of that one: the address of a StorageImpl
    data: int  # of that one: the address of the elements
    autograd: int  # of a TensorImpl: the address of what autograd knows, or 0
    required: int  # of that: whether it requires gradients
    described: tuple[int, ...]  # of a TensorImpl: what says which tensor it is


class Words:
    """Whether objects, which have to be alive when it is asked, are as they were."""

    def __init__(
        self, dicts: Iterable[Any], modules: Iterable[nn.Module], tensors: Sequence[torch.Tensor], layout: _Layout
    ) -> None:
        impls = np.array([t._cdata for t in tensors], np.int64)
        storages, autograd = (_words(impls + at).astype(np.int64) for at in (layout.storage, layout.autograd))
        objects = [id(d) + layout.version for d in dicts] + [id(x) + layout.type for x in (*modules, *tensors)]
        objects += [id(t) + layout.impl for t in tensors]
        described = (impls[:, None] + np.array(layout.described, np.int64)).ravel()
        pointed = np.concatenate([storages + layout.data, autograd[autograd > 0] + layout.required])
        every = np.array(objects, np.int64), described, pointed
        self._unwritten = _image([(at, at + WORD) for at in every]).same
        fixed: dict[str, Any] = {"dynamic_dims_sizes": None, "dynamic_dims_strides": None}
        self._some = tensors[:1]  # whether this thread is in another of torch's modes is asked of one
        self._alike = TensorGuards(*self._some, **fixed).check if self._some else lambda: True

    def same(self) -> bool:
        """Whether they are as they were; false also for some changes that mean nothing."""
        return self._unwritten() and self._alike(*self._some)


def _image(stages: Sequence[tuple[np.ndarray, np.ndarray]]) -> Any:
    """An image of these ranges by the engine; OSError where it cannot make one (AMD's, or without a C++ compiler)."""
    make = getattr(migraphx.get_target("cpu"), "memory_image", None)
    image = None if make is None else make(stages)
    if image is None:
        raise OSError("the engine cannot compare memory")
    return image


def words_of(dicts: Iterable[Any], modules: Iterable[nn.Module], tensors: Sequence[torch.Tensor]) -> Words | None:
    """Words of these objects; None where they cannot be read, or say too little."""
    layout = _layout()
    return Words(dicts, modules, tensors, layout) if layout is not None and all(map(_says_all, tensors)) else None


def _says_all(t: torch.Tensor) -> bool:
    """Whether the words of a tensor tell all of its changes. Of one on a GPU they lie in main memory, too."""
    plain = type(t) in (torch.Tensor, nn.Parameter) and t.dim() <= MOST_DIMS
    return plain and (t.is_cpu or t.is_cuda) and t.layout is torch.strided


@cache
def _layout() -> _Layout | None:
    """Found in objects, whatever mode the caller is in; None where words are not found, or do not tell changes."""
    try:
        usable = ctypes.CDLL(None).malloc_usable_size  # says how large an object of torch's is
        usable.argtypes, usable.restype = [ctypes.c_void_p], ctypes.c_size_t
        with _disable_current_modes(), torch.device("cpu"), torch.inference_mode(False), torch.no_grad():
            found = _found(usable)
    except (OSError, AttributeError, TypeError, RuntimeError, IndexError) as error:
        logger.info("words of objects are not read: %s", error)
        return None
    if found is None:
        logger.info("words of objects are not read: they lie elsewhere, or do not tell all changes")
    return found


def _found(usable: Callable[[int], int]) -> _Layout | None:
    t, d, m = torch.empty(3, 4), {"a": 1}, nn.Module()
    memory = t.untyped_storage()
    impl, storage = t._cdata, memory._cdata
    sizes = [min(usable(at), MOST_WORDS * WORD) for at in (impl, storage)]
    searched = [
        (id(m), 2 * WORD, id(type(m))),
        (id(t), torch.Tensor.__basicsize__, impl),
        (impl, sizes[0], storage),
        (storage, sizes[1], memory.data_ptr()),
    ]
    every = [at for at in range(0, sizes[0] - WORD + 1, WORD) if at != WORD]  # the second counts references
    version = _changed(id(d), range(0, dict.__basicsize__, WORD), lambda: d.update(a=2))
    places = [version, *(_find(*what) for what in searched)]
    autograd = _changed(impl, every, t.requires_grad_)
    if None in places or autograd is None or min(sizes) < 4 * WORD:
        return None
    known = int(_words(np.array([impl + autograd]))[0])
    if known == 0:
        return None
    inside = range(0, min(usable(known), MOST_WORDS * WORD) - WORD + 1, WORD)
    required = _changed(known, inside, lambda: t.requires_grad_(False))
    if required is None:
        return None
    told = {autograd}
    for change in _OF_TENSORS[1:]:
        sample = _Sample()
        told |= set(_differing(sample.t._cdata, every, partial(change, sample)))
    layout = _Layout(*places, autograd, required, tuple(sorted(told)))  # type: ignore[arg-type]
    return layout if all(_tells(layout, change) for change in _OF_TENSORS + _OF_MODULES) and _lasts(layout) else None


def _differing(address: int, places: Sequence[int], change: Callable[[], object]) -> list[int]:
    """Which words so many bytes behind `address` a change changes."""
    addresses = address + np.array(places, np.int64)
    before = _words(addresses)
    change()
    return [at for at, differs in zip(places, _words(addresses) != before, strict=True) if differs]


def _changed(address: int, places: Sequence[int], change: Callable[[], object]) -> int | None:
    """How many bytes behind `address` the one word lies that a change changes; None where there are more, or none."""
    found = _differing(address, places, change)
    return found[0] if len(found) == 1 else None


def _find(address: int, size: int, value: int) -> int | None:
    """How many bytes behind `address` this value lies."""
    found = np.flatnonzero(_words(address + np.arange(0, size - WORD + 1, WORD)) == value)
    return int(found[0]) * WORD if len(found) else None


class _Sample(nn.Module):
    """A module with a tensor, to be changed."""

    def __init__(self) -> None:
        super().__init__()
        self.t: torch.Tensor
        self.register_buffer("t", torch.zeros(3, 4))
        self.parameter = nn.Parameter(torch.zeros(3))

    def words(self, layout: _Layout) -> Words:
        return Words([self.__dict__, self._buffers], [self], [self.t, self.parameter], layout)


class _Other(_Sample):
    pass


class _Marked(torch.Tensor):
    pass


def _data(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[_Sample], None]:
    def write(sample: _Sample) -> None:
        sample.t.data = change(sample.t.data)

    return write


def _resized(sample: _Sample) -> None:
    sample.t.untyped_storage().resize_(1 << 16)


def _swapped(sample: _Sample) -> None:
    torch.utils.swap_tensors(sample.t, torch.empty(3, 4))


def _frozen(sample: _Sample) -> None:
    sample.parameter.requires_grad_(False)


def _typed(sample: _Sample) -> None:
    sample.t.__class__ = _Marked


_OF_TENSORS: tuple[Callable[[_Sample], object], ...] = (
    _swapped,
    _data(torch.Tensor.clone),
    _data(torch.Tensor.t),
    _data(lambda t: t[:2]),
    _data(lambda t: t.view(-1)[4:8].view(2, 2)),
    _data(lambda t: t.view(torch.int32)),
    _resized,
    _data(lambda t: t.view(1, 3, 2, 1, 2)),
    _data(torch.ops.aten._neg_view.default),
    lambda sample: sample.t.requires_grad_(),
    _frozen,
    _typed,
)
"""The first gives the Python object another TensorImpl."""
_OF_MODULES: tuple[Callable[[_Sample], object], ...] = (
    lambda sample: setattr(sample, "t", torch.zeros(3, 4)),
    lambda sample: setattr(sample, "training", False),
    lambda sample: sample._buffers.update(t=None),
    lambda sample: sample.__dict__.update(_buffers={"t": sample.t}),
    lambda sample: setattr(sample, "__class__", _Other),
)


def _tells(layout: _Layout, change: Callable[[_Sample], object]) -> bool:
    sample = _Sample()
    kept = sample._buffers, sample.t, sample.__dict__  # alive, as they have to be
    known = sample.words(layout)
    change(sample)
    return not known.same() and bool(kept)


def _lasts(layout: _Layout) -> bool:
    """Whether reading a module and its tensor, or writing to the latter, leaves the words as they are."""
    sample = _Sample()
    known = sample.words(layout)
    also = sample.t
    also += also.sum() + also.detach()[0].numpy()[1]
    return known.same() and sample.training
