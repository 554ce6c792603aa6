"""Sizes of a finished compilation as numbers, for other lengths than its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from migraphx.ir.size import FUNCTIONS, Factor, Monomial, Range, Size, Sizes


class Evaluation:
    """Some sizes of a finished compilation as numbers, for any lengths: whether its guards hold, and the values.

    One function of Python's own computes them: a walk over sizes and factors would wait for the memory of each, which
    a run has pushed out of the caches.
    """

    def __init__(self, sizes: Sizes, wanted: Sequence[Size]) -> None:
        self._symbols = [sizes.ranges[n] for n in sorted(sizes.ranges)]
        self._sizes, self._wanted = sizes, list(wanted)

    @cached_property
    def _function(self) -> Callable[..., tuple[int, ...] | None]:
        made: dict[str, Any] = {**FUNCTIONS}
        exec(self._text(), made)
        return made["values"]

    def _text(self) -> str:
        """A function of how much is asked (1: guards, 2: wishes, too) and of the symbols: the values, or None.

        Where a guard does not hold, what is needed for the others only is not computed.
        """
        sizes = self._sizes
        guards, wishes = list(sizes.others.items()), list(sizes.wishes.items())
        first = _needed(sizes, [size for (size, _), _ in (*guards, *wishes)])
        later = _needed(sizes, self._wanted) - first
        lines = [f"def values(asks, {', '.join(f'f{n}' for n in sorted(sizes.ranges))}):", *_factors(sizes, first)]
        for least, asked in enumerate((guards, wishes), 1):
            fails = " or ".join(f"{_polynomial(size)} {FAILS[question, given]} 0" for (size, question), given in asked)
            if fails:
                lines.append(f"if asks >= {least} and ({fails}): return None")
        lines += [*_factors(sizes, later), f"return ({' '.join(f'{_polynomial(size)},' for size in self._wanted)})"]
        return "\n ".join(lines)

    def values(self, lengths: Sequence[int], wishes: bool = True) -> np.ndarray | None:
        """The sizes at these lengths of the symbols; None where a guard does not hold, or a wish, if those count."""
        if not all(n in known for n, known in zip(lengths, self._symbols, strict=True)):
            return None
        found = self._function(2 if wishes else 1, *lengths)
        return None if found is None else np.array(found, np.int64)

    def unguarded(self, lengths: Sequence[int]) -> np.ndarray:
        """The sizes at any lengths, whatever the guards say."""
        return np.array(self.exactly(lengths), np.int64)

    def exactly(self, lengths: Sequence[int]) -> Sequence[int]:
        """As `unguarded`, also where a number is too large for NumPy."""
        return self._function(0, *lengths) or ()


FAILS = {("zero", True): "!=", ("zero", False): "==", ("negative", True): ">=", ("negative", False): "<"}
"""Of a question and its answer: how a size compares with 0 for which the answer is another one."""


def _needed(sizes: Sizes, wanted: Sequence[Size]) -> set[int]:
    """The numbers of the factors of which these sizes are made."""
    needed, stack = set[int](), list(wanted)
    while stack:
        for number in {n for m in stack.pop().terms for n in m} - needed:
            needed.add(number)
            stack += [x for x in sizes.factors[number].arguments if isinstance(x, Size)]
    return needed


def _factors(sizes: Sizes, numbers: set[int]) -> list[str]:
    """Lines that compute these factors, in order: each is made of those before."""
    made = [(n, sizes.factors[n]) for n in sorted(numbers)]
    return [f"f{n} = {f.name}({', '.join(map(_polynomial, f.arguments))})" for n, f in made if f.function]


def _polynomial(x: Size | int) -> str:
    return " + ".join(f"{c:d} * {_product(m)}" for m, c in x.terms.items()) if isinstance(x, Size) else f"{x:d}"


def _product(monomial: Monomial) -> str:
    return " * ".join(f"f{n:d}" for n in monomial) or "1"


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
