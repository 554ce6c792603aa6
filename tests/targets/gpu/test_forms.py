"""Programs compiled once for many lengths: a new length computes numbers, and compiles nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.api.module import instruction_ref
from migraphx.api.program import program
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.targets.common.dynamic import DynamicExecutable, FormSpecialisation
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.gpu.side_by_side import built
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


CASES: dict[str, tuple[Callable[..., Any], Parameters, int]] = {
    "encoder": (encoder, {"x0": ("float", [B, S, 32]), "x1": ("int64", [B, S])}, 2),
    "rows": (rows, {"x0": ("float", [B, 3, S])}, 6),
}
LENGTHS = [(2, 19), (3, 24), (4, 17), (2, 32), (2, 19)]


def deferred(name: str) -> program:
    """The case for lengths that come."""
    build, parameters, count = CASES[name]

    def convert(main: Any, given: Sequence[Any]) -> list[Any]:
        made = build(Builder(main._impl), *(x._impl for x in given))
        return [instruction_ref(i) for i in made]

    several = [migraphx.shape.dynamic_dimension(1, 1024)] * 3
    return migraphx.deferred_program(parameters, convert, [migraphx.shape(type="float", dyn_dims=several)] * count)


def compiled(name: str, device: Any, **options: bool) -> program:
    made = deferred(name)
    made.compile(GpuTarget(device), **options)
    return made


def region(made: program) -> Any:
    assert isinstance(made.executable, DynamicExecutable)
    return made.executable.region


@pytest.mark.parametrize("name", ["encoder", "rows"])
def test_answers_at_other_lengths(name: str, accelerator: Accelerator) -> None:
    """As ref's at each; after the first ones no kernel is made and no program lowered."""
    made = compiled(name, accelerator)
    for batch, tokens in LENGTHS:
        given = random(CASES[name][1], {"batch": batch, "tokens": tokens})
        oracle = built(CASES[name][0], *(Shape.of(x) for x in given.values()))
        oracle.compile(migraphx.get_target("ref"))
        for got, want in zip(made.run(given), oracle.run(given), strict=True):
            assert_close(np.asarray(got), np.asarray(want), scale=4)
    improving = region(made).forms.improving
    if improving is not None:
        improving.join()
    assert all(isinstance(s, FormSpecialisation) for s in region(made).specialisations.values())
    assert len(region(made).forms) <= 3
