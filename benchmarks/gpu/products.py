"""Every candidate of target gpu for products, convolutions and attention, on this machine's GPU, and torch beside it.

    python -m benchmarks.gpu.products --output FILE [--only REGEX] [--most N] [--no-torch]

For each case: microseconds of each candidate in a CUDA graph on random data in rotating buffers, what the cost model
guessed, the largest error of the chosen one against torch in double, and torch's own time in a CUDA graph of its own.
The answer is one JSON document; its `table` is what `Choices.table` takes.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from migraphx.api.program import published
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape, permuted
from migraphx.passes.manager import run_passes
from migraphx.targets.common.lowering import lower
from migraphx.targets.gpu.binaries import triton_version
from migraphx.targets.gpu.choices import Choices
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.emit.emitter import TritonEmitter
from migraphx.targets.gpu.facts import facts_of
from migraphx.targets.gpu.libraries.blas import algorithms_on
from migraphx.targets.gpu.libraries.dnn import plans_on
from migraphx.targets.gpu.lower import GPU
from migraphx.targets.gpu.target import PASSES, GpuTarget
from migraphx.targets.gpu.tune import Timing, Tuner

RNG = np.random.default_rng(0)
REPEATS = 24  # launches in torch's graph
COLD = 192 << 20  # bytes that torch's buffers take turns in


@dataclass(frozen=True)
class Case:
    """A program of one problem, and the same for torch; `flops` of a run."""

    name: str
    inputs: tuple[Shape, ...]
    build: Callable[..., Instruction]
    torch: Callable[..., Any]
    flops: float
    weights: tuple[np.ndarray, ...] = ()


def normal(*lens: int, type: Any = np.float16) -> np.ndarray:
    return (RNG.standard_normal(lens) * 0.1).astype(type)


def linear(name: str, m: int, k: int, n: int, activation: str = "gelu", type: str = "half") -> Case:
    """A linear layer with bias, and GELU (erf) behind it."""
    of = {"half": np.float16, "float": np.float32}[type]
    w, bias = normal(n, k, type=of), normal(n, type=of)

    def build(b: Builder, x: Instruction) -> Instruction:
        y = b.linear(x, b.literal(w), b.literal(bias))
        return b.gelu(y) if activation == "gelu" else y

    def with_torch(F: Any, x: Any, w: Any, bias: Any) -> Any:
        y = F.linear(x, w, bias)
        return F.gelu(y) if activation == "gelu" else y

    return Case(f"{name} {type} {m}x{k}x{n}", (Shape(type, (m, k)),), build, with_torch, 2.0 * m * n * k, (w, bias))


def product(m: int, k: int, n: int, type: str = "half") -> Case:
    """A product without an epilogue, its weights {N, K}."""
    w = normal(n, k, type={"half": np.float16, "float": np.float32}[type])

    def build(b: Builder, x: Instruction) -> Instruction:
        return b.dot(x, b.literal(np.ascontiguousarray(w.T)))

    def with_torch(F: Any, x: Any, w: Any) -> Any:
        return F.linear(x, w)

    return Case(f"dot {type} {m}x{k}x{n}", (Shape(type, (m, k)),), build, with_torch, 2.0 * m * n * k, (w,))


def conv(n: int, c: int, size: int, o: int, k: int, stride: int = 1, residual: int = 0, group: int = 1) -> Case:
    """Convolution, bias, a residual or none, ReLU; channels last."""
    w, bias, pad = normal(o, c // group, k, k), normal(o), k // 2
    out = (size + 2 * pad - k) // stride + 1

    def build(b: Builder, x: Instruction, *z: Instruction) -> Instruction:
        y = b.convolution(x, b.literal(w), stride=(stride, stride), padding=(pad, pad), dilation=(1, 1), group=group)
        y = b.add(y, b.broadcast(b.literal(bias), axis=1, out_lens=y.shape.lens))
        return b.relu(b.add(y, z[0]) if z else y)

    def with_torch(F: Any, x: Any, *rest: Any) -> Any:
        *z, w, bias = rest
        y = F.conv2d(x, w, bias, stride=stride, padding=pad, groups=group)
        return F.relu(y + z[0] if z else y)

    shapes = [permuted("half", (n, c, size, size), (0, 2, 3, 1))]
    if residual:
        shapes.append(permuted("half", (n, o, out, out), (0, 2, 3, 1)))
    flops = 2.0 * n * o * out * out * (c // group) * k * k
    name = f"conv {n}x{size}x{size} {c}->{o} {k}x{k} /{stride}{' residual' * residual}{' depthwise' * (group == c)}"
    return Case(name, tuple(shapes), build, with_torch, flops, (w, bias))


def attention(b: int, h: int, hkv: int, lq: int, lk: int, d: int, causal: bool = False) -> Case:
    """As heads come from a linear layer: {B, L, H, D}."""

    def build(builder: Builder, q: Instruction, k: Instruction, v: Instruction) -> Instruction:
        q, k, v = (builder.transpose(t, permutation=(0, 2, 1, 3)) for t in (q, k, v))
        return builder.attention(q, k, v, scale=d**-0.5, causal=causal)

    def with_torch(F: Any, q: Any, k: Any, v: Any) -> Any:
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=h != hkv)

    shapes = (Shape("half", (b, lq, h, d)), *(Shape("half", (b, lk, hkv, d)),) * 2)
    flops = 4.0 * b * h * lq * lk * d * (0.5 if causal else 1)
    name = f"attention {b}x{h}/{hkv}x{lq}x{lk}x{d}{' causal' * causal}"
    return Case(name, shapes, build, with_torch, flops)


RESNET = (  # channels, size, channels out, kernel, stride, residual
    (64, 56, 64, 3), (64, 56, 256, 1, 1, 1), (256, 14, 256, 3), (512, 7, 512, 3), (3, 224, 64, 7, 2), (128, 28, 128, 3),
    (128, 56, 128, 3, 2), (64, 56, 64, 1), (1024, 14, 256, 1), (256, 14, 1024, 1, 1, 1), (2048, 7, 512, 1),
    (512, 7, 2048, 1, 1, 1), (256, 56, 512, 1, 2),
)  # fmt: skip


def cases() -> list[Case]:
    """The shapes of BERT, ViT, GPT-2, a Llama of 1 B and ResNet-50."""
    return [
        linear("linear", 6144, 768, 768), linear("linear", 6144, 3072, 768, "none"), product(4096, 4096, 4096),
        *(conv(1, *sizes) for sizes in RESNET), *(conv(32, *sizes) for sizes in RESNET),
        conv(1, 144, 56, 144, 3, 1, 0, 144), conv(32, 96, 56, 96, 7, 1, 0, 96),
        attention(16, 12, 12, 384, 384, 64), attention(32, 12, 12, 197, 197, 64),
        attention(1, 32, 32, 2048, 2048, 128, True), attention(1, 32, 8, 2048, 2048, 64, True),
        attention(1, 32, 8, 1, 1024, 64), attention(1, 12, 12, 1, 1024, 64), attention(2, 8, 8, 4096, 4096, 40),
        linear("linear", 6144, 768, 2304, "none"), linear("linear", 6144, 768, 3072), linear("linear", 6304, 768, 3072),
        linear("linear", 6144, 768, 768, type="float"), linear("linear", 6144, 768, 3072, type="float"),
        linear("linear", 6144, 3072, 768, "none", type="float"), product(2048, 2048, 8192), product(2048, 8192, 2048),
        product(1, 8192, 2048), product(1, 2048, 8192), product(1, 2048, 2048), product(1, 2048, 3072),
        product(1, 2048, 128256), product(1, 768, 2304), product(1, 768, 3072), product(1, 3072, 768),
        product(8, 4096, 4096), product(16, 4096, 4096), linear("linear", 128, 768, 768),
        linear("linear", 128, 768, 2304, "none"), linear("linear", 128, 768, 3072),
        linear("linear", 128, 3072, 768, "none"), product(1, 4096, 4096), product(1, 14336, 4096),
        product(1, 4096, 14336),
    ]  # fmt: skip


# ---- ours -----------------------------------------------------------------------------------------------------------


def ours(case: Case, tuner: Tuner) -> tuple[Choices, dict[str, list[Timing]], float]:
    """The choices of a case, all timings, and the seconds that compiling and timing took."""
    program = Program()
    parameters = [program.main.add_parameter(f"x{k}", s) for k, s in enumerate(case.inputs)]
    program.main.add_return([case.build(Builder(program.main), *parameters)])
    run_passes(program, PASSES)
    device = tuner.device
    guess = Choices(facts_of(device.chip, device.identity()))
    lower(program.main, GPU, TritonEmitter(guess))
    choices = Choices(guess.facts, measure=tuner.measure, algorithms=algorithms_on(device), plans=plans_on(device))
    tuner.timings.clear()
    begin = time.perf_counter()
    lower(program.main, GPU, TritonEmitter(choices))
    taken = time.perf_counter() - begin
    return guess, dict(tuner.timings), taken


def answer(case: Case, device: Any, arrays: Sequence[np.ndarray]) -> np.ndarray:
    program = Program()
    parameters = [program.main.add_parameter(f"x{k}", s) for k, s in enumerate(case.inputs)]
    program.main.add_return([case.build(Builder(program.main), *parameters)])
    compiled = published(program)
    compiled.compile(GpuTarget(device))
    (got,) = compiled.run({f"x{k}": a for k, a in enumerate(arrays)})
    return np.array(got)


# ---- torch ----------------------------------------------------------------------------------------------------------


def torch_time(case: Case, arrays: Sequence[np.ndarray]) -> tuple[float, np.ndarray]:
    """Microseconds of one run in a CUDA graph of many on rotating buffers, and the answer in double."""
    import torch
    import torch.nn.functional as F

    def moved(a: np.ndarray) -> Any:
        t = torch.from_numpy(np.ascontiguousarray(a)).cuda()
        return t.contiguous(memory_format=torch.channels_last) if a.ndim == 4 and case.name.startswith("conv") else t

    hosts = [*arrays, *case.weights]
    size = sum(a.nbytes for a in hosts)
    sets = [[moved(a) for a in hosts] for _ in range(max(1, min(REPEATS, COLD // max(size, 1))))]
    with torch.inference_mode():
        exact = case.torch(F, *(t.double() for t in sets[0])) if not case.name.startswith("attention") else None
        if exact is None:
            exact = case.torch(F, *(t.float() for t in sets[0]))
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                case.torch(F, *sets[0])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for n in range(REPEATS):
                case.torch(F, *sets[n % len(sets)])
        graph.replay()
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(5)]
        for begin, end in events:
            begin.record()
            graph.replay()
            end.record()
        torch.cuda.synchronize()
    taken = statistics.median(begin.elapsed_time(end) for begin, end in events)
    return taken * 1e3 / REPEATS, exact.double().cpu().numpy()


# ---- all ------------------------------------------------------------------------------------------------------------


def measured(case: Case, tuner: Tuner, with_torch: bool) -> dict[str, Any]:
    """One case's line of the answer."""
    guess, timings, taken = ours(case, tuner)
    line: dict[str, Any] = {"name": case.name, "flops": case.flops, "tuning_seconds": round(taken, 2), "problems": []}
    total = 0.0
    for choice in guess.made:
        found = sorted((t for t in timings.get(choice.problem.key, [])), key=lambda t: t.microseconds or float("inf"))
        best = found[0].microseconds if found and found[0].microseconds else None
        total += best or 0.0
        chosen = next((t.microseconds for t in found if t.config == choice.config), None)
        line["problems"].append(
            {
                "key": choice.problem.key, "best": best, "chosen": chosen, "estimate": choice.estimate,
                "candidates": [
                    {"config": t.config.as_dict(), "us": t.microseconds, "error": t.error[-300:]} for t in found
                ],
            }
        )  # fmt: skip
    line["us"], line["tflops"] = total, case.flops / max(total, 1e-9) / 1e6
    if with_torch:
        arrays = [normal(*s.lens, type=s.numpy_dtype) * s.numpy_dtype.type(10) for s in case.inputs]
        line["torch_us"], exact = torch_time(case, arrays)
        laid = [_laid(a, s) for a, s in zip(arrays, case.inputs, strict=True)]
        got = answer(case, tuner.device, laid).astype(np.float64)
        if got.shape != exact.shape:
            exact = exact.reshape(got.shape)
        line["error"] = float(np.abs(got - exact).max() / np.abs(exact).max())
        line["torch_over_ours"] = line["torch_us"] / total if total else None
    return line


