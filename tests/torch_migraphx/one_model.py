"""Many functions as one model, which is traced and compiled once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import torch

Case = tuple[Callable[..., Any], Sequence[torch.Tensor]]
"""A function and its inputs."""


def one_model(cases: Mapping[str, Case]) -> tuple[Callable[..., dict[str, Any]], list[torch.Tensor]]:
    """A function that gives the answer of each case by its name, and the inputs of all, one behind the other."""

    def every(*inputs: torch.Tensor) -> dict[str, Any]:
        rest = iter(inputs)
        return {name: function(*islice(rest, len(own))) for name, (function, own) in cases.items()}

    return every, [x.clone() for _, own in cases.values() for x in own]
