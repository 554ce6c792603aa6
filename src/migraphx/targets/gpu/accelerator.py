"""What an executable of target gpu asks of a device.

Three answer: CUDA's driver, Triton's interpreter on main memory (tests), and one that only records what it is asked
(tests). So what decides about memory, graphs and streams is the same code on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from migraphx.runtime.device import Device
from migraphx.targets.gpu.kernel import Grid, Kernel


class Function(Protocol):
    """A kernel that is loaded."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def scratch(self) -> int:
        """Bytes of memory of its own that each of its programs needs while it runs."""
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
    """Works in their order, launched at once. One graph may be launched again before its last launch is over, but on
    the same stream only."""

    def launch(self, stream: int) -> None: ...

    def update(self, k: int) -> None:
        """Take over the values of work `k`, for launches from now on."""
        ...

    def close(self) -> None:
        """Give it back, at once or when its last launch is over."""
        ...


class Event(Protocol):
    """A moment of a stream."""

    def record(self, stream: int) -> None: ...

    def wait(self, stream: int) -> None:
        """Let a stream wait for the moment; the host does not."""
        ...

    def done(self) -> bool: ...

    def milliseconds(self, since: Event) -> float:
        """Time from another event to this one, both over."""
        ...


class Accelerator(Device, Protocol):
    """A device with kernels, graphs and streams.

    Memory that `allocate` and `pinned` give starts at multiples of 256.
    """

    @property
    def chip(self) -> str:
        """What kernels are compiled for: `cuda:90`, `hip:gfx942`."""
        ...

    def load(self, kernels: Sequence[Kernel]) -> list[Function]:
        """Compile kernels, or take them from the cache, and load them. Equal ones are one."""
        ...

    def work(self, function: Function, grid: Grid, values: Sequence[int], scratch: int = 0) -> Work:
        """A function on a grid; `scratch` is the address of its programs' own memory."""
        ...

    def graph(self, works: Sequence[Work]) -> Graph: ...

    def event(self) -> Event: ...

    def stream(self) -> int:
        """A stream of this device for those who were given none; the same one for all calls of a thread."""
        ...

    def capturing(self, stream: int) -> bool:
        """Whether the stream records what it is told instead of doing it."""
        ...

    def fill(self, to: int, byte: int, nbytes: int, stream: int) -> None:
        """Set every byte."""
        ...

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        """The address of so many zero bytes of main memory that kernels can write to, and what keeps them."""
        ...
