"""Sizes compute as ints do; where their guards hold, they compute the same at other lengths."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from migraphx.ir.evaluation import Evaluation
from migraphx.ir.shape import Shape, broadcast_lens
from migraphx.ir.size import Size, Sizes, filled, is_open, least_of, likely_less, most_of, ones_matter

OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a // b,
    lambda a, b: a % b,
    lambda a, b: -a,
    lambda a, b: max(a, b),
    lambda a, b: min(a, b),
    most_of,
    least_of,
    lambda a, b: a.bit_length(),
]
QUESTIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
    lambda a, b: bool(a),
    lambda a, b: a % 4 == 0,
    lambda a, b: [8][:a] == [] or a in (3, 5) or b in (a, 2),
]


def story(seed: int, symbols: list[Any]) -> tuple[list[Any], list[Any]]:
    """Values and answers of a random computation, which goes where the answers lead."""
    rng = random.Random(seed)
    values, answers = [*symbols, 1, 2, 3, 12], []
    for _ in range(12):
        a, b = rng.choice(values), rng.choice(values)
        operation, question = rng.choice(OPERATIONS[: None if seed % 3 else 3]), rng.choice(QUESTIONS[:8])
        try:
            values.append(operation(a, b))
        except ZeroDivisionError:
            answers.append("zero")
        if rng.random() < 0.5:
            answers.append(bool(question(rng.choice(values), rng.choice(values))))
            if answers[-1]:
                values.append(rng.choice(values) + 1)
    return values, answers


@pytest.mark.parametrize("seed", range(150))
def test_where_guards_hold_all_is_the_same(seed: int) -> None:
    rng = random.Random(-seed)
    sizes, hints = Sizes(), [rng.randint(0, 20), rng.randint(1, 9)]
    symbols = [sizes.symbol(name, n, 0, 64) for name, n in zip("nm", hints, strict=True)]
    values, answers = story(seed, symbols)
    evaluation = Evaluation(sizes, [v for v in values if isinstance(v, Size)])
    held = 0
    for lengths in [hints, *([rng.randint(0, 64), rng.randint(0, 64)] for _ in range(40))]:
        found = evaluation.values(lengths)
        if found is None:
            assert lengths != hints
            continue
        held += 1
        want, same = story(seed, lengths)
        assert answers == same
        given = iter(found.tolist())
        assert [next(given) if isinstance(v, Size) else v for v in values] == want
    assert held


def test_what_is_certain_needs_no_guard() -> None:
    sizes = Sizes()
    n, m = sizes.symbol("n", 7, 2, 100), sizes.symbol("m", 3, 1, 9)
    assert n * 12 * m % 4 == 0 and n * 384 // (n * 4) == 96 and n - n == 0 and n != 1 and n > m - 8
    assert n * m * 12 >= n and 2 * n != 5 and (n * 6) // 3 == n + n and not n * 4 % n and n < float("inf")
    assert Shape("float", (n, 3, m)).standard and broadcast_lens((n, 1), (1, m)) == (n, m)
    assert sizes.ranges[0].least == 2 and sizes.ranges[0].most == 100 and not sizes.others


def test_guards_of_one_symbol_narrow_its_range() -> None:
    sizes = Sizes()
    n = sizes.symbol("n", 10, 0, 1000)
    assert n != 12 and n * n < 400 and 3 * n >= 27 and n != 9
    known = sizes.ranges[0]
    assert (known.least, known.most, known.excluded) == (10, 19, {12}) and not sizes.others


def test_wishes_do_not_narrow() -> None:
    sizes = Sizes()
    n: Any = sizes.symbol("n", 5, 0, 99)
    assert likely_less(n, 8) and not likely_less(n * n, 9) and likely_less(3, 4) and not likely_less(n + 1, n)
    found = Evaluation(sizes, sizes.all)
    assert (sizes.ranges[0].least, sizes.ranges[0].most, sizes.others) == (0, 99, {})
    assert [found.values([k]) is not None for k in (2, 3, 7, 8, 100)] == [False, True, True, False, False]
    assert [found.values([k], wishes=False) is not None for k in (2, 8, 100)] == [True, True, False]


def test_plain_numbers_pin() -> None:
    for asks in (int, float, range, np.arange, lambda n: [0] * n, lambda n: "x"[n:], lambda n: n * 0.5):
        sizes = Sizes()
        n: Any = sizes.symbol("n", 5, 0, 9)
        asks(n)
        assert sizes.ranges[0].least == sizes.ranges[0].most == 5 and not is_open(n)


def test_text() -> None:
    sizes = Sizes()
    n: Any = sizes.symbol("n", 5, 0, 9)
    text, found = f"{n} of {n * 2 + 1}", Evaluation(sizes, sizes.all)
    assert filled(text, found.unguarded([7]).tolist().__getitem__) == "7 of 15"
    assert sizes.ranges[0].most == 9 and sizes.pinned(text) == "5 of 11" and sizes.ranges[0].most == 5


def test_a_length_that_is_longer_now_is_taken_for_1_too() -> None:
    sizes = Sizes()
    n, one = sizes.symbol("n", 5, 1, 100), sizes.symbol("one", 1, 1, 100)
    assert n != 1 and n > 1 and not n < 2 and not n * 8 == 8 and n * 3 > 3  # noqa: SIM201
    assert 1 in sizes.ranges[0] and not sizes.others
    with ones_matter():
        assert n != 1
    assert 1 not in sizes.ranges[0]
    assert one == 1 and 2 not in sizes.ranges[1]
