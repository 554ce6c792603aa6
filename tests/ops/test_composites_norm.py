"""Normalizations and statistics against torch eager."""

import numpy as np
import pytest
import torch

from migraphx.ir import dtype as dtypes
from tests.ops.one_composite import build, operators, randoms, run
from tests.ops.one_operator import FLOATS, tensor
from tests.tolerances import assert_close

F = torch.nn.functional
LENS = [(2, 6), (2, 6, 5), (3, 6, 4, 5), (1, 6, 2, 3, 4)]


def moved(*lens: tuple[int, ...], type: str = "float") -> list[np.ndarray]:
    """Random arrays whose mean is not 0."""
    return [(a.astype(np.float64) * 2 + 1).astype(dtypes.to_numpy(type)) for a in randoms(*lens)]


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("axes", [1, 2])
def test_layer_norm(axes, type):
    x, w, c = moved((4, 5, 6), (5, 6)[2 - axes :], (5, 6)[2 - axes :], type=type)
    over = tuple(range(-axes, 0))
    got = run([x, w, c], lambda b, x, w, c: b.layer_norm(x, w, c, axes=over, epsilon=1e-3))
    assert_close(got, F.layer_norm(tensor(x), w.shape, tensor(w), tensor(c), 1e-3).numpy(), x.dtype)
    plain = run([x], lambda b, x: b.layer_norm(x, axes=over))
    assert_close(plain, F.layer_norm(tensor(x), w.shape).numpy(), x.dtype)


def test_layer_norm_of_half_with_float_weights():
    (x,), (w,) = moved((4, 300), type="half"), moved((300,))
    x = x * np.float16(100)  # the sum of squares is beyond half
    got = run([x, w], lambda b, x, w: b.layer_norm(x, w))
    assert got.dtype == np.float16
    assert_close(got, F.layer_norm(tensor(x), w.shape, tensor(w)).numpy(), np.float16)


def test_layer_norm_keeps_nan():
    (x,) = moved((3, 4))
    x[1, 2] = np.nan
    got = run([x], lambda b, x: b.layer_norm(x))
    assert np.isnan(got[1]).all() and np.isfinite(got[[0, 2]]).all()


@pytest.mark.parametrize("type", FLOATS)
def test_rms_norm(type):
    x, w = moved((4, 5, 6), (6,), type=type)
    got = run([x, w], lambda b, x, w: b.rms_norm(x, w, epsilon=1e-4))
    assert_close(got, F.rms_norm(tensor(x), (6,), tensor(w), 1e-4).numpy(), x.dtype)


@pytest.mark.parametrize("lens", LENS)
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_group_norm(lens, groups):
    x, w, c = moved(lens, (6,), (6,))
    got = run([x, w, c], lambda b, *i: b.group_norm(*i, num_groups=groups))
    assert_close(got, F.group_norm(tensor(x), groups, tensor(w), tensor(c)).numpy(), scale=4)


@pytest.mark.parametrize("lens", LENS[1:])
@pytest.mark.parametrize("type", ["float", "half"])
def test_instance_norm(lens, type):
    x, w, c = moved(lens, (6,), (6,), type=type)
    got = run([x, w, c], lambda b, *i: b.instance_norm(*i))
    assert_close(got, F.instance_norm(tensor(x), weight=tensor(w), bias=tensor(c)).numpy(), x.dtype, scale=4)


@pytest.mark.parametrize("lens", LENS)
@pytest.mark.parametrize("type", FLOATS)
def test_batchnorm(lens, type):
    x, w, c, mean, var = moved(lens, (6,), (6,), (6,), (6,), type=type)
    var = np.abs(var) + np.asarray(0.1, var.dtype)
    got = run([x, w, c, mean, var], lambda b, *i: b.batchnorm(*i, epsilon=1e-3))
    want = F.batch_norm(tensor(x), tensor(mean), tensor(var), tensor(w), tensor(c), eps=1e-3)
    assert_close(got, want.numpy(), x.dtype, scale=2)
    bare = run([x, mean, var], lambda b, x, m, v: b.batchnorm(x, None, None, m, v))
    assert_close(bare, F.batch_norm(tensor(x), tensor(mean), tensor(var)).numpy(), x.dtype, scale=2)


def test_batchnorm_is_one_multiplication_and_one_addition_of_the_input():
    inputs = moved((2, 6, 4, 4), (6,), (6,), (6,), (6,))
    module, _ = build(inputs, lambda b, *i: b.batchnorm(*i))
    large = [i.name for i in module if i.shape.elements > 6 and not i.name.startswith("@")]
    assert [n for n in large if n != "multibroadcast"] == ["mul", "add"]


