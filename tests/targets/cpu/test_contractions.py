"""Dots, convolutions and attention with their epilogues on cpu against ref."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import DTypeLike

import migraphx
from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape, permuted
from migraphx.runtime.options import CompileOptions
from migraphx.targets.cpu.target import translate
from migraphx.targets.cpu.toolchain import Features
from tests.targets.cpu.side_by_side import Case, check
from tests.tiers import few
from tests.tolerances import assert_close

RNG = np.random.default_rng(7)
pytestmark = pytest.mark.usefixtures("portable")


def shape(*lens: int, type: str = "float") -> Shape:
    return Shape(type, lens)


def weight(*lens: int, type: DTypeLike = np.float32) -> np.ndarray:
    return RNG.standard_normal(lens).astype(type)


def swap(b, x):
    rank = len(x.shape.lens)
    return b.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


def batched(b, x):
    """x times one matrix for all batches."""
    w = b.literal(weight(24, 40))
    return b.dot(x, b.multibroadcast(w, out_lens=(*x.shape.lens[:-2], 24, 40)))


@pytest.mark.parametrize("type", few(["half", "bf16"], "half"))
def test_narrow_weights(type: str) -> None:
    """Few rows and many, depths and channels of odd length, groups, padding; NaN stays where it is."""
    of = dtypes.to_numpy(type)
    dots = ((1, 64, 70), (33, 101, 45), (130, 300, 100), (70, 64, 33))
    convs = ((3, 20, 15, 7, 2, 3, 1), (64, 40, 12, 3, 1, 1, 1), (33, 20, 9, 3, 1, 1, 1), (32, 8, 9, 1, 1, 0, 4))
    cases = [
        Case(
            f"dot{m}",
            lambda b, x, k=k, n=n: b.relu(b.dot(x, b.literal(weight(k, n, type=of)))),
            (shape(m, k, type=type),),
            sparse=m == 70,
        )
        for m, k, n in dots
    ]
    cases += [
        Case(
            f"conv{c}",
            lambda b, x, c=c, o=o, k=k, s=s, p=p, g=g: b.convolution(
                x, b.literal(weight(o, c // g, k, k, type=of)), stride=(s, s), padding=(p, p), group=g
            ),
            (shape(2, c, size, size, type=type),),
        )
        for c, o, size, k, s, p, g in convs
    ]
    check(cases)


def dots() -> list[Case]:
    cases = [
        Case("weights", lambda b, x: b.dot(x, b.literal(weight(24, 40))), (shape(7, 24),)),
        Case("vector", lambda b, x: b.dot(x, b.literal(weight(24, 40))), (shape(1, 24),)),
        Case("batched", batched, (shape(2, 3, 7, 24),)),
        Case("both", lambda b, x, y: b.dot(x, y), (shape(2, 3, 7, 24), shape(2, 3, 24, 11))),
        Case("transposed", lambda b, x, y: b.dot(x, swap(b, y)), (shape(2, 7, 24), shape(2, 11, 24))),
        Case("no batch", batched, (shape(0, 7, 24),)),
        *(
            Case(
                f"no depth {type}",
                lambda b, x, t=type: b.dot(swap(b, x), b.literal(weight(0, 40, type=dtypes.to_numpy(t)))),
                (shape(0, 7, type=type),),
            )
            for type in ("float", "half", "bf16")
        ),
        Case(
            "batches that do not merge",
            lambda b, x, y: b.dot(x, b.multibroadcast(y, out_lens=[2, 2, 2, 2, 2, 4, 3])),
            (shape(2, 2, 2, 2, 2, 5, 4), shape(1, 2, 1, 2, 1, 4, 3)),
        ),
        Case("left", lambda b, x, y: b.dot(swap(b, x), y), (shape(2, 24, 7), shape(2, 24, 11))),
        Case(
            "linear",
            lambda b, x: b.relu(b.linear(x, b.literal(weight(40, 24)), b.literal(weight(40)))),
            (shape(5, 24),),
        ),
        Case("residual", lambda b, x, y: b.gelu(b.add(batched(b, x), y)), (shape(2, 7, 24), shape(2, 7, 40))),
        Case(
            "column_bias",
            lambda b, x, y: b.mul(*b.common(b.dot(x, b.literal(weight(24, 40))), y)),
            (shape(7, 24), shape(7, 1)),
        ),
        Case("odd_bias", lambda b, x, y: b.add(*b.common(batched(b, x), y)), (shape(2, 3, 7, 24), shape(2, 1, 7, 40))),
        Case(
            "double",
            lambda b, x: b.dot(x, b.literal(weight(24, 40, type=np.float64))),
            (shape(7, 24, type="double"),),
            10,
        ),
        Case("half", lambda b, x, y: b.relu(b.dot(x, y)), (shape(7, 24, type="half"), shape(24, 40, type="half"))),
        Case("bf16", lambda b, x, y: b.dot(x, y), (shape(7, 24, type="bf16"), shape(24, 40, type="bf16"))),
        *(
            Case(type, lambda b, x, y: b.relu(b.dot(x, y)), (shape(5, 9, type=type), shape(9, 7, type=type)), high=100)
            for type in ("int8", "uint16", "uint32", "int64", "uint64")
        ),
        Case(
            "two_uses",
            lambda b, x: (lambda d: [b.relu(d), b.tanh(d)])(b.dot(x, b.literal(weight(24, 40)))),
            (shape(7, 24),),
        ),
        Case(
            "gated",
            lambda b, x: b.mul(b.silu(b.dot(x, b.literal(weight(24, 40)))), b.dot(x, b.literal(weight(24, 40)))),
            (shape(7, 24),),
            4,
        ),
    ]
    return [Case(c.name, c.build, c.inputs, max(c.scale, 5)) for c in cases]


def test_some_dots() -> None:
    """The first, which are the most common."""
    check(dots()[:8])


@pytest.mark.slow
def test_dots(target: str = "cpu") -> None:
    check(dots(), target=target)


def conv(b, x, w, bias=False, **attributes):
    rank = w.ndim - 2
    same = {"stride": (1,) * rank, "dilation": (1,) * rank, "padding": (0,) * rank} | attributes
    y = b.convolution(x, b.literal(w), **same)
    return b.add(y, b.broadcast(b.literal(weight(w.shape[0])), axis=1, out_lens=y.shape.lens)) if bias else y


def convolutions() -> list[Case]:
    cases = [
        Case("pointwise", lambda b, x: b.relu(conv(b, x, weight(21, 8, 1, 1), True)), (shape(2, 8, 5, 6),)),
        Case("3x3", lambda b, x: b.relu(conv(b, x, weight(21, 8, 3, 3), True, padding=(1, 1))), (shape(2, 8, 9, 6),)),
        Case(
            "strided",
            lambda b, x: conv(b, x, weight(40, 3, 7, 7), stride=(2, 2), padding=(3, 3)),
            (shape(1, 3, 23, 25),),
        ),
        Case(
            "dilated",
            lambda b, x: conv(b, x, weight(6, 8, 3, 3), dilation=(2, 3), padding=(2, 1)),
            (shape(1, 8, 12, 13),),
        ),
        Case("uneven_pads", lambda b, x: conv(b, x, weight(6, 8, 2, 3), padding=(0, 1, 1, 2)), (shape(1, 8, 7, 8),)),
        Case("grouped", lambda b, x: conv(b, x, weight(20, 4, 3, 3), group=5, padding=(1, 1)), (shape(2, 20, 7, 9),)),
        Case(
            "depthwise",
            lambda b, x: b.relu(conv(b, x, weight(37, 1, 3, 3), True, group=37, padding=(1, 1))),
            (shape(2, 37, 7, 9),),
        ),
        Case(
            "depthwise_strided",
            lambda b, x: conv(b, x, weight(8, 1, 5, 5), group=8, padding=(2, 2), stride=(2, 2)),
            (shape(1, 8, 11, 9),),
        ),
        Case(
            "multiplier", lambda b, x: conv(b, x, weight(16, 1, 3, 3), group=8, padding=(1, 1)), (shape(1, 8, 11, 9),)
        ),
        Case("1d", lambda b, x: conv(b, x, weight(6, 8, 3), padding=(1,)), (shape(2, 8, 20),)),
        Case("3d", lambda b, x: conv(b, x, weight(6, 8, 3, 2, 3), padding=(1, 0, 1)), (shape(1, 8, 5, 6, 7),)),
        Case(
            "channels_last",
            lambda b, x: conv(b, x, weight(6, 8, 3, 3)),
            (permuted("float", (2, 8, 9, 6), (0, 2, 3, 1)),),
        ),
        Case(
            "residual",
            lambda b, x, y: b.relu(b.add(conv(b, x, weight(21, 8, 3, 3), True, padding=(1, 1)), y)),
            (shape(2, 8, 5, 6), shape(2, 21, 5, 6)),
        ),
        Case(
            "scaled",
            lambda b, x, y: b.mul(*b.common(conv(b, x, weight(21, 8, 1, 1)), y)),
            (shape(2, 8, 5, 6), shape(2, 21, 1, 1)),
        ),
        Case(
            "chain",
            lambda b, x: conv(b, b.relu(conv(b, x, weight(9, 8, 3, 3), True, padding=(1, 1))), weight(5, 9, 3, 3)),
            (shape(2, 8, 9, 6),),
        ),
        Case("dense_block", dense_block, (shape(1, 8, 6, 6),)),
        Case("half", lambda b, x: conv(b, x, weight(6, 8, 3, 3, type=np.float16)), (shape(1, 8, 7, 8, type="half"),)),
        Case("3x3_deep", lambda b, x: conv(b, x, weight(64, 64, 3, 3), True, padding=(1, 1)), (shape(1, 64, 7, 14),)),
        Case("3x3_wide", lambda b, x: conv(b, x, weight(16, 16, 3, 3), padding=(1, 1)), (shape(1, 16, 15, 14),)),
    ]
    return [Case(c.name, c.build, c.inputs, 10) for c in cases]


def test_some_convolutions() -> None:
    """The first, which are the most common."""
    check(convolutions()[:6])


@pytest.mark.slow
def test_convolutions(target: str = "cpu") -> None:
    check(convolutions(), target=target)


@pytest.mark.slow
def test_convolutions_beside_the_image(target: str = "cpu") -> None:
    """Many taps lie outside the image, some of them always or for a whole tile; frames by Winograd's products."""
    cases = [
        Case(
            "wide_and_deep",
            lambda b, x: b.relu(conv(b, x, weight(64, 960, 3, 3), True, padding=(12, 12), dilation=(12, 12))),
            (shape(1, 960, 14, 14),),
        ),
        Case(
            "wide_dilation",
            lambda b, x: b.relu(conv(b, x, weight(64, 300, 3, 3), True, padding=(6, 6), dilation=(6, 6))),
            (shape(1, 300, 9, 13),),
        ),
        Case(
            "frames",
            lambda b, x: conv(b, x, weight(18, 20, 3, 3, 3), True, padding=(1, 1, 1)),
            (shape(2, 20, 4, 9, 9),),
        ),
        Case(
            "one_frame",
            lambda b, x: b.relu(conv(b, x, weight(20, 16, 3, 3, 3), True, padding=(1, 1, 1))),
            (shape(1, 16, 1, 14, 14),),
        ),
    ]
    check([Case(c.name, c.build, c.inputs, 10) for c in cases], target=target)


