"""attention.hpp against float64 NumPy and against torch's own, with strides, masks and groups."""

import ctypes
from typing import Any

import numpy as np
import pytest
import torch

from tests.targets.cpu.kernels.harness import ISAS, Guarded, compile_snippet, from_bf16, pointer, to_bf16
from tests.tolerances import assert_close

SOURCE = r"""
#include "attention.hpp"
#include "parallel.hpp"
using namespace mgx;
template <class T, class M>
void run(const Attention* p, const T* q, const T* k, const T* v, const M* mask, T* out, int threads) {
    const auto share = [&](const Team& t, char* scratch) { attention(t, *p, q, k, v, mask, out, scratch); };
    parallel(threads, attention_scratch<T>(*p), share);
}
#define RUN(NAME, T, M) \
    extern "C" void NAME(const Attention* p, const T* q, const T* k, const T* v, const M* m, T* o, int n) \
    { run(p, q, k, v, m, o, n); }
RUN(float_float, float, float)
RUN(float_bool, float, uint8_t)
RUN(half_float, half, float)
RUN(half_half, half, half)
RUN(bf16_bool, bf16, uint8_t)
"""


class Params(ctypes.Structure):
    _fields_ = (
        [(n, ctypes.c_int64) for n in ("batch", "heads", "kv_heads", "queries", "keys", "dim", "value_dim")]
        + [(n, ctypes.c_int64 * 3) for n in ("q", "k", "v", "out")]
        + [(n, ctypes.c_int64) for n in ("mask_batch", "mask_head", "mask_row", "mask_key")]
        + [("scale", ctypes.c_float), ("causal", ctypes.c_bool), ("zero_rows", ctypes.c_bool)]
        + [("causal_offset", ctypes.c_int64)]
    )


