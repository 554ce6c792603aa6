"""A program with dynamic shapes at some lens of its parameters, run by addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from migraphx.ir.shape import Shape
from migraphx.runtime.executable import Executable
from migraphx.runtime.memory_image import MemoryImage
from migraphx.runtime.repeat import Repeat


@dataclass(frozen=True)
class AtLens:
    """Runs it on inputs and outputs at addresses, in the order of the parameters and of the outputs.

    `order`: the numbers of the parameters that the executable reads; `ran` is told of each run; `current`: whether the
    program would take this executable again, and not one that was compiled meanwhile.
    """

    executable: Executable
    order: Sequence[int]
    ran: Callable[[], None]
    current: Callable[[], bool]

    def __call__(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        stream: int | None = None,
        image: MemoryImage | None = None,
    ) -> bool:
        """False where the memory of `image` is not as it was: what the outputs hold is then undefined."""
        given = [inputs[n] for n in self.order]
        if image is None:
            self.executable.run_at(given, outputs, stream)
        elif not self.executable.run_unless_changed(image, given, outputs, stream):
            return False
        self.ran()
        return True

    def repeatedly(
        self, repeat: Repeat, inputs: Sequence[int], outputs: Sequence[int], image: MemoryImage | None = None
    ) -> bool:
        """And again, while `repeat` says so. False as above; what `repeat` has seen was made before."""
        if not self.executable.run_repeatedly(repeat, [inputs[n] for n in self.order], outputs, image):
            return False
        self.ran()
        return True

    @cached_property
    def in_place(self) -> Mapping[int, int]:
        """Which outputs may be given the memory of which inputs, by their numbers."""
        return {output: self.order[n] for output, n in self.executable.in_place([]).items()}

    @property
    def outputs(self) -> Sequence[Shape]:
        return self.executable.outputs
