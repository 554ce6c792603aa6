"""math.hpp: every word against float64 NumPy (torch for erf), on random bits and on the special values."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.targets.cpu.kernels.harness import ISAS, compile_snippet, pointer
from tests.tiers import few
from tests.tolerances import ONE_PLUS, TIMES_SIGMOID, assert_each

ULP = 2.0  # the promise of math.hpp for float
Oracle = Callable[..., np.ndarray]


def _erf(x: np.ndarray) -> np.ndarray:
    return torch.special.erf(torch.from_numpy(x)).numpy()


def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))  # 1 / (1 + exp(-x)) would overflow where the answer is still a denormal number
    return np.where(x < 0, e, 1) / (1 + e)


def _round(x: np.ndarray) -> np.ndarray:
    t = np.trunc(x)
    return t + np.copysign(np.abs(x - t) >= 0.5, x)


UNARY: dict[str, Oracle] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "recip": lambda x: 1 / x, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf,
    "sigmoid": _sigmoid, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "nearbyint": np.rint, "round": _round, "abs": np.abs, "sign": np.sign,
}  # fmt: skip
BINARY: dict[str, Oracle] = {
    "pow": np.power, "fmod": np.fmod, "max": np.maximum, "min": np.minimum, "div": np.divide,
}  # fmt: skip
SPECIAL = np.array(
    [0, 1, np.inf, np.nan, 1e-45, 1.17549435e-38, 3.4028235e38, 0.5, 1.5, 2.5, 2, 3, 8388609, 8388607.5,
     0.49999997, 88.72283, 88.7229, 103.9, 104.5, 87.5, 1.0000001, 0.99999994, 16777216, 16777217, np.pi,
     np.pi / 2, 1e6, 1e30],
    np.float32,
)  # fmt: skip
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])
PAYLOAD = np.array([0x7FC12345, 0xFFC54321, 0x7FFFFFFF], np.uint32).view(np.float32)  # unusual NaNs

_HEAD = '#include "math.hpp"\nusing namespace mgx;\n'


def _loop(name: str, call: str, a: str, b: str, out: str) -> str:
    return (
        f'extern "C" void {name}(const {a}* a, const {b}* b, {out}* o, int64_t n) {{'
        f" for (int64_t i = 0; i < n; i += LANES) {{ auto x = load(a + i); auto y = load(b + i);"
        f" (void)y; store(o + i, {call}); }} }}\n"
    )


def _run(source: str, isa: str, name: str, a: np.ndarray, b: np.ndarray, out: type | None = None) -> np.ndarray:
    result = np.full(a.shape, 77, out or a.dtype)
    compile_snippet(source, isa)[name](pointer(a), pointer(b), pointer(result), a.size)
    return result


def _source(scalar: str) -> str:
    words = [_loop(w, f"{w}(x)", scalar, scalar, scalar) for w in UNARY]
    return _HEAD + "".join(words + [_loop(w, f"{w}(x, y)", scalar, scalar, scalar) for w in [*BINARY, "mod"]])


def _ulp(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Error in units of the last place of `want`; inf where NaN, infinities or a zero's sign differ."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        finite, info = np.isfinite(rounded), np.finfo(got.dtype)
        scale = np.maximum(np.abs(np.where(finite, want, 1)), float(info.tiny))
        unit = 2.0 ** (np.floor(np.log2(scale)) - info.nmant)
        error = np.abs(got.astype(np.float64) - np.where(finite, want, 0)) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error = np.where(finite, error, np.where(same, 0, np.inf))
    zero = (rounded == 0) & (np.signbit(got) != np.signbit(rounded))
    return np.where(zero | np.isnan(error), np.inf, error)


def _inputs(rng: np.random.Generator, n: int = 1 << 16) -> np.ndarray:
    bits = rng.integers(0, 1 << 32, n, dtype=np.uint32).view(np.float32)
    near = (rng.standard_normal(n) * 10 ** rng.uniform(-3, 2, n)).astype(np.float32)
    head = np.concatenate([SPECIAL, PAYLOAD])
    head = np.resize(head, -(-head.size // 16) * 16)
    return np.concatenate([head, bits, near])


def _check(word: str, got: np.ndarray, want: np.ndarray, *args: np.ndarray, limit: float = ULP) -> None:
    error = _ulp(got, want)
    i = int(error.argmax())
    assert error[i] <= limit, f"{word}{tuple(a[i] for a in args)} = {got[i]}, want {want[i]}: {error[i]} ulp"


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("word", UNARY)
def test_unary_float(word: str, isa: str) -> None:
    x = _inputs(np.random.default_rng(0))
    with np.errstate(all="ignore"):
        want = UNARY[word](x.astype(np.float64))
    _check(word, _run(_source("float"), isa, word, x, x), want, x)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("word", BINARY)
def test_binary_float(word: str, isa: str) -> None:
    rng = np.random.default_rng(0)
    x, y = _inputs(rng), rng.permutation(_inputs(rng))
    pairs = np.resize(SPECIAL, SPECIAL.size**2), np.repeat(SPECIAL, SPECIAL.size)
    with np.errstate(all="ignore"):  # powers that neither overflow nor vanish, and whole exponents
        base = np.abs(x)
        near = (rng.uniform(-150, 150, x.size) / np.log2(base.astype(np.float64))).astype(np.float32)
        whole = rng.integers(-20, 20, x.size).astype(np.float32)
        for a, b in ((x, y), pairs, (base, near), (x, whole)):
            want = BINARY[word](a.astype(np.float64), b.astype(np.float64))
            got = _run(_source("float"), isa, word, a, b)
            if word in ("max", "min"):  # the sign of max(-0, 0) is not specified
                got, want = got + np.float32(0), want + 0.0
            _check(word, got, want, a, b)


@pytest.mark.parametrize("isa", ISAS)
def test_mod_float(isa: str) -> None:
    x = np.concatenate([np.resize(SPECIAL, SPECIAL.size**2), np.linspace(-9, 9, 4096, dtype=np.float32)])
    y = np.concatenate([np.repeat(SPECIAL, SPECIAL.size), np.full(4096, -0.7, np.float32)])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(_run(_source("float"), isa, "mod", x, y), np.mod(x, y))


ENDS = np.array([np.inf, -np.inf, np.nan, -0.0], np.float32)
OF_TWO = _HEAD + "".join(
    _loop(word, call, "float", "float", "float")
    for word, call in (
        ("one_plus_erf", "one_plus_erf(x)"),
        ("one_plus_tanh", "one_plus_tanh(x)"),
        ("times_sigmoid", "times_sigmoid(y, x)"),
    )
)  # words that stand for two of ONNX and torch


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("word", "oracle"), [("one_plus_erf", lambda x: 1 + _erf(x)), ("one_plus_tanh", lambda x: 1 + np.tanh(x))]
)
def test_one_plus(word: str, oracle: Oracle, isa: str) -> None:
    """As exact as the sum is in float, and 0, 2 or NaN where it is that."""
    rng = np.random.default_rng(0)
    x = np.concatenate([_inputs(rng), rng.uniform(-8, 8, 1 << 16).astype(np.float32)])
    with np.errstate(all="ignore"):
        want = oracle(x.astype(np.float64))
    got = _run(OF_TWO, isa, word, x, x)
    assert_each(got, want, ONE_PLUS)
    assert (got[x < -12] == 0).all() or word == "one_plus_tanh"


@pytest.mark.parametrize("isa", ISAS)
def test_times_sigmoid(isa: str) -> None:
    """SiLU and gates; infinities and NaN as in eager. SiLU leaves no denormals, which slow products down."""
    rng = np.random.default_rng(0)
    many = np.concatenate([_inputs(rng), rng.uniform(-110, 40, 1 << 16).astype(np.float32)])
    ends = np.resize(SPECIAL, 16 * SPECIAL.size)
    for x, y in (
        (many, many),
        (many, rng.standard_normal(many.size, np.float32)),
        (ends, np.repeat(ENDS, ends.size // 4)),
    ):
        with np.errstate(all="ignore"):
            want = y.astype(np.float64) * torch.sigmoid(torch.from_numpy(x)).numpy()
        got = _run(OF_TWO, isa, "times_sigmoid", x, y)
        assert_each(got, want, TIMES_SIGMOID)
        if y is many:
            tiny = np.abs(got) < np.finfo(np.float32).tiny
            assert (got[tiny] == 0)[np.abs(x[tiny]) > 1].all()


@pytest.mark.parametrize("isa", ISAS)
def test_double(isa: str) -> None:
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        x = _inputs(rng, 1 << 10).astype(np.float64)
    y = rng.permutation(x)
    source = _source("double")
    with np.errstate(all="ignore"):
        for word, oracle in UNARY.items():
            _check(word, _run(source, isa, word, x, x), oracle(x), x, limit=6)
        for word, oracle in BINARY.items():
            _check(word, _run(source, isa, word, x, y), oracle(x, y), x, y, limit=6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    "scalar", few(["float", "double", "int32_t", "int8_t", "uint8_t", "int64_t"], "float", "int32_t")
)
def test_comparison_and_logic(scalar: str, isa: str) -> None:
    dtype = np.dtype(scalar.removesuffix("_t").replace("double", "float64").replace("float", "float32")
                     if scalar != "double" else "float64")  # fmt: skip
    rng = np.random.default_rng(0)
    values = np.array([0, 1, 2, 3, 100, 127], dtype)
    if dtype.kind == "f":
        values = np.array([0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 3.5], dtype)
    elif dtype.kind == "i":
        values = np.concatenate([values, -values])
    x, y = rng.choice(values, 256), rng.choice(values, 256)
    two: dict[str, Oracle] = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
        "ge": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
        "logical_xor": np.logical_xor,
    }  # fmt: skip
    one: dict[str, Oracle] = {"logical_not": np.logical_not}
    if dtype.kind == "f":
        one |= {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
    source = _HEAD + "".join(_loop(w, f"{w}(x, y)", scalar, scalar, "uint8_t") for w in two)
    source += "".join(_loop(w, f"{w}(x)", scalar, scalar, "uint8_t") for w in one)
    source += _loop("pick", "where(lt(x, y), x, y)", scalar, scalar, scalar)
    for word, oracle in two.items():
        np.testing.assert_array_equal(_run(source, isa, word, x, y, np.uint8), np.uint8(oracle(x, y)), word)
    for word, oracle in one.items():
        np.testing.assert_array_equal(_run(source, isa, word, x, x, np.uint8), np.uint8(oracle(x)), word)
    np.testing.assert_array_equal(_run(source, isa, "pick", x, y), np.where(x < y, x, y))


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, 0, a - np.fmod(a, b)) // np.where(b == 0, 1, b)


def _shift(op: Oracle, a: np.ndarray, s: np.ndarray, gone: np.ndarray) -> np.ndarray:
    inside = (s >= 0) & (s < a.dtype.itemsize * 8)
    return np.where(inside, op(a, np.where(inside, s, 0).astype(a.dtype)), gone)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", few(["int8", "uint8", "int16", "int32", "int64", "uint32"], "int32"))
def test_integers(dtype: str, isa: str) -> None:
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    x = np.concatenate([rng.integers(info.min, info.max, 240, dtype, True), np.full(16, info.min, dtype)])
    low, last = (-9, -1) if info.min else (0, 1)
    y = np.concatenate([rng.integers(low, 9, 240).astype(dtype), np.full(16, last, dtype)])
    words: dict[str, Oracle] = {
        "div": _divide, "fmod": np.fmod, "mod": np.mod, "max": np.maximum, "min": np.minimum,
        "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
        "shl": lambda a, s: _shift(np.left_shift, a, s, np.zeros_like(a)),
        "shr": lambda a, s: _shift(np.right_shift, a, s, np.where(a < 0, -1, 0).astype(a.dtype)),
    }  # fmt: skip
    one: dict[str, Oracle] = {"abs": np.abs, "sign": np.sign, "floor": np.array, "ceil": np.array,
                              "trunc": np.array, "nearbyint": np.array,
                              "round": np.array, "bit_not": np.invert}  # fmt: skip
    t = f"{dtype}_t"
    source = _HEAD + "".join(_loop(w, f"{w}(x, y)", t, t, t) for w in [*words, "ipow"])
    source += "".join(_loop(w, f"{w}(x)", t, t, t) for w in one)
    with np.errstate(all="ignore"):
        for word, oracle in words.items():
            np.testing.assert_array_equal(_run(source, isa, word, x, y), oracle(x, y), word)
        for word, oracle in one.items():
            np.testing.assert_array_equal(_run(source, isa, word, x, x), oracle(x), word)
        n = np.abs(y)
        np.testing.assert_array_equal(_run(source, isa, "ipow", x, n), np.power(x, n))
    if info.min:
        base = np.resize(np.array([1, -1, 2, 0], dtype), 64)
        got = _run(source, isa, "ipow", base, np.full(64, -3, dtype))
        np.testing.assert_array_equal(got, np.resize(np.array([1, -1, 0, 0], dtype), 64))
