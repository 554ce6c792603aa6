from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from migraphx.ir.operation import ShapeError
from migraphx.ir.shape import Shape
from tests.ops.one_operator import FLOATS, apply, infer, random, tensor
from tests.ops.onnx_oracle import onnx_answer
from tests.tolerances import assert_close

MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
# input, lengths, stride, padding
CASES = [
    ((2, 3, 9), (3,), (2,), (1,)),
    ((1, 3, 10, 7), (2, 2), (2, 2), (0, 0)),
    ((2, 3, 10, 8), (3, 3), (2, 2), (1, 1)),
    ((1, 2, 9, 11), (2, 5), (3, 4), (1, 2)),
    ((1, 2, 6, 5, 7), (3, 2, 3), (2, 2, 2), (1, 0, 1)),
]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(13)


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize(("lens", "lengths", "stride", "padding"), CASES)
def test_against_torch(lens, lengths, stride, padding, ceil, type, rng):
    x, n = random(rng, lens, type), len(lengths)
    given = {"lengths": lengths, "stride": stride, "padding": padding, "ceil_mode": ceil}
    given["dilations"] = (1,) * n
    want = MAX[n](tensor(x), lengths, stride, padding, 1, ceil)
    assert_close(apply("pooling", x, mode="max", **given), want.numpy(), x.dtype)
    for counted in (False, True):
        want = AVERAGE[n](tensor(x), lengths, stride, padding, ceil, counted)
        got = apply("pooling", x, mode="average", count_include_pad=counted, **given)
        assert_close(got, want.numpy(), x.dtype)


@pytest.mark.parametrize(("ceil", "dilation"), list(product([False, True], [1, 2])))
def test_dilated_max(ceil, dilation, rng):
    x = random(rng, (2, 3, 13, 12))
    got = apply("pooling", x, mode="max", lengths=(3, 2), stride=(2, 3), padding=(1, 1),
                dilations=(dilation, dilation), ceil_mode=ceil)  # fmt: skip
    want = F.max_pool2d(tensor(x), (3, 2), (2, 3), 1, dilation, ceil)
    np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize("order", [1, 2, 3])
def test_lpnorm(order, rng):
    x = np.abs(random(rng, (2, 3, 8, 9)))  # torch takes no absolute value
    want = F.lp_pool2d(tensor(x), float(order), (3, 2), (2, 1)).numpy()
    for signed in (x, -x):
        got = apply("pooling", signed, mode="lpnorm", lp_order=order, lengths=(3, 2), stride=(2, 1))
        assert_close(got, want)


@pytest.mark.parametrize(("counted", "dilation"), list(product([0, 1], [1, 2])))
def test_average_of_uneven_padding_as_onnx(counted, dilation, rng):
    x = random(rng, (1, 2, 9, 8))
    attributes = {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [2, 1]}
    attributes |= {"dilations": [dilation] * 2, "count_include_pad": counted}
    want = onnx_answer("AveragePool", x, **attributes)
    got = apply("pooling", x, mode="average", lengths=(3, 2), stride=(2, 1), padding=(1, 0, 2, 1),
                dilations=(dilation, dilation), count_include_pad=counted)  # fmt: skip
    assert_close(got, want)


def test_global(rng):
    x = random(rng, (2, 3, 5, 7))
    for mode, want in (("average", x.mean((2, 3), keepdims=True)), ("max", x.max((2, 3), keepdims=True))):
        assert_close(apply("pooling", x, mode=mode, dyn_global=True), want)


def test_max_of_integers(rng):
    x = random(rng, (1, 2, 6, 6), "int8")
    got = apply("pooling", x, mode="max", lengths=(3, 3), stride=(2, 2), padding=(1, 1))
    np.testing.assert_array_equal(got, F.max_pool2d(torch.from_numpy(x).float(), 3, 2, 1).numpy())


def test_nan_propagates(rng):
    x = random(rng, (1, 1, 4, 4))
    x[0, 0, 1, 1] = np.nan
    for mode in ("max", "average", "lpnorm"):
        got = apply("pooling", x, mode=mode, lengths=(2, 2), stride=(2, 2))
        np.testing.assert_array_equal(np.isnan(got[0, 0]), [[True, False], [False, False]])


def test_layout_and_empty_batch():
    nhwc = Shape("float", (2, 3, 6, 6), (108, 1, 18, 3))
    assert infer("pooling", nhwc, lengths=(2, 2), stride=(2, 2)).strides == (27, 1, 9, 3)
    for mode in ("max", "average"):
        got = apply("pooling", np.zeros((0, 3, 4, 4), np.float32), mode=mode, lengths=(2, 2))
        assert got.shape == (0, 3, 3, 3)


@pytest.mark.parametrize(
    ("lens", "attributes", "why"),
    [
        ((1, 3, 5, 5), {"mode": "sum"}, "mode"),
        ((1, 3, 5, 5), {"lengths": (3,)}, "lengths"),
        ((1, 3, 5, 5), {"lengths": (6, 1)}, "exceeds"),
        ((1, 3, 5, 5), {"stride": (0, 1)}, "stride"),
        ((1, 3, 5, 5), {"dilations": (1, 0)}, "dilations"),
        ((1, 3, 5, 5), {"padding": (1,)}, "padding"),
        ((1, 3, 5, 5), {"padding_mode": 1}, "padding_mode"),
        ((1, 3, 5, 5), {"lp_order": 0}, "lp_order"),
        ((1, 3, 0, 5), {"dyn_global": True}, "empty"),
        ((3, 5), {}, "spatial"),
    ],
)
def test_bad_input(lens, attributes, why):
    shape = Shape("float", lens)
    with pytest.raises(ShapeError, match=why) as error:
        infer("pooling", shape, **attributes)
    assert "pooling: " in str(error.value) and str(shape) in str(error.value)


def test_average_refuses_integers():
    with pytest.raises(ShapeError, match="average takes floats"):
        infer("pooling", Shape("int32", (1, 3, 5, 5)))
