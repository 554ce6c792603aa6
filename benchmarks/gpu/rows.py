"""Bytes a second of copies, elementwise work and rows on target gpu, and their share of copies' in the same run.

Each case stands beside a copy of 1 GiB and one of as many bytes as its own, of as many buffers in turn: small ones end
before they reach the speed of large ones.

`python -m benchmarks.gpu.rows [--only softmax] [--rounds 20]` prints one JSON object. Every case is a compiled program
that does its work on several buffers one after the other, more than a device's cache holds, as one CUDA graph; the time
is that of one of them. With `--torch` each case is timed in torch's eager mode, too.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.options import CompileOptions
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.target import GpuTarget

BYTES = 512 << 20  # read and written by one graph at least, ten times a large cache
MOST_BUFFERS = 32
CALIBRATION = Shape("float", (1 << 28,))

Body = Callable[..., Instruction]


def layer_norm(b: Builder, x: Instruction, gamma: Instruction, beta: Instruction) -> Instruction:
    axes, lens = (len(x.shape.lens) - 1,), x.shape.lens
    centred = b.sub(x, b.multibroadcast(b.reduce_mean(x, axes=axes), out_lens=lens))
    variance = b.reduce_mean(b.mul(centred, centred), axes=axes)
    scale = b.rsqrt(b.add(variance, b.full(1e-5, variance)))
    scaled = b.mul(centred, b.multibroadcast(scale, out_lens=lens))
    return b.add(b.mul(scaled, b.multibroadcast(gamma, out_lens=lens)), b.multibroadcast(beta, out_lens=lens))


def rms_norm(b: Builder, x: Instruction, gamma: Instruction) -> Instruction:
    axes, lens = (len(x.shape.lens) - 1,), x.shape.lens
    scale = b.rsqrt(b.add(b.reduce_mean(b.mul(x, x), axes=axes), b.full(1e-5, b.reduce_mean(x, axes=axes))))
    return b.mul(b.mul(x, b.multibroadcast(scale, out_lens=lens)), b.multibroadcast(gamma, out_lens=lens))


def bias_gelu(b: Builder, x: Instruction, bias: Instruction) -> Instruction:
    return b.gelu(b.add(x, b.multibroadcast(bias, out_lens=x.shape.lens)))


def transposed(*order: int) -> Body:
    return lambda b, x: b.contiguous(b.transpose(x, permutation=order))


def summed(*axes: int) -> Body:
    return lambda b, x: b.reduce_sum(x, axes=axes)


@dataclass(frozen=True)
class Case:
    """`build(b, x, *others)`; x is new for each buffer, the others are shared."""

    build: Body
    x: Shape
    others: tuple[Shape, ...] = ()


def rows(name: str, build: Body, weights: int) -> dict[str, Case]:
    """Of the shapes that are known from BERT, GPT-2 and larger models, and of a few awkward ones."""
    cases = {}
    for type in ("half", "float"):
        for lens in (
            (6144, 768),
            (65536, 1024),
            (16384, 4096),
            (4096, 16384),
            (2048, 32000),
            (2048, 50257),
            (16384, 197),
            (65536, 64),
            (100352, 96),
            (16384, 1000),
        ):
            others = (Shape(type, lens[1:]),) * weights
            cases[f"{name} {lens[0]}x{lens[1]} {type}"] = Case(build, Shape(type, lens), others)
    return cases


LONG = {type: (Shape(type, (128256,)),) * 2 for type in ("half", "float")}
CASES: dict[str, Case] = {
    **{f"copy 1 GiB {t}": Case(lambda b, x: x, Shape(t, (n,))) for t, n in (("half", 1 << 29), ("float", 1 << 28))},
    "copy 18.9 MB half": Case(lambda b, x: x, Shape("half", (6144, 1536))),
    "relu 6144x3072 half": Case(lambda b, x: b.relu(x), Shape("half", (6144, 3072))),
    "relu 1001x7777 half": Case(lambda b, x: b.relu(x), Shape("half", (1001, 7777))),
    "bias gelu 6144x3072 half": Case(bias_gelu, Shape("half", (6144, 3072)), (Shape("half", (3072,)),)),
    "bias gelu 6144x3072 float": Case(bias_gelu, Shape("float", (6144, 3072)), (Shape("float", (3072,)),)),
    "tanh 6144x3072 float": Case(lambda b, x: b.tanh(x), Shape("float", (6144, 3072))),
    "transpose NCHW to NHWC half": Case(transposed(0, 2, 3, 1), Shape("half", (32, 256, 56, 56))),
    "transpose NHWC to NCHW half": Case(transposed(0, 3, 1, 2), Shape("half", (32, 56, 56, 256))),
    "transpose heads half": Case(transposed(0, 2, 1, 3), Shape("half", (16, 384, 12, 64))),
    "transpose 4096x4096 float": Case(transposed(1, 0), Shape("float", (4096, 4096))),
    "image to NHWC float": Case(transposed(0, 2, 3, 1), Shape("float", (32, 3, 224, 224))),
    **rows("softmax", lambda b, x: b.softmax(x, axis=1), 0),
    **rows("layer norm", layer_norm, 2),
    **rows("rms norm", rms_norm, 1),
    "sum of columns 16384x768 half": Case(summed(0), Shape("half", (16384, 768))),
    "sum of columns 65536x64 float": Case(summed(0), Shape("float", (65536, 64))),
    "sum of channels 32x256x56x56 half": Case(summed(0, 2, 3), Shape("half", (32, 256, 56, 56))),
    "means of 32x2048x7x7 half": Case(lambda b, x: b.reduce_mean(x, axes=(2, 3)), Shape("half", (32, 2048, 7, 7))),
    "softmax of long rows 1024x128256 half": Case(lambda b, x: b.softmax(x, axis=1), Shape("half", (1024, 128256))),
    "softmax of long rows 1024x128256 float": Case(lambda b, x: b.softmax(x, axis=1), Shape("float", (1024, 128256))),
    "layer norm of long rows 1024x128256 half": Case(layer_norm, Shape("half", (1024, 128256)), LONG["half"]),
    "layer norm of long rows 1024x128256 float": Case(layer_norm, Shape("float", (1024, 128256)), LONG["float"]),
    "softmax of few rows 4x1048576 float": Case(lambda b, x: b.softmax(x, axis=1), Shape("float", (4, 1 << 20))),
    "softmax of channels 8x96x56x56 half": Case(lambda b, x: b.softmax(x, axis=1), Shape("half", (8, 96, 56, 56))),
}  # fmt: skip


class Measured:
    """A case compiled for as many buffers as pass a device's cache."""

    def __init__(self, case: Case, device: Accelerator) -> None:
        program = Program()
        first = program.main.add_parameter("x0", case.x)
        others = [program.main.add_parameter(f"w{k}", s) for k, s in enumerate(case.others)]
        builder = Builder(program.main)
        outputs = [case.build(builder, first, *others)]
        self.bytes = case.x.bytes + outputs[0].shape.bytes + sum(s.bytes for s in case.others)
        self.count = max(1, min(MOST_BUFFERS, -(-BYTES // self.bytes)))
        for k in range(1, self.count):
            outputs.append(case.build(builder, program.main.add_parameter(f"x{k}", case.x), *others))
        program.main.add_return(outputs)
        self.device = device
        self.made: Any = GpuTarget(device).compile(program, CompileOptions(offload_copy=False))
        rng = np.random.default_rng(0)
        small = rng.standard_normal(1 << 20, np.float32)
        values = {s: np.resize(small, s.lens).astype(s.numpy_dtype) for s in dict.fromkeys((case.x, *case.others))}
        self.inputs = [Argument.of(values[s]).to(device) for s in self.made.parameters.values()]
        self.outputs = [Argument.empty(s, device) for s in self.made.outputs]

    @property
    def copy(self) -> Case:
        """A copy that reads and writes as many bytes."""
        return Case(lambda b, x: x, Shape("half", (self.bytes // 4,)))

    def seconds(self, rounds: int) -> list[float]:
        """Of one buffer, in each round; the first rounds are not counted."""
        pointers = [a.pointer for a in self.inputs], [a.pointer for a in self.outputs]
        stream, found = self.device.stream(), []
        for k in range(rounds + 3):
            before, after = self.device.event(timed=True), self.device.event(timed=True)
            before.record(stream)
            self.made.run_at(*pointers, stream)
            after.record(stream)
            self.device.synchronise(stream)
            found += [after.seconds(before) / self.count] if k >= 3 else []
        return found


def torch_seconds(name: str, case: Case, rounds: int) -> float | None:
    """torch's eager mode on the same work; None where it has no such function."""
    import torch
    import torch.nn.functional as F

    if "norm" not in name and "softmax" not in name and "copy" not in name:
        return None
    types = {"half": torch.float16, "float": torch.float32}
    x = torch.randn(case.x.lens, device="cuda").to(types[case.x.type])
    others: list[Any] = [torch.randn(s.lens, device="cuda").to(types[s.type]) for s in case.others]
    count = max(1, min(MOST_BUFFERS, -(-BYTES // (2 * case.x.bytes))))
    xs = [x.clone() for _ in range(count)]
    axis = (case.x.ndim - 1,)

    def work(v: Any) -> Any:
        if "layer" in name:
            return F.layer_norm(v, [v.shape[i] for i in axis], *others)
        if "rms" in name:
            return F.rms_norm(v, [v.shape[i] for i in axis], *others)
        return v.clone() if "copy" in name else F.softmax(v, 1)

    found = []
    for k in range(rounds + 3):
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record()
        for v in xs:
            work(v)
        after.record()
        torch.cuda.synchronize()
        found += [before.elapsed_time(after) / 1e3 / count] if k >= 3 else []
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose names this expression finds")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--torch", action="store_true", help="time torch's eager mode, too")
    options = parser.parse_args()
    device = current_device()
    peak = Measured(Case(lambda b, x: x, CALIBRATION), device)
    copied = peak.bytes / statistics.median(peak.seconds(options.rounds))
    del peak
    results, copies = dict[str, Any](), dict[int, float]()
    for name, case in CASES.items():
        if not re.search(options.only, name):
            continue
        try:
            measured = Measured(case, device)
            seconds = statistics.median(measured.seconds(options.rounds))
            speed = measured.bytes / seconds
            copy, size = measured.copy, measured.bytes
            results[name] = {"us": seconds * 1e6, "GB/s": speed / 1e9, "share of copy": speed / copied}
            del measured
            if size not in copies:
                copies[size] = statistics.median(Measured(copy, device).seconds(options.rounds))
            results[name]["share of a copy of its size"] = copies[size] / seconds
            if options.torch and (theirs := torch_seconds(name, case, options.rounds)) is not None:
                results[name] |= {"torch us": theirs * 1e6, "torch / ours": theirs / seconds}
        except Exception as error:  # the other cases are worth having
            results[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps({"device": device.model, "copy GB/s": copied / 1e9, "cases": results}, indent=1))


if __name__ == "__main__":
    main()
