"""What a call of a language model with a cache asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache

from torch_migraphx.generation.caches import GrowingLayer, RoundedLayer


@dataclass
class Call:
    """The arguments of one call, as a step takes them."""

    ids: torch.Tensor
    positions: torch.Tensor
    mask: Any
    cache: Cache
    layers: list[GrowingLayer]
    keep: int

    @property
    def scales(self) -> torch.Tensor | None:
        """{layers, 2} of keys and values, where a layer rounds them; 0 before its first step."""
        if not any(isinstance(x, RoundedLayer) for x in self.layers):
            return None
        return torch.tensor([x.scales if x.length else GrowingLayer.scales for x in self.layers])


def is_of_padding(mask: Any) -> bool:
    """Whether a mask says no more than which tokens {sequences, n} are padding; None: none is."""
    return mask is None or (isinstance(mask, torch.Tensor) and mask.dim() == 2)
