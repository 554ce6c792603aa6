"""Products, convolutions, attention and pooling on target gpu against ref: every kernel, tile ends, types, layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import migraphx
from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs import attentions, convolutions
from migraphx.targets.gpu.emit.spatial import Conv, conv_calls
from migraphx.targets.gpu.executable import GpuExecutable
from migraphx.targets.gpu.kernel import GpuCall
from migraphx.targets.gpu.target import GpuTarget
from migraphx.targets.gpu.tune import Tuner
from tests.targets.cpu import test_contractions as on_cpu
from tests.targets.gpu.recorder import Recorder
from tests.targets.gpu.side_by_side import built, check
from tests.tiers import few, few_rows

pytestmark = pytest.mark.usefixtures("everywhere")
RNG = np.random.default_rng(3)
SHARED = [
    on_cpu.test_dots,
    on_cpu.test_convolutions,
    on_cpu.test_convolutions_beside_the_image,
    on_cpu.test_transposed_convolutions_finish_what_follows,
    on_cpu.test_weights_known_at_run_time,
    on_cpu.test_attention,
    on_cpu.test_pooling,
]


@pytest.fixture(autouse=True)
def few_processors(hopper_with: Callable[..., None]) -> None:
    """A device that small problems fill: they come in few large tiles, which the interpreter is quick with."""
    hopper_with(processors=2)


@pytest.mark.parametrize(
    "test", few(SHARED, on_cpu.test_dots, on_cpu.test_attention, on_cpu.test_pooling), ids=lambda test: test.__name__
)
def test_as_on_cpu(test: Callable[..., None], gpu_target: str) -> None:
    test(target=gpu_target)


def weight(*lens: int, type: str = "half") -> np.ndarray:
    return RNG.standard_normal(lens).astype(dtypes.to_numpy(type))


# ---- products -------------------------------------------------------------------------------------------------------


def linear(k: int, n: int, type: str = "half") -> Callable[..., Instruction]:
    """With a bias and a residual, so that the second pass of a split depth has an epilogue."""
    w, bias = weight(n, k, type=type), weight(n, type=type)
    return lambda b, x, z: b.relu(b.add(b.linear(x, b.literal(w), b.literal(bias)), z))


@pytest.mark.parametrize("split", few([1, 3], 3))
@pytest.mark.parametrize("m", [1, 37])
def test_ends_of_tiles(m: int, split: int, always: Callable[..., None]) -> None:
    """Rows, columns and depths that no tile divides, the depth in parts that are not alike."""
    for k, n, type in ((70, 45, "half"), (64, 32, "bf16"), (33, 40, "float")):
        always(Config("product", 16, 32, 32, split))
        check(built(linear(k, n, type), Shape(type, (m, k)), Shape(type, (m, n))), scale=4)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [3, 7])
def test_last_tiles_in_parts(whole: int, always: Callable[..., None]) -> None:
    """Of 3 x 4 tiles some at once, the others in parts that a second pass adds up, with an epilogue in both."""
    for k, type in ((160, "half"), (100, "float")):
        always(Config("product", 16, 16, 16, group=2, whole=whole, tail=3))
        check(built(linear(k, 50, type), Shape(type, (40, k)), Shape(type, (40, 50))), scale=6)


@pytest.mark.parametrize("height", few([16, 48], 48))
@pytest.mark.parametrize("turned", [False, True])
def test_described(turned: bool, height: int, always: Callable[..., None]) -> None:
    """Tiles by tensor descriptors: ends of rows, columns and depth, more tiles than programs, an epilogue."""
    always(Config("described", height, 32, 32, group=2))
    for k, n, type in ((72, 40, "half"), (48, 80, "bf16"), (96, 48, "int8"), (32, 32, "fp8e4m3fn")):
        w = Shape(type, (n, k)) if turned else Shape(type, (k, n))
        turn = (lambda b, w: b.transpose(w, permutation=(1, 0))) if turned else (lambda b, w: w)
        name = "quant_dot" if type == "int8" else "dot"
        made = built(lambda b, x, w, t=turn, o=name: b.abs(getattr(b, o)(x, t(b, w))), Shape(type, (70, k)), w)
        check(made, {"x0": weight(70, k, type=type), "x1": weight(*w.lens, type=type)}, scale=4)


@pytest.mark.parametrize("split", few([1, 2], 2))
@pytest.mark.parametrize("turned", [False, True])
def test_one_row(turned: bool, split: int, always: Callable[..., None]) -> None:
    """Weights that lie along the depth, and along the columns."""
    always(Config("vector", 1, 16, 32, split))
    for k, n, type in ((100, 37, "half"), (64, 32, "float"), (48, 16, "double")):
        w = Shape(type, (n, k)) if turned else Shape(type, (k, n))
        turn = (lambda b, w: b.transpose(w, permutation=(1, 0))) if turned else (lambda b, w: w)
        check(
            built(lambda b, x, w, t=turn: b.exp(b.dot(x, t(b, w))), Shape(type, (1, k)), w),
            {"x0": weight(1, k, type=type) / 9, "x1": weight(*w.lens, type=type) / 9},
            scale=4,
        )


@pytest.mark.parametrize("rows", [1, 3])
def test_sums_of_nothing_are_zeros(rows: int) -> None:
    """Of a product without a depth, and of an attention without keys."""
    check(built(lambda b, x, w: b.exp(b.dot(x, w)), Shape("half", (rows, 0)), Shape("half", (0, 5))))
    q, k = Shape("half", (1, 2, rows, 16)), Shape("half", (1, 2, 0, 16))
    check(built(lambda b, *x: b.attention(*x), q, k, k))


@pytest.mark.parametrize(
    "types", few([("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")], ("uint8", "int8"))
)
@pytest.mark.parametrize("k", [64, 37])
def test_bytes(types: tuple[str, str], k: int) -> None:
    """Sums of 32 bits are exact, whatever the signs; as products and as convolutions."""
    left, right = types
    image = permuted(left, (1, k, 4, 5), (0, 2, 3, 1))
    check(built(lambda b, x, y: b.quant_dot(x, y), Shape(left, (9, k)), Shape(right, (k, 20))))
    check(
        built(lambda b, x, y: b.quant_convolution(x, y, padding=(1, 1)), image, Shape(right, (8, k, 3, 3))),
    )


@pytest.mark.parametrize("type", few(["fp8e4m3fn", "fp8e5m2", "fp8e4m3fnuz"], "fp8e4m3fn"))
def test_fp8(type: str, hopper_with: Callable[..., None]) -> None:
    """On tensor cores that know the type, and as half or float on others."""
    for known in (True, False):
        hopper_with(processors=2, fp8=known)
        x, y = (weight(*lens, type=type) for lens in ((7, 40), (40, 24)))
        check(built(lambda b, x, y: b.dot(x, y), Shape(type, x.shape), Shape(type, y.shape)), {"x0": x, "x1": y})


@pytest.mark.parametrize("type", ["fp8e4m3fn", "fp8e5m2"])
def test_products_of_quantized_halves(type: str) -> None:
    """Halves through fp8: one product of fp8 with its scales, the bias and the next quantization."""
    w, bias, steps = weight(40, 24), weight(24), RNG.uniform(0.01, 0.02, 24).astype(np.float16)

    def through(b: Builder, x: Instruction, scale: np.ndarray) -> Instruction:
        scales = b.broadcast_to(b.literal(scale), x.shape.lens)
        return b.dequantizelinear(b.quantizelinear(x, scales, out_type=type), scales)

    def build(b: Builder, x: Instruction) -> Instruction:
        one = np.array([0.02], np.float16)
        y = b.dot(through(b, x, one), b.broadcast_to(through(b, b.literal(w), steps), (2, 40, 24)))
        return b.relu(b.add(*b.common(y, b.literal(bias))))

    made = check(built(build, Shape("half", (2, 5, 40))))
    assert [s.kernel.split()[0] for s in made.executable.steps] == ["convert", "quant_dot"]


def test_requantized() -> None:
    """int8 in, int8 out: the scales, the bias and the next quantization are the epilogue."""
    w, bias = RNG.integers(-9, 9, (32, 24)).astype(np.int8), RNG.standard_normal(24).astype(np.float32)

    def build(b: Builder, x: Instruction) -> Instruction:
        y = b.convert(b.quant_dot(x, b.literal(w)), target_type="float")
        y = b.add(*b.common(b.mul(y, b.full(0.01, y)), b.literal(bias)))
        y = b.nearbyint(b.min(b.max(y, b.full(-128, y)), b.full(127, y)))
        return b.convert(y, target_type="int8")

    made = check(built(build, Shape("int8", (6, 32))))
    assert [s.kernel.split()[0] for s in made.executable.steps] == ["quant_dot"]


@pytest.mark.parametrize(("block", "zeros"), few_rows([(32, False), (16, True), (24, True)], at=[0]))
@pytest.mark.parametrize("m", [1, 19])
def test_weights_of_4_bits(m: int, block: int, zeros: bool) -> None:
    k, n = 5 * block - (block == 16) * 16 + (block == 24) * 24, 21
    codes = RNG.integers(-128, 128, (k // 2, n)).astype(np.int8)
    scales = RNG.standard_normal((k // block, n)).astype(np.float32)
    more = [RNG.integers(-8, 8, scales.shape).astype(np.int8)] * zeros

    def build(b: Builder, x: Instruction) -> Instruction:
        return b.relu(b.dot_int4(x, *(b.literal(a) for a in (codes, scales, *more))))

    check(built(build, Shape("float", (m, k))), scale=10)


def test_winners_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed once is not timed again, and is used without being asked for; each candidate's answer is right."""
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path))
    timed: list[int] = []

    def last(self: Tuner, calls: Sequence[GpuCall]) -> float:
        timed.append(len(calls))
        return 100.0 - len(timed)

    monkeypatch.setattr(Tuner, "time", last)
    made = built(lambda b, x: b.dot(x, b.literal(weight(48, 40))), Shape("half", (20, 48)))
    check(made, scale=4, exhaustive_tune=True)
    count = len(timed)
    assert count > 1
    again = [check(made, scale=4, exhaustive_tune=tune).executable for tune in (True, False)]
    assert len(timed) == count
    tuned, plain = (e.plan.kernels for e in again if isinstance(e, GpuExecutable))
    assert tuned == plain


