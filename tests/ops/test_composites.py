"""Matrix products, attention, lookups, einsum and scans against torch eager."""

from typing import Any

import numpy as np
import pytest
import torch

from migraphx.ir.builder import COMPOSITES
from tests.ops.one_composite import build, operators, randoms, run
from tests.ops.one_operator import tensor
from tests.tolerances import assert_close

F = torch.nn.functional

# ---- matrix products ----


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4,)),
     ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((0, 4), (4, 5)),
     ((3, 0), (0, 5))],
)  # fmt: skip
def test_matmul(a, b):
    x, y = randoms(a, b)
    assert_close(run([x, y], lambda b, x, y: b.matmul(x, y)), (tensor(x) @ tensor(y)).numpy())


@pytest.mark.parametrize("lens", [(3, 4), (2, 3, 4), (4,), (2, 2, 3, 4)])
@pytest.mark.parametrize("biased", [True, False])
def test_linear(lens, biased):
    x, w, c = randoms(lens, (5, 4), (5,))
    got = run([x, w, c], lambda b, x, w, c: b.linear(x, w, c if biased else None))
    assert_close(got, F.linear(tensor(x), tensor(w), tensor(c) if biased else None).numpy())


def test_linear_is_written_as_upstream_does():
    x, w, c = randoms((3, 4), (5, 4), (5,))
    module, _ = build([x, w, c], lambda b, *inputs: b.linear(*inputs))
    assert operators(module) == ["transpose", "multibroadcast", "dot", "multibroadcast", "add"]


def test_linear_of_one_output():
    x, w = randoms((2, 3, 4), (4,))
    assert_close(run([x, w], lambda b, x, w: b.linear(x, w)), F.linear(tensor(x), tensor(w)).numpy())


@pytest.mark.parametrize(("beta", "alpha"), [(1.0, 1.0), (0.5, 2.0), (0.0, 1.0)])
@pytest.mark.parametrize("bias", [(5,), (3, 5), (1, 1)])
def test_addmm(bias, beta, alpha):
    c, x, y = randoms(bias, (3, 4), (4, 5))
    if beta == 0:
        c[...] = np.nan
    got = run([c, x, y], lambda b, *inputs: b.addmm(*inputs, beta=beta, alpha=alpha))
    assert_close(got, torch.addmm(tensor(c), tensor(x), tensor(y), beta=beta, alpha=alpha).numpy())


def test_addmm_is_written_as_upstream_does():
    c, x, y = randoms((5,), (3, 4), (4, 5))
    module, _ = build([c, x, y], lambda b, *inputs: b.addmm(*inputs))
    assert operators(module) == [*["multibroadcast"] * 2, "dot", *["multibroadcast"] * 2, "add"]


def test_matrix_products_refuse():
    lens = ((3, 4), (5, 6), "inner lens"), ((), (3,), "takes no scalars"), ((2, 3, 4), (3, 4, 5), "broadcast")
    for a, c, why in lens:
        with pytest.raises(ValueError, match=why):
            run(randoms(a, c), lambda b, x, y: b.matmul(x, y))


# ---- attention ----


def sdpa(*inputs: np.ndarray, **options: Any) -> np.ndarray:
    """Of q, k, v and perhaps a mask."""
    return run(list(inputs), lambda b, *i: b.scaled_dot_product_attention(*i, **options))


@pytest.mark.parametrize("type", ["float", "double", "half", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lens", [((2, 4, 5, 8), (2, 4, 7, 8)), ((5, 8), (7, 8)), ((3, 5, 8), (3, 5, 8))])
def test_attention(lens, causal, type):
    q, k, v = randoms(lens[0], lens[1], lens[1], type=type)
    want = F.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), is_causal=causal)
    assert_close(sdpa(q, k, v, is_causal=causal), want.numpy(), q.dtype, scale=3)


@pytest.mark.parametrize("mask", [(5, 7), (2, 1, 5, 7), (2, 1, 1, 7), (1, 4, 5, 7)])
@pytest.mark.parametrize("type", ["bool", "float"])
def test_attention_with_mask(mask, type):
    q, k, v = randoms((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8))
    m = randoms(mask, type=type)[0]
    m[(0,) * (len(mask) - 1)] = False if type == "bool" else -np.inf  # nobody is seen
    want = F.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), tensor(m), scale=0.2).numpy()
    assert np.isfinite(want).all()
    assert_close(sdpa(q, k, v, m, scale=0.2), want)


def test_attention_with_shared_heads():
    q, k, v = randoms((2, 6, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3))
    want = F.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), enable_gqa=True)
    assert_close(sdpa(q, k, v), want.numpy())
    with pytest.raises(ValueError, match="2 heads"):
        sdpa(*randoms((2, 5, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3)))


def test_attention_is_dot_softmax_dot():
    q, k, v = randoms((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8))
    write = lambda b, *inputs: b.scaled_dot_product_attention(*inputs)  # noqa: E731
    names = [n for n in operators(build([q, k, v], write)[0]) if n != "multibroadcast"]
    assert names == ["transpose", "dot", "mul", "softmax", "dot"]
    causal = lambda b, *inputs: b.scaled_dot_product_attention(*inputs, is_causal=True)  # noqa: E731
    names = [n for n in operators(build([q, k, v], causal)[0]) if n != "multibroadcast"]
    assert names == ["transpose", "dot", "mul", "where", "softmax", "dot"]


