"""Fused reductions on target gpu against ref, on every device: rows in registers, in passes, and in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.targets.gpu.emit import plans
from migraphx.targets.gpu.executable import GpuExecutable
from tests.targets.gpu.families import kernels
from tests.targets.gpu.side_by_side import built, check
from tests.tiers import few, few_rows

pytestmark = pytest.mark.usefixtures("everywhere")

Body = Callable[..., Instruction]


def softmax(axis: int) -> Body:
    return lambda b, x: b.softmax(x, axis=axis)


def layer_norm(b: Builder, x: Instruction, gamma: Instruction, beta: Instruction) -> Instruction:
    axes, lens = (len(x.shape.lens) - 1,), x.shape.lens
    wide = lambda v: b.multibroadcast(v, out_lens=lens)  # noqa: E731
    centred = b.sub(x, wide(b.reduce_mean(x, axes=axes)))
    variance = b.reduce_mean(b.mul(centred, centred), axes=axes)
    scale = b.rsqrt(b.add(variance, b.full(1e-5, variance)))
    return b.add(b.mul(b.mul(centred, wide(scale)), wide(gamma)), wide(beta))


@pytest.fixture
def way(request, monkeypatch):
    """A way to share out rows, for rows of a few elements."""
    if request.param != "registers":
        monkeypatch.setattr(plans, "REGISTERS", 4)
        monkeypatch.setattr(plans, "HELD", 4)
    in_parts = "parts" in request.param
    monkeypatch.setattr(plans, "PART", 8 if in_parts else 1 << 40)
    chosen = plans.plan

    monkeypatch.setattr(plans, "LONGEST_RUNS", 8)

    def smaller(rows, length, varying, itemsize, rowwise, run=0, narrow=False, vector=0, closed=True, shared=False):
        made = chosen(rows, length, varying, itemsize, rowwise, run, closed=closed)
        parts, width = 4 if in_parts and length > 8 else 1, max(min(made.width, 16), 2 * made.run)
        if made.loop and rowwise and not made.run and request.param == "parts in registers":
            return plans.Plan(1, 1 << (-(-length // parts) - 1).bit_length(), made.warps, False, parts)
        return plans.Plan(min(made.height, 4), width, made.warps, True, parts, made.run) if made.loop else made

    monkeypatch.setattr(plans, "plan", smaller)
    return request.param


def group_norm(b: Builder, x: Instruction, gamma: Instruction, beta: Instruction) -> Instruction:
    """Of images {N, groups, channels of a group, H, W} and factors {groups, channels of a group, 1, 1}."""
    axes, lens = (2, 3, 4), x.shape.lens
    wide = lambda v: b.multibroadcast(v, out_lens=lens)  # noqa: E731
    values = b.convert(x, target_type="float")
    centred = b.sub(values, wide(b.reduce_mean(values, axes=axes)))
    variance = b.reduce_mean(b.mul(centred, centred), axes=axes)
    scale = b.rsqrt(b.add(variance, b.full(1e-5, variance)))
    made = b.convert(b.add(b.mul(b.mul(centred, wide(scale)), wide(gamma)), wide(beta)), target_type="half")
    return b.mul(made, b.sigmoid(made))


def in_groups(groups: int, channels: int, *size: int) -> list[Shape]:
    """Channels-last images in groups of channels, and the factors of a norm."""
    factors = Shape("float", (groups, channels, 1, 1))
    return [permuted("half", (2, groups, channels, *size), (0, 3, 4, 1, 2)), factors, factors]


WAYS = ["registers", "passes", "parts", "parts in registers"]
PLAIN = {
    "uint8 mean", "int64 mean", "int32 max", "uint64 min", "int16 prod", "float prod", "any", "all",
    "bool max", "fp8 sum",
}  # fmt: skip
"""What differs from others by its type or its operator alone: at once, and in parts, each in passes."""
CASES: dict[str, tuple[Body, list[Shape]]] = {
    "softmax": (softmax(1), [Shape("float", (5, 67))]),
    "softmax half": (softmax(2), [Shape("half", (2, 3, 64))]),
    "softmax bf16 outer": (softmax(1), [Shape("bf16", (2, 35, 9))]),
    "softmax double outermost": (softmax(0), [Shape("double", (33, 5))]),
    "layer norm": (layer_norm, [Shape("float", (6, 48)), Shape("float", (48,)), Shape("float", (48,))]),
    "layer norm half": (layer_norm, [Shape("half", (3, 2, 37)), Shape("half", (37,)), Shape("half", (37,))]),
    "group norm": (group_norm, in_groups(3, 10, 4, 5)),
    "group norm of 5": (group_norm, in_groups(2, 5, 3, 3)),
    "group norm of 16": (group_norm, in_groups(2, 16, 2, 4)),
    "sum of two axes": (lambda b, x: b.reduce_sum(x, axes=(1, 3)), [Shape("float", (3, 4, 5, 6))]),
    "sum of channels": (lambda b, x: b.reduce_sum(x, axes=(0, 2, 3)), [Shape("float", (3, 5, 4, 6))]),
    "mean of all": (lambda b, x: b.reduce_mean(b.exp(x), axes=(0, 1)), [Shape("float", (7, 13))]),
    "int8 sum": (lambda b, x: b.reduce_sum(x, axes=(1,)), [Shape("int8", (4, 50))]),
    "uint8 mean": (lambda b, x: b.reduce_mean(x, axes=(1,)), [Shape("uint8", (4, 50))]),
    "int64 mean": (lambda b, x: b.reduce_mean(x, axes=(0,)), [Shape("int64", (40, 3))]),
    "int32 max": (lambda b, x: b.reduce_max(x, axes=(1,)), [Shape("int32", (4, 50))]),
    "uint64 min": (lambda b, x: b.reduce_min(x, axes=(1,)), [Shape("uint64", (4, 50))]),
    "int16 prod": (lambda b, x: b.reduce_prod(x, axes=(1,)), [Shape("int16", (4, 9))]),
    "float prod": (lambda b, x: b.reduce_prod(x, axes=(0,)), [Shape("float", (9, 4))]),
    "any": (lambda b, x: b.reduce_any(b.greater(x, b.full(1, x)), axes=(1,)), [Shape("float", (9, 20))]),
    "all": (lambda b, x: b.reduce_all(b.less(x, b.full(0, x)), axes=(0,)), [Shape("float", (3, 20))]),
    "bool max": (lambda b, x: b.reduce_max(x, axes=(1,)), [Shape("bool", (3, 20))]),
    "fp8 sum": (lambda b, x: b.reduce_sum(x, axes=(1,)), [Shape("fp8e5m2", (3, 20))]),
    "transposed": (lambda b, x: b.softmax(b.transpose(x, permutation=(1, 0)), axis=1), [Shape("float", (20, 6))]),
    "one row": (softmax(1), [Shape("float", (1, 70))]),
    "one element": (softmax(1), [Shape("float", (6, 1))]),
}  # fmt: skip


NAMES_AND_WAYS = [(n, w) for n in CASES for w in (WAYS[::2] if n in PLAIN else WAYS)]
QUICK = [(n, w) for n, w in NAMES_AND_WAYS if w == "registers" or (w == "parts" and n not in PLAIN)]


@pytest.mark.parametrize(("name", "way"), few_rows(NAMES_AND_WAYS, *QUICK), indirect=["way"])
def test_reductions_are_those_of_ref(name, way):
    body, shapes = CASES[name]
    check(built(body, *shapes), scale=np.sqrt(70))


@pytest.mark.parametrize("way", few(WAYS, "parts"), indirect=True)
def test_norms_of_what_lies_far_from_zero(way):
    """The spread is that about the mean, however large that is: parts know their own."""
    shapes = in_groups(3, 10, 4, 5)
    x = np.random.default_rng(5).standard_normal(shapes[0].lens) + np.array([0, 100, -40]).reshape(3, 1, 1, 1)
    x[:, :, :, 2:] += 3
    one, zero = (np.full(shapes[1].lens, v, np.float32) for v in (1, 0))
    check(built(group_norm, *shapes), {"x0": x.astype(np.float16), "x1": one, "x2": zero}, scale=4)


def test_groups_are_held_apart(monkeypatch):
    """A group's channels in each pixel have lanes of their own: nothing is divided by their number."""
    monkeypatch.setattr(plans, "REGISTERS", 64)
    made = check(built(group_norm, *in_groups(3, 10, 16, 16)), scale=10)
    assert isinstance(made.executable, GpuExecutable)
    assert all("% 16)" in k.source for k in made.executable.plan.kernels if k.name == "reduce")