@pytest.mark.parametrize(
    ("rows", "shown", "layer"),
    few_rows([(1, False, False), (1, True, False), (2, False, False), (1, False, True)], at=[0]),
)
def test_products_of_one_row_compute_its_norm(rows: int, shown: bool, layer: bool) -> None:
    """Then nobody stores an RMS norm, unless somebody else reads it. Lengths are a power of two, and none."""
    for k in (96, 64):

        def build(b: Builder, x: Instruction, z: Instruction, k: int = k) -> list[Instruction]:
            wide = b.cast(x, "float")
            if layer:
                wide = b.sub(wide, b.broadcast_to(b.reduce_mean(wide, axes=(-1,)), wide.shape.lens))
            spread = b.reduce_mean(b.mul(wide, wide), axes=(-1,))
            norm = b.mul(wide, b.broadcast_to(b.rsqrt(b.add(spread, b.full(1e-5, spread))), wide.shape.lens))
            norm = b.mul(b.cast(norm, "half"), b.broadcast_to(b.literal(weight(k)), norm.shape.lens))
            first = b.gelu(b.linear(norm, b.literal(weight(40, k)), b.literal(weight(40))))
            return [first, b.add(b.linear(norm, b.literal(weight(24, k))), z), *([norm] if shown else [])]

        made = check(built(build, Shape("half", (1, rows, k)), Shape("half", (1, rows, 24))), scale=4)
        names = [s.kernel.split()[0] for s in made.executable.steps]
        assert [n for n in names if n != "dot"] == ["convert"] * (rows > 1 or shown or layer)


