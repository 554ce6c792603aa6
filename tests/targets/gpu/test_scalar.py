"""The Triton reading of the scalar words against the NumPy reading, on every device."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ops.scalar import VOCABULARY, NumpyScalar
from migraphx.targets.gpu.emit.scalar import APPROXIMATE, NARROW, TritonScalar, constant_text
from tests.ops.test_scalar import accepts, castable, check, operands, values
from tests.targets.gpu.families import kernels, of
from tests.targets.gpu.side_by_side import one
from tests.targets.gpu.words import evaluate
from tests.tiers import few

TYPES = ("float", "double", "bool", *(f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64)))
WORDS = [w for w in VOCABULARY if w not in ("where", "cast", "const")]


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


@pytest.mark.parametrize("type", few(TYPES, "float", "half", "int32"))
@pytest.mark.parametrize("arity", [1, 2])
def test_words_are_those_of_numpy(arity, type, accelerator):
    """All words at once, for all values or pairs; those are compared for which the word has a meaning."""
    words = [w for w in WORDS if VOCABULARY[w][0] == arity and accepts(w, type)]
    given = values(type) if arity == 1 else np.array(list(product(values(type), repeat=2)))
    inputs = [given] if arity == 1 else [np.ascontiguousarray(given[:, k]) for k in range(2)]
    wanted = {}
    for word in words:
        own = operands(word, type)
        with np.errstate(all="ignore"):
            wanted[word] = own, np.asarray(getattr(NumpyScalar, word)(*own))
    names = [f"x{k}" for k in range(arity)]
    texts = [getattr(TritonScalar(), word)(*names) for word in words]
    results = [dtypes.from_numpy(want.dtype) for _, want in wanted.values()]
    found = evaluate(accelerator, texts, [type] * arity, inputs, results)
    whole = [bytes(row) for row in np.stack([x.view(np.uint8).reshape(x.size, -1) for x in inputs], 1)]
    place = {row: n for n, row in enumerate(whole)}
    for got, (word, (own, want)) in zip(found, wanted.items(), strict=True):
        rows = np.stack([np.ascontiguousarray(x).view(np.uint8).reshape(x.size, -1) for x in own], 1)
        check(word, type, got[[place[bytes(row)] for row in rows]], want, *own)


@pytest.mark.parametrize("source", few(TYPES, "float", "half", "int32", "bool"))
def test_casts_are_those_of_numpy(source, accelerator):
    x = values(source)
    texts = [TritonScalar().cast("x0", target) for target in TYPES]
    for target, found in zip(TYPES, evaluate(accelerator, texts, [source], [x], TYPES), strict=True):
        inside = np.isin(x.view(f"u{x.itemsize}"), castable(source, target).view(f"u{x.itemsize}"))
        with np.errstate(all="ignore"):
            want = NumpyScalar.cast(x[inside], target)
        check("cast", target, found[inside], want, x[inside])


@pytest.mark.parametrize("type", few(TYPES, "float", "half", "int32", "bool"))
def test_where_and_constants(type, accelerator):
    a, s = values(type), TritonScalar()
    mask = np.arange(len(a)) % 2 == 0
    texts = [s.where("x0", "x1", "x2"), *(s.const("x1", value) for value in a.tolist())]
    types = [type] * len(texts)
    first, *constants = evaluate(accelerator, texts, ["bool", type, type], [mask, a, a[::-1]], types)
    np.testing.assert_array_equal(first.view(np.uint8), np.where(mask, a, a[::-1]).view(np.uint8))
    for value, got in zip(a, constants, strict=True):
        np.testing.assert_array_equal(got, np.full_like(a, value))
        assert a.dtype.kind != "f" or value != 0 or (np.signbit(got) == np.signbit(value)).all()


def codes_of(type: str) -> np.ndarray:
    """Every code of a type of eight bits or fewer; some of one of 16."""
    dtype = dtypes.to_numpy(type)
    if dtype.itemsize == 2:
        return np.arange(0, 2**16, 7, dtype=np.uint16).view(dtype)
    bits = {"fp4e2m1fn": 4, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2}.get(type, 8)
    return np.arange(2**bits, dtype=np.uint8).view(dtype)


@pytest.mark.parametrize("type", sorted(NARROW - {"bool"}))
def test_narrow_types_are_read_and_written_as_ml_dtypes_does(type, accelerator):
    codes = codes_of(type)
    with np.errstate(all="ignore"):
        wide = codes.astype(dtypes.accumulator(type))
    computed = dtypes.from_numpy(wide.dtype)
    np.testing.assert_array_equal(evaluate(accelerator, ["x0"], [type], [codes], [computed])[0], wide)
    if type in dtypes.FLOATS:
        finite = np.sort(wide[np.isfinite(wide)])
        rng = np.random.default_rng(0)
        between = finite[:-1] + (np.diff(finite) * rng.choice([0.25, 0.5, 0.75], len(finite) - 1)).astype(np.float32)
        beyond = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30, -1e-30, 500, 70000], np.float32)
        wide = np.concatenate([wide, between, beyond])
    with np.errstate(all="ignore"):
        want = wide.astype(dtypes.to_numpy(type))
        rounded = want.astype(wide.dtype)
    cast = TritonScalar().cast("x0", type)
    stored, casted = evaluate(accelerator, ["x0", cast], [computed], [wide], [type, computed])
    np.testing.assert_array_equal(casted, rounded)
    if type in dtypes.FLOATS:
        np.testing.assert_array_equal(stored.astype(np.float32), rounded)
        zero = rounded == 0
        np.testing.assert_array_equal(np.signbit(stored.astype(np.float32))[zero], np.signbit(rounded)[zero])
    else:
        np.testing.assert_array_equal(stored, want)


@pytest.mark.parametrize("arity", [1, 2])
def test_words_for_16_bits(arity, accelerator):
    """NaN, infinities and signs are those of the exact words; the rest is exact to 1e-5, erf to 4e-5 of 1."""
    words = [w for w in sorted(APPROXIMATE) if VOCABULARY[w][0] == arity]
    a = np.concatenate([values("float"), np.linspace(-12, 12, 99, dtype=np.float32)])
    a = a[(np.abs(a) > 1e-30) | (a == 0)]
    inputs = [a, np.roll(a, 5)][:arity]
    texts = [getattr(TritonScalar(approximate=True), word)(*["x0", "x1"][:arity]) for word in words]
    found = evaluate(accelerator, texts, ["float"] * arity, inputs, ["float"] * len(words))
    for word, got in zip(words, found, strict=True):
        with np.errstate(all="ignore"):
            want = np.asarray(getattr(NumpyScalar, word)(*inputs))
        np.testing.assert_allclose(got, want, 1e-5, 4e-5 if word == "erf" else 1e-7, err_msg=word)


def test_gelu_of_16_bits(accelerator):
    """x times a probability that is one polynomial; not where x is scaled otherwise, nor of float."""
    a = np.concatenate([values("float"), np.linspace(-12, 12, 999, dtype=np.float32)])
    (got,) = evaluate(accelerator, ["(x0 * fast_cdf(x0))"], ["float"], [a], ["float"])
    with np.errstate(all="ignore"):
        want = a * (np.float32(0.5) * (NumpyScalar.erf(a * np.float32(0.70710678)) + np.float32(1)))
    np.testing.assert_allclose(got, want, 3e-5, 6e-5)

    def scaled(b, x, half=0.5, root=0.5**0.5, one=1.0):
        grown = b.add(b.erf(b.mul(x, b.full(root, x))), b.full(one, x))
        return b.mul(b.mul(b.full(half, x), x), grown)

    others = ({"half": 0.25}, {"root": 1.0}, {"one": 2.0})
    for build, type, known in (
        (scaled, "half", True), (scaled, "bf16", True), (scaled, "float", False),
        *((partial(scaled, **other), "half", False) for other in others),
    ):  # fmt: skip
        (kernel,) = kernels((build, (of(type, 64),)))
        assert ("fast_cdf(" in kernel.source) == known


def test_gelu_of_16_bits_by_tanh(accelerator):
    """Whose 1 + tanh is a sigmoid: exact also where next to nothing is left of it. Not of floats, nor of 2 + tanh."""
    a = np.concatenate([values("float"), np.linspace(-12, 12, 499, dtype=np.float32)])
    (got,) = evaluate(accelerator, ["(2.0 * fast_sigmoid(2.0 * x0))"], ["float"], [a], ["float"])
    with np.errstate(all="ignore"):
        want = 2 / (1 + np.exp(-2 * a.astype(np.float64)))
    np.testing.assert_allclose(got, want, 1e-5, 1e-30)

    def grown(b, x):
        return b.add(b.tanh(x), b.full(2.0, x))

    for build, type, known in (
        (one("gelu", approximate="tanh"), "half", True), (one("gelu", approximate="tanh"), "bf16", True),
        (one("gelu", approximate="tanh"), "float", False), (grown, "half", False),
    ):  # fmt: skip
        (kernel,) = kernels((build, (of(type, 64),)))
        assert ("fast_sigmoid(" in kernel.source) == known
        assert ("scalar_tanh(" in kernel.source) != known


def test_constants_are_exact():
    assert constant_text(-0.0, "tl.float32") == "scalar_neg(tl.full([], 0.0, tl.float32))"
    assert constant_text(np.float32(0.1).item(), "tl.float32") == "tl.full([], 0.10000000149011612, tl.float32)"


def test_floats_have_exact_remainders(accelerator):
    rng = np.random.default_rng(1)
    for type, low, high in (("double", -1070, 1000), ("float", -140, 120)):
        dtype = dtypes.to_numpy(type)
        a, b = (np.ldexp(rng.standard_normal(60), rng.integers(low, high, 60)).astype(dtype) for _ in "ab")
        with np.errstate(invalid="ignore"):
            want = np.fmod(a, b)
        (got,) = evaluate(accelerator, [TritonScalar().fmod("x0", "x1")], [type, type], [a, b], [type])
        np.testing.assert_array_equal(got, want)
