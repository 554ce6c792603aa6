"""The memory of what is compiled in."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from torch_migraphx.fx.border import not_held
from torch_migraphx.fx.dtypes import to_numpy


class Lasting:
    """The tensors' own memory, as `migraphx.deferred_program` asks for it: programs with one Lasting pack it once."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self.tensors = list(tensors)

    def __call__(self) -> list[np.ndarray]:
        return [to_numpy(t) for t in self.tensors if not not_held(t, ("cpu",))]
