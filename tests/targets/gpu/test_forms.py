"""Programs compiled once for many lengths: a new length computes numbers, and compiles nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.api.program import program, published
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.operation import operation
from migraphx.ir.program import Program
from migraphx.ir.shape import DynamicDimension, Shape
from migraphx.ops.dynamic import Converted
from migraphx.passes import fold_norms
from migraphx.targets.common.dynamic import DynamicExecutable, FormSpecialisation
from migraphx.targets.gpu.accelerator import Accelerator, Function
from migraphx.targets.gpu.binaries import Binary
from migraphx.targets.gpu.choices import LIBRARY, Choices, Config
from migraphx.targets.gpu.kernel import Kernel
from migraphx.targets.gpu.libraries import blas
from migraphx.targets.gpu.libraries.blas import Gemm
from migraphx.targets.gpu.library import Unusable
from migraphx.targets.gpu.lower import library as libraries
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.gpu.interpreted import InterpretedDevice
from tests.targets.gpu.recorder import Recorder
from tests.targets.gpu.side_by_side import built
from tests.targets.gpu.test_libraries import NumpyBlas
from tests.tiers import few
from tests.tolerances import assert_close

RNG = np.random.default_rng(8)
B, S = ("batch", 1, 64), ("tokens", 1, 512)
Symbol = tuple[str, int, int]
Parameters = dict[str, tuple[str, list[int | Symbol]]]


def random(parameters: Parameters, lengths: dict[str, int]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for name, (type, dims) in parameters.items():
        lens = [d if isinstance(d, int) else lengths[d[0]] for d in dims]
        integers = RNG.integers(0, 5, lens)
        found[name] = integers if type == "int64" else RNG.standard_normal(lens).astype(Shape(type).numpy_dtype)
    return found


def weight(b: Builder, *lens: int, type: Any = np.float32) -> Instruction:
    return b.literal((np.random.default_rng(sum(lens)).standard_normal(lens) / lens[0] ** 0.5).astype(type))


def heads(b: Builder, x: Instruction) -> Instruction:
    batch, tokens, width = x.shape.lens
    made = b.matmul(x, weight(b, width, width))
    return b.transpose(b.reshape(made, dims=(batch, tokens, 2, width // 2)), permutation=(0, 2, 1, 3))


def encoder(b: Builder, x: Instruction, ids: Instruction) -> list[Instruction]:
    """A layer of a transformer, whose lengths are symbols: products, heads, attention, norms, a gather."""
    lens = x.shape.lens
    x = b.add(x, b.gather(weight(b, 5, lens[2]), ids, axis=0))
    q, k, v = heads(b, x), heads(b, x), heads(b, x)
    products = b.dot(q, b.transpose(k, permutation=(0, 1, 3, 2)))
    scores = b.softmax(b.mul(products, b.full(0.25, products)), axis=3)
    mixed = b.reshape(b.transpose(b.dot(scores, v), permutation=(0, 2, 1, 3)), dims=lens)
    mixed = b.add(x, b.relu(b.matmul(mixed, weight(b, lens[2], lens[2]))))
    centred = b.sub(mixed, b.broadcast_to(b.reduce_mean(mixed, axes=(2,)), lens))
    spread = b.reduce_mean(b.mul(centred, centred), axes=(2,))
    return [b.mul(centred, b.broadcast_to(b.rsqrt(spread), lens)), b.reduce_max(x, axes=(1,))]


def rows(b: Builder, x: Instruction) -> list[Instruction]:
    """Rows as long as a symbol, along which is reduced, moved, cut and joined."""
    turned = b.transpose(x, permutation=(0, 2, 1))
    cut = b.broadcast_to(b.slice(x, axes=(2,), starts=(0,), ends=(1,)), x.shape.lens)
    return [
        b.softmax(x, axis=2), b.reduce_sum(x, axes=(1, 2)), b.tanh(turned), b.concat(x, b.neg(x), axis=2),
        b.add(x, cut), b.dot(x, turned),
    ]  # fmt: skip


def choices(b: Builder, x: Instruction, image: Instruction, at: Instruction, new: Instruction) -> list[Instruction]:
    """What has tiles that suit lengths: rows that are walked along, pooling, updates of some places."""
    return [
        b.argmax(x, axis=1), b.argmax(x, axis=0), b.prefix_scan_sum(x, axis=1, exclusive=False, reverse=False),
        b.pooling(image, mode="max", padding=(1, 1), stride=(2, 2), lengths=(3, 3)), b.scatternd_none(x, at, new),
    ]  # fmt: skip


def positions(b: Builder, x: Instruction) -> list[Instruction]:
    """What is the same for all parts of a table of positions, and what is not."""
    at = b.slice(b.literal(np.arange(512)), axes=(0,), starts=(0,), ends=(x.shape.lens[0],))
    zero, seven = b.full(0, at), b.full(7, at)
    some, all_ = b.less(at, seven), b.logical_or(b.greater(at, zero), b.equal(at, zero))
    wide = b.unsqueeze(b.where(b.less(b.unsqueeze(at, axes=(0,)), b.full(0, b.unsqueeze(at, axes=(0,)))),
                               b.unsqueeze(zero, axes=(0,)), b.unsqueeze(seven, axes=(0,))), axes=(0,))  # fmt: skip
    kept = b.where(b.logical_and(all_, b.greater(x, b.full(0, x))), x, b.full(0, x))
    return [kept, b.where(some, x, b.full(0, x)), b.cast(b.reshape(wide, dims=x.shape.lens), "float")]


def images(b: Builder, x: Instruction, h: Instruction) -> list[Instruction]:
    """Convolutions of each kind, whose batch is a symbol: few channels, strides, groups, single pixels, patches."""
    few = b.relu(b.convolution(x, weight(b, 32, 3, 3, 3), padding=(1, 1), stride=(2, 2)))
    wide = b.convolution(few, weight(b, 16, 32, 1, 1))
    deep = b.add(b.convolution(few, weight(b, 16, 32, 3, 3), padding=(1, 1)), wide)
    apart = b.convolution(deep, weight(b, 16, 1, 3, 3), padding=(1, 1), group=16)
    half = b.convolution(h, weight(b, 8, 16, 3, 3, type=np.float16), group=2)
    return [apart, b.convolution(x, weight(b, 4, 3, 2, 2), stride=(2, 2)), group_norm(b, half, groups=2)]


def group_norm(b: Builder, x: Instruction, groups: int) -> Instruction:
    batch, channels, *size = x.shape.lens
    lens, axes = (batch, groups, channels // groups, *size), (2, 3, 4)
    values = b.cast(b.reshape(x, dims=lens), "float")
    centred = b.sub(values, b.broadcast_to(b.reduce_mean(values, axes=axes), lens))
    spread = b.reduce_mean(b.mul(centred, centred), axes=axes)
    return b.mul(centred, b.broadcast_to(b.rsqrt(b.add(spread, b.full(1e-3, spread))), lens))


def norms(b: Builder, x: Instruction, w: Instruction, scale: Instruction, offset: Instruction) -> list[Instruction]:
    """Batch norms whose weights are inputs, behind a convolution whose are, too."""
    y = b.convolution(x, w, padding=(1, 1))
    wide = [b.broadcast_to(b.reshape(v, dims=(1, 16, 1, 1)), y.shape.lens) for v in (scale, offset)]
    return [b.cast(b.relu(b.cast(b.add(b.mul(b.cast(y, "float"), wide[0]), wide[1]), "half")), "float")]


CASES: dict[str, tuple[Callable[..., Any], Parameters, int]] = {
    "images": (images, {"x0": ("float", [B, 3, 6, 8]), "x1": ("half", [B, 32, 5, 4])}, 3),
    "norms": (
        norms,
        {"x0": ("half", [B, 16, 6, 8]), "x1": ("half", [16, 16, 3, 3]), "x2": ("float", [16]), "x3": ("float", [16])},
        1,
    ),
    "encoder": (encoder, {"x0": ("float", [B, S, 32]), "x1": ("int64", [B, S])}, 2),
    "rows": (rows, {"x0": ("float", [B, 3, S])}, 6),
    "positions": (positions, {"x0": ("float", [S])}, 3),
    "choices": (
        choices,
        {"x0": ("float", [S, B]), "x1": ("float", [B, 2, 4, 4]), "x2": ("int64", [3, 1]), "x3": ("float", [3, B])},
        5,
    ),
}
LENGTHS = [(2, 19), (3, 24), (4, 17), (2, 32), (2, 19)]


def deferred(name: str) -> program:
    """The case for lengths that come."""
    build, parameters, count = CASES[name]

    def expand(context: Any, given: Sequence[Instruction]) -> tuple[Instruction, ...]:
        return tuple(build(Builder(context.module), *given))

    def dimension(d: int | Symbol) -> int | DynamicDimension:
        return d if isinstance(d, int) else DynamicDimension(d[1], d[2], symbol=d[0])

    made = Program()
    inputs = [made.main.add_parameter(n, Shape.of_dims(t, list(map(dimension, d)))) for n, (t, d) in parameters.items()]
    any_lens = Shape.of_dims("float", [DynamicDimension(1, 1024)] * 3)
    whole = made.main.add_instruction(Converted(expand, (any_lens,) * count), inputs)
    parts = [made.main.add_instruction(operation("get_tuple_elem", index=k), [whole]) for k in range(count)]
    made.main.add_return(parts)
    return published(made)


def compiled(name: str, device: Any, **options: Any) -> program:
    made = deferred(name)
    made.compile(GpuTarget(device), **options)
    return made


def region(made: program) -> Any:
    assert isinstance(made.executable, DynamicExecutable)
    return made.executable.region


@pytest.mark.parametrize("name", few(["encoder", "rows", "images", "norms"], "encoder", "norms"))
def test_answers_at_other_lengths(name: str, accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ref's at each; after the first ones no kernel is made and no program lowered."""
    monkeypatch.setattr(fold_norms, "LEAST_ROWS", 1)
    made = compiled(name, accelerator)
    for batch, tokens in LENGTHS:
        given = random(CASES[name][1], {"batch": batch, "tokens": tokens})
        oracle = built(CASES[name][0], *(Shape.of(x) for x in given.values()))
        oracle.compile(migraphx.get_target("ref"))
        for got, want in zip(made.run(given), oracle.run(given), strict=True):
            assert_close(np.asarray(got), np.asarray(want), np.float16 if name == "norms" else None, scale=4)
    improving = region(made).forms.improving
    if improving is not None:
        improving.join()
    assert all(isinstance(s, FormSpecialisation) for s in region(made).specialisations.values())
    assert len(region(made).forms) <= 3