def _laid(array: np.ndarray, shape: Shape) -> np.ndarray:
    """The array in memory as the shape's strides say."""
    made = np.empty([shape.lens[d] for d in shape.permutation], array.dtype)
    back = np.argsort(shape.permutation)
    view = made.transpose(back)
    view[...] = array
    return view


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="-")
    parser.add_argument("--only", default="", help="cases whose names this expression finds")
    parser.add_argument("--most", type=int, default=16, help="candidates of a problem, the best guesses first")
    parser.add_argument("--no-torch", action="store_true")
    given = parser.parse_args()
    device = current_device()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    result: dict[str, Any] = {
        "device": device.identity(), "triton": triton_version(), "commit": commit, "command": sys.argv, "cases": [],
        "table": {},
    }  # fmt: skip
    for case in (c for c in cases() if re.search(given.only, c.name)):
        line: dict[str, Any]
        try:
            line = measured(case, Tuner(device, given.most), not given.no_torch)
        except Exception as error:  # the other cases are worth having
            line = {"name": case.name, "failed": f"{type(error).__name__}: {error}"[-1500:]}
        result["cases"].append(line)
        for problem in line.get("problems", []):
            if problem["best"]:
                result["table"][problem["key"]] = problem["candidates"][0]["config"]
        shown = {k: v for k, v in line.items() if k not in ("problems", "flops")}
        print(json.dumps(shown), file=sys.stderr, flush=True)
        text = json.dumps(result, indent=1)
        if given.output != "-":
            with open(given.output, "w") as file:
                file.write(text)
    if given.output == "-":
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
