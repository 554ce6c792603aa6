"""The lengths for which a program with dynamic shapes is compiled ahead."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import islice, product

from migraphx.ir.ranges import ranges
from migraphx.ir.shape import Shape


def optimal_lens(parameters: Mapping[str, Shape], most: int) -> list[dict[str, tuple[int, ...]]]:
    """Every combination of optimal lengths, at most so many; none where a dimension has none.

    Dimensions of one symbol have one length in it.
    """
    if not any(s.dyn_dims for s in parameters.values()):
        return []
    names: dict[str, list[Hashable]] = {}
    choices: dict[Hashable, Sequence[int]] = {}
    for parameter, shape in parameters.items():
        names[parameter] = [d.symbol or (parameter, k) for k, d in enumerate(ranges(shape))]
        for name, d in zip(names[parameter], ranges(shape), strict=True):
            choices.setdefault(name, (d.min,) if d.is_fixed else d.optimals)
    picks = (dict(zip(choices, pick, strict=True)) for pick in product(*choices.values()))
    return [{p: tuple(pick[n] for n in own) for p, own in names.items()} for pick in islice(picks, most)]
