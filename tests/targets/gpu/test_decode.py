"""Products of few rows, whose weights are most of what they read: asked for before a kernel waits for others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape, permuted
from migraphx.passes.manager import run_passes
from migraphx.targets.common.lowering import lower
from migraphx.targets.gpu.choices import Choices, Config
from migraphx.targets.gpu.emit.contract import MOST_ROWS
from migraphx.targets.gpu.emit.emitter import TritonEmitter
from migraphx.targets.gpu.emit.shell import WAITS
from migraphx.targets.gpu.facts import H200
from migraphx.targets.gpu.kernel import Launch
from migraphx.targets.gpu.lower import GPU
from migraphx.targets.gpu.target import PASSES
from tests.targets.gpu.side_by_side import built, check
from tests.tiers import few

RNG = np.random.default_rng(11)
Build = Callable[..., Instruction]


def linear(k: int, n: int, type: str = "half") -> Build:
    w, bias = (RNG.standard_normal(lens).astype(dtypes.to_numpy(type)) for lens in ((k, n), (n,)))
    return lambda b, x, z: b.relu(b.add(*b.common(b.add(b.dot(x, b.literal(w)), z), b.literal(bias))))


def always(monkeypatch: pytest.MonkeyPatch, config: Config) -> None:
    monkeypatch.setattr(Choices, "pick", lambda self, problem, *rest: config)


@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("type", few(["half", "bf16", "float", "double"], "half", "float"))
@pytest.mark.usefixtures("everywhere")
def test_whole_depths_in_a_tile(type: str, split: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Depths that fill a tile and that do not, in one part and in two, the last one shorter; ends of columns."""
    always(monkeypatch, Config("vector", 1, 8, 128, split))
    for k, n in ((128 * split, 37), (100 * split, 16)):
        check(built(linear(k, n, type), Shape(type, (1, k)), Shape(type, (1, n))), scale=4)


