"""The Triton reading of the scalar words against the NumPy reading, in Triton's interpreter."""

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ops.scalar import VOCABULARY, NumpyScalar
from migraphx.targets.gpu.emit.scalar import APPROXIMATE, NARROW, TritonScalar, constant_text
from tests.ops.test_scalar import accepts, castable, check, operands, values
from tests.targets.gpu.words import evaluate

TYPES = ("float", "double", "bool", *(f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64)))
WORDS = [w for w in VOCABULARY if w not in ("where", "cast", "const")]
NARROW_FLOATS = sorted(dtypes.NARROW_FLOATS)


def test_every_word_is_there_and_no_other():
    s = TritonScalar()
    for word in WORDS:
        operands = ["a", "b"][: VOCABULARY[word][0]]
        assert all(x in getattr(s, word)(*operands) for x in operands)
    assert set(APPROXIMATE) <= set(VOCABULARY)
    with pytest.raises(AttributeError, match="no scalar word 'gelu'"):
        s.gelu("a")
    with pytest.raises(ValueError, match="the GPU kernels have no type 'fp4x2'"):
        s.cast("a", "fp4x2")


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("word", WORDS)
def test_words_are_those_of_numpy(word, type):
    if not accepts(word, type):
        return
    inputs = operands(word, type)
    with np.errstate(all="ignore"):
        want = np.asarray(getattr(NumpyScalar, word)(*inputs))
    text = getattr(TritonScalar(), word)(*[f"x{k}" for k in range(len(inputs))])
    got = evaluate(text, [type] * len(inputs), inputs, dtypes.from_numpy(want.dtype))
    check(word, type, got, want, *inputs)


@pytest.mark.parametrize("source", TYPES)
def test_casts_are_those_of_numpy(source):
    for target in TYPES:
        x = castable(source, target)
        with np.errstate(all="ignore"):
            want = NumpyScalar.cast(x, target)
        check("cast", target, evaluate(TritonScalar().cast("x0", target), [source], [x], target), want, x)


@pytest.mark.parametrize("type", TYPES)
def test_where_and_constants(type):
    a = values(type)
    mask = np.arange(len(a)) % 2 == 0
    s = TritonScalar()
    got = evaluate(s.where("x0", "x1", "x2"), ["bool", type, type], [mask, a, a[::-1]], type)
    np.testing.assert_array_equal(got.view(np.uint8), np.where(mask, a, a[::-1]).view(np.uint8))
    for value in a.tolist():
        got, want = evaluate(s.const("x0", value), [type], [a[:1]], type), np.array([value], a.dtype)
        np.testing.assert_array_equal(got, want)
        assert want.dtype.kind != "f" or value != 0 or np.signbit(got) == np.signbit(want)


def bits_of_all(type: str) -> np.ndarray:
    """Every code of a narrow type."""
    dtype = dtypes.to_numpy(type)
    if dtype.itemsize == 2:
        return np.arange(0, 2**16, 7, dtype=np.uint16).view(dtype)
    bits = {"fp4e2m1fn": 4, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2}.get(type, 8)
    return np.arange(2**bits, dtype=np.uint8).view(dtype)


@pytest.mark.parametrize("type", sorted(NARROW - {"bool"}))
def test_narrow_types_are_read_and_written_as_ml_dtypes_does(type):
    codes = bits_of_all(type)
    with np.errstate(all="ignore"):
        wide = codes.astype(dtypes.accumulator(type))
    computed = dtypes.from_numpy(wide.dtype)
    np.testing.assert_array_equal(evaluate("x0", [type], [codes], computed), wide)
    if type in dtypes.FLOATS:
        finite = np.sort(wide[np.isfinite(wide)])
        rng = np.random.default_rng(0)
        between = finite[:-1] + (np.diff(finite) * rng.choice([0.25, 0.5, 0.75], len(finite) - 1)).astype(np.float32)
        beyond = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30, -1e-30, 500, 70000], np.float32)
        wide = np.concatenate([wide, between, beyond])
    with np.errstate(all="ignore"):
        want = wide.astype(dtypes.to_numpy(type))
        rounded = want.astype(wide.dtype)
    got = evaluate("x0", [computed], [wide], type)
    if type in dtypes.FLOATS:
        np.testing.assert_array_equal(got.astype(np.float32), rounded)
        zero = rounded == 0
        np.testing.assert_array_equal(np.signbit(got.astype(np.float32))[zero], np.signbit(rounded)[zero])
    else:
        np.testing.assert_array_equal(got, want)
    got = evaluate(TritonScalar().cast("x0", type), [computed], [wide], computed)
    np.testing.assert_array_equal(got, rounded)


@pytest.mark.parametrize("word", sorted(APPROXIMATE))
def test_words_for_16_bits(word):
    """NaN, infinities and signs are those of the exact words; the rest is exact to 1e-5."""
    a = np.concatenate([values("float"), np.linspace(-12, 12, 99, dtype=np.float32)])
    a = a[(np.abs(a) > 1e-30) | (a == 0)]
    inputs = [a, np.roll(a, 5)][: VOCABULARY[word][0]]
    with np.errstate(all="ignore"):
        want = np.asarray(getattr(NumpyScalar, word)(*inputs))
    text = getattr(TritonScalar(approximate=True), word)(*[f"x{k}" for k in range(len(inputs))])
    got = evaluate(text, ["float"] * len(inputs), inputs, "float")
    np.testing.assert_allclose(got, want, 1e-5, 1e-7)


def test_constants_are_exact():
    assert constant_text(-0.0, "tl.float32") == "scalar_neg(tl.full([], 0.0, tl.float32))"
    assert constant_text(np.float32(0.1).item(), "tl.float32") == "tl.full([], 0.10000000149011612, tl.float32)"


def test_doubles_have_exact_remainders():
    rng = np.random.default_rng(1)
    a = np.ldexp(rng.standard_normal(60), rng.integers(-1070, 1000, 60))
    b = np.ldexp(rng.standard_normal(60), rng.integers(-1070, 1000, 60))
    got = evaluate(TritonScalar().fmod("x0", "x1"), ["double", "double"], [a, b], "double")
    np.testing.assert_array_equal(got, np.fmod(a, b))
    a, b = (np.ldexp(rng.standard_normal(60), rng.integers(-140, 120, 60)).astype(np.float32) for _ in "ab")
    got = evaluate(TritonScalar().fmod("x0", "x1"), ["float", "float"], [a, b], "float")
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, np.fmod(a, b))
