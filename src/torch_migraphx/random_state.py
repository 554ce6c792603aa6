"""Random generators that a compilation leaves as they were."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes


@contextmanager
def same_random_state() -> Iterator[None]:
    """Afterwards the generators of torch, Python and NumPy are as they were before.

    A seed that was set before a compilation then gives what it gives in eager. Another thread that draws meanwhile
    draws the same numbers again, as under Dynamo, which does this too.
    """
    with _disable_current_modes():
        of_torch = torch.random.get_rng_state()
        of_cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        with _disable_current_modes():
            torch.random.set_rng_state(of_torch)
            if of_cuda:
                torch.cuda.set_rng_state_all(of_cuda)
        random.setstate(of_python)
        np.random.set_state(of_numpy)
