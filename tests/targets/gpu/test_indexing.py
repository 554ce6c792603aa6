"""Operators that pick and order by index, on target gpu against ref, on every device."""

from __future__ import annotations

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.shape import Shape
from migraphx.targets.gpu.emit import order
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.gpu import side_by_side
from tests.targets.gpu.side_by_side import built, check, one
from tests.tiers import few, few_rows

pytestmark = pytest.mark.usefixtures("everywhere")


def indices(lens, length, type="int64", seed=0):
    return np.random.default_rng(seed).integers(-length, length, lens).astype(type)


@pytest.mark.parametrize(
    ("lens", "axis", "count"), [((7, 5), 0, (3, 2)), ((4, 6, 33), 1, (5,)), ((3, 4), 1, ()), ((2, 300), 0, (4,))]
)
@pytest.mark.parametrize("type", ["half", "int8"])
def test_gather(lens, axis, count, type):
    made = built(lambda b, x, i: b.gather(x, i, axis=axis), Shape(type, lens), Shape("int32", count))
    check(made, {"x0": random(type, lens), "x1": indices(count, lens[axis], "int32")})


def random(type, lens, seed=1):
    rng = np.random.default_rng(seed)
    if type in dtypes.FLOATS:
        return rng.standard_normal(lens).astype(dtypes.to_numpy(type))
    low, high = (0, 2) if type == "bool" else (max(dtypes.limits(type)[0], -100), min(dtypes.limits(type)[1], 100))
    return rng.integers(int(low), int(high), lens).astype(dtypes.to_numpy(type))


def test_gather_elements_and_nd():
    x = random("float", (4, 5, 6))
    made = built(lambda b, x, i: b.gather_elements(x, i, axis=1), Shape("float", (4, 5, 6)), Shape("int64", (3, 7, 6)))
    check(made, {"x0": x, "x1": indices((3, 7, 6), 5)})
    made = built(lambda b, x, i: b.gathernd(x, i), Shape("float", (4, 5, 6)), Shape("int64", (2, 3, 2)))
    check(made, {"x0": x, "x1": indices((2, 3, 2), 4)})
    made = built(lambda b, x, i: b.gathernd(x, i, batch_dims=1), Shape("float", (4, 5, 6)), Shape("int32", (4, 3, 1)))
    check(made, {"x0": x, "x1": indices((4, 3, 1), 5, "int32")})


@pytest.mark.parametrize(("type", "width"), [("half", 33), ("float", 3), ("double", 300)])
def test_embedding_bag(type, width):
    x, i, w = random(type, (2, 9, width)), indices((2, 40, 5), 9), random(type, (2, 40, 5), 2)
    made = built(lambda b, *given: b.embedding_bag(*given), *map(Shape.of, (x, i, w)))
    check(made, {"x0": x, "x1": i, "x2": w})
    turned = [np.ascontiguousarray(v.swapaxes(1, 2)) for v in (i, w)]
    made = built(
        lambda b, x, i, w: b.embedding_bag(x, *(b.transpose(v, permutation=(0, 2, 1)) for v in (i, w))),
        *map(Shape.of, (x, *turned)),
    )
    check(made, {"x0": x, "x1": turned[0], "x2": turned[1]})


@pytest.mark.parametrize("op", ["gather", "gather_elements", "gathernd", "scatter_none", "scatternd_add"])
def test_indices_out_of_range_are_reported(op):
    lens = (3, 2) if "elements" in op or op == "scatter_none" else (3, 1)
    shapes = [Shape("float", (5, 2)), Shape("int64", lens)]
    if op.startswith("scatter"):
        shapes.append(Shape("float", (3, 2)))
    compiled = built(one(op), *shapes)
    compiled.compile(GpuTarget(side_by_side.DEVICE()))
    inputs = {f"x{k}": random(s.type, s.lens) for k, s in enumerate(shapes)}
    for bad in (5, -6):
        inputs["x1"] = np.zeros(lens, np.int64)
        inputs["x1"][1, 0] = bad
        with pytest.raises(IndexError, match=f"out of range for .*5.*: found {bad}"):
            compiled.run(inputs)


