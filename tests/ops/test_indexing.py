import numpy as np
import pytest
import torch
from torch.nn import functional

from migraphx.ir.operation import ShapeError
from migraphx.ir.shape import Shape
from tests.ops.one_operator import FLOATS, NUMBERS, apply, infer, random, tensor
from tests.ops.onnx_oracle import onnx_answer
from tests.tolerances import assert_close

REDUCTIONS = ["none", "add", "mul", "min", "max"]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(17)


def indices(rng: np.random.Generator, length: int, lens: tuple[int, ...], type: str = "int64") -> np.ndarray:
    """Random indices, negative ones too."""
    return rng.integers(-length, length, lens).astype(type)


@pytest.mark.parametrize("type", [*NUMBERS, "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("lens", [(), (4,), (2, 3), (0,)])
def test_gather(type, axis, lens, rng):
    x = random(rng, (5, 6, 7), type)
    i = indices(rng, x.shape[axis], lens, "int32")
    np.testing.assert_array_equal(apply("gather", x, i, axis=axis), np.take(x, i, axis))


def test_gather_of_strided_inputs(rng):
    x, i = random(rng, (5, 6)).T, indices(rng, 6, (8, 3))[::2]
    np.testing.assert_array_equal(apply("gather", x, i), x[i])


@pytest.mark.parametrize(
    ("data", "index", "batch"),
    [
        ((4, 5, 6), (3, 2), 0),
        ((4, 5, 6), (2, 3, 3), 0),
        ((4, 5, 6), (4, 2, 1), 1),
        ((2, 3, 5, 6), (2, 3, 4, 2), 2),
    ],
)
def test_gathernd(data, index, batch, rng):
    x = random(rng, data)
    i = np.stack([rng.integers(0, n, index[:-1]) for n in data[batch : batch + index[-1]]], -1)
    want = onnx_answer("GatherND", x, i, batch_dims=batch)
    np.testing.assert_array_equal(apply("gathernd", x, i, batch_dims=batch), want)
    lengths = np.array(data[batch : batch + index[-1]])
    np.testing.assert_array_equal(apply("gathernd", x, i - lengths, batch_dims=batch), want)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis, rng):
    x, i = random(rng, (4, 5, 6)), rng.integers(0, 4, (3, 5, 4))
    if axis == 1:
        i = i[:, :4]
    want = torch.gather(tensor(x), axis, torch.from_numpy(i)).numpy()
    np.testing.assert_array_equal(apply("gather_elements", x, i, axis=axis), want)
    np.testing.assert_array_equal(apply("gather_elements", x, i - x.shape[axis], axis=axis), want)


@pytest.mark.parametrize("type", FLOATS)
def test_embedding_bag(type, rng):
    x, i, w = random(rng, (2, 5, 6), type), indices(rng, 5, (2, 7, 3)), random(rng, (2, 7, 3), type)
    tables, weights = tensor(x).double(), tensor(w).double()
    bags = zip(torch.from_numpy(i % 5), tables, weights, strict=True)
    want = [functional.embedding_bag(k, table, per_sample_weights=v, mode="sum") for k, table, v in bags]
    assert_close(apply("embedding_bag", x, i, w), torch.stack(want).numpy(), scale=3)


@pytest.mark.parametrize("type", [*FLOATS, "int32"])
@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, -1])
def test_scatter(how, type, axis, rng):
    x, updates = random(rng, (5, 6), type), random(rng, (4, 6), type)
    i = rng.integers(0, x.shape[axis], updates.shape)
    if how == "none":  # the order of equal indices is free in torch: use none
        i = np.argsort(rng.random(x.shape), axis)[:4]
    t, ti, tu = tensor(x), torch.from_numpy(i), tensor(updates)
    theirs = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}
    want = t.scatter(axis, ti, tu) if how == "none" else t.scatter_reduce(axis, ti, tu, theirs[how])
    got = apply(f"scatter_{how}", x, i, updates, axis=axis)
    assert_close(got, want.numpy().astype(x.dtype), scale=2)
    np.testing.assert_array_equal(apply(f"scatter_{how}", x, i - x.shape[axis], updates, axis=axis), got)


