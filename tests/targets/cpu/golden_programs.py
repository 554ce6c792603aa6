"""One program for each family of lowerings: what test_golden.py keeps the generated sources and tables of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import migraphx
from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape

Build = Callable[["Inputs", Builder], Instruction | Sequence[Instruction]]
PROGRAMS: dict[str, Build] = {}


class Inputs:
    """Parameters of a program, made where a builder wants them."""

    def __init__(self) -> None:
        self.program = Program()
        self.main = self.program.main

    def __call__(self, *lens: int, type: str = "float") -> Instruction:
        return self.main.add_parameter(f"x{len(self.main.parameters)}", Shape(type, lens))


def golden(build: Build) -> Build:
    PROGRAMS[build.__name__.strip("_")] = build
    return build


def program_of(name: str) -> Program:
    inputs = Inputs()
    made = PROGRAMS[name](inputs, Builder(inputs.main))
    inputs.main.add_return([made] if isinstance(made, Instruction) else list(made))
    return inputs.program


def weight(*lens: int, type: str = "float") -> np.ndarray:
    """Small whole numbers, exact in every type."""
    return (np.arange(np.prod(lens)) % 7 - 3).reshape(lens).astype(dtypes.to_numpy(type))


# ---- pointwise, reductions ----


@golden
def pointwise(x: Inputs, b: Builder):
    return b.gelu(b.add(*b.common(x(7, 40), b.literal(weight(40)))))


@golden
def pointwise_types(x: Inputs, b: Builder):
    half, flag = x(7, 40, type="half"), x(7, 40, type="bool")
    return b.where(flag, b.exp(half), b.neg(half)), b.cast(b.bitwise_and(*[x(7, 40, type="int32")] * 2), "int64")


@golden
def reduce_rows(x: Inputs, b: Builder):
    return b.softmax(x(7, 40), axis=1)


@golden
def reduce_columns(x: Inputs, b: Builder):
    return b.reduce_mean(b.relu(x(7, 40)), axes=(0,))


@golden
def reduce_stages(x: Inputs, b: Builder):
    """A layer normalization: the deviations wait in the output while their squares are summed."""
    return b.layer_norm(b.gelu(x(3, 6, 40)), b.literal(weight(40)), b.literal(weight(40)))


@golden
def reduce_image(x: Inputs, b: Builder):
    """The mean of the pixels of a channels-last image, line by line; a mean of integers in wider ones."""
    image = b.transpose(x(1, 32, 32, 64), permutation=(0, 3, 1, 2))
    return b.reduce_mean(image, axes=(2, 3)), b.reduce_mean(x(5, 9, type="int32"), axes=(1,))


# ---- dots ----


@golden
def dot_epilogue(x: Inputs, b: Builder):
    return b.relu(b.linear(x(7, 40), b.literal(weight(24, 40)), b.literal(weight(24))))


@golden
def dot_batched(x: Inputs, b: Builder):
    """No weights: both operands as they lie, one of them transposed."""
    turned = b.transpose(x(2, 3, 11, 24), permutation=(0, 1, 3, 2))
    return b.add(b.dot(x(2, 3, 7, 24), turned), x(2, 3, 7, 11))


@golden
def dot_narrow(x: Inputs, b: Builder):
    """half: few rows as they are, many as floats; bf16 in pairs, its odd depth padded."""
    weights = b.literal(weight(24, 40, type="half"))
    few, many = (b.dot(x(rows, 24, type="half"), weights) for rows in (3, 50))
    return few, many, b.dot(x(7, 25, type="bf16"), b.literal(weight(25, 9, type="bf16")))


@golden
def dot_int8(x: Inputs, b: Builder):
    """Constant weights in the VNNI layout; run-time ones as wider integers."""
    quads = b.quant_dot(x(7, 24, type="uint8"), b.literal(weight(24, 40, type="int8")))
    return b.cast(quads, "float"), b.quant_dot(x(5, 9, type="int8"), x(9, 7, type="int8"))


@golden
def dot_int4(x: Inputs, b: Builder):
    codes = b.literal(weight(32, 40, type="int8"))
    scales, zeros = b.literal(weight(2, 40)), b.literal(weight(2, 40, type="int8"))
    return b.relu(b.dot_int4(x(7, 64), codes, scales)), b.dot_int4(x(7, 64), codes, scales, zeros)


# ---- convolutions ----


def conv(b: Builder, x: Instruction, w: np.ndarray, pad: int = 0, stride: int = 1, **attributes: Any) -> Instruction:
    rank = w.ndim - 2
    same: dict[str, Any] = {"stride": (stride,) * rank, "dilation": (1,) * rank, "padding": (pad,) * rank} | attributes
    return b.convolution(x, b.literal(w), **same)


@golden
def convolution(x: Inputs, b: Builder):
    """With bias, residual and relu; in groups; along one axis; weights known at run time only."""
    y = conv(b, x(2, 8, 9, 6), weight(21, 8, 3, 3), 1)
    y = b.add(y, b.broadcast(b.literal(weight(21)), axis=1, out_lens=y.shape.lens))
    grouped = conv(b, x(2, 8, 7, 6), weight(12, 4, 3, 3), 1, 2, group=2)
    run_time = b.convolution(x(1, 8, 5, 5), x(40, 8, 3, 3))
    return b.relu(b.add(y, x(2, 21, 9, 6))), grouped, conv(b, x(2, 8, 20), weight(6, 8, 3)), run_time


@golden
def convolution_planar(x: Inputs, b: Builder):
    """Of pictures, which stay as they come, unless something else reads them with channels last."""
    picture = x(1, 3, 30, 33)
    pooled = b.pooling(picture, mode="max", lengths=(2, 2), stride=(2, 2), padding=(0, 0))
    return b.relu(conv(b, x(2, 3, 33, 30), weight(24, 3, 3, 3), 1, 2)), conv(b, picture, weight(8, 3, 2, 5)), pooled


@golden
def convolution_winograd(x: Inputs, b: Builder):
    return b.relu(conv(b, x(1, 32, 14, 14), weight(24, 32, 3, 3), 1))


@golden
def convolution_depthwise(x: Inputs, b: Builder):
    """Common kernels, others, and weights known at run time only."""
    images = x(1, 37, 11, 9)
    common = (conv(b, images, weight(37, 1, k, k), k // 2, s, group=37) for k, s in ((3, 1), (5, 2)))
    dilated = conv(b, images, weight(37, 1, 3, 3), dilation=(2, 2), group=37)
    return *common, dilated, b.convolution(images, x(37, 1, 3, 3), group=37)


@golden
def convolution_banded(x: Inputs, b: Builder):
    """A depthwise convolution behind one whose result is large: they take turns, also with a 1x1 one behind."""
    large = b.relu(conv(b, x(1, 3, 96, 90), weight(64, 3, 1, 1)))
    pair = b.relu(conv(b, large, weight(64, 1, 3, 3), 1, 2, group=64))
    images = x(1, 8, 96, 90)
    wide = b.relu(conv(b, images, weight(64, 8, 1, 1)))
    narrow = conv(b, b.relu(conv(b, wide, weight(64, 1, 3, 3), 1, group=64)), weight(8, 64, 1, 1))
    return pair, b.add(narrow, images)


@golden
def convolution_grouped(x: Inputs, b: Builder):
    """Groups of four channels share a register; groups of three do not."""
    return conv(b, x(1, 20, 7, 9), weight(20, 4, 3, 3), 1, group=5), conv(b, x(1, 6, 5, 5), weight(6, 3, 3, 3), group=2)


@golden
def convolution_transposed(x: Inputs, b: Builder):
    """One convolution for each position within a stride; some get no tap at all."""
    wide = b.convolution_backwards(x(1, 8, 5, 6), b.literal(weight(8, 5, 3, 3)), stride=(2, 2), padding=(1, 1))
    gaps = b.convolution_backwards(x(1, 8, 5), b.literal(weight(8, 5, 1)), stride=(2,), dilation=(1,), padding=(0,))
    run_time = b.convolution_backwards(x(1, 8, 5, 6), x(8, 3, 3, 4), group=2)
    return wide, gaps, run_time


@golden
def convolution_narrow(x: Inputs, b: Builder):
    """bf16 in pairs, half as floats."""
    pairs = conv(b, x(1, 7, 9, 9, type="bf16"), weight(12, 7, 3, 3, type="bf16"), 1)
    return pairs, conv(b, x(1, 8, 9, 9, type="half"), weight(12, 8, 1, 1, type="half"))


@golden
def convolution_int8(x: Inputs, b: Builder):
    """In the VNNI layout, and in groups that do not fill lanes of four bytes."""
    images = x(2, 6, 7, 5, type="int8")
    whole = b.quant_convolution(images, b.literal(weight(12, 6, 3, 3, type="int8")), padding=(1, 1))
    return b.relu(whole), b.quant_convolution(images, b.literal(weight(12, 2, 3, 3, type="int8")), group=3)


# ---- attention, windows, images ----


@golden
def attention(x: Inputs, b: Builder):
    """Without a mask, causal, with one that is added, with one that keeps; two heads of keys for four of queries."""
    q, k, v = x(2, 4, 9, 8), x(2, 2, 11, 8), x(2, 2, 11, 16)
    masks = [x(2, 4, 9, 11), b.multibroadcast(x(2, 1, 1, 11, type="bool"), out_lens=(2, 4, 9, 11))]
    plain = b.attention(q, k, v, scale=0.25), b.attention(q, k, v, scale=0.25, causal=True)
    return *plain, *(b.attention(q, k, v, m, scale=0.25, zero_rows=True) for m in masks)


@golden
def attention_half(x: Inputs, b: Builder):
    q, k = (x(2, n, 4, 8, type="half") for n in (9, 11))
    q, k = (b.transpose(t, permutation=(0, 2, 1, 3)) for t in (q, k))
    return b.attention(q, k, k, scale=0.25)


@golden
def pooling(x: Inputs, b: Builder):
    images = x(1, 20, 9, 8)
    same: dict[str, Any] = {"lengths": (3, 3), "stride": (2, 2), "padding": (1, 1)}
    pools = [b.pooling(images, mode=mode, **same) for mode in ("max", "average", "lpnorm")]
    return *pools, b.pooling(images, mode="average", count_include_pad=True, **same)


@golden
def resize(x: Inputs, b: Builder):
    """Both axes of an image at once; other axes one by one."""
    images, rows = x(2, 19, 5, 9), x(2, 3, 4, type="double")
    modes = [b.resize(images, sizes=(2, 19, 11, 16), mode=mode) for mode in ("nearest", "linear", "cubic")]
    smaller = b.resize(images, sizes=(2, 19, 4, 6), mode="linear")
    lines = b.resize(rows, sizes=(2, 5, 7), mode="linear"), b.resize(rows, sizes=(2, 3, 7), mode="nearest")
    return *modes, smaller, *lines


@golden
def lrn(x: Inputs, b: Builder):
    return b.lrn(x(2, 37, 4, 5), size=5, alpha=0.01, beta=0.75, bias=1.5)


@golden
def regions(x: Inputs, b: Builder):
    regions = b.roialign(x(2, 3, 9, 7), x(6, 4), x(6, type="int64"), output_height=3, output_width=2, mode="max")
    limits = (np.array([5]), np.array([0.4], np.float32), np.array([0.1], np.float32))
    boxes = b.nonmaxsuppression(x(2, 40, 4), x(2, 3, 40), *map(b.literal, limits), center_point_box=True)
    rows = b.im2col(x(1, 3, 7, 8), x(5, 3, 3, 2), padding=(1, 2), stride=(2, 1))
    return regions, boxes, rows, b.det(x(3, 2, 4, 4))


# ---- indices, order, random numbers ----


@golden
def gather(x: Inputs, b: Builder):
    data = x(3, 6, 4)
    rows, elements = b.gather(data, x(2, 2, type="int32"), axis=1), b.gather_elements(data, x(2, 5, 4, type="int64"))
    slices = b.gathernd(data, x(3, 6, 1, type="int64"), batch_dims=1)
    bags = b.embedding_bag(data, x(3, 2, 5, type="int64"), x(3, 2, 5))
    return rows, elements, slices, bags, b.onehot(x(3, 4, type="int64"), x(2), depth=5, axis=1)


@golden
def scatter(x: Inputs, b: Builder):
    """half is summed in float and rounded once."""
    data, indices, updates = x(3, 6, 4, type="half"), x(2, 5, 4, type="int64"), x(2, 5, 4, type="half")
    one = b.scatter_add(data, indices, updates, axis=1)
    return one, b.scatternd_none(x(3, 7, 5), x(4, 2, type="int64"), x(4, 5))


@golden
def order(x: Inputs, b: Builder):
    data = x(5, 30, 3)
    best = b.outputs(b.topk(data, k=4, axis=1), 2)
    sums = b.prefix_scan_sum(data, axis=1, exclusive=True)
    return *best, b.argmax(data, axis=1), b.argmin(data, axis=0, select_last_index=True), sums, b.nonzero(data)


@golden
def random(x: Inputs, b: Builder):
    chances = x(5, 60)
    drawn = b.random_uniform(b.random_seed(), chances)
    return b.multinomial(b.prefix_scan_sum(b.abs(chances), axis=1), drawn), b.random_uniform(x(1, type="uint64"), drawn)


# ---- views, copies, bytes, users' operators ----


@golden
def views(x: Inputs, b: Builder):
    """Concatenated in place, padded by edges, turned round, three planes as pixels."""
    rows = x(3, 8)
    joined = b.concat(b.relu(rows), b.tanh(b.slice(rows, axes=(1,), starts=(2,), ends=(7,))), axis=1)
    padded = b.pad(rows, pads=(1, 2, 0, 3), mode="edge"), b.pad(rows, pads=(0, 1, 0, 1), mode="reflect")
    turned = b.contiguous(b.transpose(b.reverse(rows, axes=(1,)), permutation=(1, 0)))
    seen = b.as_shape(rows, shape=Shape("float", (2, 3, 4))), b.step(rows, axes=(1,), steps=(3,))
    return joined, *padded, turned, b.layout(x(1, 3, 9, 11), permutation=(0, 2, 3, 1)), *map(b.neg, seen)


@golden
def packing(x: Inputs, b: Builder):
    codes, real = x(8, 6, type="int8"), x(6, 8)
    fp4 = b.unpack_fp4(b.pack_fp4(real, axis=1), axis=1)
    return b.pack_int4(codes, axis=0), b.unpack_int4(codes, axis=1), fp4, b.bit_cast(real, target_type="int32")


class Scaled(migraphx.custom_op, name="golden::scaled"):
    """x * factor, of a users' operator in C++."""

    factor: float = 2.0
    steps: tuple[int, ...] = (1, 2)
    kind: str = "$plain"
    cpp = "for (int64_t i = begin; i < end; ++i) out[i] = in0[i] * float(factor) + float(steps[1]);"

    def compute_shape(self, x: migraphx.shape) -> migraphx.shape:
        return migraphx.shape(type=x.type_string(), lens=x.lens())

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x * np.float32(self.factor) + np.float32(self.steps[1])


