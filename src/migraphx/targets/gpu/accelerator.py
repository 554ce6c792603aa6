"""What an executable of target gpu asks of a device.

Three answer: CUDA's driver, Triton's interpreter on main memory (tests), and one that only records what it is asked
(tests). So what decides about memory, graphs and streams is the same code on all of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from threading import Lock
from typing import Any, Protocol

from migraphx.runtime.device import Device
from migraphx.targets.gpu.binaries import Binary
from migraphx.targets.gpu.kernel import Grid, Kernel

ALIGNMENT = 256  # bytes: vectors of 16, TMA, and what libraries like best


class Function(Protocol):
    """A kernel that is loaded."""

    @property
    def scratch(self) -> int:
        """Bytes of memory of its own that each of its programs needs while it runs."""
        ...

    @property
    def code(self) -> Binary | None:
        """None where it is no code that a device runs."""
        ...


class Work(Protocol):
    """Something that a stream does, on addresses that can change between two launches."""

    def bind(self, values: Sequence[int]) -> None:
        """The pointers, then the numbers, in the order of the kernel's arguments."""
        ...

    def launch(self, stream: int) -> None:
        """Append it to a stream, with the values that it has now."""
        ...


class Graph(Protocol):
    """Works in their order, launched at once.

    One graph may be launched again before its last launch is over, but on the same stream only.
    """

    def launch(self, stream: int) -> None: ...

    def update(self, k: int) -> None:
        """Take over the values of work `k`, for launches from now on."""
        ...


class Event(Protocol):
    """A moment of a stream."""

    def record(self, stream: int) -> None: ...

    def wait(self, stream: int) -> None:
        """Let a stream wait for the moment; the host does not."""
        ...

    def done(self) -> bool: ...

    def seconds(self, since: Any) -> float:
        """Time from another event to this one, both over."""
        ...


class Accelerator(Device, Protocol):
    """A device with kernels, graphs and streams.

    Memory that `allocate` and `pinned` give starts at multiples of ALIGNMENT.
    """

    chip: str
    """What kernels are compiled for: `cuda:90`, `hip:gfx942`."""

    def current(self) -> AbstractContextManager[Any]:
        """While it lasts, this thread's calls of the driver mean this device. All calls below stand inside one."""
        ...

    def ahead(self) -> AbstractContextManager[Callable[[Kernel], None]]:
        """Meanwhile kernels that are named are compiled beside, for a `load` in this thread before it ends."""
        ...

    def load(self, kernels: Sequence[Kernel], codes: Sequence[Binary] = ()) -> Sequence[Function]:
        """Load kernels. Their code is compiled, or taken from the cache, unless it is given. Equal ones are one."""
        ...

    def work(self, function: Function, grid: Grid, values: Sequence[int], scratch: int = 0) -> Work:
        """A function on a grid; `scratch` is the address of its programs' own memory."""
        ...

    def graph(self, works: Sequence[Work]) -> Graph: ...

    def event(self, timed: bool = False) -> Event:
        """`timed`: `seconds` can be asked."""
        ...

    def stream(self) -> int:
        """A stream of this device for those who were given none; the same one for all calls of a thread."""
        ...

    def capturing(self, stream: int) -> bool:
        """Whether the stream records what it is told instead of doing it."""
        ...

    def peak_flops(self) -> float:
        """Operations a second on fp16 in matrix units, as data sheets count them."""
        ...

    @property
    def findings(self) -> Findings:
        """Who is asked by `synchronise` whether kernels found something wrong."""
        ...


class Finder(Protocol):
    """Knows what some runs found."""

    def raise_found(self) -> None: ...

    def drop_told(self) -> bool:
        """Forget what was told; whether something is left to tell."""
        ...


class Findings:
    """Those who know what kernels found, such as an index out of range: each raises it when it is asked."""

    def __init__(self) -> None:
        self._asked: list[weakref.WeakMethod[Callable[[], None]]] = []
        self._kept: list[Finder] = []
        self._lock = Lock()

    def ask(self, method: Callable[[], None]) -> None:
        """From now on `method`, as long as its object lives."""
        asked = weakref.WeakMethod(method)
        with self._lock:  # programs are compiled by any thread
            self._asked = [*(m for m in self._asked if m() is not None), asked]
        self._drop_told()

    def keep(self, finder: Finder) -> None:
        """Ask it until it has told all, though nobody else keeps it."""
        self._kept.append(finder)

    def raise_any(self) -> None:
        for finder in list(self._kept):
            finder.raise_found()
        self._drop_told()
        for asked in self._asked:
            method = asked()
            if method is not None:
                method()

    def _drop_told(self) -> None:
        for finder in list(self._kept):
            if not finder.drop_told():
                with suppress(ValueError):  # another thread has
                    self._kept.remove(finder)


class Block:
    """Memory of a device, freed with its last user."""

    def __init__(self, device: Accelerator, nbytes: int, stream: int | None = None) -> None:
        self.nbytes = nbytes
        self.address, self._owner = device.allocate(max(nbytes, 1), stream)
