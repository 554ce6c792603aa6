"""Composites through the optimizer and the C++ kernels, against ref.

What has kernels of its own (products, attention, reductions) is compiled as users compile it by the tests of those.
"""

import pytest

from migraphx.ir.shape import Shape
from tests.targets.cpu.side_by_side import Case, check
from tests.tiers import few

X = Shape("float", (3, 6, 40))
IMAGE = Shape("float", (2, 6, 5, 7))
VECTOR = Shape("float", (6,))
ACTIVATIONS = (
    "gelu", "quick_gelu", "silu", "hardsigmoid", "hardswish", "softplus", "mish", "logsigmoid", "celu", "selu",
    "softsign", "tanhshrink", "softshrink", "hardshrink", "exp2", "glu",
)  # fmt: skip


@pytest.mark.parametrize("type", few(["float", "half", "bf16", "double"], "float"))
def test_activations(type):
    x = X.with_type(type)
    cases = [Case(n, lambda b, x, n=n: getattr(b, n)(x), (x,), special=True) for n in ACTIVATIONS if n != "mish"]
    cases.append(Case("mish", lambda b, x: b.mish(x), (x,)))
    cases.append(Case("gelu_tanh", lambda b, x: b.gelu(x, approximate="tanh"), (x,)))
    check(cases)


@pytest.mark.unoptimised
def test_normalizations():
    last = Shape("float", (40,))
    check([
        Case("layer", lambda b, x, w, c: b.layer_norm(x, w, c), (X, last, last)),
        Case("layer_half", lambda b, x: b.layer_norm(x), (X.with_type("half"),)),
        Case("layer_two", lambda b, x: b.layer_norm(x, axes=(1, 2)), (X,)),
        Case("rms", lambda b, x, w: b.rms_norm(x, w), (X, last)),
        Case("rms_bf16", lambda b, x, w: b.rms_norm(x, w), (X.with_type("bf16"), last)),
        Case("group", lambda b, x, w, c: b.group_norm(x, w, c, num_groups=3), (IMAGE, VECTOR, VECTOR)),
        Case("instance", lambda b, x, w, c: b.instance_norm(x, w, c), (IMAGE, VECTOR, VECTOR)),
        Case("batch", lambda b, x, w, c, m, v: b.batchnorm(x, w, c, m, b.mul(v, v)), (IMAGE, *[VECTOR] * 4), 8),
        Case("training", lambda b, x, w, c: b.batchnorm_training(x, w, c), (IMAGE, VECTOR, VECTOR)),
        Case("mvn", lambda b, x: b.mean_variance_normalization(x), (IMAGE,)),
        Case("normalize", lambda b, x: b.normalize(x), (X,)),
        Case("norm3", lambda b, x: b.norm(x, p=3.0, axes=(0,)), (X,)),
        Case("norm0", lambda b, x: b.norm(x, p=0.0, axes=(1, 2)), (X,)),
        Case("std", lambda b, x: b.std(x, axes=(0, 2)), (X,)),
        Case("var", lambda b, x: b.var(x), (X,)),
        Case("logsumexp", lambda b, x: b.logsumexp(x, axes=(2,)), (X,)),
        Case("logsumexp_first", lambda b, x: b.logsumexp(x, axes=(0,), keepdims=True), (X,), special=True),
    ])  # fmt: skip


@pytest.mark.slow
@pytest.mark.unoptimised
def test_products_and_rearrangements():
    q, k = Shape("float", (2, 4, 9, 8)), Shape("float", (2, 4, 11, 8))
    few = Shape("float", (2, 2, 11, 8))
    rows, mask = Shape("float", (3, 6, 40)), Shape("bool", (2, 1, 9, 11))

    def attend(b, *inputs, **options):
        return b.scaled_dot_product_attention(*inputs, **options)

    check([
        Case("linear", lambda b, x, w, c: b.linear(x, w, c), (rows, Shape("float", (5, 40)), Shape("float", (5,)))),
        Case("matmul", lambda b, x, y: b.matmul(x, y), (Shape("float", (40,)), Shape("float", (2, 40, 3)))),
        Case("addmm", lambda b, c, x, y: b.addmm(c, x, y, beta=0.5, alpha=2.0),
             (Shape("float", (5,)), Shape("float", (3, 4)), Shape("float", (4, 5)))),
        Case("attention", attend, (q, k, k)),
        Case("causal", lambda b, *i: attend(b, *i, is_causal=True), (q, k, k)),
        Case("masked", attend, (q, k, k, mask)),
        Case("added", attend, (q, k, k, mask.with_type("float")), special=True),
        Case("grouped", attend, (q, few, few)),
        Case("attention_half", attend, tuple(s.with_type("half") for s in (q, k, k))),
        Case("attention_double", attend, tuple(s.with_type("double") for s in (q, k, k))),
        Case("tile", lambda b, x: b.tile(x, (2, 1, 2)), (X,)),
        Case("interleave", lambda b, x: b.repeat_interleave(x, 2, 1), (X,)),
        Case("split", lambda b, x: b.split(x, (1, 5), 1), (X,)),
        Case("cumprod", lambda b, x: b.cumprod(x, 1), (X,)),
        Case("cummax", lambda b, x: b.cummax(x, -1), (X.with_type("int32"),)),
        Case("einsum", lambda b, x, y: b.einsum(x, y, equation="bqhd,bkhd->bhqk"), (q, Shape("float", (2, 5, 9, 8)))),
        Case("outer", lambda b, x, y: b.einsum(x, y, equation="i,j->ij"), (VECTOR, Shape("float", (7,)))),
        Case("trace", lambda b, x: b.einsum(x, equation="ii"), (Shape("float", (6, 6)),)),
    ])  # fmt: skip
