"""Every reading of the scalar words against torch: NumPy, and C++ through the kernels' harness."""

import ctypes
import inspect
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from migraphx.ir import dtype as dtypes
from migraphx.ops.scalar import VOCABULARY, NumpyScalar
from migraphx.targets.cpu.emit.scalar import COMPUTE_TYPES, STORAGE_TYPES, CppScalar, constant_text
from tests.targets.cpu.kernels.harness import compile_snippet, pointer
from tests.tolerances import EXACT, WORDS

TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "fmod": torch.fmod, "mod": torch.remainder,
    "div": lambda a, b: a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc"),
    "pow": torch.pow, "max": torch.maximum, "min": torch.minimum, "neg": torch.neg, "abs": torch.abs,
    "sign": lambda a: torch.where(a != a, a, torch.sign(a)),  # torch's own is 0 for NaN
    "recip": torch.reciprocal, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "exp": torch.exp,
    "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log1p": torch.log1p, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan,
    "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh,
    "atanh": torch.atanh, "erf": torch.erf, "sigmoid": torch.sigmoid, "floor": torch.floor,
    "ceil": torch.ceil, "trunc": torch.trunc, "nearbyint": torch.round, "equal": torch.eq, "less": torch.lt,
    "greater": torch.gt, "isnan": torch.isnan, "isinf": torch.isinf, "logical_and": torch.logical_and,
    "logical_or": torch.logical_or, "logical_xor": torch.logical_xor, "logical_not": torch.logical_not,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor, "bitwise_not": torch.bitwise_not,
    "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
}  # fmt: skip
SIGNED_ZERO_FREE = {"max", "min", "mod", "sign"}  # the sign of a zero result is not specified
TYPES = ("float", "double", "int8", "uint8", "int32", "int64", "bool")
FLOAT_SPECIALS = [
    np.nan, np.inf, 0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.25, 20.0, 88.8, 104.5, 1e-40, 1e-20, 1e10, 3e38,
]  # fmt: skip  # each is tried with both signs


def accepts(word: str, type: str) -> bool:
    """What the vocabulary says of the word's types."""
    meaning = VOCABULARY[word][1]
    if type in dtypes.FLOATS:
        return not meaning.startswith("integer")
    if meaning.startswith("float"):
        return False
    if type == "bool":
        return (
            word in {"mul", "max", "min", "equal", "less", "greater"}
            or word.startswith("logical")
            or (word.startswith("bitwise") and word != "bitwise_not")
        )
    return True


def values(type: str) -> np.ndarray:
    """Special values and random ones."""
    rng = np.random.default_rng(7)
    if type == "bool":
        return np.array([False, True])
    dtype = dtypes.to_numpy(type)
    if type in dtypes.FLOATS:
        special = np.array(FLOAT_SPECIALS)
        return np.concatenate([special, -special, rng.standard_normal(8) * 3, rng.random(8)]).astype(dtype)
    info = np.iinfo(dtype)
    special = np.array([0, 1, 2, 3, 5, 7, 8, 31, 63, 100, info.max, info.min], dtype)
    any_of_them = rng.integers(info.min, info.max, 8, dtype)
    return np.concatenate([special, (-special[1:6]).astype(dtype), any_of_them])


def operands(word: str, type: str) -> list[np.ndarray]:
    """All pairs for a word of two operands; without those that torch refuses."""
    v = values(type)
    if VOCABULARY[word][0] == 1:
        return [v]
    pairs = np.array(list(product(v, v)), v.dtype)
    a, b = pairs[:, 0], pairs[:, 1]
    if word in ("div", "mod", "fmod") and type in dtypes.INTEGERS:
        overflow = (a == np.iinfo(v.dtype).min) & (b == v.dtype.type(-1 if type in dtypes.SIGNED else 0))
        a, b = a[(b != 0) & ~overflow], b[(b != 0) & ~overflow]
    if word == "pow" and type in dtypes.INTEGERS:
        small = (b < 64) & (b > -5) & ((a != 0) | (b >= 0))
        a, b = a[small], b[small]
    if word in ("mod", "fmod") and type in dtypes.FLOATS:
        with np.errstate(all="ignore"):
            huge = np.isfinite(a) & (b != 0) & (np.abs(a / b) > 1e6)  # torch's vectors give NaN there
        a, b = a[~huge], b[~huge]
    return [a, b]