def test_what_is_the_same_for_all_positions_is_known(accelerator: Accelerator) -> None:
    made = compiled("positions", accelerator)
    for tokens in (19, 5, 300):
        given = random(CASES["positions"][1], {"tokens": tokens})
        oracle = built(positions, Shape.of(given["x0"]))
        oracle.compile(migraphx.get_target("ref"))
        for got, want in zip(made.run(given), oracle.run(given), strict=True):
            assert_close(np.asarray(got), np.asarray(want))
        words = " ".join(s.kernel for s in made.executable.steps).split()
        assert "less" in words and not {"logical_or", "logical_and", "equal"} & set(words)


def test_tiles_of_other_lengths_are_right(accelerator: Accelerator) -> None:
    """No call but the first waits for a compilation: how large tiles are only chooses."""
    made = compiled("choices", accelerator)
    for batch, tokens in ((2, 5), (6, 20)):
        given = random(CASES["choices"][1], {"batch": batch, "tokens": tokens})
        given["x2"] = RNG.permutation(5)[:3, None]
        oracle = built(CASES["choices"][0], *(Shape.of(x) for x in given.values()))
        oracle.compile(migraphx.get_target("ref"))
        for got, want in zip(made.run(given), oracle.run(given), strict=True):
            assert_close(np.asarray(got), np.asarray(want), scale=4)
    forms = region(made).forms
    assert forms.waited == 1
    if forms.improving is not None:
        forms.improving.join()


