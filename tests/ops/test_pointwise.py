"""Elementwise operators against torch eager."""

import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import OPERATIONS, ShapeError, operation
from migraphx.ir.shape import Shape
from migraphx.ops.pointwise import Pointwise
from tests.ops.one_operator import FLOATS, apply, infer, random
from tests.ops.one_operator import tensor as exact_tensor
from tests.tolerances import WORDS, assert_close, assert_each

F = torch.nn.functional
ALL_TYPES = [t for t in dtypes.NUMPY_TYPES if not t.startswith("fp") and t not in dtypes.NARROW_INTEGERS]


def sign(x: torch.Tensor) -> torch.Tensor:
    """NaN for NaN, as in NumPy and ONNX Runtime; torch.sign gives 0."""
    return torch.where(x != x, x, torch.sign(x))


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "abs": torch.abs, "neg": torch.neg, "sign": sign, "relu": torch.relu, "not": torch.logical_not,
    "asinh": torch.asinh, "atan": torch.atan, "ceil": torch.ceil, "cos": torch.cos, "cosh": torch.cosh,
    "erf": torch.erf, "exp": torch.exp, "expm1": torch.expm1, "floor": torch.floor, "isinf": torch.isinf,
    "isnan": torch.isnan, "nearbyint": torch.round, "recip": torch.reciprocal, "sigmoid": torch.sigmoid,
    "sin": torch.sin, "sinh": torch.sinh, "tan": torch.tan, "tanh": torch.tanh, "trunc": torch.trunc,
    "elu": F.elu, "leaky_relu": F.leaky_relu, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "log": torch.log,
    "log2": torch.log2, "log1p": torch.log1p, "asin": torch.asin, "acos": torch.acos, "atanh": torch.atanh,
    "acosh": torch.acosh, "bitwise_not": torch.bitwise_not, "identity": torch.clone,
}  # fmt: skip
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "max": torch.maximum, "min": torch.minimum,
    "div": lambda a, b: a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc"),
    "mod": torch.remainder, "fmod": torch.fmod, "pow": torch.pow, "sqdiff": lambda a, b: (a - b) ** 2,
    "prelu": lambda a, b: torch.where(a < 0, a * b, a), "equal": torch.eq, "less": torch.lt,
    "greater": torch.gt, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor, "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor, "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
}  # fmt: skip
TERNARY = {"where", "clip"}
SPECIALS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 50.0, -50.0]


def tensor(x: np.ndarray) -> torch.Tensor:
    """As torch holds it; the wider unsigned types, for which torch has few functions, as int64."""
    return exact_tensor(x.astype(np.int64) if x.dtype.kind == "u" and x.dtype.itemsize > 1 else x)


def accepted(names: dict) -> list[tuple[str, str]]:
    """Every operator with every type that it takes and torch computes."""
    return [(n, t) for n in names for t in ALL_TYPES if t in getattr(OPERATIONS[n], "accepts", ALL_TYPES)]


def compare(name: str, type: str, got: np.ndarray, want: torch.Tensor) -> None:
    expected = want.numpy()
    assert got.dtype == (np.bool_ if expected.dtype == np.bool_ else dtypes.to_numpy(type)), name
    assert_close(got, expected.astype(got.dtype))


def test_every_pointwise_operator_is_tested():
    declared = {n for n, c in OPERATIONS.items() if issubclass(c, Pointwise)}
    assert declared == (set(UNARY) | set(BINARY) | TERNARY | {"convert"}) - {"identity"}


@pytest.mark.parametrize(("name", "type"), accepted(UNARY))
def test_unary(name, type):
    x = random(np.random.default_rng(1), (3, 5, 7), type)
    if name in ("asin", "acos", "atanh"):
        x = np.clip(x.astype(np.float32), -0.9, 0.9).astype(x.dtype)
    if name in ("sqrt", "rsqrt", "log", "log2", "log1p", "acosh"):
        x = (np.abs(x.astype(np.float32)) + 1.01).astype(x.dtype)
    with np.errstate(all="ignore"):
        compare(name, type, apply(name, x), UNARY[name](tensor(x)))


@pytest.mark.parametrize("name", [n for n in UNARY if n != "bitwise_not"])
@pytest.mark.parametrize("type", ["float", "half", "bf16"])
def test_unary_of_special_values(name, type):
    x = np.array(SPECIALS, dtypes.to_numpy(type))
    want = UNARY[name](tensor(x)).numpy()
    got = apply(name, x)
    with np.errstate(all="ignore"):
        expected = want.astype(got.dtype).astype(np.float64)
    assert_each(got.astype(np.float64), expected, WORDS[type])


@pytest.mark.parametrize(("name", "type"), accepted(BINARY))
def test_binary(name, type):
    rng = np.random.default_rng(2)
    x, y = random(rng, (4, 6), type), random(rng, (4, 6), type)
    if name in ("div", "mod", "fmod"):
        y[y == 0] = 3
    if name == "pow":
        x = np.abs(x) if type in dtypes.FLOATS else (x % 4).astype(x.dtype)
        y = y if type in dtypes.FLOATS else (np.abs(y) % 4).astype(x.dtype)
    if name.startswith("shift"):
        y = np.abs(y)
    y[0, :3] = x[0, :3] if name in ("equal", "less", "greater") else y[0, :3]
    compare(name, type, apply(name, x, y), BINARY[name](tensor(x), tensor(y)))


