"""Reductions, softmax, argmax, prefix sums, topk and lrn against torch eager."""

import numpy as np
import pytest
import torch

import migraphx.ops  # noqa: F401  declares the operators
from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Module
from migraphx.ir.operation import OPERATIONS, ShapeError
from migraphx.ir.shape import Shape
from migraphx.ops.reduce import Reduction
from migraphx.targets.ref.evaluate import evaluate
from tests.ops.one_operator import FLOATS, NUMBERS, apply, infer, random, tensor
from tests.tolerances import assert_close

AXES = [(), (0,), (-1,), (1, 2), (0, 1, 2)]


def torch_reduce(name: str, x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    axes = axes or tuple(range(x.ndim))
    if name == "reduce_prod":
        for axis in axes:
            x = x.prod(axis, keepdim=True, dtype=x.dtype)
        return x
    if name == "reduce_sum":
        return x.sum(axes, keepdim=True, dtype=x.dtype)
    if name == "reduce_mean" and not x.is_floating_point():
        count = int(np.prod([x.shape[a] for a in axes]))
        return torch.div(x.sum(axes, keepdim=True), count, rounding_mode="trunc")
    if name in ("reduce_all", "reduce_any"):
        return getattr(torch, name[7:])(x, axes, keepdim=True)
    return {"reduce_mean": torch.mean, "reduce_max": torch.amax, "reduce_min": torch.amin}[name](x, axes, keepdim=True)


REDUCTIONS = [n for n, c in OPERATIONS.items() if issubclass(c, Reduction)]


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, axes):
    rng = np.random.default_rng(1)
    for type in (*NUMBERS, "uint8", "bool"):
        x = random(rng, (3, 4, 5), type)
        if type not in OPERATIONS[name].accepts:  # type: ignore[attr-defined]
            continue
        if name == "reduce_prod" and type in FLOATS:
            x = (x.astype(np.float32) * 0.2 + 1).astype(x.dtype)
        want = torch_reduce(name, tensor(x), axes).numpy()
        got = apply(name, x, axes=axes)
        assert got.dtype == x.dtype
        assert_close(got, want.astype(got.dtype))


@pytest.mark.parametrize("name", [n for n in REDUCTIONS if n not in ("reduce_all", "reduce_any")])
def test_reductions_of_special_values(name):
    x = np.array([[1, np.nan, 2], [np.inf, -1, 0], [np.inf, -np.inf, 1], [-0.0, 0, 0]], np.float32)
    np.testing.assert_array_equal(apply(name, x, axes=(1,)), torch_reduce(name, tensor(x), (1,)).numpy())


def test_reductions_of_nothing():
    x = np.zeros((2, 0, 3), np.float32)
    for name, value in (("reduce_sum", 0), ("reduce_prod", 1), ("reduce_mean", np.nan)):
        np.testing.assert_array_equal(apply(name, x, axes=(1,)), np.full((2, 1, 3), value, np.float32))
    assert apply("reduce_all", x > 0, axes=(1,)).all() and not apply("reduce_any", x > 0, axes=(1,)).any()
    assert apply("reduce_max", x, axes=(0,)).shape == (1, 0, 3)
    with pytest.raises(ShapeError, match="no elements"):
        apply("reduce_max", x, axes=(1,))
    assert apply("reduce_sum", np.array(3, np.float32)) == 3


def test_narrow_floats_accumulate_wide():
    x = np.ones((1, 5000), np.float16)
    assert apply("reduce_sum", x, axes=(1,)).item() == 5000
    assert apply("reduce_mean", np.full((1, 5000), 60000, np.float16), axes=(1,)).item() == 60000


def test_layout_of_the_input_is_kept():
    channels_last = Shape("float", (2, 3, 4, 5), (60, 1, 15, 3))
    assert infer("reduce_mean", channels_last, axes=(2, 3)).strides == (3, 1, 3, 3)
    assert infer("softmax", channels_last, axis=1) == channels_last
    assert infer("reduce_sum", Shape("float", (2, 3), (0, 1)), axes=(0,)).standard


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(type, axis):
    x = random(np.random.default_rng(2), (3, 4, 5), type) * x_scale(type)
    for name, oracle in (("softmax", torch.softmax), ("logsoftmax", torch.log_softmax)):
        assert_close(apply(name, x, axis=axis), oracle(tensor(x), axis).numpy(), x.dtype)


def x_scale(type: str) -> np.ndarray:
    return np.asarray(3, dtypes.to_numpy(type))


def test_softmax_of_special_values():
    inf = np.inf
    rows = [[-inf, 0, 1], [-inf, -inf, -inf], [inf, 0, 1], [np.nan, 0, 1], [3e38, -3e38, 0]]
    x = np.array(rows, np.float32)
    for name, oracle in (("softmax", torch.softmax), ("logsoftmax", torch.log_softmax)):
        assert_close(apply(name, x, axis=1), oracle(tensor(x), 1).numpy())
    assert apply("softmax", np.zeros((2, 0), np.float32), axis=1).shape == (2, 0)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("type", NUMBERS)