class Counting(Recorder):
    """Counts the kernels that it is asked for and has not seen."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[Kernel] = set()

    def load(self, kernels: Sequence[Kernel], codes: Sequence[Binary] = ()) -> Sequence[Function]:
        self.known |= set(kernels)
        return super().load(kernels, codes)


def test_a_new_length_makes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel, no lowering; one graph, and memory only where the longest so far is passed."""
    device = Counting()
    made = compiled("encoder", device)
    run(made, 2, 100)
    lowered: list[Program] = []
    monkeypatch.setattr(GpuTarget, "form", lambda self, program, *_: lowered.append(program))
    monkeypatch.setattr(GpuTarget, "compile", lambda self, program, *_: lowered.append(program))
    run(made, 2, 127)
    before, kernels, taken = device.memory.bytes, len(device.known), device.taken()
    assert taken
    for tokens in range(65, 120, 7):
        run(made, 2, tokens)
        kinds = [entry[0] for entry in device.taken()]
        assert kinds.count("graph") == 1 and not {"allocate", "pinned"} & {*kinds}
    assert len(device.known) == kernels and not lowered
    assert device.memory.bytes == before
    assert region(made).forms.improving is None


def run(made: program, batch: int, tokens: int) -> None:
    made.run(random(CASES["encoder"][1], {"batch": batch, "tokens": tokens}))


