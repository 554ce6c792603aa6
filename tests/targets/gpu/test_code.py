"""What the kernels of contractions become on each chip: they compile, and their tiles fit into shared memory."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import pytest
import triton

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape, permuted
from migraphx.passes.manager import run_passes
from migraphx.targets.common.lowering import lower
from migraphx.targets.gpu.binaries import binaries
from migraphx.targets.gpu.choices import Build, Choices, Config, Problem
from migraphx.targets.gpu.emit.emitter import TritonEmitter
from migraphx.targets.gpu.emit.source import KERNELS
from migraphx.targets.gpu.facts import KNOWN
from migraphx.targets.gpu.kernel import Kernel
from migraphx.targets.gpu.lower import GPU
from migraphx.targets.gpu.target import PASSES
from migraphx.targets.gpu.tune import kernels_of as kernels_of_calls
from tests.tiers import few_rows

Outputs = Instruction | Sequence[Instruction]


def weight(*lens: int, type: str = "half") -> np.ndarray:
    return np.ones(lens, dtypes.to_numpy(type))


def kernels_of(build: Callable[..., Outputs], *shapes: Shape, chip: str, every: bool = False) -> list[Kernel]:
    """The kernels of a program as they are chosen for a chip, or those of every candidate."""
    program = Program()
    made = build(Builder(program.main), *(program.main.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)))
    program.main.add_return([made] if isinstance(made, Instruction) else list(made))
    run_passes(program, PASSES)
    kernels: list[Kernel] = []

    def measure(problem: Problem, candidates: Sequence[Config], build: Build) -> Config:
        for config in candidates if every else ():
            kernels.extend(kernels_of_calls(build(config)))
        return candidates[0]

    lowered = lower(program.main, GPU, TritonEmitter(Choices(KNOWN[chip], measure=measure)))
    kernels += kernels_of_calls(lowered.calls)
    return list(dict.fromkeys(kernels))


def linear(b: Builder, x: Instruction, k: int = 768, n: int = 768) -> Instruction:
    type = x.shape.type
    return b.gelu(b.linear(x, b.literal(weight(n, k, type=type)), b.literal(weight(n, type=type))))


def gates(b: Builder, x: Instruction, k: int = 640, n: int = 2560) -> Instruction:
    wide = b.linear(x, b.literal(weight(2 * n, k)), b.literal(weight(2 * n)))
    value, gate = (b.slice(wide, axes=(1,), starts=(s,), ends=(s + n,)) for s in (0, n))
    return b.mul(value, b.gelu(gate))


def chain(b: Builder, x: Instruction, residual: Instruction) -> Outputs:
    between = b.relu(b.add(b.convolution(x, b.literal(weight(256, 64, 1, 1))), residual))
    return [b.reduce_mean(y, axes=(2, 3)) for y in (between, conv(b, between, 64, 256, 1, 1, pad=0))]


def conv(b: Builder, x: Instruction, *lens: int, group: int = 1, pad: int = 1) -> Instruction:
    return b.relu(b.convolution(x, b.literal(weight(*lens, type=x.shape.type)), padding=(pad, pad), group=group))


def image(n: int, c: int, size: int, type: str = "half") -> Shape:
    return permuted(type, (n, c, size, size), (0, 2, 3, 1))


def heads(*lens: int, type: str = "half") -> Shape:
    return permuted(type, lens, (0, 2, 1, 3))


def int4(b: Builder, x: Instruction) -> Instruction:
    return b.dot_int4(x, b.literal(weight(512, 768, type="int8")), b.literal(weight(32, 768, type="float")))


WINDOWS = ({"lengths": (3, 3)}, {"dyn_global": True})
FAMILIES: dict[str, tuple[Callable[..., Outputs], tuple[Shape, ...]]] = {
    "rows": (linear, (Shape("half", (6144, 768)),)),
    "gates": (gates, (Shape("half", (2048, 640)),)),
    "chained": (chain, (image(32, 64, 56), image(32, 256, 56))),
    "few rows, split": (lambda b, x: linear(b, x, 4096, 256), (Shape("bf16", (8, 4096)),)),
    "one row": (linear, (Shape("half", (1, 768)),)),
    "float": (linear, (Shape("float", (512, 768)),)),
    "double": (linear, (Shape("double", (512, 768)),)),
    "odd": (lambda b, x: linear(b, x, 101, 33), (Shape("half", (70, 101)),)),
    "bytes": (lambda b, x, y: b.quant_dot(x, y), (Shape("uint8", (256, 256)), Shape("int8", (256, 256)))),
    "fp8": (lambda b, x, y: b.dot(x, y), (Shape("fp8e4m3fn", (256, 256)), Shape("fp8e4m3fn", (256, 256)))),
    "integers": (lambda b, x, y: b.dot(x, y), (Shape("int64", (20, 20)), Shape("int64", (20, 20)))),
    "4 bits": (int4, (Shape("float", (32, 1024)),)),
    "4 bits, one row": (int4, (Shape("float", (1, 1024)),)),
    "convolution": (lambda b, x: conv(b, x, 128, 64, 3, 3), (image(4, 64, 28),)),
    "split convolution": (lambda b, x: conv(b, x, 512, 512, 3, 3), (image(1, 512, 7),)),
    "larger images": (
        lambda b, x: conv(
            b, b.resize(x, sizes=(2, 640, 64, 64), coordinate_transformation_mode="asymmetric"), 640, 640, 3, 3
        ),
        (image(2, 640, 32),),
    ),
    "few channels": (lambda b, x: conv(b, x, 64, 3, 7, 7), (image(1, 3, 56),)),
    "depthwise": (lambda b, x: conv(b, x, 96, 1, 3, 3, group=96), (image(1, 96, 28),)),
    "attention": (lambda b, q, k, v: b.attention(q, k, v, causal=True), (heads(1, 12, 384, 64),) * 3),
    "whole heads": (lambda b, q, k, v: b.attention(q, k, v), (heads(32, 12, 128, 64),) * 3),
    "one query": (
        lambda b, q, k, v, new, m: b.attention(q, b.concat(k, new, axis=2), b.concat(v, new, axis=2), m),
        (heads(1, 32, 1, 80), *(heads(1, 8, 4096, 80),) * 2, heads(1, 8, 1, 80), Shape("float", (1, 32, 1, 4097))),
    ),
    "pooling": (
        lambda b, x: [b.pooling(x, mode=m, **w) for m in ("max", "average", "lpnorm") for w in WINDOWS],
        (image(1, 64, 14),),
    ),
    "attention of doubles": (lambda b, q, k, v: b.attention(q, k, v), (heads(1, 2, 64, 64, type="double"),) * 3),
}


ALIKE = ("few rows, split", "one row", "odd", "4 bits, one row", "split convolution", "few channels", "one query")
"""What multiplies tiles as others do, between other loads and stores. Without a GPU it is compiled for one chip."""


def differs(kernel: Kernel, chip: str) -> bool:
    """Whether chips differ in it: it multiplies tiles, on NVIDIA's by tensor cores. The rest is compiled for one."""
    wide = chip.startswith("cuda") and not {"*fp64", "*i64"}.isdisjoint(kernel.arguments)
    return chip == "cuda:90" or ("tl.dot" in kernel.source and not wide)


