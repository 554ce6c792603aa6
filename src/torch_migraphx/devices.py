"""Where programs run, in torch's words: devices, streams, threads. Nothing else in the bridge asks for these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch._C._dynamo import guards

import migraphx

KINDS = {1: "cpu", 2: "cuda", 10: "cuda"}
"""torch's device type for each of DLPack's on which targets run; torch calls AMD's GPUs cuda, too."""
TYPES = frozenset(KINDS.values())
TARGETS = {"cpu": "cpu", "cuda": "gpu"}
"""The engine's target for each of torch's device types."""
EMPTY_CPU = guards._empty_strided_cpu  # pyright: ignore[reportAttributeAccessIssue]
EMPTY_CUDA = guards._empty_strided_cuda  # pyright: ignore[reportAttributeAccessIssue]
MOST_NAMED = 5  # inputs or weights in one message


class Place:
    """A device where a target runs its programs: their inputs and outputs lie there."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        here = device.type == "cpu"
        self.holds: Callable[[torch.Tensor], bool] = attrgetter("is_cpu") if here else self._has
        self.stream: Callable[[], int | None] = _no_stream if here else self._current_stream
        """The stream in which this thread's work of torch goes on, to be asked before a run; None on the CPU."""

    @classmethod
    def of(cls, target: str) -> Place:
        """That of a target. ValueError for an unknown one; RuntimeError where it cannot run on this machine."""
        device = getattr(migraphx.get_target(target), "device", None)
        if device is None:  # AMD's own targets do not say
            return cls(torch.device("cuda", torch.cuda.current_device()) if target == "gpu" else torch.device("cpu"))
        kind = KINDS.get(device.kind)
        if kind is None:
            raise RuntimeError(f"target {target!r} runs on {device.name}, which torch does not know")
        return cls(torch.device(kind, device.index) if kind != "cpu" else torch.device(kind))

    def _has(self, x: torch.Tensor) -> bool:
        return x.device == self.device

    def __str__(self) -> str:
        return "the CPU" if self.device.type == "cpu" else str(self.device)

    def _current_stream(self) -> int:
        return torch._C._cuda_getCurrentRawStream(self.device.index)  # torch.cuda.current_stream makes an object of it

    def maker(self, size: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Callable[[], torch.Tensor]:
        """What makes a new tensor there, its elements whatever they are.

        By the functions that Inductor's code allocates with: torch.empty_strided takes twice as long to read what it is
        told (3.5 and 1.8 us beside an H200). They know no device but torch's current one.
        """
        size = tuple(size)  # no torch.Size: they take tuples alone
        if self.device.type == "cpu":
            return partial(EMPTY_CPU, size, strides, dtype)
        index, elsewhere = self.device.index, partial(torch.empty_strided, device=self.device)

        def make() -> torch.Tensor:
            if torch._C._cuda_getDevice() == index:
                return EMPTY_CUDA(size, strides, dtype)
            return elsewhere(size, strides, dtype=dtype)

        return make

    def taken(self, made: migraphx.argument) -> torch.Tensor:
        """A result of a run as a tensor, which is for the stream of the run."""
        return torch.from_dlpack(made if self.device.type == "cpu" else made.__dlpack__(stream=-1))

    def refuse_others(self, target: str, groups: Iterable[Mapping[str, torch.Tensor]]) -> None:
        """NotImplementedError where all tensors of a group are elsewhere: names them, and says where they must be."""
        for group in groups:
            if not group or any(x.device.type == self.device.type for x in group.values()):
                continue
            where = _listed([f"{name} on {x.device}" for name, x in group.items()])
            raise NotImplementedError(
                f"target {target!r} runs on {self}; these are elsewhere: {where}. "
                f"Move them with .to({str(self.device)!r})"
            )


@contextmanager
def on_device_of(samples: Iterable[Any] | Mapping[str, Any]) -> Iterator[None]:
    """Meanwhile the GPU of the tensors among samples is torch's current one, for which target gpu compiles.

    NotImplementedError where there are several: a program runs on one. Samples without names are inputs.
    """
    named = samples if isinstance(samples, Mapping) else {f"input {k}": x for k, x in enumerate(samples)}
    found = {n: x.device for n, x in named.items() if isinstance(x, torch.Tensor) and x.device.type == "cuda"}
    if len({*found.values()}) > 1:
        places = {d: _listed([n for n, own in found.items() if own == d]) for d in found.values()}
        where = "; ".join(f"{names} on {device}" for device, names in places.items())
        raise NotImplementedError(f"a program runs on one device; there are {where}. Move them to one")
    if not found or not torch.cuda.is_initialized():  # tensors that are imagined
        yield
        return
    with torch.cuda.device(next(iter(found.values()))):
        yield


def refuse_elsewhere(target: str, groups: Sequence[Mapping[str, torch.Tensor]]) -> None:
    """NotImplementedError for named tensors on several GPUs, and where all of a group are where a target is not."""
    with on_device_of({name: x for group in groups for name, x in group.items()}):
        Place.of(target).refuse_others(target, groups)


def _listed(places: Sequence[str]) -> str:
    more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
    return ", ".join(places[:MOST_NAMED]) + more


def _no_stream() -> None:
    torch.get_num_threads()  # brings what torch.set_num_threads said to this thread's OpenMP


def type_of(samples: Iterable[Any]) -> str:
    """The device type of the tensors among samples; that of the CPU where they are on several, or on an unknown one."""
    types = {x.device.type for x in samples if isinstance(x, torch.Tensor)}
    return types.pop() if len(types) == 1 and types <= TYPES else "cpu"
