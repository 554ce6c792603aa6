import numpy as np
import pytest
import torch
import torch.nn.functional as F

from migraphx.ir.operation import ShapeError
from migraphx.ir.shape import Shape
from tests.ops.one_operator import FLOATS, apply, infer, random, tensor
from tests.tolerances import assert_close

# input, weights, padding, stride, dilation, group
FORWARD = [
    ((2, 3, 9), (4, 3, 3), (1,), (2,), (1,), 1),
    ((1, 3, 8, 9), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 4, 11, 7), (6, 4, 3, 1), (0, 2), (2, 3), (1, 2), 1),
    ((2, 6, 9, 9), (6, 1, 3, 3), (1, 1), (1, 1), (2, 2), 6),
    ((1, 6, 7, 7), (9, 2, 5, 3), (2, 1), (2, 1), (1, 1), 3),
    ((1, 8, 5, 5), (8, 8, 1, 1), (0, 0), (1, 1), (1, 1), 1),
    ((1, 2, 6, 5, 7), (4, 1, 3, 2, 3), (1, 0, 1), (1, 2, 2), (1, 1, 2), 2),
    ((0, 3, 5, 5), (4, 3, 3, 3), (0, 0), (1, 1), (1, 1), 1),
]
# the same for transposed convolutions: weights {C, O / group, kernel...}
BACKWARD = [
    ((2, 3, 5), (3, 4, 3), (1,), (2,), (1,), 1),
    ((2, 4, 5, 6), (4, 3, 3, 3), (1, 1), (2, 2), (1, 1), 1),
    ((1, 4, 5, 4), (4, 3, 2, 3), (0, 2), (1, 3), (2, 1), 2),
    ((1, 4, 3, 4), (4, 1, 4, 4), (1, 1), (2, 2), (1, 1), 4),
    ((1, 2, 3, 4, 2), (2, 3, 3, 2, 2), (1, 0, 0), (2, 1, 3), (1, 2, 1), 1),
]
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize(("x", "w", "padding", "stride", "dilation", "group"), FORWARD)
def test_convolution(x, w, padding, stride, dilation, group, type, rng):
    data, weights = random(rng, x, type), random(rng, w, type)
    got = apply("convolution", data, weights, padding=padding, stride=stride, dilation=dilation, group=group)
    want = CONV[len(padding)](tensor(data), tensor(weights), None, stride, padding, dilation, group)
    assert_close(got, want.numpy(), data.dtype, scale=4)


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize(("x", "w", "padding", "stride", "dilation", "group"), BACKWARD)
def test_convolution_backwards(x, w, padding, stride, dilation, group, type, rng):
    data, weights = random(rng, x, type), random(rng, w, type)
    got = apply("convolution_backwards", data, weights, padding=padding, stride=stride, dilation=dilation, group=group)
    want = TRANSPOSED[len(padding)](tensor(data), tensor(weights), None, stride, padding, 0, group, dilation)
    assert_close(got, want.numpy(), data.dtype, scale=4)


def test_padding_of_either_side(rng):
    x, w = random(rng, (1, 2, 5, 6)), random(rng, (3, 2, 3, 2))
    want = F.conv2d(F.pad(tensor(x), (2, 0, 1, 3)), tensor(w), stride=2)
    assert_close(apply("convolution", x, w, padding=(1, 2, 3, 0), stride=(2, 2)), want.numpy(), scale=4)
    full = F.conv_transpose2d(tensor(x), tensor(w.swapaxes(0, 1)), stride=2)
    got = apply("convolution_backwards", x, w.swapaxes(0, 1), padding=(1, 0, 0, 2), stride=(2, 2))
    assert_close(got, full[:, :, 1:, :-2].numpy(), scale=4)


def test_quant_convolution(rng):
    x = rng.integers(-128, 128, (2, 64, 5, 5)).astype(np.int8)
    w = rng.integers(-128, 128, (4, 64, 3, 3)).astype(np.int8)
    got = apply("quant_convolution", x, w, padding=(1, 1))
    assert got.dtype == np.int32
    want = F.conv2d(torch.from_numpy(x).double(), torch.from_numpy(w).double(), padding=1)
    np.testing.assert_array_equal(got, want.numpy())


def test_layout_follows_the_input(rng):
    """Channels last in, channels last out; the weights have no say."""
    x = random(rng, (2, 5, 6, 3)).transpose(0, 3, 1, 2)
    w = random(rng, (4, 3, 3, 3))
    got = infer("convolution", Shape.of(x), Shape.of(w))
    assert str(got) == "float_type, {2, 4, 3, 4}, {48, 1, 16, 4}"
    assert_close(apply("convolution", x, w), F.conv2d(tensor(x), tensor(w)).numpy(), scale=4)
    backwards = infer("convolution_backwards", Shape.of(x), Shape("float", (3, 4, 1, 1)))
    assert backwards.strides == (120, 1, 24, 4)
    assert infer("convolution", Shape("float", x.shape), Shape.of(w)).standard


@pytest.mark.parametrize(
    ("name", "x", "w", "attributes", "why"),
    [
        ("convolution", (1, 3, 5, 5), (4, 2, 3, 3), {}, "weights of 2 channels"),
        ("convolution", (1, 4, 5, 5), (3, 2, 3, 3), {"group": 2}, "group"),
        ("convolution", (1, 4, 5, 5), (4, 4, 3, 3), {"group": 0}, "group"),
        ("convolution", (1, 3, 5, 5), (4, 3, 6, 3), {}, "exceeds"),
        ("convolution", (1, 3, 5, 5), (4, 3, 3, 3), {"stride": (1,)}, "stride"),
        ("convolution", (1, 3, 5, 5), (4, 3, 3, 3), {"dilation": (0, 1)}, "dilation"),
        ("convolution", (1, 3, 5, 5), (4, 3, 3, 3), {"padding": (1, 1, 1)}, "padding"),
        ("convolution", (1, 3, 5, 5), (4, 3, 3, 3), {"padding": (-1, 1)}, "padding"),
        ("convolution", (1, 3, 5, 5), (4, 3, 3, 3), {"padding_mode": 1}, "padding_mode"),
        ("convolution", (1, 3, 5, 5), (4, 3, 3), {}, "rank"),
        ("convolution", (3, 5), (3, 5), {}, "spatial"),
        ("convolution_backwards", (1, 3, 5, 5), (4, 3, 3, 3), {}, "weights"),
        ("convolution_backwards", (1, 3, 5, 5), (3, 3, 3, 3), {"padding": (4, 4)}, "empty"),
        ("convolution_backwards", (1, 3, 5, 5), (3, 3, 3, 3), {"group": 2}, "group"),
        ("quant_convolution", (1, 3, 5, 5), (4, 3, 3, 3), {}, "int8"),
    ],
)
def test_bad_input(name, x, w, attributes, why):
    shapes = Shape("float", x), Shape("float", w)
    with pytest.raises(ShapeError, match=why) as error:
        infer(name, *shapes, **attributes)
    assert all(word in str(error.value) for word in (f"{name}: ", *map(str, shapes)))


def test_types_must_be_equal():
    with pytest.raises(ShapeError, match="differ in type"):
        infer("convolution", Shape("float", (1, 3, 5, 5)), Shape("half", (4, 3, 3, 3)))