@pytest.mark.slow
def test_convolutions_of_pictures() -> None:
    """Few channels, which are read as planes; where something else reads them, too, that gets what it wants."""
    cases = [
        Case(
            "picture", lambda b, x: b.silu(conv(b, x, weight(24, 3, 3, 3), True, stride=(2, 2))), (shape(2, 3, 9, 21),)
        ),
        Case("picture_dilated", lambda b, x: conv(b, x, weight(8, 3, 3, 3), dilation=(2, 1)), (shape(1, 3, 9, 8),)),
        Case("picture_of_another", lambda b, x: conv(b, b.neg(x), weight(8, 3, 2, 2)), (shape(1, 3, 9, 8),)),
        Case("picture_of_no_channels", lambda b, x: conv(b, x, weight(4, 0, 3, 3), True), (shape(1, 0, 9, 8),)),
        Case("patches", lambda b, x: conv(b, x, weight(40, 4, 4, 4), True, stride=(4, 4)), (shape(1, 4, 16, 24),)),
        Case(
            "picture_and_what_reads_it_else",
            lambda b, x: (conv(b, x, weight(8, 3, 3, 3)), b.relu(x), conv(b, x, weight(4, 3, 1, 9))),
            (shape(1, 3, 9, 12),),
        ),
        Case(
            "pictures_whose_weights_come_at_run_time",
            lambda b, x, w: (b.convolution(x, w), b.relu(b.convolution(x, w))),
            (shape(1, 3, 9, 12), shape(8, 3, 3, 3)),
        ),
        Case(
            "picture_times_itself",
            lambda b, x: b.mul(conv(b, x, weight(4, 2, 1, 1)), b.concat(x, x, axis=1)),
            (shape(1, 2, 9, 12),),
        ),
        Case(
            "part_of_a_picture",
            lambda b, x: conv(
                b, b.slice(x, axes=(1, 2), starts=(1, 2), ends=(4, 11)), weight(8, 3, 3, 3), padding=(1, 1)
            ),
            (shape(2, 5, 12, 12),),
        ),
    ]
    check([Case(c.name, c.build, c.inputs, 10) for c in cases])