@pytest.mark.parametrize("heads", [4, 3])
def test_the_product_behind_puts_parts_of_attention_together(heads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where keys are many they are divided; of one query the product that reads the result adds the parts up itself."""
    monkeypatch.setattr(attentions, "KEY_SPLITS", (2,))
    width = 16

    def build(b: Builder, q: Instruction, k: Instruction, v: Instruction) -> Instruction:
        made = b.transpose(b.attention(q, k, v, scale=0.25), permutation=(0, 2, 1, 3))
        return b.linear(b.reshape(made, dims=(1, 1, heads * width)), b.literal(weight(24, heads * width)))

    shapes = (Shape("half", (1, heads, n, width)) for n in (1, 300, 300))
    made = check(built(build, *shapes), scale=4)
    assert [s.kernel.split()[0] for s in made.executable.steps] == ["attention", "dot"]
    assert {k.name for k in cast(Any, made.executable).plan.kernels} == {"attention_part", "dot"}


# ---- convolutions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["convolution", "flat"])
@pytest.mark.parametrize("split", few([1, 3], 3))
def test_ways_of_a_convolution(kernel: str, split: int, always: Callable[..., None], monkeypatch) -> None:
    """By taps and by taps' channels, in groups, the depth in parts."""
    monkeypatch.setattr(convolutions, "FEW_CHANNELS", 1)
    always(Config(kernel, 16, 16, 32, split))
    channels = 20 if kernel == "convolution" else 3
    for group in (1, 2):
        w = weight(2 * group * 5, channels, 2, 3)

        def build(b: Builder, x: Instruction, z: Instruction, w: np.ndarray = w, g: int = group) -> Instruction:
            y = b.convolution(x, b.literal(w), stride=(2, 1), padding=(1, 0, 0, 2), dilation=(1, 2), group=g)
            return b.relu(b.add(y, z))

        x = permuted("half", (2, channels * group, 7, 6), (0, 2, 3, 1))
        out = permuted("half", (2, 10 * group, 4, 4), (0, 2, 3, 1))
        check(built(build, x, out), scale=4)


@pytest.mark.parametrize("split", few([1, 2], 2))
def test_rows_of_windows(split: int, always: Callable[..., None]) -> None:
    """Few channels: a window's row is one run of memory, which may begin before the image or end behind it."""
    always(Config("rows", 16, 16, 16, split))
    for size, kernel, attributes in (
        ((7, 6), (3, 4), {"stride": (2, 1), "padding": (1, 3, 0, 2), "dilation": (2, 1)}),
        ((5, 4, 6), (2, 1, 3), {"stride": (1, 1, 2), "padding": (1, 0, 1), "dilation": (1, 1, 1)}),
        ((9,), (4,), {"stride": (1,), "padding": (2,), "dilation": (1,)}),
    ):
        w = weight(20, 3, *kernel)
        x = permuted("half", (2, 3, *size), (0, *range(2, 2 + len(size)), 1))
        check(built(lambda b, x, w=w, a=attributes: b.relu(b.convolution(x, b.literal(w), **a)), x), scale=4)


def test_images_of_few_channels_are_read_as_they_came(always: Callable[..., None]) -> None:
    """Planes one behind another; a copy puts channels last where rows do not follow one another."""
    always(Config("flat", 16, 16, 16))
    w = weight(20, 3, 3, 2)

    def build(b: Builder, x: Instruction) -> Instruction:
        return b.relu(b.convolution(x, b.literal(w), stride=(2, 1), padding=(1, 0), dilation=(1, 1)))

    lens = (2, 3, 9, 7)
    turned = Shape("half", lens, (189, 63, 1, 9))
    for shape, first in ((Shape("half", lens), "convolution relu"), (turned, "copy")):
        assert check(built(build, shape), scale=4).executable.steps[0].kernel == first


def test_one_channel_of_bytes() -> None:
    """Which is a depthwise convolution, too."""
    w = (weight(1, 1, 3, 3, type="float") * 40).astype(np.int8)
    x = Shape("int8", (2, 1, 6, 5))
    check(built(lambda b, x: b.quant_convolution(x, b.literal(w), padding=(1, 1)), x))


def test_rows_of_windows_of_bytes(always: Callable[..., None]) -> None:
    """Few 8-bit channels are multiplied as halves, which hold them and their sums exactly."""
    always(Config("rows", 16, 16, 16))
    for left, right in (("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")):
        x, w = permuted(left, (2, 3, 7, 6), (0, 2, 3, 1)), Shape(right, (20, 3, 3, 4))
        check(built(lambda b, x, w: b.quant_convolution(x, w, stride=(2, 1), padding=(1, 2)), x, w))


def test_bytes_whose_sums_floats_do_not_hold() -> None:
    """There, and where numbers have more bits, no such kernel is a candidate."""
    x, w = (View(Buffer("input", 1 << 20), t, lens, strides) for t, lens, strides in (
        ("int8", (1, 3, 64, 64), (12288, 1, 192, 3)), ("int8", (8, 3 * 400, 1), (1200, 1, 1)),
    ))  # fmt: skip
    window = Window.of((64, 64), (45, 45), (20, 20), (1, 1), (1, 1), (0, 0))
    many = Conv(x, w, window, 1)
    few = replace(many, window=Window.of((64, 64), (60, 60), (5, 5), (1, 1), (1, 1), (0, 0)))
    assert (few.short, many.short, replace(few, x=replace(x, type="int16")).short) == (True, False, False)


@pytest.mark.slow
def test_floats_by_thirds(always: Callable[..., None]) -> None:
    """Three products of TF32 are as exact as one of floats; NaN and infinities stay what they are."""
    always(Config("product x3", 64, 32, 32))
    x, w = weight(70, 100, type="float"), weight(33, 100, type="float")
    check(built(lambda b, x: b.gelu(b.linear(x, b.literal(w))), Shape("float", x.shape)), {"x0": x})
    x[3, 5], x[4, 7], x[5, :] = np.nan, np.inf, 1e30
    check(built(lambda b, x: b.linear(x, b.literal(w)), Shape("float", x.shape)), {"x0": x})
    always(Config("convolution x3", 64, 32, 32))
    image, kernel = permuted("float", (2, 20, 9, 9), (0, 2, 3, 1)), weight(24, 20, 3, 3, type="float")
    check(built(lambda b, x: b.convolution(x, b.literal(kernel), padding=(1, 1)), image), scale=4)
    always(Config("attention x3", 64, 32, 16, 1, 4, 2))
    heads = (Shape("float", (1, 2, 70, 16)),) * 3
    check(built(lambda b, q, k, v: b.attention(q, k, v, causal=True), *heads), scale=4)


def test_fast_math_alone_takes_thirds(gpu_target: str) -> None:
    for fast_math in (True, False):
        made = built(lambda b, x, y: b.dot(x, y), Shape("float", (512, 512)), Shape("float", (512, 512)))
        made.compile(migraphx.get_target(gpu_target), fast_math=fast_math)
        executable: Any = made.executable
        product = executable.plan.kernels[0]  # on a chip where the depth is divided another one adds up
        assert ('"thirds", ' in product.source) is fast_math


@pytest.mark.parametrize("constant", [True, False])
def test_patches(constant: bool) -> None:
    """Windows side by side, with pixels left over: a product of rows."""
    for x, w in (((2, 3, 9, 13), (24, 3, 4, 3)), ((2, 2, 7), (5, 2, 3))):
        stride, weights = w[2:], weight(*w)

        def build(b: Builder, x: Instruction, *y: Instruction, s=stride, w=weights) -> Instruction:
            zeros = (0,) * len(s)
            made = b.convolution(x, y[0] if y else b.literal(w), stride=s, padding=zeros, dilation=(1,) * len(s))
            return b.relu(made)

        given = () if constant else (Shape("half", w),)
        made = check(built(build, Shape("half", x), *given), scale=4)
        assert any("patches" in s.kernel or "copy" in s.kernel for s in made.executable.steps)


@pytest.mark.parametrize("group", [1, 2, 6])
@pytest.mark.parametrize("constant", few([True, False], True))
def test_transposed(group: int, constant: bool) -> None:
    """Phases with taps and without, weights known and not; one channel a group is depthwise."""
    w = weight(6, 6 // group if group == 6 else 4, 2, 3, type="float")

    def build(b: Builder, x: Instruction, *y: Instruction) -> Instruction:
        attributes = {"stride": (3, 2), "dilation": (1, 2), "padding": (0, 1), "group": group}
        return b.convolution_backwards(x, y[0] if y else b.literal(w), **attributes)

    x, given = permuted("float", (2, 6, 4, 5), (0, 2, 3, 1)), () if constant else (Shape("float", w.shape),)
    check(built(build, x, *given), scale=10)


STRIDED = {"padding": (2, 1), "stride": (1, 3), "dilation": (2, 2)}
STRIPS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str, Config]] = {
    # {N, C, spatial}, window, attributes, type, configuration
    "wide": ((1, 24, 6, 10), (7, 7), {"padding": (3, 3)}, "half", Config("strips", 4, 32, 8)),
    "ends": ((2, 40, 5, 9), (3, 3), {"padding": (1, 1)}, "float", Config("strips", 8, 32, 4)),
    "strides": ((2, 16, 9, 11), (5, 3), {"padding": (2, 0), "stride": (2, 2)}, "bf16", Config("strips", 4, 16, 7)),
    "dilation": ((1, 16, 9, 13), (3, 3), STRIDED, "half", Config("strips", 4, 16, 4)),
    "a line": ((2, 16, 15), (3,), {"padding": (1,)}, "half", Config("strips", 2, 16, 8)),
}