def test_last_of_equal_indices_wins():
    i = np.zeros(3, np.int64)
    got = apply("scatter_none", np.zeros(2, np.float32), i, np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(got, [3, 0])


@pytest.mark.parametrize("type", ["float", "half", "int64"])
@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatternd(how, type, depth, rng):
    x = random(rng, (4, 5, 6), type)
    rows = np.stack([rng.permutation(4)[:3] for _ in range(depth)], -1)
    updates = random(rng, (3, *x.shape[depth:]), type)
    want = x.copy()
    for row, update in zip(rows, updates, strict=True):
        at, old = tuple(row), x[tuple(row)]
        want[at] = {
            "none": update, "add": old + update, "mul": old * update,
            "min": np.minimum(old, update), "max": np.maximum(old, update),
        }[how]  # fmt: skip
    assert_close(apply(f"scatternd_{how}", x, rows, updates), want)
    np.testing.assert_array_equal(apply(f"scatternd_{how}", x, rows - x.shape[:depth], updates),
                                  apply(f"scatternd_{how}", x, rows, updates))  # fmt: skip


def test_scatternd_add_of_equal_indices():
    got = apply("scatternd_add", np.zeros(3, np.float32), np.array([[1], [1], [2]]), np.ones(3, np.float32))
    np.testing.assert_array_equal(got, [0, 2, 1])


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_onehot(axis, rng):
    i = rng.integers(-4, 6, (3, 5))
    for type in ("float", "int32", "bf16"):
        values = random(rng, (2,), type)
        got = apply("onehot", i, values, axis=axis, depth=4)
        hot = np.moveaxis(np.arange(4) == np.where(i < 0, i + 4, i)[..., None], -1, axis)
        np.testing.assert_array_equal(got, np.where(hot, values[1], values[0]))
    want = onnx_answer("OneHot", i % 4, np.array(4), np.array([2, 3], np.float32), axis=axis)
    got = apply("onehot", i % 4, np.array([2, 3], np.float32), axis=axis, depth=4)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("type", ["bool", "float", "int32"])
def test_nonzero(type, rng):
    x = random(rng, (3, 4, 2), type) * (rng.random((3, 4, 2)) < 0.5).astype(Shape(type).numpy_dtype)
    got, want = apply("nonzero", x), np.stack(np.nonzero(x))
    np.testing.assert_array_equal(got[:, : want.shape[1]], want)
    assert got.shape == (3, 24) and not got[:, want.shape[1] :].any()


X = np.zeros((3, 4), np.float32)


@pytest.mark.parametrize(
    ("name", "arrays", "attributes"),
    [
        ("gather", (X, np.array([0, 3])), {}),
        ("gather", (X, np.array([0, -5])), {"axis": 1}),
        ("gathernd", (X, np.array([[0, 4]])), {}),
        ("gather_elements", (X, np.array([[0, 5]])), {"axis": 1}),
        ("embedding_bag", (X[None], np.array([[[2, -4]]]), np.ones((1, 1, 2), np.float32)), {}),
        ("scatter_add", (X, np.array([[3]]), np.zeros((1, 1), np.float32)), {}),
        ("scatternd_none", (X, np.array([[-4]]), np.zeros((1, 4), np.float32)), {}),
    ],
)
def test_index_out_of_range_is_named(name, arrays, attributes):
    worst = next(v for v in arrays[1].flat if not -3 <= v < 3)
    with pytest.raises(IndexError, match=rf"{name}: index {worst} at .* out of range for a length of \d"):
        apply(name, *arrays, **attributes)


F, I = "float", "int64"  # noqa: E741


@pytest.mark.parametrize(
    ("name", "shapes", "attributes"),
    [
        ("gather", [(F, (3, 4)), (F, (2,))], {}),
        ("gather", [(F, (3, 4)), (I, (2,))], {"axis": 2}),
        ("gathernd", [(F, (3, 4)), (I, (2, 3))], {}),
        ("gathernd", [(F, (3, 4)), (I, (2, 1))], {"batch_dims": 1}),
        ("gathernd", [(F, (3, 4)), (I, (3,))], {"batch_dims": 1}),
        ("gather_elements", [(F, (3, 4)), (I, (4, 4))], {"axis": 1}),
        ("embedding_bag", [(F, (3, 4)), (I, (3, 4)), (F, (3, 4))], {}),
        ("embedding_bag", [(F, (2, 3, 4)), (F, (2, 5, 6)), (F, (2, 5, 6))], {}),
        ("embedding_bag", [(F, (2, 3, 4)), (I, (2, 5, 6)), ("half", (2, 5, 6))], {}),
        ("embedding_bag", [(I, (2, 3, 4)), (I, (2, 5, 6)), (I, (2, 5, 6))], {}),
        ("embedding_bag", [(F, (2, 3, 4)), (I, (2, 5, 6)), (F, (2, 5, 1))], {}),
        ("embedding_bag", [(F, (2, 3, 4)), (I, (1, 5, 6)), (F, (1, 5, 6))], {}),
        ("scatter_none", [(F, (3, 4)), (I, (3, 4)), ("half", (3, 4))], {}),
        ("scatter_none", [(F, (3, 4)), (I, (3, 4)), (F, (3, 3))], {}),
        ("scatter_none", [(F, (3, 4)), (I, (3,)), (F, (3,))], {}),
        ("scatternd_none", [(F, (3, 4)), (I, (2, 1)), (F, (2, 3))], {}),
        ("scatternd_none", [(F, (3, 4)), (I, (2, 3)), (F, (2,))], {}),
        ("onehot", [(I, (3,)), (F, (3,))], {"depth": 2}),
        ("onehot", [(F, (3,)), (F, (2,))], {"depth": 2}),
        ("onehot", [(I, (3,)), (F, (2,))], {"depth": 2, "axis": 2}),
        ("onehot", [(I, (3,)), (F, (2,))], {"depth": -1}),
    ],
)
def test_bad_input(name, shapes, attributes):
    given = [Shape(type, lens) for type, lens in shapes]
    with pytest.raises(ShapeError) as error:
        infer(name, *given, **attributes)
    assert all(word in str(error.value) for word in (f"{name}: ", *map(str, given)))
