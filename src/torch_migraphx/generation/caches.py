"""Keys and values in memory that is allocated ahead: a step writes its own, and reads no more than there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import cache_utils
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    StaticLayer,
    StaticSlidingWindowLayer,
)

from torch_migraphx.fx.narrow import AS_FP8, MOST

BLOCK = 512
"""Positions that a cache has room for at first: a step makes masks of all of them."""
FP8 = getattr(cache_utils, "Fp8QuantizedLayer", None)  # transformers 5.23 has it
GROWABLE = (DynamicLayer, DynamicSlidingWindowLayer, StaticLayer, StaticSlidingWindowLayer)


def zeros(lens: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Zeros in main memory, whose pages, where they are fresh, the system provides when they are first written."""
    count = int(np.prod(lens))
    blank = np.zeros(count * dtype.itemsize, np.uint8)  # calloc; torch.zeros writes them
    return torch.from_numpy(blank).view(dtype).view(*lens)


class GrowingLayer(CacheLayerMixin):
    """A layer's keys and values {batch, heads, length, size}: views of buffers {batch, heads, capacity, size}.

    An update writes behind what is there. The buffers are replaced by larger ones, of powers of two times `BLOCK`, when
    they are full. A layer with a sliding window keeps all positions too: its mask hides the old ones.
    """

    is_croppable = True
    scales: Sequence[float] = (0.0, 0.0)
    """Of keys and values that come to be rounded to fp8; 0: they are kept as they are."""

    def __init__(self, sliding: bool = False) -> None:
        self.is_initialized, self.is_sliding, self.length = False, sliding, 0

    @property
    def keys(self) -> torch.Tensor | None:
        return self._key_buffer[:, :, : self.length] if self.is_initialized else None

    @keys.setter
    def keys(self, keys: torch.Tensor | None) -> None:
        """Other keys: as many of the same, or those of other sequences (a beam search, a crop)."""
        if keys is not None:
            self._key_buffer = self._filled(self._key_buffer, keys)
            self.length = keys.shape[2]

    @property
    def values(self) -> torch.Tensor | None:
        return self._value_buffer[:, :, : self.length] if self.is_initialized else None

    @values.setter
    def values(self, values: torch.Tensor | None) -> None:
        if values is not None:
            self._value_buffer = self._filled(self._value_buffer, values)
            self.length = values.shape[2]

    @staticmethod
    def _filled(buffer: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        if given.data_ptr() == buffer.data_ptr() and given.stride() == buffer.stride():
            return buffer  # its own first positions
        if given.shape[0] != buffer.shape[0] or given.shape[2] > buffer.shape[2]:
            buffer = zeros((given.shape[0], buffer.shape[1], capacity(given.shape[2]), buffer.shape[3]), buffer.dtype)
        buffer[:, :, : given.shape[2]] = given
        return buffer

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self.allocate(key_states.shape[:2], key_states.shape[3], value_states.shape[3], key_states.dtype)

    def allocate(self, heads: Sequence[int], key_size: int, value_size: int, dtype: torch.dtype) -> None:
        """Make empty buffers; `heads`: how many sequences, and heads of each."""
        self.dtype, self.device = dtype, torch.device("cpu")
        self._key_buffer = zeros((*heads, BLOCK, key_size), dtype)
        self._value_buffer = zeros((*heads, BLOCK, value_size), dtype)
        self.length, self.is_initialized = 0, True

    def reserve(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The buffers, with room for so many positions."""
        if positions > self._key_buffer.shape[2]:
            self._key_buffer, self._value_buffer = (
                self._larger(b, capacity(positions)) for b in (self._key_buffer, self._value_buffer)
            )
        return self._key_buffer, self._value_buffer

    def lies_in(self, keys: torch.Tensor, values: torch.Tensor) -> bool:
        """Whether these are its buffers."""
        return self.is_initialized and self._key_buffer is keys and self._value_buffer is values

    def _larger(self, buffer: torch.Tensor, room: int) -> torch.Tensor:
        made = zeros((*buffer.shape[:2], room, buffer.shape[3]), buffer.dtype)
        made[:, :, : self.length] = buffer[:, :, : self.length]
        return made

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new keys and values behind the others; returns all."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        first, self.length = self.length, self.length + key_states.shape[2]
        keys, values = (x[:, :, : self.length] for x in self.reserve(self.length))
        keys[:, :, first:] = key_states
        values[:, :, first:] = value_states
        return keys, values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many keys a mask is for, and the first one's position."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """How many positions are filled."""
        return self.length

    def get_max_length(self) -> int:
        """-1: as many as memory holds."""
        return -1

    def filled(self, positions: int) -> None:
        """A step has written this many positions in all."""
        self.length = positions

    def reset(self) -> None:
        """Forget what is there; the buffers stay."""
        self.length = 0

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last positions: `tokens_to_remove` is negative, as in transformers."""
        if tokens_to_remove > 0:
            raise ValueError(f"crop takes a negative number of tokens, not {tokens_to_remove}")
        self.length = max(self.length + tokens_to_remove, 0)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each sequence so many times in a row."""
        self._select(torch.arange(self._key_buffer.shape[0]).repeat_interleave(repeats))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these sequences."""
        self._select(indices)

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """The sequences that go on, of a beam search."""
        self._select(beam_idx)

    def _select(self, indices: torch.Tensor) -> None:
        if self.length:
            self.keys, self.values = (b[indices, :, : self.length] for b in (self._key_buffer, self._value_buffer))


class RoundedLayer(GrowingLayer):
    """Keys and values with the numbers that transformers' layer of fp8 keeps, in buffers of the model's own type.

    The first ones say the scales, largest magnitude over 448, and are rounded behind their step; those that follow are
    rounded before attention reads them.
    """

    def filled(self, positions: int) -> None:
        first, self.length = self.length == 0, positions
        if first:
            least = torch.finfo(torch.float32).tiny
            kept = [b[:, :, :positions] for b in (self._key_buffer, self._value_buffer)]
            scales = [(x.abs().amax().float() / MOST).clamp(min=least) for x in kept]
            for x, scale in zip(kept, scales, strict=True):
                x.copy_(rounded(x, scale))
            self.scales = [float(scale) for scale in scales]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        before = self.length
        if before:
            scales = map(torch.tensor, self.scales)
            key_states, value_states = map(rounded, (key_states, value_states), scales)
        held = super().update(key_states, value_states)
        if before:
            return held
        self.length = 0
        self.filled(key_states.shape[2])
        return key_states, value_states


def rounded(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """`x` as fp8 of this scale {} keeps it; where the scale is 0, as it is."""
    near = AS_FP8(x.float() / torch.where(scale > 0, scale, 1)) * scale
    return torch.where(scale > 0, near.to(x.dtype), x)


def capacity(positions: int) -> int:
    """`BLOCK` times the least power of two that holds so many positions."""
    room = BLOCK
    while room < positions:
        room *= 2
    return room


def grow_in_place(cache: Cache, layers: int) -> str | None:
    """Replace the cache's layers by growing ones that hold the same; None, or why that is not done.

    `layers`: how many the model has, for a cache that makes them when they are needed. Layers that were offloaded,
    recurrent, or quantized to other types than fp8 stay as they are, and so does the whole cache.
    """
    if cache.offloading:
        return "its layers are offloaded"
    own: list[Any] = list(cache.layers)
    if own and all(isinstance(x, GrowingLayer) for x in own):
        return None
    if not own:
        if cache.layer_class_to_replicate is not DynamicLayer:
            return f"its layers are {getattr(cache.layer_class_to_replicate, '__name__', 'unknown')}"
        own = [DynamicLayer() for _ in range(layers)]
    strange = [x for x in own if type(x) not in (*GROWABLE, FP8)]
    if strange:
        return f"it has a {type(strange[0]).__name__}"
    if any(x.is_sliding and x.is_initialized and int(x.get_seq_length()) for x in own):
        return "a sliding window may have dropped what a growing layer keeps"
    made: list[Any] = [_growing(x) for x in own]
    cache.layers = made
    cache.layer_class_to_replicate = None
    return None


def _growing(layer: Any) -> GrowingLayer:
    if type(layer) is FP8:
        return _rounding(layer)
    made = GrowingLayer(layer.is_sliding)
    length = int(layer.get_seq_length()) if layer.is_initialized else 0
    if length:
        keys, values = layer.keys[:, :, :length], layer.values[:, :, :length]
        made.update(keys, values)
    return made


def _rounding(layer: Any) -> RoundedLayer:
    made = RoundedLayer()
    if layer.is_initialized and layer.get_seq_length():
        pairs = layer._quantized_keys, layer._quantized_values
        GrowingLayer.update(made, *map(layer._dequantize, pairs))
        made.scales = [float(scale) for _, scale in pairs]
    return made