@pytest.mark.parametrize("case", few(STRIPS, at=[0, 1]))
def test_strips(case: str, always: Callable[..., None]) -> None:
    """Depthwise windows of pixels side by side share what they load: with ends of lines, gaps and an epilogue."""
    lens, window, attributes, type, config = STRIPS[case]
    axes, channels = len(window), lens[1]
    how = {"padding": (0,) * axes, "stride": (1,) * axes, "dilation": (1,) * axes, "group": channels, **attributes}
    w, bias = weight(channels, 1, *window, type=type), weight(channels, type=type)

    def build(b: Builder, x: Instruction) -> Instruction:
        y = b.convolution(x, b.literal(w), **how)
        return b.relu(b.add(y, b.broadcast(b.literal(bias), axis=1, out_lens=y.shape.lens)))

    always(config)
    x = permuted(type, lens, (0, *range(2, len(lens)), 1))
    check(built(build, x), {"x0": weight(*lens, type=type)}, scale=4)


def test_windows_as_rows() -> None:
    x, w = Shape("float", (1, 3, 6, 7)), Shape("float", (4, 3, 3, 2))
    check(built(lambda b, x, w: b.im2col(x, w, padding=(1, 0), stride=(2, 1), dilation=(1, 2)), x, w))


# ---- attention ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("images", "kind"), [(2, "i32"), (4096, "i64")])
def test_where_images_begin_is_counted_in_64_bits(images: int, kind: str) -> None:
    """Of more elements than 32 bits count: as many numbers as there are before an image."""
    x = View(Buffer("input", 0), "half", (images, 3, 512, 512), (3 << 18, 1 << 18, 512, 1))
    w = View(Buffer("weight", 0), "half", (8, 9, 3), (32, 3, 1))
    y = View(Buffer("output", 0), "half", (images, 8, 512, 512), (8 << 18, 1 << 18, 512, 1))
    window = Window.of((512, 512), (512, 512), (3, 3), (1, 1), (1, 1), (1, 1))
    epilogue = Epilogue(None, (None,), y, (0, 2, 3), 1)
    (call,) = conv_calls(Conv(x, w, window, 1), epilogue, Config("flat", 16, 16, 16), None, "convolution", "")
    assert call.kernel is not None
    kinds = call.kernel.kernel.arguments[3:]
    assert {k for k, n in zip(kinds, call.numbers, strict=True) if n == 3} == {kind}