@pytest.mark.parametrize("type", FLOATS)
def test_binary_of_special_values(type):
    dtype = dtypes.to_numpy(type)
    x, y = (np.array(v, dtype).ravel() for v in np.meshgrid(SPECIALS, SPECIALS))
    for name in ("add", "sub", "mul", "div", "max", "min", "equal", "less", "greater", "logical_and", "pow"):
        with np.errstate(all="ignore"):
            want = BINARY[name](tensor(x), tensor(y)).numpy()
            got = apply(name, x, y)
            expected = want.astype(got.dtype).astype(np.float64)
        assert_each(got.astype(np.float64), expected, WORDS[type], name)


@pytest.mark.parametrize("type", ALL_TYPES)
def test_where(type):
    rng = np.random.default_rng(3)
    keep, x, y = random(rng, (5, 4), "bool"), random(rng, (5, 4), type), random(rng, (5, 4), type)
    compare("where", type, apply("where", keep, x, y), torch.where(tensor(keep), tensor(x), tensor(y)))


@pytest.mark.parametrize("type", [t for t in ALL_TYPES if t != "bool"])
def test_clip(type):
    rng = np.random.default_rng(4)
    x, a, b = (random(rng, (6, 3), type) for _ in range(3))
    if type in FLOATS:
        x[0, 0] = np.nan
    want = torch.minimum(torch.maximum(tensor(x), tensor(a)), tensor(b))
    compare("clip", type, apply("clip", x, a, b), want)


@pytest.mark.parametrize("source", ALL_TYPES)
def test_convert(source):
    x = random(np.random.default_rng(5), (4, 9), source)
    for target in ALL_TYPES:
        if source in FLOATS and target in dtypes.UNSIGNED:
            x = np.abs(x)
        kind = "float64" if target == "double" else "float32" if target in FLOATS else target
        want = tensor(x).to(getattr(torch, kind))
        compare("convert", target, apply("convert", x, target_type=target), want)


def test_convert_rounds_once_and_to_fp8():
    x = np.array([1.06, 448, 500, -0.3], np.float32)
    for target in ("fp8e4m3fn", "fp8e5m2", "fp8e4m3fnuz", "fp8e5m2fnuz"):
        got = apply("convert", x, target_type=target)
        np.testing.assert_array_equal(got.astype(np.float32), x.astype(got.dtype).astype(np.float32))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 2.0])
def test_attributes(alpha):
    x = random(np.random.default_rng(6), (20,))
    compare("leaky_relu", "float", apply("leaky_relu", x, alpha=alpha), F.leaky_relu(tensor(x), alpha))
    compare("elu", "float", apply("elu", x, alpha=alpha), F.elu(tensor(x), alpha))


@pytest.mark.parametrize("lens", [(), (0,), (3, 0, 2), (1,), (2, 1, 3)])
def test_any_rank(lens):
    x = random(np.random.default_rng(7), lens)
    compare("add", "float", apply("add", x, x), tensor(x) * 2)
    compare("exp", "float", apply("exp", x), tensor(x).exp())


def test_views_of_memory_are_read_right():
    x = random(np.random.default_rng(8), (6, 8))
    for view in (x.T, x[::2, 1:7:3], np.broadcast_to(x[:1], (4, 8))):
        compare("tanh", "float", apply("tanh", view), torch.tanh(tensor(view)))


def test_layout_is_that_of_the_packed_inputs():
    channels_last = Shape("float", (2, 3, 4, 5), (60, 1, 15, 3))
    standard, spread = Shape("float", (2, 3, 4, 5)), Shape("float", (2, 3, 4, 5), (0, 1, 0, 0))
    assert infer("add", channels_last, channels_last).strides == channels_last.strides
    assert infer("add", channels_last, spread).strides == channels_last.strides
    assert infer("add", channels_last, standard).strides == standard.strides
    assert infer("equal", channels_last, spread) == channels_last.with_type("bool")
    assert infer("convert", channels_last, target_type="half") == channels_last.with_type("half")


BAD = [
    ("add", [Shape("float", (2, 3)), Shape("float", (3,))], {}, "differ in lens"),
    ("add", [Shape("float", (2,)), Shape("double", (2,))], {}, "differ in type"),
    ("add", [Shape("float", (2,))], {}, "takes 2 inputs, got 1"),
    ("add", [Shape("bool", (2,))] * 2, {}, "does not take bool"),
    ("exp", [Shape("int32", (2,))], {}, "does not take int32"),
    ("bitwise_and", [Shape("float", (2,))] * 2, {}, "does not take float"),
    ("where", [Shape("float", (2,))] * 3, {}, "condition is not bool"),
    ("where", [Shape("bool", (2,)), Shape("float", (2,)), Shape("half", (2,))], {}, "differ in type"),
    ("clip", [Shape("float", (2,))] * 2, {}, "takes 3 inputs"),
    ("exp", [Shape.tuple_of([Shape()])], {}, "tuple"),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "why"), BAD)
def test_bad_inputs_are_refused(name, shapes, attributes, why):
    with pytest.raises(ShapeError, match=why):
        infer(name, *shapes, **attributes)


def test_bad_attributes_are_refused():
    with pytest.raises(ValueError, match="unknown attribute 'alpa'; did you mean 'alpha'"):
        operation("elu", alpa=1)
    with pytest.raises(ValueError, match="unknown type 'floaty'"):
        operation("convert", target_type="floaty")
    with pytest.raises(ValueError, match="target_type"):
        operation("convert")


def test_operations_are_values():
    op = operation("leaky_relu", alpha=0.5)
    assert op == operation("leaky_relu", alpha=0.5) and op != operation("leaky_relu") and op in {op}
    assert pickle.loads(pickle.dumps(op)) == op
    assert operation("convert", target_type="int8_type") == operation("convert", target_type="int8")