def check(word: str, type: str, got: np.ndarray, want: np.ndarray, *inputs: np.ndarray) -> None:
    assert got.dtype == want.dtype
    row = WORDS.get(type, EXACT)
    wrong = ~np.isclose(got, want, row.rtol, row.atol, equal_nan=True) if want.dtype.kind == "f" else got != want
    if want.dtype.kind == "f" and word not in SIGNED_ZERO_FREE:
        wrong |= (want == 0) & (got == 0) & (np.signbit(got) != np.signbit(want))
    rows = [(*(x[wrong][:8] for x in inputs), got[wrong][:8], want[wrong][:8])]
    assert not wrong.any(), f"{word} of {type}: {int(wrong.sum())} wrong: inputs, got, want {rows}"


CASES = [(w, t) for w, t in product(TORCH, TYPES) if accepts(w, t)]


def numpy_reading(word: str, type: str) -> tuple[list[np.ndarray], np.ndarray]:
    inputs = operands(word, type)
    with np.errstate(all="ignore"):
        return inputs, np.asarray(getattr(NumpyScalar, word)(*inputs))


def test_readings_have_exactly_the_words():
    assert set(TORCH) | {"where", "cast", "const"} == set(VOCABULARY)
    assert {n for n in vars(NumpyScalar) if not n.startswith("_")} == set(VOCABULARY)
    for word, (arity, _) in VOCABULARY.items():
        text = getattr(CppScalar(), word)(*["a", "b", "c"][:arity]) if word not in ("cast", "const") else ""
        assert all(x in text for x in "abc"[:arity]) or not text
    with pytest.raises(AttributeError, match="no scalar word 'gelu'"):
        CppScalar().gelu("a")


@pytest.mark.parametrize(("word", "type"), CASES)
def test_numpy_reading_is_torch(word, type):
    inputs, got = numpy_reading(word, type)
    tensors = [torch.from_numpy(x.copy()) for x in inputs]
    want = TORCH[word](*tensors)
    if want.dtype == torch.float32:  # torch's float vectors overflow early in sinh, cosh and sigmoid
        want = TORCH[word](*(t.double() for t in tensors)).float()
    check(word, type, got, want.numpy(), *inputs)


@pytest.mark.parametrize("type", ["int8", "int32", "int64"])
def test_division_by_zero_and_overflow_are_defined(type):
    low = np.iinfo(type).min
    a, b = np.array([5, -5, 0, low], type), np.array([0, 0, 0, -1], type)
    with np.errstate(all="ignore"):
        assert NumpyScalar.div(a, b).tolist() == [0, 0, 0, low]
        assert NumpyScalar.mod(a, b).tolist() == [0, 0, 0, 0]
        assert NumpyScalar.fmod(a, b).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("source", "target"), list(product(TYPES, TYPES)))
def test_cast_is_torch(source, target):
    x = castable(source, target)
    want = torch.from_numpy(x.copy()).to(getattr(torch, torch_name(target))).numpy()
    with np.errstate(all="ignore"):
        check("cast", target, NumpyScalar.cast(x, target), want, x)


def castable(source: str, target: str) -> np.ndarray:
    """Values of `source` for which the cast is specified."""
    x = values(source)
    if source in dtypes.FLOATS and target in dtypes.INTEGERS:
        info = np.iinfo(dtypes.to_numpy(target))
        x = x[np.isfinite(x) & (x > max(float(info.min), -(2.0**62))) & (x < min(float(info.max), 2.0**62))]
    return x[np.abs(x) < 1e38] if (source, target) == ("double", "float") else x


def torch_name(type: str) -> str:
    return {"float": "float32", "double": "float64"}.get(type, type)


def test_cast_to_a_narrow_float_rounds():
    x = np.array([1 / 3, 65504, 70000, -0.0, np.nan, 1e-9], np.float32)
    with np.errstate(all="ignore"):
        for type, torch_type in (("half", torch.float16), ("bf16", torch.bfloat16)):
            got = NumpyScalar.cast(x, type)
            want = torch.from_numpy(x.copy()).to(torch_type).float().numpy()
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got, want)


# ---- the C++ reading ----


def wrapper(name: str, inputs: list[str], body: str, out: str) -> str:
    """`extern "C" void name(inputs..., out, n)`; n is a multiple of 16."""
    parameters = ", ".join(f"const {t}* p{k}" for k, t in enumerate(inputs))
    loads = " ".join(f"const auto x{k} = mgx::load(p{k} + i);" for k in range(len(inputs)))
    loop = f"for (long i = 0; i < n; i += mgx::LANES) {{ {loads} mgx::store(out + i, {body}); }}"
    return f'extern "C" void {name}({parameters}, {out}* out, long n) {{ {loop} }}\n'


