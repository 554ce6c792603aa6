"""A step of one token, again and again: its inputs stay where they are, and only what they hold changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import migraphx
from torch_migraphx.dynamo.runner import Fetched
from torch_migraphx.generation.call import Call, is_of_padding
from torch_migraphx.generation.step import Inputs


@dataclass(eq=False)
class Following:
    """How tokens follow each other in a text.

    `options` (migraphx.DecodeOptions): the engine chooses them so, by logits {sequences, numbers} (float32) of these
    `lens`. `ended` {sequences}: which sequences have; `put` is called with each step's tokens {sequences}.
    """

    options: Any
    lens: Sequence[int]
    ended: np.ndarray
    put: Callable[[torch.Tensor], object] | None = None


class DecodeStep:
    """Runs steps of one token for each sequence of a cache, whose buffers are among the inputs.

    Most of what a step costs beside its kernels is Python whose memory the kernels have pushed out of the caches, so it
    asks for no more than can have changed since the step before.
    """

    def __init__(self, inputs: Inputs, weights: Fetched, run: Callable[..., Sequence[torch.Tensor] | None]) -> None:
        """`inputs`: in memory that nobody else writes to; `run` computes with what they hold.

        Its answer begins with the logits; None where a program or the weights are not as they were. Given memory for
        the logits, and what follows a run, it runs repeatedly.
        """
        self._weights, self._run = weights, run
        self._ids, self._positions, self._start = (x.numpy() for x in (inputs.ids, inputs.positions, inputs.start))
        self._mask, self._inputs = inputs.mask, inputs
        self._buffers = list(zip(inputs.caches[::2], inputs.caches[1::2], strict=True))
        self._room = inputs.caches[0].shape[2]
        self._masked = True  # by what the step before was given: not known yet
        self._decode: tuple[Following, Any, Any] | None = None  # its memory for logits, and what chooses by them

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
        self._feed(call)
        made = self._run()
        return None if made is None else made[0]

    def several(self, call: Call, following: Following, most: int) -> torch.Tensor | None:
        """The tokens {sequences, tokens} behind those of the call, at most so many, without Python between their steps.

        None where the engine does not choose tokens here; no tokens where the next one has to be found in another way.
        The cache's layers are not told.
        """
        made = self._decode
        if made is None or made[0] is not following:
            made = self._decode = following, *self._chooser(following)
        _, logits, decode = made
        if decode is None:
            return None
        self._feed(call)
        decode.ended[:] = following.ended
        text = torch.empty(min(most, self._room - call.layers[0].length), len(self._ids), dtype=torch.int64)
        steps, put = text.unbind(), following.put  # now, as torch takes its time between steps
        decode.begin(text.numpy(), None if put is None else lambda k: put(steps[k]))
        self._run((logits,), decode)
        following.ended[:] = decode.ended
        return text[: decode.steps].T

    def _chooser(self, following: Following) -> tuple[Any, Any]:
        make = getattr(migraphx.get_target("cpu"), "decode", None)
        if make is None:
            return None, None
        sequences, numbers = following.lens
        logits = torch.empty(sequences, 1, numbers)
        inputs = self._ids, self._positions, self._start
        return logits, make(logits.numpy()[:, -1], inputs, following.options)

    def _feed(self, call: Call) -> None:
        self._ids[...] = call.ids.numpy()
        self._positions[...] = call.positions.numpy()
        self._start[...] = call.layers[0].length
        if call.mask is not None or self._masked:
            self._mask.fill_(True)
            if call.mask is not None:
                self._mask[:, : call.mask.shape[1]] = call.mask[:, : self._room]
            self._masked = call.mask is not None


class Steps:
    """The steps of one token of each sequence behind a call, one after another."""

    def __init__(
        self, call: Call, run: Callable[[Call], torch.Tensor],
        run_several: Callable[[Call, Following, int], torch.Tensor | None],
    ) -> None:  # fmt: skip
        """`call` has the positions {sequences, 1} of the first step, in memory of its own."""
        self._call, self._run, self._run_several = call, run, run_several
        self._positions = call.positions.numpy()  # NumPy is quicker at so few numbers

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits {sequences, 1, numbers} of these tokens {sequences, 1}."""
        self._call.ids = tokens
        logits = self._run(self._call)
        self._positions += 1
        return logits

    def several(self, tokens: torch.Tensor, following: Following, most: int) -> torch.Tensor | None:
        """Those {sequences, tokens} that follow, at most so many; None or none: the next step is to be run alone."""
        self._call.ids = tokens
        made = self._run_several(self._call, following, most)
        if made is not None:
            self._positions += made.shape[1]
        return made