def _strides(x: np.ndarray) -> tuple[int, ...]:
    return tuple(s // x.itemsize for s in x.strides)


def run(
    isa: str,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None = None,
    name: str = "float_float",
    threads: int = 3,
    **options: Any,
) -> np.ndarray:
    """q [B, H, Lq, D], k [B, G, Lk, D], v [B, G, Lk, E] in any layout with a contiguous last dimension."""
    b, h, lq, d = q.shape
    out = Guarded((b, lq, h, v.shape[3]), q.dtype)  # the layout that a projection reads
    o = out.array.transpose(0, 2, 1, 3)
    p = Params(b, h, k.shape[1], lq, k.shape[2], d, v.shape[3])
    for field, x in (("q", q), ("k", k), ("v", v), ("out", o)):
        setattr(p, field, (ctypes.c_int64 * 3)(*_strides(x)[:3]))
    p.scale = options.pop("scale", d**-0.5)
    for key, value in options.items():
        setattr(p, key, value)
    if mask is not None:
        full = np.broadcast_to(mask, (b, h, lq, k.shape[2]))
        p.mask_batch, p.mask_head, p.mask_row, p.mask_key = _strides(full)
    m = ctypes.c_void_p(None) if mask is None else pointer(mask)
    call = compile_snippet(SOURCE, isa)[name]
    call(ctypes.byref(p), pointer(q), pointer(k), pointer(v), m, pointer(o), threads)
    out.check()
    return o


def oracle(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, offset: int | None = None
) -> np.ndarray:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (x.repeat(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q @ k.swapaxes(2, 3) * q.shape[3] ** -0.5
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == np.uint8 else s + mask
    if offset is not None:
        s = np.where(np.arange(s.shape[3]) <= np.arange(s.shape[2])[:, None] + offset, s, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(s - s.max(3, keepdims=True))
        return e / e.sum(3, keepdims=True) @ v


def _make(
    rng: np.random.Generator, b: int, h: int, g: int, lq: int, lk: int, d: int, e: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    def one(heads: int, length: int, width: int) -> np.ndarray:  # heads within a row, rows longer than needed
        wide = rng.standard_normal((b, length, heads, width + 3), np.float32)
        return wide[..., :width].transpose(0, 2, 1, 3)

    return one(h, lq, d), one(g, lk, d), one(g, lk, e)


SHAPES: list[tuple[int, int, int, int, int, int, int]] = [
    (1, 12, 12, 128, 128, 64, 64), (1, 3, 3, 197, 197, 64, 64), (2, 4, 2, 1, 33, 20, 7),
    (1, 6, 1, 50, 17, 96, 80), (1, 2, 2, 37, 1100, 33, 50), (2, 1, 1, 5, 3, 1, 1),
    (1, 2, 2, 65, 513, 256, 256), (1, 1, 1, 49, 49, 32, 16), (1, 2, 2, 0, 5, 8, 8),
]  # fmt: skip
CAUSAL = [(64, 64, 0), (50, 50, 0), (7, 600, 593), (600, 600, 0), (33, 20, 0)]  # queries, keys, offset


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, int, int, int, int, int, int], isa: str) -> None:
    q, k, v = _make(np.random.default_rng(0), *shape)
    assert_close(run(isa, q, k, v), oracle(q, k, v), np.float32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("form", ["full", "key", "row", "head", "strided"])
@pytest.mark.parametrize("kind", ["float", "bool"])
def test_masks(kind: str, form: str, isa: str) -> None:
    rng = np.random.default_rng(0)
    b, h, lq, lk = 2, 3, 41, 530
    q, k, v = _make(rng, b, h, h, lq, lk, 24, 24)
    shape = {"full": (b, h, lq, lk), "key": (b, 1, 1, lk), "row": (1, 1, lq, 1), "head": (h, lq, lk)}
    mask: np.ndarray = rng.standard_normal(shape.get(form, (b, 1, lk, lq)), np.float32)
    mask[mask > 1] = -np.inf if form != "row" else 0
    if kind == "bool":
        mask = (mask > -0.5).astype(np.uint8) if form != "row" else np.ones(mask.shape, np.uint8)
    if form == "strided":
        mask = mask.transpose(0, 1, 3, 2)
    assert_close(run(isa, q, k, v, mask, f"float_{kind}"), oracle(q, k, v, mask), np.float32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("lq", "lk", "offset"), CAUSAL)
def test_causal(lq: int, lk: int, offset: int, isa: str) -> None:
    q, k, v = _make(np.random.default_rng(0), 1, 2, 2, lq, lk, 64, 64)
    got = run(isa, q, k, v, causal=True, causal_offset=offset)
    assert_close(got, oracle(q, k, v, offset=offset), np.float32)
    k[:, :, -1:] = np.nan  # a NaN in a hidden key stays hidden
    blind = lk - 1 - offset
    again = run(isa, q, k, v, causal=True, causal_offset=offset)
    np.testing.assert_array_equal(again[:, :, :blind], got[:, :, :blind])


@pytest.mark.parametrize("isa", ISAS)
def test_rows_without_keys(isa: str) -> None:
    q, k, v = _make(np.random.default_rng(0), 1, 1, 1, 20, 700, 16, 16)
    mask = np.zeros((1, 1, 20, 700), np.float32)
    mask[:, :, 3], mask[:, :, 5, :600] = -np.inf, -np.inf
    got = run(isa, q, k, v, mask)
    assert np.isnan(got[0, 0, 3]).all()
    assert_close(got, oracle(q, k, v, mask), np.float32)
    zero = run(isa, q, k, v, mask, zero_rows=True)
    want = torch.nn.functional.scaled_dot_product_attention(
        *(torch.from_numpy(np.ascontiguousarray(x)) for x in (q, k, v)), attn_mask=torch.from_numpy(mask)
    )
    assert (zero[0, 0, 3] == 0).all()
    assert_close(zero, want.numpy(), np.float32)


FEW = [  # batch, heads, heads of keys, queries, keys, dim, value_dim
    (2, 4, 2, 1, 300, 64, 64), (1, 8, 1, 1, 40, 20, 7), (1, 2, 2, 3, 257, 33, 50),
    (2, 4, 1, 2, 130, 128, 96), (1, 1, 1, 1, 1, 8, 8),
]  # fmt: skip


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", FEW, ids=str)
def test_few_queries(shape: tuple[int, int, int, int, int, int, int], isa: str) -> None:
    """A step of decoding, also with a mask, causal, and in 16 bits; NaN and infinities go where eager has them."""
    b, h, _, lq, lk, *_ = shape
    rng = np.random.default_rng(0)
    q, k, v = _make(rng, *shape)
    mask: np.ndarray = rng.standard_normal((b, h, lq, lk), np.float32)
    mask[..., 1:][mask[..., 1:] > 0.5] = -np.inf
    assert_close(run(isa, q, k, v), oracle(q, k, v), np.float32)
    assert_close(run(isa, q, k, v, mask), oracle(q, k, v, mask), np.float32)
    keep = (mask > -0.5).astype(np.uint8)
    keep[..., 0] = 1
    assert_close(run(isa, q, k, v, keep, "float_bool"), oracle(q, k, v, keep), np.float32)
    late = lk - lq
    assert_close(run(isa, q, k, v, causal=True, causal_offset=late), oracle(q, k, v, offset=late), np.float32)
    halves = q.astype(np.float16), k.astype(np.float16), v.astype(np.float16)
    assert_close(run(isa, *halves, name="half_float"), oracle(*halves), np.float16)
    mask[0, 0, 0] = -np.inf
    assert np.isnan(run(isa, q, k, v, mask)[0, 0, 0]).all()
    assert (run(isa, q, k, v, mask, zero_rows=True)[0, 0, 0] == 0).all()
    q[0, 0, 0], v[0, -1, -1] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        assert_close(np.isfinite(run(isa, q, k, v)), np.isfinite(oracle(q, k, v)))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("queries", [1, 2, 40])
@pytest.mark.parametrize("kind", ["float", "bool"])
def test_blocks_that_a_mask_hides_are_not_read(kind: str, queries: int, isa: str) -> None:
    """A cache of 1,000 keys of which 300 to 600 are shown, one query each starting elsewhere."""
    q, k, v = _make(np.random.default_rng(0), 2, 4, 2, queries, 1000, 32, 32)
    keep = np.zeros((2, 1, queries, 1000), np.uint8)
    for row in range(queries):
        keep[:, :, row, 300 + row : 600 - row] = 1
    mask = keep if kind == "bool" else np.where(keep, 0, -np.inf).astype(np.float32)
    want = oracle(q, k, v, mask)
    k[:, :, :256], v[:, :, :256], k[:, :, 640:], v[:, :, 640:] = (np.nan,) * 4  # whole blocks of 128
    assert_close(run(isa, q, k, v, mask, f"float_{kind}"), want, np.float32)


@pytest.mark.parametrize("isa", ISAS)
def test_nan_and_large_scores(isa: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v = _make(rng, 1, 2, 2, 40, 600, 32, 32)
    q *= 300
    assert_close(run(isa, q, k, v), oracle(q, k, v), np.float32, scale=30)  # scores of hundreds are inexact
    q[0, 0, 7], v[0, 1, 3, 5] = np.nan, np.nan
    with np.errstate(invalid="ignore"):
        assert_close(np.isnan(run(isa, q, k, v)), np.isnan(oracle(q, k, v)))


@pytest.mark.parametrize("isa", ISAS)
def test_half_and_bf16(isa: str) -> None:
    q, k, v = _make(np.random.default_rng(0), 1, 4, 2, 45, 530, 40, 24)
    mask = np.random.default_rng(0).standard_normal((1, 1, 45, 530), np.float32)
    h = q.astype(np.float16), k.astype(np.float16), v.astype(np.float16)
    assert_close(run(isa, *h, name="half_float"), oracle(*h), np.float16)
    assert_close(run(isa, *h, mask, name="half_float"), oracle(*h, mask), np.float16)
    low = mask.astype(np.float16)
    assert_close(run(isa, *h, low, name="half_half"), oracle(*h, low), np.float16)
    bits = to_bf16(q), to_bf16(k), to_bf16(v)
    keep = (mask > -1).astype(np.uint8)
    want = oracle(from_bf16(bits[0]), from_bf16(bits[1]), from_bf16(bits[2]), keep)
    got = from_bf16(run(isa, *bits, keep, name="bf16_bool"))
    assert np.abs(got - want).max() <= 1.6e-2 * np.abs(want).max()