FORMS: dict[str, tuple[tuple[int, ...], int, int, dict[str, object], str]] = {
    # {B, H, Lq, D}, heads of keys, keys, options, mask
    "causal groups": ((1, 6, 21, 24), 2, 21, {"causal": True}, ""),
    "fewer keys than queries": ((1, 2, 21, 16), 2, 9, {"causal": True}, ""),
    "one query": ((2, 8, 1, 16), 2, 150, {}, ""),
    "one query, bool": ((2, 4, 1, 16), 4, 150, {"zero_rows": True}, "bool"),
    "half mask": ((1, 2, 5, 40), 1, 70, {}, "half"),
    "backwards": ((1, 2, 5, 16), 2, 20, {"scale": -0.3}, "float"),
}


@pytest.mark.parametrize("split", few([1, 3], 3))
@pytest.mark.parametrize("form", FORMS)
def test_attention(form: str, split: int, always: Callable[..., None]) -> None:
    """Keys in one pass and in parts; the values of other size than the queries."""
    (batch, heads, queries, size), kv_heads, keys, options, mask = FORMS[form]
    always(Config("attention", 16, 32, 64, split))
    type = "float" if form == "one query" else "half"
    q, k, v = (
        Shape(type, s)
        for s in ((batch, heads, queries, size), (batch, kv_heads, keys, size), (batch, kv_heads, keys, 20))
    )
    shapes = [q, k, v, *([Shape(mask, (batch, heads, queries, keys))] if mask else [])]
    arrays = {f"x{n}": weight(*s.lens, type=s.type) for n, s in enumerate(shapes)}
    if mask == "bool":
        arrays["x3"] = RNG.random(shapes[3].lens) < 0.5
        arrays["x3"][0, 1] = False
    check(built(lambda b, *x: b.attention(*x, **options), *shapes), arrays, scale=4)