@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8")])
@pytest.mark.usefixtures("everywhere")
def test_bytes_of_one_row_are_exact(types: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In one step and in several: sums of 32 bits that floats do not hold."""
    left, right = (int(dtypes.limits(t)[1]) for t in types)
    for width in (512, 64):
        always(monkeypatch, Config("vector", 1, 8, width))
        w = RNG.integers(right - 20, right, (300, 21)).astype(dtypes.to_numpy(types[1]))
        x = RNG.integers(left - 20, left, (1, 300)).astype(dtypes.to_numpy(types[0]))
        check(built(lambda b, x, w=w: b.quant_dot(x, b.literal(w)), Shape(types[0], (1, 300))), {"x0": x})


def calls_of(build: Build, config: Config, *shapes: Shape) -> Sequence[tuple[str, list[bool]]]:
    """The own text of each kernel, and which of its pointers are weights."""
    program = Program()
    given = [program.main.add_parameter(f"x{n}", s) for n, s in enumerate(shapes)]
    program.main.add_return([build(Builder(program.main), *given)])
    run_passes(program, PASSES)
    made = lower(program.main, GPU, TritonEmitter(Choices(H200, measure=lambda problem, configs, build: config)))
    found = []
    for call in made.calls:
        assert isinstance(call.kernel, Launch)
        name, source = call.kernel.kernel.name, call.kernel.kernel.source
        text = source[source.index(f"def {name}(") :].partition(":\n")[2]
        found.append((text, [v.buffer.kind == "weight" for v in call.views]))
    return found


def normed(b: Builder, x: Instruction) -> Instruction:
    """An RMS norm of one row and a product."""
    spread = b.sqrt(b.reduce_mean(b.mul(x, x), axes=(-1,)))
    return b.dot(b.div(*b.common(x, spread)), b.literal(RNG.standard_normal((64, 48)).astype(np.float16)))


def of_bytes(b: Builder, x: Instruction) -> Instruction:
    return b.quant_dot(x, b.literal(RNG.integers(-9, 9, (256, 64), np.int8)))


def of_codes(b: Builder, x: Instruction) -> Instruction:
    codes, scales = RNG.integers(-99, 99, (128, 64), np.int8), RNG.random((8, 64), np.float32)
    return b.dot_int4(x, b.literal(codes), b.literal(scales))


ASKING = {
    "a step": (linear(128, 64), Config("vector", 1, 8, 128), 1, "half"),
    "steps": (linear(256, 64), Config("vector", 1, 8, 64), 1, "half"),
    "parts": (linear(256, 64), Config("vector", 1, 8, 64, 2), 1, "half"),
    "a norm": (normed, Config("vector", 1, 8, 64), 1, "half"),
    "rows": (linear(256, 64), Config("product", 16, 32, 64), 8, "half"),
    "bytes": (of_bytes, Config("product", 16, 32, 64), 1, "int8"),
    "codes": (of_codes, Config("int4 vector", 1, 8, 64), 1, "float"),
    "all codes": (of_codes, Config("int4 vector", 1, 8, 256), 1, "float"),
}


@pytest.mark.parametrize("name", ASKING)
def test_only_weights_are_read_before_a_kernel_waits(name: str) -> None:
    """All else may still be written by the kernels before it."""
    build, config, rows, type = ASKING[name]
    depth = {"a step": 128, "a norm": 64}.get(name, 256)
    more = [Shape(type, (rows, 64))] if build.__code__.co_argcount > 2 else []
    found = calls_of(build, config, Shape(type, (rows, depth)), *more)
    waiting = [(text.split(WAITS)[0], weights) for text, weights in found if WAITS in text]
    assert len(waiting) == 1
    for before, weights in waiting:
        named = {int(n) for n in re.findall(r"\bp(\d+)\b", before)}
        assert named and all(weights[n] for n in named)
        assert "tl.store" not in before and "atomic" not in before


@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("given", [False, True])
def test_weights_of_many_rows_are_asked_for(given: bool, split: int) -> None:
    """Of constants and of parameters, which lie still; not what a kernel computes, for too many rows, or no weights."""
    x, w, weights = Shape("half", (100, 256)), Shape("half", (64, 256)), RNG.standard_normal((64, 256)).astype("e")
    config = Config("product", 16, 32, 64, split)

    def build(b: Builder, x: Instruction, *w: Instruction) -> Instruction:
        return b.dot(x, b.transpose(*w or (b.literal(weights),), permutation=(1, 0)))

    asked = [text for text, _ in calls_of(build, config, x, *[w] * given) if "prefetch_columns(p1," in text]
    assert len(asked) == 1 and asked[0].index("prefetch_columns") < asked[0].index("product_sums")
    none = [
        calls_of(lambda b, x, w: b.dot(x, b.transpose(b.exp(w), permutation=(1, 0))), config, x, w),
        calls_of(lambda b, x: b.dot(x, b.literal(weights.T)), config, Shape("half", (MOST_ROWS + 1, 256))),
        calls_of(build, replace(config, split=1), Shape("half", (100, 0)), Shape("half", (64, 0))),
    ]
    assert not any("prefetch" in text for found in none for text, _ in found)


@pytest.mark.parametrize("channels", [64, 48])
def test_filters_are_asked_for(channels: int) -> None:
    """Where the tiles' depth divides the channels: all that a tile needs follows in memory."""
    w, x = RNG.standard_normal((32, channels, 3, 3)).astype("e"), permuted("half", (1, channels, 9, 9), (0, 2, 3, 1))
    config = Config("convolution", 16, 32, 32, 2)

    def build(b: Builder, x: Instruction) -> Instruction:
        return b.convolution(x, b.literal(w), stride=(1, 1), padding=(1, 1), dilation=(1, 1))

    asked = [text for text, _ in calls_of(build, config, x) if "prefetch_columns(p1, " in text]
    assert len(asked) == (channels == 64)


def test_weights_that_may_change_are_not_read_ahead() -> None:
    """A parameter may be what the kernel before computed."""
    shapes = Shape("half", (1, 128)), Shape("half", (128, 64))
    for text, _ in calls_of(lambda b, x, w: b.dot(b.exp(x), b.exp(w)), Config("vector", 1, 64, 16), *shapes):
        assert WAITS not in text


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.usefixtures("everywhere")
def test_a_gate_is_computed_where_it_is_read(shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one row behind its norm; not where somebody else reads it, too. Depths that fill a tile, and that do not."""
    always(monkeypatch, Config("vector", 1, 8, 64))
    for k in (64, 96):
        gate, up, scale = (RNG.standard_normal(lens).astype(np.float16) for lens in ((k, 40), (k, 40), (k,)))

        def build(b: Builder, x: Instruction, ws: Sequence[np.ndarray] = (gate, up, scale)) -> list[Instruction]:
            spread = b.sqrt(b.reduce_mean(b.mul(x, x), axes=(-1,)))
            norm = b.mul(*b.common(b.div(*b.common(x, spread)), b.literal(ws[2])))
            first, second = (b.dot(norm, b.literal(w)) for w in ws[:2])
            return [b.mul(b.mul(b.sigmoid(first), first), second), *([b.neg(first)] if shown else [])]

        steps = [s.kernel for s in check(built(build, Shape("half", (1, k))), scale=8).executable.steps]
        assert [s for s in steps if "dot" in s] == [*["dot"] * shown, "dot sigmoid mul mul"]
