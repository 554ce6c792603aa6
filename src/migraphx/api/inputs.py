"""Random inputs that a program can run on."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import numpy as np

from migraphx.api.argument import argument, generate_argument
from migraphx.api.program import program
from migraphx.api.shape import shape
from migraphx.inspect.index_ranges import index_ranges
from migraphx.inspect.running import at_lens
from migraphx.ir import dtype as dtypes


def random_inputs(p: program, shapes: Mapping[str, shape], seed: int = 0) -> dict[str, argument]:
    """A value of each (static) shape, the same at every call, as `generate_argument` makes it.

    Integers that become indices are in the range of what they index.
    """
    made = {name: generate_argument(s, n) for n, (name, s) in zip(count(seed), shapes.items(), strict=False)}
    if not any(a.shape.type in dtypes.INTEGERS for a in made.values()):
        return made
    static = at_lens(p.graph, {name: a.array for name, a in made.items()}).program
    for n, (name, (low, high)) in enumerate(index_ranges(static).items(), seed):
        array = made[name].array
        array[...] = np.random.default_rng(n).integers(low, high, array.shape, endpoint=True)
    return made