@pytest.mark.parametrize(("heads", "mask", "split"), few_rows([(4, "", 3), (2, "half", 3), (2, "bool", 1)], at=[0]))
def test_attention_reads_a_cache_and_new_keys_where_they_lie(
    heads: int, mask: str, split: int, always: Callable[..., None]
) -> None:
    """The last part has the new keys; where others read the joined ones as well, they are joined."""
    always(Config("attention", 16, 32, 16, split))
    lens = [(2, 4, 1, 16), (2, heads, 100, 16), (2, heads, 3, 16), (2, heads, 100, 20), (2, heads, 3, 20)]
    masks = [Shape(mask, (2, 4, 1, 103))] if mask else []
    arrays = {f"x{n}": weight(*s, type="half") for n, s in enumerate(lens)}
    if mask:
        arrays["x5"] = RNG.random(masks[0].lens) < 0.5 if mask == "bool" else weight(*masks[0].lens, type=mask)

    def body(b: Builder, q: Instruction, *x: Instruction) -> Instruction:
        keys, values = b.concat(x[0], x[1], axis=2), b.concat(x[2], x[3], axis=2)
        return b.attention(q, keys, values, *x[4:], zero_rows=True)

    made = check(built(body, *(Shape("half", s) for s in lens), *masks), arrays, scale=4)
    assert all(step.kernel == "attention" for step in made.executable.steps)

    def twice(b: Builder, q: Instruction, *x: Instruction) -> Instruction:
        keys = b.concat(x[0], x[1], axis=2)
        return b.add(b.attention(q, keys, keys, zero_rows=True), b.reduce_sum(keys, axes=[2]))

    if heads == 4:
        check(built(twice, *(Shape("half", s) for s in lens[:3])), scale=16)


