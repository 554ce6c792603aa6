"""Pointwise kernels and copies of target gpu against ref, on every device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu.emit import tiles
from migraphx.targets.gpu.emit.pointwise import copy_call
from tests.targets.gpu.interpreter import load
from tests.targets.gpu.side_by_side import built, check
from tests.tiers import few

pytestmark = pytest.mark.usefixtures("everywhere")


@pytest.fixture(params=["small", "large"])
def tile(request, monkeypatch):
    """Tiles as for small tensors, and as for large ones, of which these are one tile."""
    if request.param == "large":
        monkeypatch.setattr(tiles, "PROGRAMS", 1)


SHAPES = [(1,), (7,), (256,), (1000,), (3, 5), (33, 40), (2, 1, 70), (2, 3, 4, 5)]


@pytest.mark.parametrize("lens", SHAPES)
def test_bodies_of_every_size(lens, tile):
    made = built(lambda b, x, y: b.add(b.mul(x, y), b.tanh(x)), Shape("float", lens), Shape("float", lens))
    check(made)


@pytest.mark.parametrize("type", few(sorted(dtypes.COMPUTED), "float", "half", "bf16", "int8", "int64", "bool"))
def test_every_type(type):
    made = built(lambda b, x, y: b.max(x, y), Shape(type, (5, 9)), Shape(type, (5, 9)))
    check(made)
    if type != "bool":
        check(built(lambda b, x: b.add(x, b.full(1, x)), Shape(type, (5, 9))))
    check(built(lambda b, x: b.cast(x, "float"), Shape(type, (45,))))


def test_broadcast_operands(tile):
    def body(b, x, row, column, scalar):
        wide = [b.multibroadcast(v, out_lens=(6, 40)) for v in (row, column, scalar)]
        return b.add(b.mul(x, wide[0]), b.sub(wide[1], wide[2]))

    shapes = [Shape("half", lens) for lens in ((6, 40), (40,), (6, 1), (1,))]
    check(built(body, *shapes))
    lens = (2, 3, 5, 7)
    check(
        built(
            lambda b, x, y: b.add(x, b.broadcast(y, axis=1, out_lens=lens)), Shape("float", lens), Shape("float", (3,))
        )
    )


@pytest.mark.parametrize("order", few([(1, 0, 2), (2, 1, 0), (0, 2, 1), (2, 0, 1)], (2, 1, 0), (0, 2, 1)))
@pytest.mark.parametrize("type", ["half", "double", "fp4x2"])
def test_transposing(order, type):
    if type == "fp4x2":
        copied(Shape(type, (6, 20, 35)).lens, type, lambda v: v.transposed(order))
        return
    check(built(lambda b, x: b.relu(b.transpose(x, permutation=order)), Shape(type, (6, 20, 35))))
    check(built(lambda b, x: b.contiguous(b.transpose(x, permutation=order)), Shape(type, (6, 20, 35))))


def copied(lens, type, seen):
    """Copy a view of a buffer that begins anywhere, and compare."""
    dtype = dtypes.to_numpy(type)
    raw = np.random.default_rng(0).integers(0, 255, int(np.prod(lens)) * dtype.itemsize + 8 * dtype.itemsize, np.uint8)
    shape = Shape(type, lens)
    view = seen(View(Buffer("input", raw.nbytes), type, lens, shape.strides, 3))
    out = np.zeros(max(view.elements, 1) * dtype.itemsize, np.uint8)
    write = View(Buffer("output", out.nbytes), type, view.lens, Shape(type, view.lens).strides)
    call = copy_call(view, write)
    launch = call.kernel
    assert launch is not None
    kernel = launch.kernel
    assert 0 not in kernel.divisible or view.byte_offset % 16 == 0
    loose = replace(kernel, divisible=tuple(d for d in kernel.divisible if d > 1))  # NumPy's memory begins anywhere
    pointers = [raw.ctypes.data + view.byte_offset, out.ctypes.data]
    load(loose).run(launch.grid, [*pointers, *call.numbers])
    strides = tuple(s * dtype.itemsize for s in view.strides)
    bits = np.dtype(f"u{dtype.itemsize}")
    want = np.ndarray(view.lens, bits, raw.data, view.byte_offset, strides)
    np.testing.assert_array_equal(out.view(bits)[: view.elements].reshape(view.lens), want)


@pytest.mark.parametrize("type", ["uint8", "bf16", "float", "int64"])
def test_views_that_begin_anywhere_and_go_backwards(type):
    copied((9, 30), type, lambda v: v)
    copied((9, 30), type, lambda v: v.reversed(1))
    copied((9, 30), type, lambda v: v.reversed(0).sliced(1, 3, 29, 2))
    copied((9, 30), type, lambda v: v.sliced(1, 4, 20).expanded((2, 9, 16)))
    copied((4, 5, 6), type, lambda v: v.reversed(2).transposed((2, 0, 1)))


def test_slices_reverses_pads_and_concats(tile):
    def body(b, x, y):
        part = b.slice(x, axes=(1,), starts=(3,), ends=(17,))
        back = b.reverse(part, axes=(0, 1))
        padded = b.pad(back, pads=(1, 2, 0, 3), value=1.5)
        return [b.concat(padded, y, axis=0), b.neg(back)]

    check(built(body, Shape("float", (4, 20)), Shape("float", (2, 19))))
    check(built(lambda b, x: b.pad(x, pads=(2, 3, 1, 2), mode="reflect"), Shape("half", (5, 6))))


def test_nothing_is_computed_for_empty_tensors():
    check(built(lambda b, x: b.relu(x), Shape("float", (3, 0, 4))))


def copied_by(read, write):
    """The kernel of a copy."""
    launch = copy_call(read, write).kernel
    assert launch is not None
    return launch.kernel


def test_offsets_beyond_32_bits():
    view = View(Buffer("arena", 1), "half", (1 << 16, 1 << 16), (1 << 16, 1))
    other = View(Buffer("arena", 1), "half", (1 << 16, 1 << 16), (1, 1 << 16))
    for a, b in ((view, view), (view, other)):
        kernel = copied_by(a, b)
        assert set(kernel.arguments[2:]) == {"i64"} and ".to(tl.int64)" in kernel.source
    small = View(Buffer("arena", 1), "half", (1 << 10, 1 << 16), (1 << 16, 1))
    assert set(copied_by(small, small).arguments[2:]) == {"i32"}


def test_lengths_share_a_kernel():
    """Calls that differ in sizes alone have one text."""

    def kernel(n):
        view = View(Buffer("arena", 1), "float", (n, 48), (96, 1))
        whole = View(Buffer("arena", 1), "float", (n, 48), (48, 1))
        return copied_by(view, whole)

    assert len({kernel(n) for n in (900, 1000, 1100, 1250)}) == 1


def test_kernels_of_64_bit_offsets(monkeypatch):
    """As for tensors of 2^31 elements, on small ones."""
    monkeypatch.setattr(tiles, "WIDE", 1)
    check(built(lambda b, x: b.tanh(x), Shape("float", (1001,))))
    check(built(lambda b, x: b.relu(b.transpose(x, permutation=(2, 1, 0))), Shape("half", (6, 20, 35))))
    check(built(lambda b, x: b.softmax(x, axis=1), Shape("half", (6, 350))), scale=10)
    check(built(lambda b, x: b.reduce_sum(x, axes=(0,)), Shape("float", (600, 35))), scale=10)
    check(built(lambda b, x: b.resize(x, sizes=(1, 2, 9, 4), mode="linear"), Shape("float", (1, 2, 5, 6))))


@pytest.mark.parametrize("turned", [False, True])
def test_rotary_positions_are_one_kernel(turned: bool) -> None:
    """Halves exchanged, one negated, of queries as heads and as a linear layer gives them; and what only looks so."""

    def rotated(b: Builder, x: Instruction, cos: Instruction, sin: Instruction, right: bool = True) -> Instruction:
        x = b.transpose(x, permutation=(0, 2, 1, 3)) if turned else x
        first, second = (b.slice(x, axes=[3], starts=[s], ends=[s + 8]) for s in (0, 8))
        whole = b.concat(b.neg(second if right else first), first if right else second, axis=3)
        wide = [b.multibroadcast(t, out_lens=x.shape.lens) for t in (cos, sin)]
        y = b.add(b.mul(x, wide[0]), b.mul(whole, wide[1]))
        return b.reduce_sum(y, axes=(3,))

    shapes = (Shape("half", (2, 3, 5, 16)), Shape("half", (16,)), Shape("half", (1, 16)))
    steps = check(built(rotated, *shapes)).executable.steps
    assert [s.kernel.count("neg") for s in steps] == [1, 0]
    check(built(lambda b, *x: rotated(b, *x, right=False), *shapes))


@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize("type", ["int8", "uint8"])
def test_numbers_are_rounded_as_they_become_codes(type: str, rectified: bool) -> None:
    """Ties go to even numbers, and what is too large, or infinite, to the nearest code; also where none is negative."""
    near = [n + f for n in (-130, -129, -3, -2, -1, 0, 1, 2, 126, 127, 254, 255) for f in (0, 0.25, 0.5, 0.75)]
    x = np.array([*near, 4e6 + 0.5, 1e9, -1e9, 3e38, np.inf, -np.inf, -0.0, 1e-30], np.float32)

    def body(b: Builder, x: Instruction) -> Instruction:
        return b.quantizelinear(b.relu(x) if rectified else x, b.full(1.0, x), out_type=type)

    made = check(built(body, Shape("float", x.shape)), {"x0": x})
    assert any("nearest(" in k.source for k in cast(Any, made.executable).plan.kernels)


@pytest.mark.parametrize("type", ["int8", "uint8"])
def test_every_byte_becomes_the_float_that_it_is(type: str) -> None:
    x = np.arange(256).astype(np.uint8).view(type)
    made = check(built(lambda b, x: b.convert(x, target_type="float"), Shape(type, x.shape)), {"x0": x})
    np.testing.assert_array_equal(np.asarray(made.run({"x0": x})[0]), x)


@pytest.mark.parametrize("wide", [False, True])
def test_what_is_clamped_saturates_as_it_becomes_fp8(wide: bool) -> None:
    """At the type's largest numbers; bounds beyond them leave NaN of what is larger, as the conversion does."""
    x = np.array([447, 448, 449, 463, 464, 465, 480, 1e9, -449, -464, -470, np.inf, -np.inf, np.nan, 0.3], np.float32)
    limit = 512.0 if wide else 448.0

    def body(b: Builder, x: Instruction) -> Instruction:
        clamped = b.min(b.max(b.mul(x, b.full(1.0, x)), b.full(-limit, x)), b.full(limit, x))
        return b.convert(clamped, target_type="fp8e4m3fn")

    made = check(built(body, Shape("float", x.shape)), {"x0": x})
    kernels = cast(Any, made.executable).plan.kernels
    assert any("saturated_e4m3(v" in k.source for k in kernels) != wide


def test_a_clamp_between_two_values_is_none() -> None:
    def body(b: Builder, x: Instruction, y: Instruction) -> Instruction:
        clamped = b.min(b.max(b.max(x, y), b.full(-448.0, x)), b.full(448.0, x))
        return b.convert(clamped, target_type="fp8e4m3fn")

    check(built(body, Shape("float", (40,)), Shape("float", (40,))))
