"""Products of a decoder's layers for one token or a few, as in a model: share of a copy's bandwidth in the same run.

    python -m benchmarks.gpu.decode [--only REGEX] [--tune] [--rounds N]

A case is one program: products of several layers, each with weights of its own and of the result of the one before, one
CUDA graph. What counts is the bytes of all weights over the time of a run, beside a copy of 1 GiB, and beside copies
of as many bytes as each product's weights have, read and written: small ones end before they reach the speed of large
ones. The answer is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.gpu.rows import CALIBRATION, Measured
from benchmarks.gpu.rows import Case as Rows
from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.options import CompileOptions
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.target import GpuTarget

RNG = np.random.default_rng(0)
RUNS = 5  # of a program, one after the other: what a launch of a graph takes is not the products'
COLD = 400e6  # bytes of weights at least: more than the caches hold
BLOCK = 32  # depths of a scale of int4
LAYERS = {
    "gpt2": (768, 2304, 3072, False), "llama1b": (2048, 3072, 8192, True), "llama8b": (4096, 6144, 14336, True),
    "square2048": (2048, 0, 0, False), "square4096": (4096, 0, 0, False),
}  # fmt: skip
"""Width, columns of queries, keys and values, inner width, whether that is gated: products alone, without what lies
between. Of the squares one product is the layer."""
BYTES = {"half": 2.0, "bf16": 2.0, "int8": 1.0, "int4": 0.5 + 4 / BLOCK}  # of a weight, with its scale


@dataclass(frozen=True)
class Case:
    """So many rows of a layer's products with weights of this type."""

    name: str
    rows: int
    type: str

    @property
    def products(self) -> list[int]:
        """Elements of the weights of a layer's products."""
        width, qkv, inner, gated = LAYERS[self.name]
        return [width * n for n in (qkv, width, *(inner,) * (3 if gated else 2)) if n]

    @property
    def weights(self) -> int:
        """Of a layer."""
        return sum(self.products)

    @property
    def layers(self) -> int:
        return -int(-COLD // (self.weights * BYTES[self.type]))

    @property
    def nbytes(self) -> float:
        return self.layers * self.weights * BYTES[self.type]

    def program(self) -> Program:
        program = Program()
        b, (width, qkv, inner, gated) = Builder(program.main), LAYERS[self.name]
        x = program.main.add_parameter("x", Shape("float" if self.type == "int4" else self.type, (self.rows, width)))
        whole: list[Instruction] = []  # else only what is read of them would be computed
        for _ in range(self.layers):
            if qkv:
                whole.append(self._product(b, x, qkv))
                x = b.slice(whole[-1], axes=(1,), starts=(0,), ends=(width,))
            x = self._product(b, x, width)
            if inner:
                up = self._product(b, x, inner)
                x = self._product(b, b.mul(b.relu(self._product(b, x, inner)), up) if gated else up, width)
        program.main.add_return([x, *whole])
        return program

    def copies(self) -> Program:
        """Copies of as many bytes as the products' weights have."""
        program = Program()
        sizes = [Shape("int8", (int(n * BYTES[self.type]) // 2,)) for n in self.products] * self.layers
        program.main.add_return([program.main.add_parameter(f"x{k}", shape) for k, shape in enumerate(sizes)])
        return program

    def _product(self, b: Builder, x: Instruction, n: int) -> Instruction:
        k = x.shape.lens[1]
        if self.type == "int4":
            codes, scales = RNG.integers(-128, 127, (k // 2, n), np.int8), RNG.random((k // BLOCK, n), np.float32)
            return b.dot_int4(x, b.literal(codes), b.literal(scales / np.float32(k)))
        weights = RNG.integers(-8, 8, (k, n), np.int8)
        if self.type == "int8":
            return b.convert(b.quant_dot(x, b.literal(weights)), target_type="int8")
        dtype = dtypes.to_numpy(self.type)
        return b.dot(x, b.literal(weights.astype(dtype) * np.asarray(0.2 * k**-0.5, dtype)))


def microseconds(program: Program, device: Accelerator, tune: bool, rounds: int) -> float:
    """Of a run, the median of runs one after the other."""
    made: Any = GpuTarget(device).compile(program, CompileOptions(offload_copy=False, exhaustive_tune=tune))
    inputs = [Argument.of(np.ones(s.lens, s.numpy_dtype)).to(device) for s in made.parameters.values()]
    outputs = [Argument.empty(s, device) for s in made.outputs]
    stream, found = device.stream(), []
    for k in range(rounds + 3):
        before, after = device.event(timed=True), device.event(timed=True)
        before.record(stream)
        for _ in range(RUNS):
            made.run_at([a.pointer for a in inputs], [a.pointer for a in outputs], stream)
        after.record(stream)
        device.synchronise(stream)
        found += [after.seconds(before)] if k >= 3 else []
    return statistics.median(found) / RUNS * 1e6


def cases() -> Sequence[Case]:
    half = [Case(name, rows, "half") for name in LAYERS for rows in (1, 8, 16)]
    narrow = [Case(name, 1, type) for type in ("bf16", "int8", "int4") for name in LAYERS]
    return [*half, *narrow]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose names this expression finds, as `llama1b 1 half`")
    parser.add_argument("--tune", action="store_true", help="time candidates first")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    device = current_device()
    with device.current():
        peak = Measured(Rows(lambda b, x: x, CALIBRATION), device)
        copied = peak.bytes / statistics.median(peak.seconds(given.rounds))
        del peak
        results: dict[str, Any] = {}
        for case in cases():
            name = f"{case.name} {case.rows} {case.type}"
            if re.search(given.only, name):
                us = microseconds(case.program(), device, given.tune, given.rounds)
                speed = case.nbytes / us * 1e6
                alike = microseconds(case.copies(), device, given.tune, given.rounds)
                results[name] = {"us a layer": us / case.layers, "GB/s": speed / 1e9, "share of copy": speed / copied}
                results[name]["share of copies of their sizes"] = alike / us
                print(name, results[name], file=sys.stderr, flush=True)
    print(json.dumps({"device": device.model, "copy GB/s": copied / 1e9, "cases": results}, indent=1))


if __name__ == "__main__":
    main()