@pytest.mark.parametrize(
    ("type", "last"),
    few_rows(
        [
            *((t, False) for t in ("float", "half", "double", "int8", "uint8", "int64", "uint64", "uint32", "bool")),
            *((t, True) for t in ("float", "int64", "uint8", "bool", "fp8e4m3fn")),
        ],
        ("float", False),
        ("int8", False),
        ("bool", True),
    ),
)
def test_argmax_and_argmin(type, last):
    for lens, axis in (((5, 40), 1), ((33, 3), 0), ((2, 7, 4), 1)):
        x = random(type, lens)
        x.reshape(-1)[::3] = x.reshape(-1)[0]  # equals
        if type in ("float", "half", "double"):
            x.reshape(-1)[5:9], x.reshape(-1)[20] = [np.nan, -np.nan, np.inf, -np.inf], -0.0
        for name in ("argmax", "argmin"):
            check(built(one(name, axis=axis, select_last_index=last), Shape(type, lens)), {"x0": x})
    low = np.full((2, 9), dtypes.limits("int64")[0] if type == "int64" else 0).astype(dtypes.to_numpy(type))
    check(built(lambda b, x: b.argmax(x, axis=1, select_last_index=last), Shape(type, (2, 9))), {"x0": low})


@pytest.mark.parametrize(
    ("type", "exclusive", "reverse"),
    few_rows(
        [
            *((t, e, r) for t in ("float", "int8") for e in (False, True) for r in (False, True)),
            *((t, True, True) for t in ("half", "double", "uint16", "int64")),
        ],
        ("float", False, False),
        ("float", True, True),
        ("int8", True, False),
    ),
)
def test_prefix_sums(type, exclusive, reverse, monkeypatch):
    monkeypatch.setattr(order, "WIDEST", 16)
    for lens, axis in (((3, 50), 1), ((20, 3), 0), ((2, 1, 5), 1)):
        made = built(one("prefix_scan_sum", axis=axis, exclusive=exclusive, reverse=reverse), Shape(type, lens))
        check(made, {"x0": random(type, lens)}, scale=10)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("type", few(["float", "half", "double", "uint8", "int64", "uint64"], "float", "uint8"))
def test_topk(type, largest, monkeypatch):
    monkeypatch.setattr(order, "CHUNK", 16)
    for lens, axis, k in (((3, 50), 1, 3), ((3, 50), 1, 50), ((70, 2), 0, 9), ((2, 9), 1, 4), ((2, 1), 1, 1)):
        x = random(type, lens)
        x.reshape(-1)[::4] = x.reshape(-1)[1 % x.size]
        if type in ("float", "half", "double") and x.size > 30:
            x.reshape(-1)[5:9], x.reshape(-1)[20:22] = [np.nan, -np.nan, np.inf, -np.inf], [-0.0, 0.0]
        made = built(both(k=k, axis=axis, largest=largest), Shape(type, lens))
        check(made, {"x0": x})


def both(**attributes):
    """Builds topk, and takes its two results."""

    def build(b, x):
        pair = b.topk(x, **attributes)
        return [b.get_tuple_elem(pair, index=n) for n in (0, 1)]

    return build


def test_one_hot():
    for axis in (0, 1, 2):
        made = built(one("onehot", axis=axis, depth=5), Shape("int32", (3, 4)), Shape("half", (2,)))
        check(made, {"x0": indices((3, 4), 7, "int32"), "x1": np.array([-1, 2], np.float16)})


@pytest.mark.parametrize("type", ["float", "bool", "int8"])
def test_nonzero(type, monkeypatch):
    monkeypatch.setattr(order, "BLOCK", 16)
    x = random(type, (5, 3, 7)) * (np.random.default_rng(2).random((5, 3, 7)) < 0.4).astype(dtypes.to_numpy(type))
    check(built(lambda b, x: b.nonzero(x), Shape(type, (5, 3, 7))), {"x0": x})
    check(built(lambda b, x: b.nonzero(x), Shape(type, (4,))), {"x0": np.zeros(4, dtypes.to_numpy(type))})