def specials(type: str, lens: tuple[int, ...]) -> np.ndarray:
    """Rows with NaN, infinities and -0."""
    x = np.random.default_rng(3).standard_normal(lens)
    x[0, 3], x[1, 5], x[2, :] = np.nan, np.inf, -np.inf
    x[3, 1], x[3, 2], x[4, :] = np.inf, -np.inf, -0.0
    return x.astype(dtypes.to_numpy(type))


@pytest.mark.parametrize(
    "name",
    few(["softmax", "reduce_max", "reduce_min", "reduce_sum", "reduce_mean", "reduce_prod"], "softmax", "reduce_max"),
)
@pytest.mark.parametrize(("type", "way"), [*(("float", w) for w in WAYS), ("half", "parts")], indirect=["way"])
def test_what_is_no_number_is_kept(name, type, way):
    def body(b: Builder, x: Instruction) -> Instruction:
        return b.softmax(x, axis=1) if name == "softmax" else getattr(b, name)(x, axes=(1,))

    check(built(body, Shape(type, (6, 21))), {"x0": specials(type, (6, 21))}, scale=5)


def norm_of_sum(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    return b.layer_norm(b.add(x, y))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [16, 21])
def test_rows_in_pieces(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 bits, where there are many rows: in registers, and nothing but rows is masked."""
    monkeypatch.setattr(plans, "PROGRAMS", 1)
    for type, length in (("half", 768), ("bf16", 1024)):
        x, own = Shape(type, (rows, length)), Shape(type, (length,))
        for build, shapes in ((layer_norm, (x, own, own)), (softmax(1), (x,)), (norm_of_sum, (x, x))):
            made = check(built(build, *shapes), scale=4)
            (kernel,) = cast(Any, made.executable).plan.kernels
            assert ("COLS", 256) in kernel.constants


@pytest.mark.parametrize("lens", [(1, 1), (3, 1), (1, 3)])
def test_a_row_of_one_element_and_one_row(lens: tuple[int, int]) -> None:
    """Views of one element have no steps; a tile of them is a tile all the same."""
    check(built(softmax(1), Shape("half", lens)))
    check(built(lambda b, x: b.convert(b.softmax(x, axis=1), target_type="int8"), Shape("float", lens)))


def test_nothing_is_reduced_to_what_it_starts_from():
    check(built(lambda b, x: b.reduce_sum(x, axes=(1,)), Shape("float", (3, 0))))
    check(built(lambda b, x: b.reduce_mean(x, axes=(1,)), Shape("float", (3, 0))))
    check(built(lambda b, x: b.reduce_prod(x, axes=(0,)), Shape("int32", (0, 3))))
    check(built(lambda b, x: b.reduce_sum(x, axes=(1,)), Shape("float", (0, 3))))


@pytest.mark.parametrize("kind", ["softmax", "layer norm"])
def test_long_rows_are_read_twice(kind: str) -> None:
    """Both reductions in one pass, the result in another; what is read again stays in the cache."""
    row = Shape("half", (600, 140_000)), *[Shape("half", (140_000,))] * 2
    (kernel,) = kernels((softmax(1), row[:1]) if kind == "softmax" else (layer_norm, row))
    passes = kernel.source.rpartition("def reduce")[2].split("for at in range")[1:]
    assert ["evict_last" in each for each in passes] == [True, False]
    assert ["evict_first" in each for each in passes] == [False, True]


def test_plans_fill_a_gpu():
    """Short rows several a program, longer ones in registers, few long ones in parts."""
    assert plans.plan(65536, 64, 1, 4, True).height == 32
    for rows, length in ((65536, 1024), (16384, 4096), (2048, 16384), (2048, 50257)):
        made = plans.plan(rows, length, 1, 4, True)
        assert (made.height, made.parts, made.loop) == (1, 1, False) and made.width * made.pieces >= length
    assert plans.plan(2048, 4096, 1, 2, True).late and not plans.plan(8, 4096, 1, 2, True).late
    long = plans.plan(2, 1 << 20, 1, 4, True)
    assert (long.parts, long.width, long.loop) == (256, 4096, False)
    assert plans.plan(4096, 151936, 1, 4, True) == plans.Plan(1, 8192, 32, True, 1)
    columns = plans.plan(768, 16384, 1, 4, False)
    assert columns.height == 64 and columns.loop and columns.parts > 8
    assert plans.plan(8 * 56 * 56, 96, 1, 2, False) == plans.Plan(32, 32, 2, pieces=3)
    assert plans.plan(6304, 768, 1, 4, True, narrow=True) == plans.Plan(8, 256, 4, pieces=3)
    assert plans.plan(6304, 768, 2, 4, True, narrow=True) == plans.Plan(4, 256, 4, pieces=3)
    for numbers in ((1000, 768, 1), (6304, 770, 1), (6304, 768, 3), (6304, 1280, 1), (1 << 16, 256, 1)):
        assert plans.plan(*numbers, 4, True, narrow=True) == plans.plan(*numbers, 4, True)


def test_programs_of_long_rows_ask_for_those_behind_them():
    """Halves, as far as registers are left; norms of long floats have more threads."""
    assert (plans.plan(2048, 32000, 1, 2, True).ahead, plans.plan(4096, 16384, 1, 2, True).ahead) == (132, 264)
    rest = ((2048, 50257, 1, 2), (2048, 26000, 2, 2), (2048, 32000, 1, 4), (200, 32000, 1, 2), (16384, 4096, 1, 2))
    assert not any(plans.plan(*numbers, True).ahead for numbers in rest)
    warps = [plans.plan(2048, 50257, 1, itemsize, True, shared=shared).warps for itemsize, shared in
             ((4, True), (4, False), (2, True))]  # fmt: skip
    assert warps == [32, 16, 16]


@pytest.mark.parametrize("length", [40, 41])
@pytest.mark.parametrize("build", ["softmax", "norm"])
def test_rows_asked_for_ahead(monkeypatch, build, length):
    """Also those of the last programs, behind which there are none; with rows that begin between vectors."""

    def smaller(*given):
        vector = given[7]
        return plans.Plan(1, 16, 4, pieces=-(-length // 16), vector=vector, late=True, ahead=3)

    monkeypatch.setattr(plans, "plan", smaller)
    x, w = Shape("half", (7, length)), Shape("half", (length,))
    if build == "softmax":
        check(built(softmax(1), x))
    else:
        check(built(layer_norm, x, w, w))


def test_several_rows_have_no_idle_lanes():
    """As wide as the widest power of two that divides their length."""
    for rows, length, height in ((100352, 96, 32), (25088, 192, 16), (12000, 384, 8), (8192, 1280, 4)):
        made = plans.plan(rows, length, 1, 2, True)
        assert made.height == height and made.width * made.pieces == length and made.warps == 4
    assert plans.plan(16384, 1000, 1, 2, True, vector=8) == plans.Plan(4, 256, 4, pieces=4, vector=8)
    assert plans.plan(100, 96, 1, 2, True).pieces == 1
