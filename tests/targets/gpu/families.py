"""One program of each family of kernels, and the kernels that programs become."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.passes.manager import run_passes
from migraphx.targets.common.lowering import lower
from migraphx.targets.gpu.emit.emitter import TritonEmitter
from migraphx.targets.gpu.kernel import Kernel
from migraphx.targets.gpu.lower import GPU
from migraphx.targets.gpu.target import PASSES

Case = tuple[Callable[..., Instruction], tuple[Shape, ...]]


def kernels(case: Case) -> list[Kernel]:
    """What a program of one output becomes, each kernel once."""
    build, shapes = case
    program = Program()
    parameters = [program.main.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)]
    program.main.add_return([build(Builder(program.main), *parameters)])
    run_passes(program, PASSES)
    calls = lower(program.main, GPU, TritonEmitter()).calls
    return list(dict.fromkeys(call.kernel.kernel for call in calls))


def of(type: str, *lens: int) -> Shape:
    return Shape(type, lens)


def layer_norm(b: Builder, x: Instruction, gamma: Instruction) -> Instruction:
    axes, lens = (len(x.shape.lens) - 1,), x.shape.lens
    centred = b.sub(x, b.multibroadcast(b.reduce_mean(x, axes=axes), out_lens=lens))
    scale = b.rsqrt(b.add(b.reduce_mean(b.mul(centred, centred), axes=axes), b.full(1e-5, b.reduce_mean(x, axes=axes))))
    return b.mul(b.mul(centred, b.multibroadcast(scale, out_lens=lens)), b.multibroadcast(gamma, out_lens=lens))


def masked(b: Builder, x: Instruction) -> Instruction:
    """Bools, integers and floats together."""
    whole = b.cast(x, "int32")
    odd = b.equal(b.bitwise_and(whole, b.full(1, whole)), b.full(1, whole))
    return b.where(b.logical_or(odd, b.isnan(x)), b.floor(x), b.fmod(x, b.full(3, x)))


FAMILIES: dict[str, Case] = {
    "flat": (lambda b, x: b.gelu(x), (of("half", 512, 768),)),
    "flat of an odd size": (lambda b, x: b.tanh(x), (of("float", 1001, 77),)),
    "broadcast": (lambda b, x, y: b.add(x, b.multibroadcast(y, out_lens=(640, 3072))), (of("bf16", 640, 3072), of("bf16", 3072))),
    "words of every kind": (masked, (of("float", 9, 70),)),
    "eight bits": (lambda b, x: b.cast(b.mul(x, b.full(0.5, x)), "fp8e4m3fn"), (of("half", 100, 64),)),
    "doubles": (lambda b, x: b.pow(b.sinh(x), x), (of("double", 1000),)),
    "transposing copy": (lambda b, x: b.contiguous(b.transpose(x, permutation=(0, 2, 1))), (of("half", 8, 256, 196),)),
    "rows in registers": (layer_norm, (of("half", 4096, 768), of("half", 768))),
    "short rows": (lambda b, x: b.softmax(x, axis=1), (of("float", 65536, 50),)),
    "rows in passes": (lambda b, x: b.softmax(x, axis=1), (of("half", 512, 50257),)),
    "rows in parts": (lambda b, x: b.softmax(x, axis=1), (of("float", 2, 1 << 20),)),
    "columns": (lambda b, x: b.reduce_sum(x, axes=(0,)), (of("bf16", 16384, 768),)),
    "channels": (lambda b, x: b.softmax(x, axis=1), (of("float", 8, 96, 28, 28),)),
    "integers reduced": (lambda b, x: b.reduce_mean(x, axes=(1,)), (of("int8", 100, 1000),)),
    "bools reduced": (lambda b, x: b.reduce_any(x, axes=(1,)), (of("bool", 100, 1000),)),
    "product": (lambda b, x: b.reduce_prod(x, axes=(1,)), (of("double", 100, 100),)),
    "gather": (lambda b, x, i: b.gather(x, i), (of("half", 1000, 768), of("int64", 64))),
    "gather_elements": (lambda b, x, i: b.gather_elements(x, i, axis=1), (of("float", 64, 50), of("int32", 64, 30))),
    "gathernd": (lambda b, x, i: b.gathernd(x, i), (of("float", 64, 50, 32), of("int64", 40, 2))),
    "argmax": (lambda b, x: b.argmax(x, axis=1), (of("half", 8, 50257),)),
    "argmin of doubles": (lambda b, x: b.argmin(x, axis=0, select_last_index=True), (of("double", 70, 64),)),
    "prefix sums": (lambda b, x: b.prefix_scan_sum(x, axis=1, exclusive=True), (of("half", 64, 3000),)),
    "few of topk": (lambda b, x: b.get_tuple_elem(b.topk(x, k=50, axis=1), index=1), (of("half", 4, 50257),)),
    "sort": (lambda b, x: b.get_tuple_elem(b.topk(x, k=3000, axis=1), index=0), (of("double", 4, 3000),)),
    "one-hot": (lambda b, i, v: b.onehot(i, v, depth=100), (of("int64", 64), of("float", 2))),
    "nonzero": (lambda b, x: b.nonzero(x), (of("float", 30, 40, 50),)),
    "scatter": (lambda b, x, i, u: b.scatter_none(x, i, u), (of("half", 90, 64), of("int64", 80, 64), of("half", 80, 64))),
    "scatter of few": (lambda b, x, i, u: b.scatternd_none(x, i, u), (of("half", 90, 64), of("int64", 8, 1), of("half", 8, 64))),
    "scatter that adds": (lambda b, x, i, u: b.scatternd_add(x, i, u), (of("half", 90, 64), of("int64", 800, 1), of("half", 800, 64))),
    "scatter of maxima": (lambda b, x, i, u: b.scatter_max(x, i, u), (of("int8", 90), of("int32", 80), of("int8", 80))),
    "resize": (lambda b, x: b.resize(x, sizes=(1, 3, 224, 224), mode="linear"), (of("float", 1, 3, 100, 130),)),
    "cubic resize of channels": (lambda b, x: b.resize(x, sizes=(1, 64, 30, 30), mode="cubic", antialias=True), (Shape("half", (1, 64, 70, 70), (313600, 1, 4480, 64)),)),
    "nearest": (lambda b, x: b.resize(x, sizes=(1, 64, 56, 56)), (of("half", 1, 64, 28, 28),)),
    "lrn": (lambda b, x: b.lrn(x, size=5), (of("half", 2, 64, 14, 14),)),
    "roialign": (lambda b, x, r, i: b.roialign(x, r, i, output_height=7, output_width=7), (of("float", 2, 64, 30, 40), of("float", 20, 4), of("int64", 20))),
    "nonmaxsuppression": (lambda b, *args: b.nonmaxsuppression(*args), (of("float", 2, 1000, 4), of("float", 2, 5, 1000), of("int64", 1), of("float", 1), of("float", 1))),
    "det": (lambda b, x: b.det(x), (of("float", 10, 20, 20),)),
    "random_uniform": (lambda b, s, x: b.random_uniform(s, x), (of("uint64", 1), of("half", 10000))),
    "random_seed": (lambda b: b.random_seed(), ()),
    "multinomial": (lambda b, s, u: b.multinomial(s, u), (of("float", 8, 1000), of("float", 8, 30))),
    "fill": (lambda b, x: b.pad(x, pads=(1, 2, 3, 4), value=float(np.inf)), (of("bf16", 50, 60),)),
}  # fmt: skip