QUICK = ("rows", "convolution", "attention")
"""Of each kind of kernel one; `make test-all` compiles the others, and those for other chips."""


@pytest.mark.usefixtures("warm_compilers")
@pytest.mark.parametrize(
    ("chip", "names"), few_rows([("cuda:90", QUICK), *((chip, [*FAMILIES]) for chip in KNOWN)], ("cuda:90", QUICK))
)
def test_families_compile(chip: str, names: Sequence[str]) -> None:
    """Each with the configuration that is chosen, side by side."""
    wanted: list[Kernel] = []
    for name in names:
        build, shapes = FAMILIES[name]
        if chip == "cuda:90" or name not in ALIKE:
            wanted += [k for k in kernels_of(build, *shapes, chip=chip) if differs(k, chip)]
    for kernel, binary in binaries(list(dict.fromkeys(wanted)), chip).items():
        assert binary.shared <= KNOWN[chip].shared, f"{kernel.name} {kernel.constants} takes {binary.shared:,} bytes"


@pytest.mark.every_chip
@pytest.mark.parametrize("chip", KNOWN)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_configuration_compiles(family: str, chip: str) -> None:
    build, shapes = FAMILIES[family]
    kernels = kernels_of(build, *shapes, chip=chip, every=True)
    for kernel, binary in binaries(kernels, chip).items():
        assert binary.shared <= KNOWN[chip].shared, f"{kernel.name} {kernel.constants} takes {binary.shared:,} bytes"


@pytest.mark.slow
def test_products_of_tiles_of_192_rows_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """ptxas marks (gsb0) the last product of a step as one that is waited for, and each where none may overlap."""
    monkeypatch.setattr(Choices, "pick", lambda *_: Config("described", 192, 256, 64, 1, 8, 3))
    kernel, *_ = kernels_of(lambda b, x: linear(b, x, 768, 3072), Shape("half", (6304, 768)), chip="cuda:90")
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binaries([kernel], "cuda:90")[kernel].code)
        file.flush()
        text = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True).stdout
    products = [line for line in text.splitlines() if "HGMMA" in line]
    assert 0 < sum("gsb0" in line for line in products) < len(products)


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.py")), ids=lambda p: p.stem)
def test_nothing_follows_a_return(path) -> None:
    """Triton compiles what follows an `if` whose condition is a constant, even where that has returned."""
    for function in (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)):
        for statement in function.body[:-1]:
            found = [n.lineno for n in ast.walk(statement) if isinstance(n, ast.Return)]
            assert not found, f"{path.name}: {function.name} goes on after a return in line {found[0]}"