@golden
def custom(x: Inputs, b: Builder):
    return b.instruction("golden::scaled", [x(3, 8)])


# ---- control flow ----


@golden
def loop(x: Inputs, b: Builder):
    """With a condition; a state that is gathered where it lies, a result backwards, rows of an input, the number."""
    rows, start = x(6, 3, 4), x(3, 4)
    body = x.program.fresh_module("body")
    number, going = body.add_parameter("number", Shape("int64")), body.add_parameter("going", Shape("bool"))
    state = body.add_parameter("state", Shape("float", (3, 4)))
    inner = Builder(body)
    row = inner.squeeze(inner.scan_slice(rows, number, axis=0, direction=1), axes=(0,))
    fresh = inner.tanh(inner.add(state, row))
    count = inner.convert(number, target_type="float")
    going = inner.less(count, inner.literal(np.array([4], np.float32)))
    body.add_return([going, fresh, fresh, inner.mul(fresh, *inner.common(count, fresh)[:1])])
    trips = b.literal(np.array([6])), b.literal(np.array([True]))
    made = b.loop(*trips, start, modules=[body], max_iterations=6, scan_output_directions=(0, 1))
    return b.outputs(made, 3)


@golden
def if_(x: Inputs, b: Builder):
    condition, data, modules = x(1, type="bool"), x(3, 4), []
    for name, word in (("then", "exp"), ("otherwise", "relu")):
        module = x.program.fresh_module(name)
        module.add_return([Builder(module).instruction(word, [data])])
        modules.append(module)
    there = x.program.fresh_module("there")
    there.add_return([Builder(there).exp(there.add_parameter("given", Shape("float", (3, 4))))])
    picked = b.outputs(b.instruction("if", [condition], modules), 1)
    return *picked, *b.outputs(b.run_on_target(data, modules=[there], target_id=1), 1)