@pytest.mark.parametrize(("mask", "lens"), [("bool", (2, 1, 1, 70)), ("half", (1, 4, 1, 70)), ("float", (1, 1, 5, 70))])
def test_masks_of_all_rows_or_heads(mask: str, lens: tuple[int, ...], always: Callable[..., None]) -> None:
    """Two heads share keys, so that rows are those of both."""
    always(Config("attention", 16, 32, 16))
    q, k, whole = Shape("half", (2, 4, 5, 16)), Shape("half", (2, 2, 70, 16)), (2, 4, 5, 70)
    arrays = {f"x{n}": weight(*s.lens, type="half") for n, s in enumerate((q, k, k))}
    arrays["x3"] = RNG.random(lens) < 0.5 if mask == "bool" else weight(*lens, type=mask)

    def body(b: Builder, *x: Instruction) -> Instruction:
        return b.attention(*x[:3], b.broadcast_to(x[3], whole), zero_rows=True)

    check(built(body, q, k, k, Shape(mask, lens)), arrays, scale=4)


def test_tiles_with_masks_leave_registers() -> None:
    """Masks of the steps to come lie in registers, which must not spill."""
    for alike, most in ((True, 32), (False, 16)):
        lens = (1, 12, 1 if alike else 344, 344)

        def body(b: Builder, q: Instruction, k: Instruction, v: Instruction, m: Instruction) -> Instruction:
            return b.attention(q, k, v, b.broadcast_to(m, (1, 12, 344, 344)))

        made = built(body, *[Shape("half", (1, 12, 344, 32))] * 3, Shape("bool", lens))
        made.compile(GpuTarget(Recorder()))
        executable: Any = made.executable
        (kernel,) = (k for k in executable.plan.kernels if k.name == "attention")
        sizes = dict(kernel.constants)
        assert sizes["BM"] * sizes["BN"] <= most * 32 * kernel.warps