@cache
def library(type: str) -> ctypes.CDLL:
    """All words of one type, its casts and a constant."""
    s, cpp = CppScalar(), STORAGE_TYPES[type]
    text = '#include "math.hpp"\n#include "access.hpp"\n'
    for word in [w for w, t in CASES if t == type]:
        arity = VOCABULARY[word][0]
        result = "bool" if numpy_reading(word, type)[1].dtype == np.bool_ else cpp
        body = getattr(s, word)(*[f"x{k}" for k in range(arity)])
        text += wrapper(f"f_{word}", [cpp] * arity, body, result)
    for target in TYPES:
        text += wrapper(f"f_cast_{target}", [cpp], s.cast("x0", target), COMPUTE_TYPES[target])
    text += wrapper("f_where", ["bool", cpp, cpp], s.where("x0", "x1", "x2"), cpp)
    text += wrapper("f_const", [cpp], s.const("x0", 1), cpp)
    return compile_snippet(text)


def call(type: str, name: str, inputs: list[np.ndarray], dtype: Any) -> np.ndarray:
    n = len(inputs[0])
    padded = [np.concatenate([x, np.repeat(x[:1], -n % 16)]) for x in inputs]
    out = np.zeros(len(padded[0]), dtype)
    getattr(library(type), f"f_{name}")(*map(pointer, [*padded, out]), ctypes.c_long(len(out)))
    return out[:n]


@pytest.mark.parametrize(("word", "type"), CASES)
def test_cpp_reading_is_numpy(word, type):
    inputs, want = numpy_reading(word, type)
    got = call(type, word, inputs, want.dtype)
    if word in ("bitwise_and", "bitwise_or", "bitwise_xor", "mul") and type == "bool":
        assert set(got.view(np.uint8).tolist()) <= {0, 1}
    check(word, type, got, want, *inputs)


@pytest.mark.parametrize(("source", "target"), list(product(TYPES, TYPES)))
def test_cpp_cast_is_numpy(source, target):
    x = castable(source, target)
    with np.errstate(all="ignore"):
        want = NumpyScalar.cast(x, target)
    if source in dtypes.FLOATS and target in dtypes.UNSIGNED:
        x, want = x[x > -1], want[x > -1]
    check("cast", target, call(source, f"cast_{target}", [x], want.dtype), want, x)


@pytest.mark.parametrize("type", TYPES)
def test_cpp_where_and_const(type):
    a = values(type)
    b, keep = np.roll(a, 1), np.arange(len(a)) % 3 == 0
    check("where", type, call(type, "where", [keep, a, b], a.dtype), np.where(keep, a, b), a, b)
    assert (call(type, "const", [a], a.dtype) == 1).all()


def test_constants_keep_their_value():
    assert constant_text(0.1) == "0.1" and constant_text(-0.0) == "-0.0" and constant_text(True) == "1"
    assert constant_text(float("inf")) == "__builtin_inf()" and constant_text(-np.inf) == "-__builtin_inf()"
    assert constant_text(float("nan")) == '__builtin_nan("")' and constant_text(2**64 - 1).endswith("ull")
    assert "9223372036854775807 - 1" in constant_text(-(2**63))


def test_bind_names_every_intermediate():
    lines: list[str] = []

    def bind(text: str) -> str:
        lines.append(f"v{len(lines)} = {text}")
        return f"v{len(lines) - 1}"

    s = CppScalar(bind)
    d = s.sub("x0", s.const("x0", 0.5))
    assert s.mul(d, d) == "v2"
    assert lines == ["v0 = mgx::fill(x0, 0.5)", "v1 = (x0 - v0)", "v2 = (v1 * v1)"]
    with pytest.raises(ValueError, match="no type 'tuple'"):
        s.cast("x0", "tuple")


@pytest.mark.parametrize(
    ("word", "one", "fused"), [("erf", 1, True), ("tanh", 1, True), ("erf", 2, False), ("exp", 1, False)]
)
def test_one_plus_erf_is_one_word(word: str, one: int, fused: bool):
    texts: list[str] = []

    def bind(text: str) -> str:
        texts.append(text)
        return f"v{len(texts) - 1}"

    s = CppScalar(bind, lambda name: texts[int(name[1:])] if name[0] == "v" else name)
    value, constant = getattr(s, word)("x0"), s.const("x0", float(one))
    for pair in ((value, constant), (constant, value)):
        name = s.add(*pair)
        assert (texts[int(name[1:])] == f"mgx::one_plus_{word}(x0)") == fused


def test_every_word_says_what_special_values_do():
    for word, (_, meaning) in VOCABULARY.items():
        assert inspect.cleandoc(meaning).endswith("."), word
