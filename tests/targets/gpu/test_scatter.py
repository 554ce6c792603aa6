"""Operators that write at indices, on target gpu against ref, on every device."""

from __future__ import annotations

import numpy as np
import pytest

from migraphx.ir.shape import Shape
from migraphx.targets.gpu.emit import order, scatter
from tests.targets.gpu.side_by_side import built, check
from tests.targets.gpu.test_indexing import indices, random
from tests.tiers import few_rows

pytestmark = pytest.mark.usefixtures("everywhere")

HOWS = ("none", "add", "mul", "min", "max")
TYPES = ("float", "half", "bf16", "double", "int8", "uint64", "bool", "fp8e5m2", "int4")
CASES = [(h, t) for h in HOWS for t in TYPES if h in ("add", "max") or t in ("float", "int8", "bool")]
"""Each way of each kind of number, each type where it is added and compared."""


@pytest.fixture(params=["few", "many"])
def count(request, monkeypatch):
    """Updates that are compared all with all, and more than that."""
    if request.param == "many":
        monkeypatch.setattr(order, "CHUNK", 16)
        monkeypatch.setattr(scatter, "FEW", 4)


def compare(op, data, given, updates, **attributes):
    shapes = [Shape.of(v) for v in (data, given, updates)]
    made = built(lambda b, *args: getattr(b, op)(*args, **attributes), *shapes)
    check(made, {"x0": data, "x1": given, "x2": updates}, scale=4)


@pytest.mark.parametrize(
    ("how", "type"), few_rows(CASES, *((how, "float") for how in HOWS), ("add", "int8"), ("max", "bool"))
)
def test_equal_indices_are_taken_in_order(how, type, count):
    data, updates = random(type, (4, 9)), random(type, (5, 9), 2)
    compare(f"scatter_{how}", data, indices((5, 9), 4), updates, axis=0)
    compare(f"scatternd_{how}", data, indices((5, 1), 4, "int32"), random(type, (5, 9), 3))


def test_every_form(count):
    data = random("float", (4, 5, 6))
    compare("scatter_none", data, indices((2, 7, 3), 5), random("float", (2, 7, 3), 4), axis=1)
    compare("scatter_add", data, indices((4, 5, 20), 6), random("float", (4, 5, 20), 4), axis=-1)
    compare("scatternd_none", data, indices((3, 2, 2), 4), random("float", (3, 2, 6), 4))
    compare("scatternd_add", data, indices((30, 3), 4), random("float", (30,), 4))
    compare("scatternd_max", data, indices((0, 3), 4), random("float", (0,), 4))
    half = random("half", (3, 300))
    compare("scatternd_add", half, indices((7, 1), 3), random("half", (7, 300), 4))


def test_what_is_no_number_wins(count):
    data, updates = random("float", (6,)), random("float", (9,), 5)
    updates[2], updates[5], data[1] = np.nan, np.inf, np.nan
    for how in HOWS:
        compare(f"scatter_{how}", data, indices((9,), 6, seed=3), updates, axis=0)


def test_sums_do_not_depend_on_the_order_of_programs():
    """Many updates of one place, whose float sum depends on the order."""
    rng = np.random.default_rng(0)
    updates = (rng.standard_normal(100) * 10.0 ** rng.integers(-6, 6, 100)).astype(np.float32)
    made = built(
        lambda b, x, i, u: b.scatter_add(x, i, u, axis=0),
        *[Shape("float", (2,)), Shape("int64", (100,)), Shape("float", (100,))],
    )
    inputs = {"x0": np.zeros(2, np.float32), "x1": np.ones(100, np.int64), "x2": updates}
    compiled = check(made, inputs)
    want = np.float32(0)
    for u in updates:
        want += u
    assert np.asarray(compiled.run(inputs)[0])[1] == want