def test_a_constant_mask_needs_no_guard():
    q, k, v = randoms((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8))
    for mask in (np.tri(5, 7, dtype=np.bool_), np.zeros((5, 7), np.float32)):

        def write(b, *inputs, mask=mask):
            return b.scaled_dot_product_attention(*inputs, b.broadcast_to(b.literal(mask), (2, 4, 5, 7)))

        module, (got,) = build([q, k, v], write)
        assert "reduce_any" not in operators(module)
        want = F.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), tensor(mask))
        assert_close(got, want.numpy())


# ---- lookups and rearrangements ----


def test_embedding():
    (w,) = randoms((10, 4))
    indices = np.array([[0, 9, 3], [3, 3, 1]])
    got = run([w, indices], lambda b, w, i: b.embedding(w, i))
    assert_close(got, F.embedding(torch.from_numpy(indices), tensor(w)).numpy())


def test_split():
    (x,) = randoms((2, 7, 3))
    _, pieces = build([x], lambda b, x: b.split(x, (3, 0, 4), axis=-2))
    for got, want in zip(pieces, torch.split(tensor(x), [3, 0, 4], 1), strict=True):
        assert_close(got, want.numpy())
    with pytest.raises(ValueError, match="do not add up"):
        run([x], lambda b, x: b.split(x, (3, 3), axis=1))


@pytest.mark.parametrize("repeats", [(2,), (1, 3), (2, 1, 3), (4, 1, 2, 2), (0, 1, 1), (1, 1, 1)])
def test_tile(repeats):
    (x,) = randoms((2, 1, 3))
    assert_close(run([x], lambda b, x: b.tile(x, repeats)), torch.tile(tensor(x), repeats).numpy())


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_repeat_interleave(axis):
    (x,) = randoms((2, 3, 4))
    got = run([x], lambda b, x: b.repeat_interleave(x, 3, axis))
    assert_close(got, torch.repeat_interleave(tensor(x), 3, axis).numpy())


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("type", ["float", "double", "int32", "int64"])
def test_scans(type, axis):
    (x,) = randoms((5, 6, 1), type=type)
    t = tensor(x)
    want = {
        "cumsum": t.cumsum(axis, dtype=t.dtype), "cumprod": t.cumprod(axis, dtype=t.dtype),
        "cummax": t.cummax(axis).values, "cummin": t.cummin(axis).values,
    }  # fmt: skip
    for name, answer in want.items():
        got = run([x], lambda b, x, name=name: getattr(b, name)(x, axis))
        assert_close(got, answer.numpy(), scale=4)


# ---- einsum ----

EINSUMS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("bqhd,bkhd->bhqk", [(2, 4, 3, 5), (2, 6, 3, 5)]),
    ("bhqk,bkhd->bqhd", [(2, 3, 4, 6), (2, 6, 3, 5)]),
    ("i,j->ij", [(3,), (4,)]),
    ("i,i->", [(3,), (3,)]),
    ("i,i->i", [(3,), (3,)]),
    ("ij->ji", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("ijk->j", [(2, 3, 4)]),
    ("ii->i", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("iji->j", [(3, 2, 3)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 6)]),
    ("...ij,jk", [(2, 3, 4), (4, 5)]),
    ("b...,b...->b...", [(2, 3), (2, 3)]),
    ("...", [(2, 3)]),
    ("ij,kj,lj->ikl", [(2, 3), (4, 3), (5, 3)]),
    ("ab,bc,cd,de->ae", [(2, 3), (3, 4), (4, 5), (5, 6)]),
    ("bi,boi->bo", [(2, 3), (2, 4, 3)]),
    ("nctkv,kvw->nctw", [(2, 3, 4, 2, 5), (2, 5, 5)]),
    (" i j , j -> i ", [(2, 3), (3,)]),
    ("ij,ij->j", [(1, 3), (4, 3)]),
    ("Ab,bA->bA", [(2, 3), (3, 2)]),
]


@pytest.mark.parametrize(("equation", "lens"), EINSUMS)
def test_einsum(equation, lens):
    arrays = randoms(*lens)
    got = run(arrays, lambda b, *inputs: b.einsum(*inputs, equation=equation))
    assert_close(got, torch.einsum(equation, *map(tensor, arrays)).numpy(), scale=4)


def test_einsum_of_a_product_is_one_dot():
    module, _ = build(randoms((2, 3, 4), (2, 4, 5)), lambda b, x, y: b.einsum(x, y, equation="bij,bjk->bik"))
    assert operators(module) == ["dot"]


BAD_EINSUMS = [
    ("ij,jk->ik", [(2, 3)], "names 2 operands, got 1"),
    ("ijk->i", [(2, 3)], "does not fit an operand of rank 2"),
    ("i->i", [(2, 3)], "does not fit an operand of rank 2"),
    ("ij,jk->ik", [(2, 3), (4, 5)], "j is both 3 and 4"),
    ("ij->ik", [(2, 3)], "has a new one"),
    ("ij->ii", [(2, 3)], "repeats a name"),
    ("i1->i", [(2, 3)], "is no equation"),
    ("ii->i", [(2, 3)], "diagonal over i of lengths 2 and 3"),
]


@pytest.mark.parametrize(("equation", "lens", "why"), BAD_EINSUMS)
def test_einsum_refuses(equation, lens, why):
    with pytest.raises(ValueError, match=why):
        run(randoms(*lens), lambda b, *inputs: b.einsum(*inputs, equation=equation))


def test_every_composite_says_what_it_is():
    assert all((fn.__doc__ or "").strip() for fn in COMPOSITES.values())