@pytest.mark.parametrize(("constant", "copies"), [(True, 0), (False, 1)])
def test_a_picture_is_laid_out_once_for_weights_that_are_no_constants(constant: bool, copies: int) -> None:
    program = Program()
    b, x = Builder(program.main), program.main.add_parameter("x", shape(1, 3, 9, 12))
    sizes = (8, 3, 3, 3), (8, 3, 2, 5)
    weights = [b.literal(weight(*s)) if constant else program.main.add_parameter(f"w{s}", shape(*s)) for s in sizes]
    program.main.add_return([b.relu(b.convolution(x, w)) for w in weights])
    calls = translate(program, CompileOptions(), Features(lanes=8, bf16_words=False, amx=False)).lowered.calls
    assert sum("interleave" in call.kernel.text for call in calls if call.kernel) == copies


@pytest.mark.slow
def test_windows_of_several_planes() -> None:
    """Of single channels, and of groups of four."""
    inputs = (shape(1, 32, 4, 6, 9),)
    cases = [
        Case(
            f"groups of {width}",
            lambda b, x, width=width: conv(b, x, weight(32, width, 3, 3, 3), group=32 // width, padding=(1, 1, 1)),
            inputs,
            10,
        )
        for width in (1, 4)
    ]
    check(cases)


def pool(b, x, mode, lengths, **attributes):
    rank = len(lengths)
    same = {"stride": (1,) * rank, "dilations": (1,) * rank, "padding": (0,) * rank} | attributes
    return b.pooling(x, mode=mode, lengths=lengths, **same)


@pytest.mark.slow
def test_pooling(target: str = "cpu") -> None:
    cases = [
        Case(
            f"-inf round the image, {pads}",
            lambda b, x, p=pads: pool(b, b.pad(x, pads=p, value=-np.inf), "max", (3, 2), stride=(2, 1)),
            (shape(1, 19, 6, 7),),
        )
        for pads in ((0, 0, 0, 0, 0, 0, 1, 1), (0, 0, 5, 1, 0, 0, 5, 2))  # as SAME is written; windows without a pixel
    ]
    for mode in ("max", "average", "lpnorm"):
        cases += [
            Case(
                f"{mode}",
                lambda b, x, m=mode: pool(b, x, m, (3, 3), stride=(2, 2), padding=(1, 1)),
                (shape(2, 19, 9, 8),),
            ),
            Case(f"{mode}_1d", lambda b, x, m=mode: pool(b, x, m, (4,)), (shape(2, 5, 20),)),
            Case(f"{mode}_3d", lambda b, x, m=mode: pool(b, x, m, (2, 3, 2)), (shape(1, 5, 5, 6, 7),)),
            Case(
                f"{mode}_ceil",
                lambda b, x, m=mode: pool(b, x, m, (3, 2), stride=(2, 3), padding=(1, 0, 0, 1), ceil_mode=True),
                (shape(1, 20, 8, 9),),
            ),
            Case(
                f"{mode}_dilated", lambda b, x, m=mode: pool(b, x, m, (3, 2), dilations=(2, 3)), (shape(1, 20, 8, 9),)
            ),
            Case(f"{mode}_global", lambda b, x, m=mode: b.pooling(x, mode=m, dyn_global=True), (shape(2, 20, 8, 9),)),
            Case(f"{mode}_half", lambda b, x, m=mode: pool(b, x, m, (3, 3)), (shape(1, 20, 8, 9, type="half"),)),
        ]
    cases += [
        Case(
            "counted",
            lambda b, x: pool(
                b, x, "average", (3, 3), padding=(1, 1), count_include_pad=True, ceil_mode=True, stride=(2, 2)
            ),
            (shape(1, 20, 8, 9),),
        ),
        Case("integers", lambda b, x: pool(b, x, "max", (3, 3)), (shape(1, 20, 8, 9, type="int32"),)),
        Case("special", lambda b, x: pool(b, x, "max", (2, 2)), (shape(1, 20, 8, 9),), special=True),
    ]
    check(cases, target=target)


@pytest.mark.slow
def test_weights_known_at_run_time(target: str = "cpu") -> None:
    def run(**attributes):
        return lambda b, x, w: b.relu(b.convolution(x, w, **attributes))

    cases = [
        Case("plain", run(padding=(1, 1)), (shape(2, 8, 9, 6), shape(75, 8, 3, 3))),
        Case("whole", run(), (shape(2, 8, 9, 6), shape(32, 8, 1, 1))),
        Case("few", run(stride=(2, 1)), (shape(1, 8, 9, 6), shape(5, 8, 2, 3))),
        Case("grouped", run(group=2), (shape(1, 8, 9, 6), shape(80, 4, 3, 3))),
        Case("fours", run(group=5, padding=(1, 1)), (shape(2, 20, 7, 9), shape(20, 4, 3, 3))),
        Case("depthwise", run(group=37, padding=(1, 1)), (shape(2, 37, 7, 9), shape(37, 1, 3, 3))),
        Case("turned", run(), (shape(1, 8, 9, 6), permuted("float", (40, 8, 3, 3), (2, 3, 1, 0)))),
        Case("half", run(), (shape(1, 8, 9, 6, type="half"), shape(40, 8, 3, 3, type="half"))),
    ]
    check([Case(c.name, c.build, c.inputs, 10) for c in cases], target=target)


def transposed(b, x, w: np.ndarray, *more, weights=None, **attributes):
    """With a bias, a ReLU and what is added behind it, for each pixel and each channel."""
    ones, zeros = (1,) * (w.ndim - 2), (0,) * (w.ndim - 2)
    same = {"stride": ones, "dilation": ones, "padding": zeros, **attributes}
    y = b.convolution_backwards(x, b.literal(w) if weights is None else weights, **same)
    lens = y.shape.lens
    y = b.relu(b.add(y, b.broadcast(b.literal(weight(lens[1])), axis=1, out_lens=lens)))
    for other in more:
        y = b.add(y, b.multibroadcast(other, out_lens=lens))
    return y


@pytest.mark.slow
def test_transposed_convolutions_finish_what_follows(target: str = "cpu") -> None:
    """Phases of several taps, of one and of none have the same epilogue, each of its own pixels."""
    cases = [
        Case(
            "decoder",
            lambda b, x, y: transposed(b, x, weight(32, 21, 4, 4), y, stride=(2, 2), padding=(1, 1)),
            (shape(2, 32, 5, 6), shape(2, 21, 10, 12)),
        ),
        Case(
            "taps_differ",
            lambda b, x, y, z: transposed(b, x, weight(8, 5, 3, 2), y, z, stride=(2, 3), padding=(1, 0)),
            (shape(2, 8, 5, 6), shape(2, 5, 9, 17), shape(1, 5, 1, 1)),
        ),
        Case(
            "phases_without_taps",
            lambda b, x, y: transposed(b, x, weight(8, 5, 1, 2), y, stride=(3, 2), dilation=(1, 2)),
            (shape(1, 8, 4, 3), shape(1, 5, 10, 7)),
        ),
        Case(
            "grouped",
            lambda b, x, y: transposed(b, x, weight(8, 3, 3, 3), y, stride=(2, 2), padding=(1, 1), group=2),
            (shape(1, 8, 4, 5), shape(1, 6, 7, 9)),
        ),
        Case(
            "depthwise",
            lambda b, x, y: transposed(b, x, weight(20, 1, 2, 2), y, stride=(2, 2), group=20),
            (shape(1, 20, 4, 5), shape(1, 20, 8, 10)),
        ),
        Case(
            "weights_given",
            lambda b, x, w, y: transposed(b, x, weight(8, 5, 4), y, weights=w, stride=(2,), padding=(1,)),
            (shape(2, 8, 9), shape(8, 5, 4), shape(2, 5, 18)),
        ),
    ]
    check([Case(c.name, c.build, c.inputs, 10) for c in cases], target=target)


@pytest.mark.slow
def test_convolutions_of_what_is_not_finite() -> None:
    """Those of many channels use Winograd's transforms, which mix the pixels of a tile."""
    check(
        [
            Case(
                f"channels_{c}",
                lambda b, x, c=c: b.relu(conv(b, x, weight(40, c, 3, 3), padding=(1, 1))),
                (shape(1, c, 30, 19),),
                10,
                sparse=True,
            )
            for c in (3, 32, 45)
        ]
    )


def dense_block(b, x):
    features = [x]
    for _ in range(3):
        joined = b.concat(*features, axis=1) if len(features) > 1 else x
        features.append(conv(b, b.relu(joined), weight(4, joined.shape.lens[1], 3, 3), padding=(1, 1)))
    return b.concat(*features, axis=1)


def mixed(b, x, channels):
    """Of MixNet: windows of another size for each of these parts of the channels."""
    parts, start = [], 0
    for k, c in zip((3, 5, 9, 1), channels, strict=False):
        part = b.slice(x, axes=(1,), starts=(start,), ends=(start + c,))
        parts.append(conv(b, part, weight(c, 1, k, k), padding=(k // 2, k // 2), group=c))
        start += c
    return b.concat(*parts, axis=1)


@pytest.mark.slow
def test_windows_of_several_sizes(target: str = "cpu") -> None:
    """Each writes its channels, which fill registers or not, where the concatenation has them."""
    cases = [
        Case(
            f"channels_{'_'.join(map(str, channels))}",
            lambda b, x, channels=channels: b.silu(b.add(b.silu(mixed(b, x, channels)), x)),
            (shape(2, sum(channels), 9, 11),),
            10,
        )
        for channels in ((10, 6, 21, 3), (16, 32), (8, 24, 40))
    ]
    check(cases, target=target)


def attend(b, q, k, v, mask=None, **options):
    return b.scaled_dot_product_attention(q, k, v, mask, **options)


@pytest.mark.slow
def test_attention(target: str = "cpu") -> None:
    qkv = (shape(2, 3, 19, 16), shape(2, 3, 23, 16), shape(2, 3, 23, 16))
    square = (shape(2, 3, 19, 16),) * 3
    cases = [
        Case("plain", attend, qkv),
        Case("causal", lambda b, q, k, v: attend(b, q, k, v, is_causal=True), square),
        Case("masked", attend, (*qkv, shape(2, 1, 19, 23))),
        Case("bool_mask", attend, (*qkv, Shape("bool", (2, 1, 1, 23)))),
        Case("grouped", attend, (shape(2, 6, 19, 16), *qkv[1:])),
        Case("half", attend, tuple(shape(*s.lens, type="half") for s in qkv)),
        Case(
            "heads_inside",
            lambda b, q, k, v: b.reshape(
                b.transpose(
                    attend(b, *(b.transpose(t, permutation=(0, 2, 1, 3)) for t in (q, k, v))), permutation=(0, 2, 1, 3)
                ),
                dims=(2, 19, 48),
            ),
            (shape(2, 19, 3, 16),) * 3,
        ),
    ]
    check([Case(c.name, c.build, c.inputs, 10) for c in cases], target=target)


@pytest.mark.parametrize("form", ["softmax", "operator"])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_queries_that_see_no_key(form: str, kind: str) -> None:
    """softmax gives them NaN, scaled_dot_product_attention 0, as in torch."""
    q, k, v = (RNG.standard_normal((2, 3, n, 16)).astype(np.float32) for n in (19, 23, 23))
    keep = RNG.random((2, 1, 19, 23)) < 0.5
    keep[:, :, [1, 7]] = False
    mask = keep if kind == "bool" else np.where(keep, 0, -np.inf).astype(np.float32)
    program = migraphx.program()
    main = program.graph.main
    values = {"q": q, "k": k, "v": v, "mask": mask}
    b, parameters = Builder(main), [main.add_parameter(n, Shape.of(a)) for n, a in values.items()]
    if form == "operator":
        out = attend(b, *parameters)
    else:
        scores = b.dot(parameters[0], swap(b, parameters[1]))
        wide = b.multibroadcast(parameters[3], out_lens=scores.shape.lens)
        low = b.full(-np.inf, scores)
        scores = b.add(scores, wide) if kind == "float" else b.where(wide, scores, low)
        out = b.dot(b.softmax(scores, axis=3), parameters[2])
    main.add_return([out])
    program.compile(migraphx.get_target("cpu"))
    (got,) = (np.array(a) for a in program.run(values))
    tq, tk, tv, tm = (torch.from_numpy(a) for a in values.values())
    if form == "operator":
        want = torch.nn.functional.scaled_dot_product_attention(tq, tk, tv, tm)
    else:
        scores = tq @ tk.mT
        scores = scores + tm if kind == "float" else torch.where(tm, scores, -torch.inf)
        want = torch.softmax(scores, 3) @ tv
    assert_close(got, want.numpy(), scale=10)
    assert np.isnan(want[:, :, 1].numpy()).all() == (form == "softmax")
