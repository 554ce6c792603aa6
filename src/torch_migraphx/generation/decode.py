"""A step of one token, again and again: its inputs stay where they are, and only what they hold changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from torch_migraphx.dynamo.runner import Fetched
from torch_migraphx.generation.call import Call, is_of_padding
from torch_migraphx.generation.step import Inputs


class DecodeStep:
    """Runs steps of one token for each sequence of a cache, whose buffers are among the inputs.

    Most of what a step costs beside its kernels is Python whose memory the kernels have pushed out of the caches, so it
    asks for no more than can have changed since the step before.
    """

    def __init__(self, inputs: Inputs, weights: Fetched, run: Callable[[], Sequence[torch.Tensor] | None]) -> None:
        """`inputs`: of a step that has run, in memory that nobody else writes to; `run` computes with what they hold.

        Its answer begins with the logits; None where a program or the weights are not as they were.
        """
        self._weights, self._run = weights, run
        self._ids, self._positions, self._start = (x.numpy() for x in (inputs.ids, inputs.positions, inputs.start))
        self._mask, self._inputs = inputs.mask, inputs
        self._buffers = list(zip(inputs.caches[::2], inputs.caches[1::2], strict=True))
        self._room = inputs.caches[0].shape[2]
        self._masked = True  # by what the step before was given: not known yet

    def serves(self, call: Call, weights: Fetched) -> bool:
        """Whether the call is such a step, of the same buffers and weights."""
        return (
            weights is self._weights
            and call.ids.shape == self._ids.shape
            and call.layers[0].length < self._room
            and is_of_padding(call.mask)
            and all(layer.lies_in(*own) for layer, own in zip(call.layers, self._buffers, strict=True))
        )

    def __call__(self, call: Call) -> torch.Tensor | None:
        """The logits; None where it has to be run in another way."""
        self._ids[...] = call.ids.numpy()
        self._positions[...] = call.positions.numpy()
        self._start[...] = call.layers[0].length
        if call.mask is not None or self._masked:
            self._mask.fill_(True)
            if call.mask is not None:
                self._mask[:, : call.mask.shape[1]] = call.mask[:, : self._room]
            self._masked = call.mask is not None
        made = self._run()
        return None if made is None else made[0]
