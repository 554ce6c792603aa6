"""The whole pipeline on blocks of real networks: few instructions, no copies, the same answers."""

import math

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.shape import Shape
from migraphx.ir.text import program_text
from migraphx.passes.manager import run_passes
from migraphx.passes.pipeline import optimize
from tests.passes.checking import checked, program_of

rng = np.random.default_rng(0)
Value = Instruction
VIEWS = {"transpose", "slice", "squeeze", "unsqueeze", "multibroadcast"}


def weights(b: Builder, *lens: int, type: str = "float") -> Value:
    return b.literal(rng.standard_normal(lens) / math.sqrt(np.prod(lens[1:]) or 1), type)


def conv(b: Builder, x: Value, channels: int, kernel: int, stride: int = 1, group: int = 1) -> Value:
    w = weights(b, channels, x.shape.lens[1] // group, kernel, kernel, type=x.shape.type)
    pad = kernel // 2
    return b.convolution(x, w, padding=(pad, pad), stride=(stride, stride), group=group)


def biased(b: Builder, x: Value) -> Value:
    values = weights(b, x.shape.lens[1], type=x.shape.type)
    return b.add(x, b.broadcast(values, axis=1, out_lens=x.shape.lens))


def norm(b: Builder, x: Value) -> Value:
    c, t = x.shape.lens[1], x.shape.type
    variance = b.literal(rng.random(c) + 0.5, t)
    scale, bias, mean = (weights(b, c, type=t) for _ in range(3))
    return b.batchnorm(x, scale, bias, mean, variance)


def layer_norm(b: Builder, x: Value) -> Value:
    return b.layer_norm(x, *(weights(b, x.shape.lens[-1]) for _ in range(2)))


def linear(b: Builder, x: Value, n: int) -> Value:
    return b.linear(x, weights(b, n, x.shape.lens[-1], type=x.shape.type), weights(b, n, type=x.shape.type))


def heads(b: Builder, x: Value, n: int) -> Value:
    outer, d = x.shape.lens[:-1], x.shape.lens[-1]
    return b.transpose(b.reshape(x, dims=(*outer, n, d // n)), permutation=(0, 2, 1, 3))


def self_attention(b: Builder, x: Value, *mask: Value) -> Value:
    q, k, v = (heads(b, linear(b, x, x.shape.lens[-1]), 4) for _ in range(3))
    y = b.transpose(b.scaled_dot_product_attention(q, k, v, *mask), permutation=(0, 2, 1, 3))
    return linear(b, b.reshape(b.contiguous(y), dims=x.shape.lens), x.shape.lens[-1])


# ---- convolutional ----


def resnet(b: Builder, x: Value) -> Value:
    x = b.relu(norm(b, conv(b, x, 16, 7, 2)))
    x = b.pooling(x, mode="max", lengths=(3, 3), stride=(2, 2), padding=(1, 1))
    for downsample in (True, False):
        y = b.relu(norm(b, conv(b, x, 8, 1)))
        y = b.relu(norm(b, conv(b, y, 8, 3)))
        x = b.relu(b.add(norm(b, conv(b, y, 32, 1)), norm(b, conv(b, x, 32, 1)) if downsample else x))
    return linear(b, b.flatten(b.reduce_mean(x, axes=(2, 3)), axis=1), 10)


def test_resnet_block():
    p = program_of(resnet, x=(2, 3, 32, 32))
    left = checked(p, optimize)
    del left["multibroadcast"]
    assert left == {
        "layout": 1,
        "convolution": 8,
        "pooling": 1,
        "pointwise": 8,
        "fused_reduce": 1,
        "reshape": 1,
        "dot": 1,
    }
    for ins in p.main:
        if ins.name in ("convolution", "pooling"):
            assert ins.inputs[0].shape.permutation == (0, 2, 3, 1)
        if ins.name == "reshape":
            assert ins.inputs[0].shape.standard  # a view, no copy


def densenet(b: Builder, x: Value) -> Value:
    features = [b.relu(norm(b, conv(b, x, 16, 3)))]
    for _ in range(3):
        y = b.relu(norm(b, b.concat(*features, axis=1)))
        features.append(conv(b, b.relu(norm(b, conv(b, y, 32, 1))), 8, 3))
    x = conv(b, b.relu(norm(b, b.concat(*features, axis=1))), 20, 1)
    return b.pooling(x, mode="average", lengths=(2, 2), stride=(2, 2), padding=(0, 0))


def test_densenet_block():
    p = program_of(densenet, x=(1, 3, 16, 16))
    left = checked(p, optimize)
    del left["multibroadcast"]
    assert left == {"layout": 2, "convolution": 8, "pooling": 1, "pointwise": 8, "concat": 3}
    assert all(i.shape.permutation == (0, 2, 3, 1) for i in p.main if i.name == "concat")


def squeeze_excite(b: Builder, x: Value) -> Value:
    x = b.silu(norm(b, conv(b, b.silu(norm(b, conv(b, x, 16, 1))), 16, 3, group=16)))
    s = b.silu(biased(b, conv(b, b.reduce_mean(x, axes=(2, 3)), 4, 1)))
    s = b.sigmoid(biased(b, conv(b, s, 16, 1)))
    return norm(b, conv(b, b.mul(x, b.multibroadcast(s, out_lens=x.shape.lens)), 8, 1))


def test_squeeze_excite_block():
    left = checked(program_of(squeeze_excite, x=(2, 8, 16, 16)), optimize)
    del left["multibroadcast"]
    assert left == {"layout": 2, "convolution": 5, "pointwise": 6, "fused_reduce": 1}


def convnext(b: Builder, x: Value) -> Value:
    last, first = (0, 2, 3, 1), (0, 3, 1, 2)
    x = biased(b, conv(b, x, 16, 4, 4))
    x = b.transpose(layer_norm(b, b.transpose(x, permutation=last)), permutation=first)
    for _ in range(2):
        y = layer_norm(b, b.transpose(biased(b, conv(b, x, 16, 7, group=16)), permutation=last))
        y = b.transpose(linear(b, b.gelu(linear(b, y, 64)), 16), permutation=first)
        x = b.add(b.mul(y, b.broadcast(weights(b, 16), axis=1, out_lens=y.shape.lens)), x)
    x = b.transpose(layer_norm(b, b.transpose(b.reduce_mean(x, axes=(2, 3)), permutation=last)), permutation=first)
    return linear(b, b.flatten(x, axis=1), 10)


def test_convnext_block():
    p = program_of(convnext, x=(1, 3, 32, 32))
    left = checked(p, optimize)
    assert left["layout"] == 1 and left["contiguous"] == 0
    assert left["pointwise"] == 8 and left["fused_reduce"] == 5  # each pointwise behind a dot or a convolution
    for ins in p.main:
        if ins.name == "pointwise":
            assert any(i.name in ("dot", "convolution") for i in ins.inputs)
        if ins.name == "reshape":
            assert ins.inputs[0].shape.standard


# ---- transformers ----


def bert(b: Builder, x: Value, mask: Value) -> Value:
    seen = b.cast(mask, "float")
    hidden = b.mul(b.sub(b.full(1.0, seen), seen), b.full(-3.4e38, seen))
    hidden = b.multibroadcast(b.unsqueeze(hidden, axes=(1, 2)), out_lens=(2, 1, 16, 16))
    x = layer_norm(b, b.add(x, self_attention(b, x, hidden)))
    return layer_norm(b, b.add(x, linear(b, b.gelu(linear(b, x, 128)), 32)))


def test_bert_layer():
    p = program_of(bert, x=(2, 16, 32), mask=Shape("int64", (2, 16)))
    mask = np.ones((2, 16), np.int64)
    mask[1, 11:] = 0
    left = checked(p, optimize, {"x": rng.standard_normal((2, 16, 32), np.float32), "mask": mask})
    kernels = {name: n for name, n in left.items() if name not in VIEWS}
    # one dot for queries, keys and values; the mask; every norm takes what follows, every dot what it can
    assert kernels == {"dot": 4, "attention": 1, "pointwise": 5, "fused_reduce": 2, "reshape": 2}
    assert all(i.inputs[0].shape.standard for i in p.main if i.name in ("reshape", "dot"))


def vit(b: Builder, x: Value) -> Value:
    x = biased(b, conv(b, x, 32, 4, 4))
    n, c, h, w = x.shape.lens
    x = b.transpose(b.reshape(x, dims=(n, c, h * w)), permutation=(0, 2, 1))
    x = b.concat(b.multibroadcast(weights(b, 1, 1, c), out_lens=(n, 1, c)), x, axis=1)
    x = b.add(x, b.multibroadcast(weights(b, 1, h * w + 1, c), out_lens=x.shape.lens))
    for _ in range(2):
        x = b.add(x, self_attention(b, layer_norm(b, x)))
        x = b.add(x, linear(b, b.gelu(linear(b, layer_norm(b, x), 64)), 32))
    x = b.squeeze(b.slice(layer_norm(b, x), axes=(1,), starts=(0,), ends=(1,)), axes=(1,))
    return linear(b, x, 10)


def test_vit():
    p = program_of(vit, x=(2, 3, 16, 16))
    left = checked(p, optimize)
    assert left["attention"] == 2 and left["dot"] == 10 and left["fused_reduce"] == 5 and left["layout"] == 1
    for ins in p.main:
        if ins.name == "reshape":
            assert ins.inputs[0].shape.standard
        if ins.name == "pointwise":  # a residual joins the dot before it
            assert any(i.name in ("dot", "convolution", "concat") for i in ins.inputs)


def gpt(b: Builder, x: Value) -> Value:
    def conv1d(x: Value, n: int) -> Value:
        k = x.shape.lens[-1]
        y = b.addmm(weights(b, n), b.reshape(x, dims=(-1, k)), weights(b, k, n))
        return b.reshape(y, dims=(*x.shape.lens[:-1], n))

    d = x.shape.lens[-1]
    for _ in range(2):
        qkv = conv1d(layer_norm(b, x), 3 * d)
        q, k, v = (heads(b, b.slice(qkv, axes=(2,), starts=(n * d,), ends=(n * d + d,)), 4) for n in range(3))
        y = b.transpose(b.scaled_dot_product_attention(q, k, v, is_causal=True), permutation=(0, 2, 1, 3))
        x = b.add(x, conv1d(b.reshape(y, dims=x.shape.lens), d))
        x = b.add(x, conv1d(b.gelu(conv1d(layer_norm(b, x), 64), approximate="tanh"), d))
    return b.linear(layer_norm(b, x), weights(b, 50, d))


@pytest.mark.parametrize("batch", [1, 3])
def test_gpt(batch: int):
    p = program_of(gpt, x=(batch, 8, 32))
    left = checked(p, optimize)
    assert left["attention"] == 2 and left["dot"] == 9 and left["pointwise"] == 8 and left["fused_reduce"] == 5
    attention = next(i for i in p.main if i.name == "attention")
    assert attention.op.attributes() == {"scale": pytest.approx(8**-0.5), "causal": True, "zero_rows": False}
    assert all(i.inputs[0].shape.standard for i in p.main if i.name == "reshape")


# ---- the pipeline as a whole ----


@pytest.mark.parametrize("type", ["half", "bf16", "double"])
def test_other_types(type: str):
    checked(program_of(resnet, x=Shape(type, (1, 3, 32, 32))), optimize, scale=20)


def test_a_second_run_changes_nothing():
    p = program_of(convnext, x=(1, 3, 32, 32))
    run_passes(p, optimize)
    once = program_text(p)
    run_passes(p, optimize)
    assert program_text(p) == once


def test_control_flow_is_optimized_too():
    def branch(b: Builder, x: Value, name: str) -> Module:
        inner = Module(name)
        i = Builder(inner)
        inner.add_return([i.relu(i.relu(i.add(x, x)))])
        return inner

    def build(b: Builder, condition: Value, x: Value) -> list[Value]:
        y = b.instruction("if", [condition], [branch(b, x, "then"), branch(b, x, "else")])
        return [b.get_tuple_elem(y, index=0)]

    p = program_of(build, condition=Shape("bool", (1,)), x=(4,))
    checked(p, optimize)
    assert {"then:pointwise0", "else:pointwise0"} <= p.modules.keys()