def test_argmax_and_argmin(type, axis):
    x = random(np.random.default_rng(3), (4, 6, 5), type)
    for name in ("argmax", "argmin"):
        wide = tensor(x).double()
        got = apply(name, x, axis=axis)
        best = (wide.amax if name == "argmax" else wide.amin)(axis, keepdim=True)
        hits = (wide == best).int().numpy()
        np.testing.assert_array_equal(got, hits.argmax(axis, keepdims=True))
        last = apply(name, x, axis=axis, select_last_index=True)
        from_end = np.flip(hits, axis).argmax(axis, keepdims=True)
        np.testing.assert_array_equal(last, x.shape[axis] - 1 - from_end)


def test_argmax_finds_nan():
    x = np.array([[1, np.nan, 3, np.nan]], np.float32)
    assert apply("argmax", x, axis=1).item() == 1 == torch.argmax(tensor(x), 1).item()
    assert apply("argmin", x, axis=1, select_last_index=True).item() == 3


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("type", [*NUMBERS, "uint8"])
def test_prefix_scan_sum(type, axis):
    x = random(np.random.default_rng(4), (3, 4, 5), type)
    t = tensor(x)
    sums = t.cumsum(axis, dtype=t.dtype)
    backwards = t.flip(axis).cumsum(axis, dtype=t.dtype).flip(axis)
    for reverse, want in ((False, sums), (True, backwards)):
        got = apply("prefix_scan_sum", x, axis=axis, reverse=reverse)
        assert_close(got, want.numpy(), x.dtype, scale=2)
        got = apply("prefix_scan_sum", x, axis=axis, reverse=reverse, exclusive=True)
        exclusive = torch.roll(want, -1 if reverse else 1, axis)
        exclusive.select(axis, -1 if reverse else 0).zero_()
        assert_close(got, exclusive.numpy(), x.dtype, scale=2)


def topk(x: np.ndarray, **attributes) -> list[np.ndarray]:
    module = Module()
    b = Builder(module)
    result = b.topk(module.add_parameter("x", Shape.of(x)), **attributes)
    outputs = b.outputs(result, 2)
    module.add_return(outputs)
    got = evaluate(module, {"x": x})
    assert [Shape.of(g).as_standard() for g in got] == [o.shape for o in outputs]
    return got


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("type", [*NUMBERS, "uint8"])
def test_topk(type, largest):
    x = random(np.random.default_rng(5), (4, 9, 3), type)
    for axis, k in ((1, 4), (-1, 3), (0, 1), (1, 0)):
        values, indices = topk(x, k=k, axis=axis, largest=largest)
        want = torch.topk(tensor(x), k, axis, largest)[0].numpy()
        np.testing.assert_array_equal(values, want.astype(x.dtype))
        np.testing.assert_array_equal(np.take_along_axis(x, indices, axis), values)


def test_topk_of_equal_elements_and_nan():
    x = np.array([2, 5, np.nan, 5, 2, 5], np.float32)
    assert topk(x, k=4, axis=0)[1].tolist() == [2, 1, 3, 5]
    assert topk(x, k=3, axis=0, largest=False)[1].tolist() == [0, 4, 1]


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("lens", [(2, 7), (2, 7, 4), (1, 6, 3, 5)])
def test_lrn(lens, size):
    x = random(np.random.default_rng(6), lens)
    got = apply("lrn", x, size=size, alpha=0.2, beta=0.6, bias=1.5)
    t = tensor(x) if len(lens) > 2 else tensor(x)[..., None]  # torch wants rank 3
    want = torch.nn.functional.local_response_norm(t, size, 0.2, 0.6, 1.5).reshape(lens)
    assert_close(got, want.numpy())


BAD = [
    ("reduce_sum", Shape("float", (2, 3)), {"axes": (2,)}, "axis 2 is not in a rank of 2"),
    ("reduce_sum", Shape("float", (2, 3)), {"axes": (0, -2)}, "named twice"),
    ("reduce_sum", Shape("bool", (2, 3)), {}, "does not take bool"),
    ("reduce_any", Shape("float", (2, 3)), {}, "does not take float"),
    ("softmax", Shape("int32", (2, 3)), {}, "does not take int32"),
    ("softmax", Shape("float", (2,)), {"axis": 1}, "axis 1"),
    ("argmax", Shape("float", (2, 0)), {"axis": 1}, "no elements"),
    ("topk", Shape("float", (2,)), {"k": 3}, "k must be at most 2"),
    ("topk", Shape("float", (2,)), {"k": -1}, "k must be"),
    ("lrn", Shape("float", (2,)), {}, "needs floats"),
    ("prefix_scan_sum", Shape("bool", (2,)), {}, "does not take bool"),
]


@pytest.mark.parametrize(("name", "shape", "attributes", "why"), BAD)
def test_bad_inputs_are_refused(name, shape, attributes, why):
    with pytest.raises(ShapeError, match=why):
        infer(name, shape, **attributes)
