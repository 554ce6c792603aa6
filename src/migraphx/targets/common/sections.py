"""A compiled program apart from its code: what an executable says of itself, and how a file holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.runtime.executable import Step

FORMAT = "2"  # of the data here: counts on when what `read` expects changes


@dataclass(frozen=True)
class Outline:
    """What a target knows of a program that it has lowered.

    `checks` are the messages of its run-time checks, by number; `in_place` the outputs that may be given the memory of
    an input, and that input.
    """

    parameters: dict[str, Shape]
    outputs: list[Shape]
    steps: Sequence[Step]
    checks: Sequence[str]
    arena_bytes: int
    in_place: dict[int, int] = field(default_factory=dict[int, int])

    def raise_failed(self, status: Sequence[int]) -> None:
        """IndexError where a check failed: `status` begins with its number plus one, or 0, and what it found."""
        failed, found = int(status[0]), int(status[1])
        if failed:
            raise IndexError(f"{self.checks[failed - 1]}: found {found}")


def write(outline: Outline, weights: Sequence[np.ndarray]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """JSON data and named tensors, from which `read` makes the same again."""
    data = {
        "parameters": [[n, s.to_data()] for n, s in outline.parameters.items()],
        "outputs": [s.to_data() for s in outline.outputs],
        "steps": [astuple(s) for s in outline.steps],
        "checks": list(outline.checks),
        "arena_bytes": outline.arena_bytes,
        "in_place": list(outline.in_place.items()),
        "weights": len(weights),
    }
    return data, {f"weight.{k}": w for k, w in enumerate(weights)}


def read(data: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> tuple[Outline, list[np.ndarray]]:
    """The outline and the weights; KeyError, TypeError or ValueError where the data is damaged."""
    outline = Outline(
        {n: _memory(s) for n, s in data["parameters"]},
        [_memory(s) for s in data["outputs"]],
        [Step(*fields) for fields in data["steps"]],
        list(data["checks"]),
        int(data["arena_bytes"]),
        {int(output): int(given) for output, given in data["in_place"]},
    )
    return outline, [tensors[f"weight.{k}"] for k in range(data["weights"])]


def _memory(data: dict[str, Any]) -> Shape:
    """A shape that one block of memory has."""
    shape = Shape.from_data(data)
    if shape.dynamic or shape.type == "tuple":
        raise ValueError(f"{shape} is no memory's shape")
    return shape
