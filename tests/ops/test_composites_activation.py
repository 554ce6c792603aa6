"""Activations and small elementwise functions against torch eager."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch

from migraphx.ir import dtype as dtypes
from tests.ops.one_composite import build, operators, randoms, run
from tests.ops.one_operator import FLOATS, tensor
from tests.tolerances import assert_close

F = torch.nn.functional

ACTIVATIONS = [
    ("gelu", {}, F.gelu),
    ("gelu", {"approximate": "tanh"}, lambda x: F.gelu(x, approximate="tanh")),
    ("quick_gelu", {}, lambda x: x * torch.sigmoid(1.702 * x)),
    ("silu", {}, F.silu),
    ("hardsigmoid", {}, F.hardsigmoid),
    ("hardsigmoid", {"alpha": 0.2, "beta": 0.4}, lambda x: torch.clamp(0.2 * x + 0.4, 0, 1)),
    ("hardswish", {}, F.hardswish),
    ("softplus", {}, F.softplus),
    ("softplus", {"beta": 2.0, "threshold": 3.0}, lambda x: F.softplus(x, 2.0, 3.0)),
    ("mish", {}, F.mish),
    ("logsigmoid", {}, F.logsigmoid),
    ("celu", {}, F.celu),
    ("celu", {"alpha": 0.7}, lambda x: F.celu(x, 0.7)),
    ("selu", {}, F.selu),
    ("softsign", {}, F.softsign),
    ("tanhshrink", {}, F.tanhshrink),
    ("softshrink", {}, F.softshrink),
    ("softshrink", {"lambd": 1.2}, lambda x: F.softshrink(x, 1.2)),
    ("hardshrink", {}, F.hardshrink),
    ("threshold", {"threshold": 0.1, "value": 20.0}, lambda x: F.threshold(x, 0.1, 20.0)),
    ("clamp", {"low": -0.5, "high": 0.7}, lambda x: torch.clamp(x, -0.5, 0.7)),
    ("clamp", {"high": 0.0}, lambda x: torch.clamp(x, max=0.0)),
    ("glu", {"axis": 1}, lambda x: F.glu(x, 1)),
    ("exp2", {}, torch.exp2),
]
SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 0.5, -0.5, 20, -20, 100, -100], np.float32)


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("case", range(len(ACTIVATIONS)))
def test_activation(case, type):
    name, attributes, oracle = ACTIVATIONS[case]
    x = (randoms((5, 6, 7))[0] * 4).astype(dtypes.to_numpy(type))
    got = run([x], lambda b, x: getattr(b, name)(x, **attributes))
    assert_close(got, oracle(tensor(x)).numpy(), x.dtype)


@pytest.mark.parametrize("type", ["half", "bf16"])
@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish"])
def test_hard_functions_are_exact_where_they_begin(name, type):
    """As exact as a few roundings, beside the answer and not beside 1/2."""
    x = np.linspace(-3.0, -2.5, 65).astype(dtypes.to_numpy(type))
    got = run([x], lambda b, x: getattr(b, name)(x))
    want = getattr(F, name)(tensor(x).double()).numpy()
    assert (np.abs(got.astype(np.float64) - want) <= 4 * np.abs(want) * float(ml_dtypes.finfo(x.dtype).eps)).all()


@pytest.mark.parametrize("case", [n for n, (name, *_) in enumerate(ACTIVATIONS) if name != "glu"])
def test_activation_of_special_values(case):
    name, attributes, oracle = ACTIVATIONS[case]
    got = run([SPECIALS], lambda b, x: getattr(b, name)(x, **attributes))
    want = oracle(tensor(SPECIALS).double()).numpy()
    with np.errstate(over="ignore"):
        want = want.astype(np.float32)
    assert_close(got, want)


@pytest.mark.parametrize("type", ["int8", "uint8", "int32", "int64"])
def test_clamp_of_integers(type):
    """Limits beyond the type were cast to it: 1e30 became the lowest number."""
    (x,) = randoms((50,), type=type)
    for low, high in ((-np.inf, np.inf), (-1e30, 1e30), (None, 1e30), (2, np.inf), (-np.inf, 2), (1, 3)):
        got = run([x], lambda b, x, low=low, high=high: b.clamp(b.add(x, b.full(0, x)), low, high))
        np.testing.assert_array_equal(got, np.clip(x.astype(np.float64), low, high).astype(x.dtype))


def test_scalars_without_dimensions():
    x = np.array(0.7, np.float32)
    assert_close(run([x], lambda b, x: b.gelu(x)), F.gelu(tensor(x)).numpy())


def test_neutral_constants_are_left_out():
    module, _ = build(randoms((3,)), lambda b, x: b.celu(x))
    assert "mul" not in operators(module)


def test_bad_activations_are_refused():
    with pytest.raises(ValueError, match="approximate is none or tanh"):
        run(randoms((3,)), lambda b, x: b.gelu(x, approximate="fast"))
    with pytest.raises(ValueError, match="is not even"):
        run(randoms((3,)), lambda b, x: b.glu(x))
    with pytest.raises(ValueError, match="does not take int32"):
        run(randoms((3,), type="int32"), lambda b, x: b.silu(x))


COMPARISONS = {
    "not_equal": torch.ne, "less_or_equal": torch.le, "greater_or_equal": torch.ge,
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name):
    x, y = (v.ravel() for v in np.meshgrid(SPECIALS, SPECIALS))
    got = run([x, y], lambda b, x, y: getattr(b, name)(x, y))
    np.testing.assert_array_equal(got, COMPARISONS[name](tensor(x), tensor(y)).numpy())


@pytest.mark.parametrize("type", ["float", "double", "int8", "int32", "int64", "uint8"])
def test_floor_divide(type):
    x, y = randoms((400,), (400,), type=type)
    if type in dtypes.FLOATS:
        x, y = np.round(x, 1) * 10, np.round(y, 1)
        x[:3], y[:3] = (1, -1, 0), 0
    else:
        y[y == 0] = 7
    got = run([x, y], lambda b, x, y: b.floor_divide(x, y))
    np.testing.assert_array_equal(got, torch.floor_divide(tensor(x), tensor(y)).numpy())


def test_floor_divide_of_what_is_not_finite():
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.5, math.inf, -math.inf, math.nan], np.float32)
    x, y = (np.ascontiguousarray(v) for v in np.broadcast_arrays(values[:, None], values))
    got = run([x, y], lambda b, x, y: b.floor_divide(x, y))
    want = torch.floor_divide(tensor(x), tensor(y)).numpy()
    np.testing.assert_array_equal(got, want)


def test_log10():
    x = np.abs(randoms((40,))[0])
    assert_close(run([x], lambda b, x: b.log10(x)), torch.log10(tensor(x)).numpy())
