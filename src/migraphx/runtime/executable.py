"""What a compiled program is, and how it is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument


class Executable(Protocol):
    """A program that a target has compiled. May be run from several threads at once."""

    target: str
    parameters: dict[str, Shape]
    outputs: list[Shape]

    def run(self, inputs: Sequence[Argument], outputs: Sequence[Argument] | None) -> Sequence[Argument]:
        """Run once.

        `inputs` follow `parameters`, have exactly their shapes and are not written. `outputs`, where given, are
        filled and returned; else new ones are made.
        """
        ...

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """As `run`, on memory at these addresses; what lies there is the caller's word, nothing is checked."""
        ...

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What a saved file needs beside the program to skip compilation: JSON data and named tensors."""
        ...
