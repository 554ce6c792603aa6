"""Sizes: lengths whose value may change from run to run, as programs are compiled once for many of them.

A `Size` stands where an int would: sums, products and quotients of Sizes are Sizes. What asks for a plain answer (a
comparison, `int`, NumPy) gets the one of the lengths that the program is compiled at, and its `Sizes` notes a guard:
for other lengths of which all guards hold, every answer, and with them the compiled program, is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

Monomial = tuple[int, ...]  # the numbers of its factors, ascending
Terms = dict[Monomial, int]
CONSTANT: Monomial = ()
INTEGERS: tuple[type[Any], ...] = (np.integer,)
OPEN, CLOSE = "\x02", "\x03"  # round the number of a Size in a text that was made of it


@dataclass(frozen=True)
class Factor:
    """What polynomials are made of: a symbol (no function), or a function of two sizes that is no polynomial."""

    name: str
    function: Callable[[Any, Any], Any] | None = None
    arguments: tuple[Any, ...] = ()


@dataclass
class Range:
    """What a symbol may be: least <= symbol <= most, but none of `excluded`."""

    least: int
    most: int
    excluded: set[int] = field(default_factory=set[int])

    def __contains__(self, value: int) -> bool:
        return self.least <= value <= self.most and value not in self.excluded


_ones_matter: ContextVar[bool] = ContextVar("ones_matter", default=False)


@contextmanager
def ones_matter(matter: bool = True) -> Generator[None]:
    """Meanwhile a length of 1 may mean something else than others do, to who asks: a model's nodes and its values."""
    if _ones_matter.get() == matter:
        yield
        return
    token = _ones_matter.set(matter)
    try:
        yield
    finally:
        _ones_matter.reset(token)


