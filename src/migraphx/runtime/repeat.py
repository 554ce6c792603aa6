"""What a run of a program may be followed by: another one, of what the first has made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Repeat(Protocol):
    """Asked behind each run, which it may feed with the results."""

    native: tuple[int, int]
    """A function, which answers whether the program runs once more, and its argument: addresses of C++."""

    def more(self) -> bool:
        """Ask from Python."""
        ...


@dataclass(frozen=True)
class DecodeOptions:
    """How tokens are chosen by their scores, and when a sequence ends.

    The likeliest where `top_k` is 0. Else one is drawn: scores are divided by the temperature, those of the `top_k`
    largest count, and of these the likeliest that make up `top_p` together. The one with the largest ratio of its
    probability to -log(1 - u), u of `numbers`, is chosen: as torch.multinomial draws.
    """

    top_k: int = 0
    top_p: float = 1.0
    temperature: float = 1.0
    numbers: Callable[[int], np.ndarray] | None = None
    """Random numbers {tokens, sequences, vocabulary} (float64) in [0, 1) for so many tokens."""
    ends: Sequence[int] = ()
    """A sequence ends with one of these tokens."""
    padding: int | None = None
    """What it goes on with; None: with what is chosen."""


class Decode(Repeat, Protocol):
    """Steps of a language model: each chooses a token for every sequence, which is the input of the next one."""

    ended: np.ndarray
    """{sequences} (bool): which have ended; the caller may say so, too."""

    def begin(self, text: np.ndarray, told: Callable[[int], object] | None = None) -> None:
        """The next steps' tokens go to `text` {most steps, sequences} (int64).

        `told` is called with each step's number, from 0 on, before the next step; what it raises ends the steps.
        """
        ...

    @property
    def steps(self) -> int:
        """How many there were since; raises what `told` did.

        Fewer than `most` where all sequences have ended, where a run was ended, or where the last run's scores were no
        numbers: that one has to be run again.
        """
        ...
