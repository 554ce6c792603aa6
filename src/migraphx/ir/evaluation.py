"""Sizes of a finished compilation as numbers, for other lengths than its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from migraphx.ir.size import FUNCTIONS, Factor, Range, Size, Sizes, ask, product


class Evaluation:
    """Some sizes of a finished compilation as numbers, for any lengths: whether its guards hold, and the values.

    Factors are computed one by one, the sizes from their monomials by one product with a matrix.
    """

    def __init__(self, sizes: Sizes, wanted: Sequence[Size]) -> None:
        self._symbols = [sizes.ranges[n] for n in sorted(sizes.ranges)]
        self._guards, self._wishes = list(sizes.others.items()), list(sizes.wishes.items())
        first = _needed(sizes, [size for (size, _), _ in (*self._guards, *self._wishes)])
        later = _needed(sizes, wanted) - first
        self._asked, self._others = (
            [(n, sizes.factors[n]) for n in sorted(own) if sizes.factors[n].function] for own in (first, later)
        )
        self._inputs = sorted(sizes.ranges)
        self._count = len(sizes.factors)
        self._monomials = list(dict.fromkeys(m for size in wanted for m in size.terms))
        self._wanted = list(wanted)

    @cached_property
    def _matrix(self) -> np.ndarray:
        matrix = np.zeros((len(self._wanted), len(self._monomials)), np.int64)
        column = {m: k for k, m in enumerate(self._monomials)}
        for row, size in enumerate(self._wanted):
            for m, c in size.terms.items():
                matrix[row, column[m]] = c
        return matrix

    def values(self, lengths: Sequence[int], wishes: bool = True) -> np.ndarray | None:
        """The sizes at these lengths of the symbols; None where a guard does not hold, or a wish, if those count."""
        if not all(n in known for n, known in zip(lengths, self._symbols, strict=True)):
            return None
        factors = self._known(lengths)
        asked = (*self._guards, *self._wishes) if wishes else self._guards
        if any(ask(size.at(factors), question) != given for (size, question), given in asked):
            return None
        _compute(factors, self._others)
        return self._matrix @ np.array([product(factors, m) for m in self._monomials], np.int64)

    def unguarded(self, lengths: Sequence[int]) -> np.ndarray:
        """The sizes at any lengths, whatever the guards say."""
        factors = self._values(lengths)
        return self._matrix @ np.array([product(factors, m) for m in self._monomials], np.int64)

    def exactly(self, lengths: Sequence[int]) -> list[int]:
        """As `unguarded`, also where a number is too large for NumPy."""
        factors = self._values(lengths)
        return [size.at(factors) for size in self._wanted]

    def _values(self, lengths: Sequence[int]) -> list[int]:
        factors = self._known(lengths)
        _compute(factors, self._others)
        return factors

    def _known(self, lengths: Sequence[int]) -> list[int]:
        """The factors that guards and wishes ask for: where one does not hold, the others are in vain."""
        factors = [0] * self._count
        for number, length in zip(self._inputs, lengths, strict=True):
            factors[number] = length
        _compute(factors, self._asked)
        return factors


def _needed(sizes: Sizes, wanted: Sequence[Size]) -> set[int]:
    """The numbers of the factors of which these sizes are made."""
    needed, stack = set[int](), list(wanted)
    while stack:
        for number in {n for m in stack.pop().terms for n in m} - needed:
            needed.add(number)
            stack += [x for x in sizes.factors[number].arguments if isinstance(x, Size)]
    return needed


def _compute(factors: list[int], functions: Sequence[tuple[int, Factor]]) -> None:
    """Put in the values of these, in order: each is made of those before."""
    for number, factor in functions:
        a, b = (x.at(factors) if isinstance(x, Size) else x for x in factor.arguments)
        assert factor.function is not None
        factors[number] = factor.function(a, b)


def written(sizes: Sizes, value: Any) -> str:
    """JSON of a finished compilation's sizes, and in a second line of a value made of them, numbers, texts, lists."""
    data = {
        "hints": sizes.hints,
        "all": [list(s.terms.items()) for s in sizes.all],
        "factors": [[f.name, f.arguments if f.function else None] for f in sizes.factors],
        "ranges": [[n, r.least, r.most, sorted(r.excluded)] for n, r in sizes.ranges.items()],
        **{
            name: [[s, q, answer] for (s, q), answer in own.items()]
            for name, own in (("others", sizes.others), ("wishes", sizes.wishes))
        },
    }
    return "\n".join(json.dumps(x, separators=(",", ":"), default=lambda s: {"size": s.number}) for x in (data, value))


def read(text: str) -> tuple[Sizes, Any]:
    """What `written` was given; there are lists for tuples."""
    sizes = Sizes()

    def size(found: dict[str, Any]) -> Size:
        number: int = found["size"]
        return sizes.all[number]

    first, second = text.split("\n")
    plain = json.loads(first)
    sizes.hints = plain["hints"]
    sizes.ranges = {n: Range(least, most, set(excluded)) for n, least, most, excluded in plain["ranges"]}
    for terms in plain["all"]:
        own = {tuple(m): c for m, c in terms}
        sizes.all.append(Size(sizes, own, hash(tuple(sorted(own.items()))), len(sizes.all)))
    data = {name: json.loads(json.dumps(plain[name]), object_hook=size) for name in ("factors", "others", "wishes")}
    sizes.factors = [
        Factor(name) if given is None else Factor(name, FUNCTIONS[name], tuple(given))
        for name, given in data["factors"]
    ]
    sizes.others, sizes.wishes = ({(s, q): answer for s, q, answer in data[name]} for name in ("others", "wishes"))
    return sizes, json.loads(second, object_hook=size)
