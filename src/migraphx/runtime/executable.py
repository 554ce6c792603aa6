"""What a compiled program is, and how it is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.device import Device
from migraphx.runtime.memory_image import MemoryImage
from migraphx.runtime.repeat import Repeat


@dataclass(frozen=True)
class Step:
    """One kernel call of a run: its instruction's text, its kernel, where it came from, and what it costs.

    `bytes` counts every operand once, as far as its view reaches; `flops` counts a multiply and an add as two.
    """

    text: str
    kernel: str
    origin: str
    bytes: int
    flops: int


class Executable(Protocol):
    """A program that a target has compiled. May be run from several threads at once.

    A class that inherits it writes nothing in place, keeps and shares nothing unless it says so.
    """

    target: str
    parameters: dict[str, Shape]
    outputs: list[Shape]
    threads: int
    device: Device  # where inputs and outputs lie

    @property
    def steps(self) -> Sequence[Step]:
        """The kernel calls of one run, in order."""
        ...

    def run(
        self,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument] | None,
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> Sequence[Argument]:
        """Run once.

        `inputs` follow `parameters`, have exactly their shapes, lie on `device` and are not written. `outputs`, where
        given, are filled and returned; else new ones are made. An output of `in_place` may be given its input's
        memory, in which only what differs is then written. The run comes behind what the stream has to do, and may
        still go on when this returns; its errors are then those of the next call that waits. On the host it is over.
        A signal handler that raises ends the run, TimeoutError the run that goes on behind the deadline, both within a
        tenth of a second; the outputs are then undefined.
        """
        ...

    def in_place(self, inputs: Sequence[Argument]) -> Mapping[int, int]:
        """Outputs that may be given the memory of an input, by number, and that input's number."""
        return {}

    def run_at(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """As `run`, on memory at these addresses; what lies there is the caller's word, nothing is checked."""
        given = [Argument(s, p, None, self.device) for s, p in zip(self.parameters.values(), inputs, strict=True)]
        places = [Argument(s, p, None, self.device) for s, p in zip(self.outputs, outputs, strict=True)]
        self.run(given, places, stream, deadline)

    def run_unless_changed(
        self,
        image: MemoryImage,
        inputs: Sequence[int],
        outputs: Sequence[int],
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> bool:
        """As `run_at`, where the memory of `image` is as it was; else false, and the outputs are undefined.

        It may be looked at while the run goes on.
        """
        if not image.same():
            return False
        self.run_at(inputs, outputs, stream, deadline)
        return True

    def run_repeatedly(
        self, repeat: Repeat, inputs: Sequence[int], outputs: Sequence[int], image: MemoryImage | None = None
    ) -> bool:
        """As `run_at`, or `run_unless_changed` where there is an image; again while `repeat` says so behind a run.

        The image is looked at now and then, the first time in the first run.
        """
        while image is None or image.same():
            self.run_at(inputs, outputs)
            if not repeat.more():
                return True
        return False

    def profile(self, inputs: Sequence[Argument], runs: int) -> list[float]:
        """Seconds of each of `steps`, the mean of so many runs after one that is not counted."""
        ...

    def release(self) -> None:
        """Give back the memory that is kept for the next run."""

    def share_weights(self, others: Iterable[Executable]) -> None:
        """Use the memory of others' weights for equal ones of its own. Not while it runs."""

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What a saved file needs beside the program to skip compilation: JSON data and named tensors."""
        return {}, {}