class Sizes:
    """The symbols of one compilation, the lengths that it is made at, and the guards noted so far.

    Guards of one symbol narrow its range; `others` are relations {polynomial, name, answer}. `wishes` are, too: where
    one does not hold, the program is right, but another would be faster.
    """

    def __init__(self) -> None:
        self.factors: list[Factor] = []
        self.hints: list[int] = []
        self.ranges: dict[int, Range] = {}
        self.others: dict[tuple[Size, str], bool] = {}
        self.wishes: dict[tuple[Size, str], bool] = {}
        self.all: list[Size] = []
        self.version = 0  # of the ranges
        self._known: dict[tuple[tuple[Monomial, int], ...], Size] = {}
        self._numbers: dict[Factor, int] = {}
        self._answers: dict[tuple[int, str], bool] = {}

    def symbol(self, name: str, hint: int, least: int, most: int) -> int:
        """A new one; `hint`: its length in this compilation."""
        number = self._factor(Factor(name), hint)
        self.ranges[number] = Range(least, most)
        return self.of({(number,): 1})

    def of(self, terms: Terms) -> int:
        """The size of a polynomial: a plain int where it is one."""
        terms = {m: c for m, c in terms.items() if c}
        if not terms:
            return 0
        if len(terms) == 1 and CONSTANT in terms:
            return terms[CONSTANT]
        key = tuple(sorted(terms.items()))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Size(self, dict(key), hash(key), len(self.all))
            self.all.append(known)
        return known  # type: ignore[return-value]  # an int for all who compute with it

    def function(self, name: str, a: Any, b: Any) -> int:
        """What is no polynomial of `a` and `b`, as one factor; `name`: of FUNCTIONS."""
        function = FUNCTIONS[name]
        factor = Factor(name, function, (a, b))
        number = self._numbers.get(factor)
        if number is None:
            number = self._factor(factor, function(hint_of(a), hint_of(b)))
        return self.of({(number,): 1})

    def _factor(self, factor: Factor, hint: int) -> int:
        self._numbers[factor] = len(self.factors)
        self.factors.append(factor)
        self.hints.append(hint)
        return len(self.factors) - 1

    # ---- what is certain ----

    def bounds(self, number: int) -> tuple[int, int]:
        """The least and the largest value of a factor."""
        if number in self.ranges:
            return self.ranges[number].least, self.ranges[number].most
        factor = self.factors[number]
        (a, b), (c, d) = (bounds_of(x) for x in factor.arguments)
        if factor.name == "least":
            return min(a, c), min(b, d)
        if factor.name == "most":
            return max(a, c), max(b, d)
        if factor.name == "bits":
            return a.bit_length() if a > 0 else 0, max(-a, b).bit_length()
        if c <= 0:
            return -(2**63), 2**63
        if factor.name == "rest":
            return 0, d - 1
        ends = [n // m for n in (a, b) for m in (c, d)]
        return min(ends), max(ends)

    def answer(self, size: Size, question: str) -> bool:
        """Whether the size is 0 (`zero`) or less (`negative`), noted as a guard where it is not certain."""
        if not _ones_matter.get() and (long := self._as_long(size, question)) is not None:
            return long
        known = self._answers.get((size.number, question))
        if known is None:
            known = self._answers[size.number, question] = self._answer(size, question)
        return known

    def _answer(self, size: Size, question: str) -> bool:
        low, high = size.bounds
        if question == "zero":
            if low > 0 or high < 0 or low == high:
                return low == high == 0
            constant = size.terms.get(CONSTANT, 0)
            if constant % math.gcd(*(c for m, c in size.terms.items() if m)):
                return False
        elif high < 0 or low >= 0:
            return high < 0
        simple = self._primitive(size)
        if simple is not size:
            return self.answer(simple, question) if isinstance(simple, Size) else ask(simple, question)
        given = ask(size.hint, question)
        symbols = {n for m in size.terms for n in m}
        if len(symbols) != 1 or not self._narrow(size, question, given, *symbols):
            self.others[size, question] = given
        return given

    def _as_long(self, size: Size, question: str) -> bool | None:
        """The answer where the question is whether lengths that may be 1, and are not now, are 1: no; else None.

        No guard is noted: layouts, loops and shape rules that hold for other lengths hold for 1 as well.
        """
        symbols, c = next(((m, c) for m, c in size.terms.items() if m), (CONSTANT, 0))
        constant = size.terms.get(CONSTANT, 0)
        asks = constant == -c if question == "zero" or c < 0 else constant == -2 * c
        if len(size.terms) != 2 or not asks or not all(n in self.ranges for n in symbols):
            return None
        if math.prod(self.ranges[n].least for n in symbols) != 1 or math.prod(self.hints[n] for n in symbols) == 1:
            return None
        return question == "negative" and c < 0

    def _primitive(self, size: Size) -> Any:
        """The size without factors that are certainly positive."""
        common = math.gcd(*size.terms.values())
        shared: list[int] = []
        if CONSTANT not in size.terms:
            first, *others = size.terms
            for number in first:
                if all(m.count(number) > shared.count(number) for m in others) and self.bounds(number)[0] > 0:
                    shared.append(number)
        if common == 1 and not shared:
            return size
        return self.of({without(m, shared): c // common for m, c in size.terms.items()})

    def _narrow(self, size: Size, question: str, given: bool, symbol: int) -> bool:
        """Let the range of the only symbol say it; False where it cannot."""
        known = self.ranges.get(symbol)
        if known is None:
            return False

        def at(value: int) -> int:
            return sum(c * value ** len(m) for m, c in size.terms.items())

        slope = {m[1:]: c * len(m) for m, c in size.terms.items() if m}
        low, high = self.bounds_of_terms(slope)
        if low < 0 < high:
            return False
        sign, hint = (1 if low >= 0 else -1), self.hints[symbol]
        self.version += 1
        if question == "zero":
            if given:
                known.least = known.most = hint
                return True
            root = first_where(lambda n: sign * at(n) >= 0, known.least, known.most)
            if root is not None and at(root) == 0:
                self._exclude(known, root)
            return True
        edge = first_where(lambda n: (at(n) < 0) != (at(known.least) < 0), known.least, known.most)
        if edge is not None:
            if hint < edge:
                known.most = edge - 1
            else:
                known.least = edge
        return True

    @staticmethod
    def _exclude(known: Range, value: int) -> None:
        if value == known.least:
            known.least += 1
        elif value == known.most:
            known.most -= 1
        else:
            known.excluded.add(value)

    def bounds_of_terms(self, terms: Terms) -> tuple[int, int]:
        low = high = 0
        for monomial, c in terms.items():
            ends = (1, 1)
            for number in monomial:
                own = self.bounds(number)
                every = [x * y for x in ends for y in own]
                ends = (min(every), max(every))
            low, high = low + min(c * ends[0], c * ends[1]), high + max(c * ends[0], c * ends[1])
        return low, high

    def pinned(self, text: str) -> str:
        """A text made of sizes at the lengths of this compilation, which is for the same sizes only from now on."""
        return filled(text, lambda number: int(self.all[number]))


def filled(text: str, value: Callable[[int], int]) -> str:
    """A text made of sizes, which have these values, by their numbers."""
    first, *parts = text.split(OPEN)
    found = [part.partition(CLOSE) for part in parts]
    return first + "".join(f"{value(int(number))}{rest}" for number, _, rest in found)


class Size:
    """A polynomial with whole coefficients of the factors of a compilation; no constant. Equal ones are one object."""

    __slots__ = ("_bounds", "_hash", "_version", "hint", "number", "sizes", "terms")

    def __init__(self, sizes: Sizes, terms: Terms, hash: int, number: int) -> None:
        self.sizes, self.terms, self.number, self._hash = sizes, terms, number, hash
        self.hint = sum(c * math.prod(sizes.hints[n] for n in m) for m, c in terms.items())
        self._version, self._bounds = -1, (0, 0)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value, as far as is certain."""
        if self._version != self.sizes.version:
            self._bounds, self._version = self.sizes.bounds_of_terms(self.terms), self.sizes.version
        return self._bounds

    # ---- arithmetic ----

    def __add__(self, other: Any) -> Any:
        if isinstance(other, float):
            return float(self) + other
        other = terms_of(other)
        if other is None:
            return NotImplemented
        terms = dict(self.terms)
        for m, c in other.items():
            terms[m] = terms.get(m, 0) + c
        return self.sizes.of(terms)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, float):
            return float(self) * other
        other = terms_of(other)
        if other is None:
            return NotImplemented
        terms: Terms = {}
        for m, c in self.terms.items():
            for n, d in other.items():
                both = tuple(sorted((*m, *n))) if m and n else m or n
                terms[both] = terms.get(both, 0) + c * d
        return self.sizes.of(terms)

    def __neg__(self) -> Any:
        return self.sizes.of({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, float) or terms_of(other) is not None else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    __radd__, __rmul__ = __add__, __mul__

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __pow__(self, other: int) -> Any:
        return math.prod([self] * other)

    def __floordiv__(self, other: Any) -> Any:
        return divided(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return divided(other, self)

    def __mod__(self, other: Any) -> Any:
        return remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return remainder(other, self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return divided(self, other), remainder(self, other)

    def __rshift__(self, other: int) -> Any:
        return divided(self, 1 << other)

    def __rlshift__(self, other: int) -> int:
        return other << int(self)

    def bit_length(self) -> int:
        return self.sizes.function("bits", self, 0)

    # ---- answers ----

    def __eq__(self, other: Any) -> Any:
        if self is other:
            return True
        if isinstance(other, Size) and other.sizes is not self.sizes:
            return False
        other = whole_number(other)
        if terms_of(other) is None:
            return NotImplemented
        apart = self - other
        return self.sizes.answer(apart, "zero") if isinstance(apart, Size) else apart == 0

    def __ne__(self, other: Any) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return self._hash

    def _less(self, other: Any, turned: bool) -> Any:
        """self < other, or other < self."""
        if isinstance(other, float) and math.isinf(other):
            return (other > 0) != turned
        other = whole_number(other)
        if terms_of(other) is None:
            return NotImplemented
        apart = other - self if turned else self - other
        return self.sizes.answer(apart, "negative") if isinstance(apart, Size) else apart < 0

    def __lt__(self, other: Any) -> Any:
        return self._less(other, False)

    def __gt__(self, other: Any) -> Any:
        return self._less(other, True)

    def __ge__(self, other: Any) -> Any:
        less = self._less(other, False)
        return less if less is NotImplemented else not less

    def __le__(self, other: Any) -> Any:
        more = self._less(other, True)
        return more if more is NotImplemented else not more

    def __bool__(self) -> bool:
        return not self.sizes.answer(self, "zero")

    def __index__(self) -> int:
        """The value at hand: the compiled program is for lengths of the same one only."""
        assert self == self.hint
        return self.hint

    __int__ = __index__

    def __float__(self) -> float:
        return float(int(self))

    def __truediv__(self, other: Any) -> float:
        return int(self) / other

    def __rtruediv__(self, other: Any) -> float:
        return other / int(self)

    # ---- text ----

    def __str__(self) -> str:
        return f"{OPEN}{self.number}{CLOSE}"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)

    def __deepcopy__(self, memo: Any) -> Size:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a size belongs to one compilation")


# ---- of sizes and plain numbers alike ----


def whole(value: Any) -> int:
    """int(value); a Size as it is."""
    return value if type(value) in (int, Size) else int(value)


def is_open(value: Any) -> bool:
    """Whether a number, or one of several, changes from run to run."""
    if isinstance(value, (tuple, list)):
        return any(is_open(v) for v in value)  # pyright: ignore[reportUnknownVariableType]
    return isinstance(value, Size) and value.bounds[0] != value.bounds[1]


def hint_of(value: Any) -> int:
    return value.hint if isinstance(value, Size) else value


def bounds_of(value: Any) -> tuple[int, int]:
    return value.bounds if isinstance(value, Size) else (value, value)


def divides(by: int, value: int) -> bool:
    """Whether `value` is a multiple at all lengths, as far as is certain: no guard."""
    return not any(c % by for c in value.terms.values()) if isinstance(value, Size) else value % by == 0


def least_of(a: int, b: int) -> int:
    """min(a, b), without a guard."""
    return _extreme("least", a, b)


def most_of(a: int, b: int) -> int:
    """max(a, b), without a guard."""
    return _extreme("most", a, b)


def likely_less(a: int, b: int) -> bool:
    """a < b, for a choice between ways that are right at all lengths: noted as a wish."""
    apart: Any = a - b
    low, high = bounds_of(apart)
    if high < 0 or low >= 0:
        return high < 0
    given = hint_of(apart) < 0
    apart.sizes.wishes[apart, "negative"] = given
    return given


def note_class(value: int) -> None:
    """Wish for lengths that are alike: between the same powers of 4."""
    if is_open(value):
        least = 4 ** ((max(hint_of(value), 1).bit_length() - 1) // 2)
        likely_less(value, least)
        likely_less(value, 4 * least)


def _extreme(name: str, a: Any, b: Any) -> int:
    (least, most), (low, high) = bounds_of(a), bounds_of(b)
    if most <= low:
        return a if name == "least" else b
    if high <= least:
        return b if name == "least" else a
    owner = a if isinstance(a, Size) else b
    return owner.sizes.function(name, a, b)


def _quotient(a: int, b: int) -> int:
    """Some number where b is 0, as a guard excludes, but not yet."""
    return a // (b or 1)


def _rest(a: int, b: int) -> int:
    return a % (b or 1)


def _bits(a: int, _: int) -> int:
    return a.bit_length()


FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "least": min, "most": max, "quotient": _quotient, "rest": _rest, "bits": _bits
}  # fmt: skip


def divided(a: Any, b: Any) -> Any:
    """a // b"""
    exact = _exact_quotient(a, b)
    if exact is not None:
        return exact
    owner = a if isinstance(a, Size) else b
    if not isinstance(owner, Size) or not b:
        return int(a) // int(b)
    return owner.sizes.function("quotient", a, b)


def remainder(a: Any, b: Any) -> Any:
    """a % b"""
    if _exact_quotient(a, b) is not None:
        return 0
    owner = a if isinstance(a, Size) else b
    if not isinstance(owner, Size) or b <= 0:
        return int(a) % int(b)
    low, high = bounds_of(a)
    if low >= 0 and high < bounds_of(b)[0]:
        return a
    return owner.sizes.function("rest", a, b)


def _exact_quotient(a: Any, b: Any) -> Any:
    """a / b where that is a polynomial, for a b of one term; else None."""
    of_a, of_b = terms_of(a), terms_of(b)
    if of_a is None or of_b is None or len(of_b) != 1:
        return None
    ((divisor, c),) = of_b.items()
    if any(d % c or any(m.count(n) < divisor.count(n) for n in divisor) for m, d in of_a.items()):
        return None
    owner = a if isinstance(a, Size) else b
    if divisor and not b > 0:
        return None
    return owner.sizes.of({without(m, divisor): d // c for m, d in of_a.items()})


def terms_of(value: Any) -> Terms | None:
    if isinstance(value, Size):
        return value.terms
    return {CONSTANT: int(value)} if isinstance(value, (int, *INTEGERS)) else None


def whole_number(value: Any) -> Any:
    """A float's value where it is a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def without(monomial: Monomial, factors: Iterable[int]) -> Monomial:
    rest = list(monomial)
    for n in factors:
        rest.remove(n)
    return tuple(rest)


def ask(value: int, question: str) -> bool:
    return value == 0 if question == "zero" else value < 0


def first_where(holds: Callable[[int], bool], least: int, most: int) -> int | None:
    """The first number from least to most of which this holds, as of all behind it; None where there is none."""
    if not holds(most):
        return None
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle + 1, most)
    return least