@pytest.mark.parametrize("lens", LENS)
def test_batchnorm_training(lens):
    x, w, c = moved(lens, (6,), (6,))
    _, (y, mean, variance) = build([x, w, c], lambda b, *i: b.batchnorm_training(*i))
    axes = (0, *range(2, len(lens)))
    assert_close(y, F.batch_norm(tensor(x), None, None, tensor(w), tensor(c), True).numpy(), scale=4)
    assert_close(mean, tensor(x).mean(axes).numpy())
    assert_close(variance, tensor(x).var(axes, correction=0).numpy())


@pytest.mark.parametrize("axes", [(0, 2, 3), (2, 3), (-1,)])
def test_mean_variance_normalization(axes):
    (x,) = moved((3, 4, 5, 6))
    t = tensor(x).double()
    want = (t - t.mean(axes, keepdim=True)) / (t.std(axes, correction=0, keepdim=True) + 1e-9)
    assert_close(run([x], lambda b, x: b.mean_variance_normalization(x, axes=axes)), want.float().numpy())


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, 0.5, np.inf, -np.inf])
@pytest.mark.parametrize("axes", [(), (0,), (1, -1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norm(p, axes, keepdims):
    (x,) = moved((3, 4, 5))
    x[0, 0] = 0
    got = run([x], lambda b, x: b.norm(x, p=p, axes=axes, keepdims=keepdims))
    want = torch.linalg.vector_norm(tensor(x), p, axes or None, keepdims)
    assert_close(got, want.numpy())


@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("type", ["float", "half"])
def test_normalize(p, type):
    (x,) = moved((3, 4, 5), type=type)
    if type == "float":
        x[:, :, 0] = 0
    got = run([x], lambda b, x: b.normalize(x, p=p, axis=1))
    assert_close(got, F.normalize(tensor(x), p, 1).numpy(), x.dtype)


@pytest.mark.parametrize("axes", [(), (0,), (1, -1)])
@pytest.mark.parametrize("correction", [0, 1, 2])
@pytest.mark.parametrize("type", ["float", "double", "half", "bf16"])
def test_var_and_std(axes, correction, type):
    (x,) = moved((3, 4, 5), type=type)
    for name in ("var", "std"):
        for keepdims in (False, True):

            def write(b, x, name=name, keepdims=keepdims):
                return getattr(b, name)(x, axes=axes, correction=correction, keepdims=keepdims)

            want = getattr(torch, name)(tensor(x), axes or None, correction=correction, keepdim=keepdims)
            assert_close(run([x], write), want.numpy(), x.dtype, scale=2)


def test_var_of_one_element_is_nan():
    assert np.isnan(run(moved((1, 3)), lambda b, x: b.var(x, axes=(0,)))).all()


@pytest.mark.parametrize("axes", [(), (0,), (1, -1)])
@pytest.mark.parametrize("type", FLOATS)
def test_logsumexp(axes, type):
    (x,) = moved((3, 4, 5), type=type)
    for keepdims in (False, True):
        got = run([x], lambda b, x, k=keepdims: b.logsumexp(x, axes=axes, keepdims=k))
        want = torch.logsumexp(tensor(x), axes or (0, 1, 2), keepdims)
        assert_close(got, want.numpy(), x.dtype)


def test_logsumexp_of_special_values():
    inf = np.inf
    x = np.array([[-inf, -inf], [inf, 0], [np.nan, 0], [1000, 1000], [-1000, -1000], [-inf, 2]], np.float32)
    got = run([x], lambda b, x: b.logsumexp(x, axes=(1,)))
    assert_close(got, torch.logsumexp(tensor(x), 1).numpy())


def test_structure_of_layer_norm():
    module, _ = build(moved((4, 6), (6,), (6,)), lambda b, *i: b.layer_norm(*i))
    names = [n for n in operators(module) if n != "multibroadcast"]
    assert names == ["reduce_mean", "sub", "mul", "reduce_mean", "add", "rsqrt", "mul", "mul", "add"]


def test_bad_inputs_are_refused():
    with pytest.raises(ValueError, match="4 groups do not divide"):
        run(moved((2, 6, 3)), lambda b, x: b.group_norm(x, num_groups=4))
    with pytest.raises(ValueError, match="do not broadcast"):
        run(moved((2, 6), (5,)), lambda b, x, w: b.layer_norm(x, w))
    with pytest.raises(ValueError, match="does not take int32"):
        run(randoms((2, 6), type="int32"), lambda b, x: b.layer_norm(x))
