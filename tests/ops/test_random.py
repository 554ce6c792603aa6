import numpy as np
import pytest
import torch

from migraphx.ir.operation import ShapeError
from migraphx.ir.shape import Shape
from tests.ops.one_operator import apply, infer, random, tensor
from tests.tolerances import assert_close


@pytest.mark.parametrize("seed", [5489, 5489 + 2**32])
def test_uniform_numbers_are_those_of_the_twister(seed):
    """The C++ standard gives the 10000th word from this seed; a number is made of two words."""
    got = apply("random_uniform", np.array([seed]), np.zeros(5000))
    assert int(got[-1] * 2.0**53) & (2**26 - 1) == 4123659995 >> 6
    assert ((got >= 0) & (got < 1)).all() and abs(got.mean() - 0.5) < 0.02


@pytest.mark.parametrize("type", ["float", "half"])
def test_narrow_numbers_are_the_same_rounded(type):
    like = random(np.random.default_rng(0), (3, 40), type)
    wide = apply("random_uniform", np.array([3]), like.astype(np.float64))
    np.testing.assert_array_equal(apply("random_uniform", np.array([3]), like), wide.astype(like.dtype))


def test_multinomial_follows_the_weights():
    weights = np.array([[1, 2, 0, 1], [0, 0, 3, 0]], np.float32)
    numbers = (np.arange(1000) / 1000).astype(np.float32) * np.ones((2, 1), np.float32)
    got = apply("multinomial", weights.cumsum(1), numbers, dtype="int64")
    assert np.bincount(got[0], minlength=4).tolist() == [250, 500, 0, 250]
    assert (got[1] == 2).all()


def test_det_against_torch():
    x = random(np.random.default_rng(1), (3, 5, 5))
    assert_close(apply("det", x), torch.linalg.det(tensor(x).double()).float().numpy(), scale=10)


@pytest.mark.parametrize(
    ("name", "shapes", "why"),
    [
        ("random_uniform", [Shape("float", (1,)), Shape("float", (3,))], "seed must be one integer"),
        ("random_uniform", [Shape("int64", (1,)), Shape("int32", (3,))], "gives floats"),
        ("multinomial", [Shape("float", (2, 3)), Shape("float", (3, 3))], "needs cumulative weights"),
        ("det", [Shape("float", (2, 3))], "square"),
        ("det", [Shape("int32", (3, 3))], "floats"),
    ],
)
def test_bad_input(name, shapes, why):
    with pytest.raises(ShapeError, match=why):
        infer(name, *shapes)