def test_what_is_slow_at_other_lengths_is_compiled_beside() -> None:
    """Where lengths are of another class; it serves meanwhile."""
    made = compiled("encoder", Recorder())
    run(made, 2, 100)
    run(made, 8, 100)
    forms = region(made).forms
    assert forms.improving is not None
    forms.improving.join()
    assert len(forms) == 2


def test_a_library_is_asked_at_each_length(monkeypatch: pytest.MonkeyPatch, accelerator: Accelerator) -> None:
    """Which has for a product of other sizes what it has, perhaps nothing: then that length is compiled by itself."""
    if not isinstance(accelerator, InterpretedDevice):
        pytest.skip("NumPy plays the library")
    library = NumpyBlas()
    least = 24

    def guess(gemm: Gemm) -> Gemm:
        if gemm.sizes[1] < least:
            raise Unusable("nothing")
        return replace(gemm, algorithm="0")

    monkeypatch.setattr(library, "guess", guess, raising=False)
    monkeypatch.setattr(blas, "blas", lambda index: library)
    monkeypatch.setattr(libraries, "LEAST_ROWS", 1)
    monkeypatch.setattr(libraries, "LEAST_FLOPS", 1)
    monkeypatch.setattr(Choices, "winners", lambda self, problem: iter([Config(LIBRARY, 0, 0, 0)]))
    made = compiled("half", accelerator)
    for tokens in (40, 29, 20):
        given = random(CASES["half"][1], {"tokens": tokens})
        want = given["x0"].astype(np.float32) @ np.asarray(HALF, np.float32)
        assert_close(np.asarray(made.run(given)[0]), want.astype(np.float16))
    kinds = [type(s) for s in region(made).specialisations.values()]
    assert kinds.count(FormSpecialisation) == 2 and len(kinds) == 3


HALF = (np.random.default_rng(4).standard_normal((32, 64)) / 6).astype(np.float16)
CASES["half"] = (lambda b, x: [b.dot(x, b.literal(HALF))], {"x0": ("half", [S, 32])}, 1)