@pytest.mark.parametrize("type", ["bf16", "double", "fp8e4m3fn"])
def test_types_of_attention(type: str) -> None:
    lens = (1, 2, 9, 16), (1, 2, 11, 16), (1, 2, 11, 16)
    arrays = {f"x{n}": weight(*s, type=type) for n, s in enumerate(lens)}
    check(built(lambda b, *x: b.attention(*x), *(Shape(type, s) for s in lens)), arrays, scale=4)


# ---- pooling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", few(["int8", "uint64", "bool", "bf16"], "int8", "bf16"))
def test_largest_of_each_type(type: str) -> None:
    x = permuted(type, (1, 5, 6, 7), (0, 2, 3, 1))
    pools = [{"lengths": (3, 2), "stride": (2, 1), "padding": (1, 0)}, {"dyn_global": True}]
    check(built(lambda b, x: [b.pooling(x, mode="max", **p) for p in pools], x))


@pytest.mark.parametrize("type", few(["half", "float"], "half"))
@pytest.mark.parametrize("stride", few([1, 2], 1))
def test_two_products_that_are_added_are_one_kernel(type, stride) -> None:
    """As where a residual block changes its width; but not where what is added is read again."""
    x, wide, narrow = (Shape(type, lens) for lens in ((2, 24, 6, 6), (32, 16, 1, 1), (32, 24, 1, 1)))

    def body(b: Builder, x: Instruction, *weights: Instruction, again: bool = False) -> list[Instruction]:
        first = b.pooling(b.slice(x, axes=[1], starts=[8], ends=[24]), mode="max", lengths=(1, 1), stride=(stride,) * 2)
        first = b.convolution(b.relu(first), weights[0], stride=(1, 1), padding=(0, 0), dilation=(1, 1))
        second = b.convolution(x, weights[1], stride=(stride,) * 2, padding=(0, 0), dilation=(1, 1))
        return [b.relu(b.add(second, first)), *([first] if again else [])]

    for again, fused in ((False, type == "half"), (True, False)):
        made = check(built(partial(body, again=again), x, wide, narrow))
        names = [s.kernel for s in made.executable.steps if s.kernel.startswith("convolution")]
        twice = [k for k in cast(Any, made.executable).plan.kernels if "more = product_sums" in k.source]
        assert ("convolution" not in names, bool(twice)) == (fused, fused), names


def test_products_that_are_results_are_computed() -> None:
    """Also where nobody adds them."""
    x, w = Shape("half", (2, 24, 1, 1)), Shape("half", (32, 24, 1, 1))
    check(built(lambda b, x, w: b.convolution(x, w, stride=(1, 1), padding=(0, 0), dilation=(1, 1)), x, w))
