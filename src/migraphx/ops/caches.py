"""Keys and values of attention that stay from step to step, as upstream's group query attention has them.

Shapes: B sequences, N heads, K heads of keys (and as many of values), S new steps, T steps of the cache, D numbers
a head. One new step (S = 1) goes where each sequence has come to; several are a prompt and go to the start.
"""

from __future__ import annotations

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import Operation
from migraphx.ir.shape import Shape


class ConcatPastPresent(Operation, name="concat_past_present"):
    """The cache {B, K, T, D} with the new keys or values {B, K, S, D} put in.

    Inputs: the new ones, how many steps each sequence has so far (B integers), the cache. One new step outside of
    the cache is dropped.
    """

    arity = 3
    data_movement = True
    kv_num_heads: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        new, lengths, cache = inputs
        self.require(new.ndim == cache.ndim == 4 and new.type == cache.type, inputs, "takes {B, K, S, D} twice")
        same = (new.lens[:2], new.lens[3]) == (cache.lens[:2], cache.lens[3])
        self.require(same and new.lens[2] <= cache.lens[2], inputs, "the new steps do not fit the cache")
        self.require(self.kv_num_heads == new.lens[1], inputs, f"has {new.lens[1]} heads, not kv_num_heads")
        counted = lengths.type in dtypes.INTEGERS and lengths.elements == new.lens[0]
        self.require(counted, inputs, "needs one length a sequence")
        return cache.as_standard()

    def compute(self, *args: np.ndarray) -> np.ndarray:
        new, lengths, cache = args
        made, steps = np.array(cache), new.shape[2]
        for sequence, length in enumerate(lengths.reshape(-1).tolist()):
            start = length if steps == 1 else 0
            if 0 <= start < cache.shape[2]:
                made[sequence, :, start : start + steps] = new[sequence]
        return made


class GqaRotaryEmbedding(Operation, name="gqa_rotary_embedding"):
    """Queries and keys of {B, N + 2 K, S, D} rotated by their position's angles (2104.09864); values stay.

    Inputs: queries, keys and values along the heads; how many steps each sequence has so far (B integers); cosines
    and sines {positions, R}. The first 2 R numbers of a head turn: pairs R apart, or neighbours if `interleaved`.
    """

    arity = 4
    can_fail = True
    num_heads: int = 1
    kv_num_heads: int = 1
    interleaved: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        x, lengths, cos, sin = inputs
        heads = self.num_heads + 2 * self.kv_num_heads
        self.require(x.ndim == 4 and x.lens[1] == heads, inputs, f"takes {heads} heads of {{B, heads, S, D}}")
        fits = cos.ndim == 2 and cos.lens == sin.lens and 2 * cos.lens[1] <= x.lens[3] and x.lens[2] <= cos.lens[0]
        self.require(fits, inputs, "cosines and sines must be {positions, R}, R at most half a head")
        counted = lengths.type in dtypes.INTEGERS and lengths.elements == x.lens[0]
        self.require(counted, inputs, "needs one length a sequence")
        return x.as_standard()

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, lengths, cos, sin = args
        wide = dtypes.accumulator(dtypes.from_numpy(x.dtype))
        steps: int = x.shape[2]
        half, turning = cos.shape[1], self.num_heads + self.kv_num_heads
        at = lengths.reshape(-1, 1) if steps == 1 else np.arange(steps)[None]
        if at.size and not 0 <= at.min() <= at.max() < cos.shape[0]:
            raise IndexError(f"gqa_rotary_embedding: a position is outside of {cos.shape[0]}")
        c, s = (table[at].astype(wide)[:, None] for table in (cos, sin))
        made = x.astype(wide)
        first, second = (
            (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if self.interleaved else (slice(half), slice(half, 2 * half))
        )
        a, b = made[:, :turning, :, first].copy(), made[:, :turning, :, second].copy()
        made[:, :turning, :, first], made[:, :turning, :, second] = a * c - b * s, b * c + a * s
        return made.astype(x.dtype)
