"""One program of each family of kernels, and the kernels that programs become."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape, permuted
from migraphx.passes.manager import run_passes
from migraphx.targets.common.lowering import lower
from migraphx.targets.gpu.emit.emitter import TritonEmitter
from migraphx.targets.gpu.kernel import Kernel
from migraphx.targets.gpu.lower import GPU
from migraphx.targets.gpu.target import PASSES
from tests.targets.gpu.side_by_side import one

Case = tuple[Callable[..., Instruction], tuple[Shape, ...]]


def kernels(case: Case) -> list[Kernel]:
    """What a program of one output becomes, each kernel once."""
    build, shapes = case
    program = Program()
    parameters = [program.main.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)]
    program.main.add_return([build(Builder(program.main), *parameters)])
    run_passes(program, PASSES)
    calls = lower(program.main, GPU, TritonEmitter()).calls
    return list(dict.fromkeys(call.kernel.kernel for call in calls if call.kernel is not None))


def of(type: str, *lens: int) -> Shape:
    return Shape(type, lens)


def layer_norm(b: Builder, x: Instruction, gamma: Instruction) -> Instruction:
    axes, lens = (len(x.shape.lens) - 1,), x.shape.lens
    centred = b.sub(x, b.multibroadcast(b.reduce_mean(x, axes=axes), out_lens=lens))
    scale = b.rsqrt(b.add(b.reduce_mean(b.mul(centred, centred), axes=axes), b.full(1e-5, b.reduce_mean(x, axes=axes))))
    return b.mul(b.mul(centred, b.multibroadcast(scale, out_lens=lens)), b.multibroadcast(gamma, out_lens=lens))


def few_rows(b: Builder, *x: Instruction) -> Instruction:
    """Products whose weights are most of what they read, of one row and of several."""
    weights = b.literal(np.random.default_rng(0).standard_normal((512, 64)).astype(np.float16))
    return b.concat(*(b.dot(rows, weights) for rows in x), axis=0)


def group_norm(b: Builder, x: Instruction) -> Instruction:
    """Of {N, groups, channels, places}."""
    axes, lens = (2, 3), x.shape.lens
    centred = b.sub(x, b.multibroadcast(b.reduce_mean(x, axes=axes), out_lens=lens))
    variance = b.reduce_mean(b.mul(centred, centred), axes=axes)
    return b.mul(centred, b.multibroadcast(b.rsqrt(variance), out_lens=lens))


def scaled(b: Builder, x: Instruction, w: Instruction, by: Instruction) -> Instruction:
    """A convolution and a batch norm whose weights are inputs."""
    y = b.convolution(x, w, stride=(1, 1), dilation=(1, 1), padding=(0, 0))
    wide = b.multibroadcast(b.reshape(by, dims=(1, by.shape.lens[0], 1, 1)), out_lens=y.shape.lens)
    return b.cast(b.add(b.mul(b.cast(y, "float"), wide), wide), x.shape.type)


def masked(b: Builder, x: Instruction) -> Instruction:
    """Bools, integers and floats together."""
    whole = b.cast(x, "int32")
    odd = b.equal(b.bitwise_and(whole, b.full(1, whole)), b.full(1, whole))
    return b.where(b.logical_or(odd, b.isnan(x)), b.floor(x), b.fmod(x, b.full(3, x)))


FAMILIES: dict[str, Case] = {
    "flat": (one("gelu"), (of("half", 512, 768),)),
    "flat of an odd size": (one("tanh"), (of("float", 1001, 77),)),
    "broadcast": (
        lambda b, x, y: b.add(x, b.multibroadcast(y, out_lens=(640, 3072))),
        (of("bf16", 640, 3072), of("bf16", 3072)),
    ),
    "words of every kind": (masked, (of("float", 9, 70),)),
    "eight bits": (lambda b, x: b.cast(b.mul(x, b.full(0.5, x)), "fp8e4m3fn"), (of("half", 100, 64),)),
    "doubles": (lambda b, x: b.pow(b.sinh(x), x), (of("double", 1000),)),
    "transposing copy": (lambda b, x: b.contiguous(b.transpose(x, permutation=(0, 2, 1))), (of("half", 8, 256, 196),)),
    "rows in registers": (layer_norm, (of("half", 4096, 768), of("half", 768))),
    "rows asked for ahead": (one("softmax", axis=1), (of("half", 2048, 32000),)),
    "short rows": (one("softmax", axis=1), (of("float", 65536, 50),)),
    "rows between vectors": (layer_norm, (of("half", 4096, 197), of("half", 197))),
    "rows in passes": (one("softmax", axis=1), (of("half", 512, 151936),)),
    "rows in parts": (one("softmax", axis=1), (of("float", 2, 1 << 20),)),
    "runs side by side": (group_norm, (permuted("float", (2, 8, 10, 1024), (0, 3, 1, 2)),)),
    "columns": (one("reduce_sum", axes=(0,)), (of("bf16", 16384, 768),)),
    "channels": (one("softmax", axis=1), (of("float", 8, 96, 28, 28),)),
    "integers reduced": (one("reduce_mean", axes=(1,)), (of("int8", 100, 1000),)),
    "bools reduced": (one("reduce_any", axes=(1,)), (of("bool", 100, 1000),)),
    "product": (one("reduce_prod", axes=(1,)), (of("double", 100, 100),)),
    "scaled weights": (scaled, (of("half", 8, 64, 14, 14), of("half", 128, 64, 3, 3), of("float", 128))),
    "weights with their taps apart": (
        one("convolution", stride=(1, 1), dilation=(1, 1), padding=(0, 0)),
        (permuted("half", (1, 64, 9, 9), (0, 2, 3, 1)), of("half", 8, 64, 3, 3)),
    ),
    "few rows": (few_rows, (of("half", 1, 512), of("half", 8, 512))),
    "gather": (one("gather"), (of("half", 1000, 768), of("int64", 64))),
    "gather_elements": (one("gather_elements", axis=1), (of("float", 64, 50), of("int32", 64, 30))),
    "bags": (one("embedding_bag"), (of("half", 8, 500, 32), of("int32", 8, 300, 4), of("half", 8, 300, 4))),
    "gathernd": (one("gathernd"), (of("float", 64, 50, 32), of("int64", 40, 2))),
    "argmax": (one("argmax", axis=1), (of("half", 8, 50257),)),
    "argmin of doubles": (one("argmin", axis=0, select_last_index=True), (of("double", 70, 64),)),
    "prefix sums": (one("prefix_scan_sum", axis=1, exclusive=True), (of("half", 64, 3000),)),
    "few of topk": (lambda b, x: b.get_tuple_elem(b.topk(x, k=50, axis=1), index=1), (of("half", 4, 50257),)),
    "sort": (lambda b, x: b.get_tuple_elem(b.topk(x, k=3000, axis=1), index=0), (of("double", 4, 3000),)),
    "one-hot": (one("onehot", depth=100), (of("int64", 64), of("float", 2))),
    "nonzero": (one("nonzero"), (of("float", 30, 40, 50),)),
    "scatter": (one("scatter_none"), (of("half", 90, 64), of("int64", 80, 64), of("half", 80, 64))),
    "scatter of few": (one("scatternd_none"), (of("half", 90, 64), of("int64", 8, 1), of("half", 8, 64))),
    "scatter that adds": (one("scatternd_add"), (of("half", 90, 64), of("int64", 800, 1), of("half", 800, 64))),
    "scatter of maxima": (one("scatter_max"), (of("int8", 90), of("int32", 80), of("int8", 80))),
    "resize": (one("resize", sizes=(1, 3, 224, 224), mode="linear"), (of("float", 1, 3, 100, 130),)),
    "cubic resize of channels": (
        one("resize", sizes=(1, 64, 30, 30), mode="cubic", antialias=True),
        (Shape("half", (1, 64, 70, 70), (313600, 1, 4480, 64)),),
    ),
    "nearest": (one("resize", sizes=(1, 64, 56, 56)), (of("half", 1, 64, 28, 28),)),
    "lrn": (one("lrn", size=5), (of("half", 2, 64, 14, 14),)),
    "roialign": (
        one("roialign", output_height=7, output_width=7),
        (of("float", 2, 64, 30, 40), of("float", 20, 4), of("int64", 20)),
    ),
    "nonmaxsuppression": (
        one("nonmaxsuppression"),
        (of("float", 2, 1000, 4), of("float", 2, 5, 1000), of("int64", 1), of("float", 1), of("float", 1)),
    ),
    "det": (one("det"), (of("float", 10, 20, 20),)),
    "random_uniform": (one("random_uniform"), (of("uint64", 1), of("half", 10000))),
    "random_seed": (lambda b: b.random_seed(), ()),
    "multinomial": (one("multinomial"), (of("float", 8, 1000), of("float", 8, 30))),
    "fill": (one("pad", pads=(1, 2, 3, 4), value=float(np.inf)), (of("bf16", 50, 60),)),
}
