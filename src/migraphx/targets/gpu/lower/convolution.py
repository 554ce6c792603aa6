"""Convolutions with their epilogues, on channels-last images."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from math import lcm, prod

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.ir.size import is_open, note_class
from migraphx.ops.convolution import both_sides
from migraphx.ops.movement import Contiguous, Layout
from migraphx.ops.pointwise import Pointwise
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.lower.views import channels_last
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.upsampled import UpsampledWindow, repeats, summed
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import NOTHING, Config, Offer, Problem
from migraphx.targets.gpu.costs.convolutions import (
    DESCRIBED,
    FEW_CHANNELS,
    LINED,
    conv_cost,
    convolutions,
    depthwise_cost,
    depthwises,
    described_convolutions,
    lined_up_convolutions,
)
from migraphx.targets.gpu.emit.body import VECTOR
from migraphx.targets.gpu.emit.boxes import boxes_calls, has_boxes
from migraphx.targets.gpu.emit.contract import FP8, Beside, Operands, label_of, product_calls, sums_type, takes_beside
from migraphx.targets.gpu.emit.spatial import Conv, Upsampled, conv_calls, depthwise_call, pad_call, strip_call
from migraphx.targets.gpu.emit.taps import in_vectors, patches_call, taps_call
from migraphx.targets.gpu.emit.tiles import power_of_two
from migraphx.targets.gpu.kernel import GpuCall, Launch
from migraphx.targets.gpu.lower.contractions import (
    ALIGNED,
    as_multiplied,
    call_best,
    choices_of,
    emitter_of,
    lower_product,
    matrix_type,
    multiplied,
    read_alone,
)
from migraphx.targets.gpu.lower.contractions import packed_weights as packed_matrix
from migraphx.targets.gpu.lower.library import library_convolutions
from migraphx.targets.gpu.lower.registry import GPU


@GPU.of_contraction("convolution")
def convolution(ctx: LoweringContext, c: Contraction) -> None:
    attributes, origin = c.anchor.op.attributes(), c.origin
    rank, group, weights = len(c.write.lens), attributes["group"], c.operands[1].shape.lens
    epilogue, small = c.epilogue((0, *range(2, rank)), 1), small_images(ctx, c)
    if small is not None:
        convolve(ctx, small, epilogue, c.anchor.name, origin)
        return
    source = channels_last(ctx, as_multiplied(ctx, ctx.view(c.operands[0]), origin), origin)
    before = [p[0] for p in both_sides(attributes["padding"], rank - 2)]
    steps = attributes["stride"], attributes["dilation"], before
    window = Window.of(source.lens[2:], c.write.lens[2:], weights[2:], *steps)
    depthwise = group == source.lens[1] == c.write.lens[1]
    constant = ctx.constant(c.operands[1])
    if constant is None and group == 1 and as_patches(ctx, c, source, window, epilogue):
        return
    packed = packed_weights(ctx, c.operands[1], depthwise, origin)
    tight = partial(packed_weights, ctx, c.operands[1], depthwise, origin, True) if has_gaps(packed) else None
    conv = Conv(source, packed, window, group, tight)
    can = constant and not depthwise and not is_open(source.lens) and can_be_lined_up(conv)
    few = conv.x.lens[1] < FEW_CHANNELS and group == 1 and not is_open(source.lens)
    came = as_it_came(ctx, c.operands[0], source) if few else source
    if constant and not depthwise and is_patches(conv) and not is_open(source.lens):
        matrix = constant[0].reshape(len(constant[0]), -1).T
        b = packed_matrix(ctx, matrix, multiplied(ctx, matrix_type(matrix)))
        lower_product(ctx, patches(ctx, replace(conv, x=came), origin, False), b, epilogue, c.anchor.name, origin)
        return
    lined = partial(lined_up, ctx, conv, came, *constant, origin) if can else None
    convolve(ctx, conv, epilogue, c.anchor.name, origin, lined, came)


quant_convolution = GPU.of_contraction("quant_convolution")(convolution)


def as_patches(ctx: LoweringContext, c: Contraction, x: View, window: Window, epilogue: Epilogue) -> bool:
    """Lower to a product of all windows and the weights as they came, where that copies less than to pack these.

    On an H200 it takes as long as a convolution of packed weights, which constant ones are.
    """
    rows, w = prod(c.write.lens) // c.write.lens[1], ctx.view(c.operands[1])
    if is_open((*x.lens, *c.write.lens)) or rows > w.lens[0]:
        return False
    flat = w.reshaped((*w.lens[:2], prod(w.lens[2:])))
    if flat is None or not in_vectors(flat) or flat.lens[2] == 1:
        return False
    if x.type != w.type or x.type not in dtypes.FLOATS or multiplied(ctx, x.type) != x.type or not lies_in_vectors(x):
        return False
    depth = prod(w.lens[1:])
    patches = ctx.temporary(Shape(x.type, (rows, depth)))
    ctx.call(patches_call(x, window, patches, c.origin))
    b = replace(flat, lens=(depth, w.lens[0]), strides=(1, depth))
    lower_product(ctx, patches, b, epilogue, c.anchor.name, c.origin)
    return True


def lies_in_vectors(x: View) -> bool:
    """Whether each pixel of channels-last images begins where a vector does."""
    steps = (x.offset, x.strides[0], *x.strides[2:])
    return x.strides[1] == 1 and not x.moves and all(s * x.itemsize % VECTOR == 0 for s in steps)


def convolve(
    ctx: LoweringContext, conv: Conv, epilogue: Epilogue, name: str, origin: str,
    lined: Callable[[int], tuple[GpuCall, Conv]] | None = None, came: View | None = None,
) -> None:  # fmt: skip
    """The convolution, or the product that it is, with the best configuration. `lined`: as `lined_up` makes it.

    `came`: the images as they came, before a copy put their channels last.
    """
    if not epilogue.write.elements:
        return
    label, choices, near = label_of(name, epilogue), choices_of(ctx), conv.at_hand
    x, w, facts = conv.x, conv.w, choices.facts
    open_ = is_open((*x.lens, *epilogue.write.lens))
    note_class(conv.rows)
    if is_depthwise(conv, epilogue):
        call_best(
            ctx, problem_of(conv, epilogue, "depthwise", label), depthwises(near),
            lambda c: depthwise_cost(c, near, facts),
            lambda c: [(strip_call if c.kernel == "strips" else depthwise_call)(conv, epilogue, c, label, origin)],
        )  # fmt: skip
        return

    def offered(problem: Problem) -> Offer:
        """Plans of a library are for one size each."""
        if open_ or conv.upsampled:
            return NOTHING
        return library_convolutions(ctx, conv, epilogue, choices, problem, label, origin)

    beside = None if open_ or conv.upsampled else beside_of(ctx, conv, epilogue)
    if is_product(conv):
        lower_pixels(ctx, conv, epilogue, beside, name, origin, offered)
        return
    if is_patches(conv):
        b = replace(w, lens=(conv.taps * x.lens[1], w.lens[0]), strides=(1, w.strides[0]))
        lower_product(ctx, patches(ctx, conv, origin), b, epilogue, name, origin)
        return

    def build(config: Config) -> list[GpuCall]:
        parts = None
        if config.split > 1:
            rows = prod(epilogue.write.lens) // epilogue.write.lens[1]
            parts = ctx.temporary(Shape(sums_type(x.type), (config.split, rows, epilogue.write.lens[1])))
        if config.kernel == DESCRIBED:
            return boxes_calls(conv, epilogue, config, parts, label, origin)
        if config.kernel == LINED:
            assert lined is not None
            copy, same = lined(config.k)
            return [copy, *conv_calls(same, epilogue, config, parts, label, origin)]
        as_given = config.kernel == "flat" and came is not None and has_planes(came)
        return conv_calls(replace(conv, x=came) if as_given else conv, epilogue, config, parts, label, origin)

    result = epilogue.write.itemsize + sum(v.itemsize for v in epilogue.views if v.strides[epilogue.col_dim])
    problem = problem_of(conv, epilogue, "convolution", label)
    cost: Callable[[Config], float] = lambda c: conv_cost(c, near, facts, result)  # noqa: E731
    candidates = [*convolutions(near, facts), *(lined_up_convolutions(near, facts) if lined else ())]
    candidates += described_convolutions(near, facts) if has_boxes(conv) else ()
    config = call_best(ctx, problem, candidates, cost, build, offered(problem))
    if beside and takes_beside(config):
        (call,) = conv_calls(conv, epilogue, config, None, label, origin, beside)
        ctx.replace_call(-1, call)


def problem_of(conv: Conv, epilogue: Epilogue, family: str, label: str) -> Problem:
    """What is chosen for: the sizes at hand, and how often each pixel is there where a resize repeats them."""
    near = conv.at_hand
    window, types = near.window, (conv.x.type, conv.w.type, epilogue.write.type)
    sizes = (*near.x.lens, epilogue.write.at_hand.lens[1], *window.kernel, *window.stride)
    times = conv.upsampled.times if conv.upsampled else ()
    return Problem(family, (*sizes, *window.dilation, *window.pad, conv.group, *times), types, label)


def lower_pixels(
    ctx: LoweringContext, conv: Conv, epilogue: Epilogue, beside: Beside | None, name: str, origin: str,
    offered: Callable[[Problem], Offer],
) -> None:  # fmt: skip
    """The product that a convolution of single pixels is; what adds its sums may compute them itself."""
    x, w, write, before = conv.x, conv.w, epilogue.write, len(ctx.calls)
    a = View(x.buffer, x.type, (conv.rows, x.lens[1]), (conv.pixel, 1), x.offset, x.moves)
    b = replace(w, lens=(x.lens[1], w.lens[0]), strides=(1, w.strides[0]))
    config = lower_product(ctx, a, b, epilogue, name, origin, offered)
    one = len(ctx.calls) == before + 1 and isinstance(ctx.calls[-1].kernel, Launch)
    alone = one and write.buffer.kind == "arena" and not any(v.moves for v in (a, b, write)) and not is_open(a.lens)
    if beside and config and takes_beside(config):
        label = label_of(name, epilogue)
        (call,) = product_calls(Operands.of(a, b), epilogue, config, None, label, origin, beside)
        ctx.replace_call(-1, call)
    elif alone and epilogue.module is None and x.type == write.type in ("half", "bf16"):
        assert ctx.instruction is not None
        emitter_of(ctx).sums[write.buffer] = ctx.instruction, a, b, write, ctx.calls[-1]


def beside_of(ctx: LoweringContext, conv: Conv, epilogue: Epilogue) -> Beside | None:
    """The product, seen before and read by nothing else, that an epilogue reads, where one kernel can compute both."""
    found = read_alone(ctx, epilogue, emitter_of(ctx).sums) if conv.group == 1 else ()
    return next((b for b in found if {b.a.type, b.b.type, conv.w.type} == {conv.x.type}), None)


# ---- of upsampled images --------------------------------------------------------------------------------------------


def small_images(ctx: LoweringContext, c: Contraction) -> Conv | None:
    """The convolution of the images that a resize made larger, each pixel several times; None where it is none.

    The windows of one phase of what a pixel becomes see fewer pixels than they are wide: 3 x 3 of images twice as
    large see 2 x 2, each weighted by a sum of their weights. 4 of 9 products are left, and nobody stores large images.
    """
    large, w, constant = c.operands[0], c.operands[1].shape, ctx.constant(c.operands[1])
    attributes, axes = c.anchor.op.attributes(), len(w.lens) - 2
    plain = attributes["group"] == 1 and {*attributes["stride"], *attributes["dilation"]} == {1}
    known = constant is not None and not is_open((*large.shape.lens, *c.write.lens))
    type = multiplied(ctx, w.type)
    wide = w.type in dtypes.FLOATS and type not in FP8  # in which sums would lose most of their bits
    if not (plain and known and wide) or axes > 2 or w.lens[1] < FEW_CHANNELS:
        return None
    times = repeats(large) if large.shape.lens[2:] == c.write.lens[2:] else None
    if times is None:
        return None
    assert constant is not None
    before, (value, key) = [p[0] for p in both_sides(attributes["padding"], axes)], constant
    windows = [UpsampledWindow(*numbers) for numbers in zip(times, w.lens[2:], before, strict=True)]
    taps, limit = [each.taps for each in windows], dtypes.limits(type)[1]
    if not all(each.even for each in windows):  # NaN times 0 is NaN
        return None
    if prod(taps) == prod(w.lens[2:]) or float(np.abs(value).max()) * prod(w.lens[2:]) > limit:  # sums may be infinite
        return None
    x = channels_last(ctx, as_multiplied(ctx, ctx.view(large.inputs[0]), c.origin), c.origin)
    lens, given = (prod(times) * w.lens[0], w.lens[1], *taps), ctx.view(large)
    packed = constant_weights(ctx, lens, lambda: summed(value, windows), (*key, "upsampled", *windows), type, False)
    ones = (1,) * axes
    window = Window.of(x.lens[2:], x.lens[2:], taps, ones, ones, [each.pad for each in windows])
    made = written_by(ctx, given)
    if made is not None:
        emitter_of(ctx).bodies[given.buffer] = None, made  # nobody else may read it
    late = (0,) * (2 - axes) + tuple(each.late for each in windows)
    return Conv(x, packed, window, 1, upsampled=Upsampled((1,) * (2 - axes) + times, late))


# ---- few channels ---------------------------------------------------------------------------------------------------

MOST_LINED = 1 << 27  # elements whose copy 32 bits count


def can_be_lined_up(conv: Conv) -> bool:
    """Whether `lined_up` gains: images of few channels, windows of several pixels in a row."""
    window, few = conv.window, conv.x.lens[1] < FEW_CHANNELS and conv.x.elements < MOST_LINED
    plain = conv.group == 1 and set(window.dilation) == {1} and len(conv.x.lens) == 4 and min(window.pad) >= 0
    known = conv.x.type in ("int8", "half", "bf16")  # of float it was not measured
    return few and plain and known and window.kernel[2] > 1 and not is_patches(conv)


def has_planes(x: View) -> bool:
    """Whether pixels of {N, C, spatial...} follow one another as in a matrix, and images as whole planes."""
    plane = x.strides[-1] * prod(x.lens[2:])
    rows = all(s == t * n for s, t, n in zip(x.strides[2:-1], x.strides[3:], x.lens[3:], strict=True))
    return rows and plane > 0 and x.strides[0] % plane == 0 and min(x.strides) > 0


def as_it_came(ctx: LoweringContext, ins: Instruction, source: View) -> View:
    """What `source`, the images in the kernels' order, was copied from; the copy is no longer needed for this."""
    moved = isinstance(ins.op, (Layout, Contiguous)) and ctx.view(ins) == source
    given = ctx.view(ins.inputs[0] if moved else ins)
    copy = written_by(ctx, source)
    if copy is None or given.buffer is source.buffer or (given.type, given.lens) != (source.type, source.lens):
        return source
    emitter_of(ctx).bodies[source.buffer] = None, copy
    return given


def written_by(ctx: LoweringContext, view: View) -> GpuCall | None:
    """The call that writes a temporary; None of what is no temporary: copies into results are needed anyway."""
    calls = reversed(ctx.calls) if view.buffer.kind == "arena" else ()
    return next((call for call in calls if view.buffer in {v.buffer for v in call.writes}), None)


def lined_up(
    ctx: LoweringContext, conv: Conv, given: View, weights: np.ndarray, key: tuple[Hashable, ...], origin: str,
    depth: int,
) -> tuple[GpuCall, Conv]:  # fmt: skip
    """The same convolution of windows one pixel wide, whose channels are all of a window's row; and what it reads.

    `given`: the images as they came; `depth`: of a row, with zeros behind its weights. What is read is a copy of them
    with zeros round each, a power of two of channels a pixel: a row of a window is a few vectors of memory, none of
    which leaves the image. Of bytes these are whole: what follows a window is multiplied by 0. Floats may be NaN there,
    so their last vector is not.
    """
    window, (n, c, *_) = conv.window, conv.x.lens
    (_, k1, k2), (_, s1, s2), (_, out1, out2) = window.kernel, window.stride, window.out
    wide = power_of_two(c)
    step = lcm(s2, max(1, 16 // wide))
    high, across = (out1 - 1) * s1 + k1, -(-((out2 - 1) * s2 + depth // wide) // step) * step
    image = ctx.temporary(Shape(conv.x.type, (n, high, across, wide)))

    def make() -> np.ndarray:
        packed = np.zeros((weights.shape[0], k1, depth // wide, wide), dtypes.to_numpy(conv.w.type))
        packed[:, :, :k2, :c] = np.moveaxis(weights, 1, -1)
        return packed.reshape(-1, k1, depth)

    w = ctx.packed((*key, "lines", depth, conv.w.type), make)
    channels = depth if conv.x.type == "int8" else k2 * wide
    strides = (high * across * wide, 1, across * wide, s2 * wide)
    x = replace(image, lens=(n, channels, high, out2), strides=strides)
    narrow = Window((1, high, across // s2), (1, out1, out2), (1, k1, 1), (1, s1, 1), (1, 1, 1), (0, 0, 0))
    module, call = emitter_of(ctx).bodies.get(given.buffer, (None, None))
    quantized = module and call and call.writes[0] == given and call.reads[0].lens == given.lens
    if call and quantized:
        return pad_call(call.reads[0], image, window.pad[1:], module, origin), Conv(x, w, narrow, 1)
    return pad_call(given, image, window.pad[1:], None, origin), Conv(x, w, narrow, 1)


def is_depthwise(conv: Conv, epilogue: Epilogue) -> bool:
    """Whether each channel has its own filter; the weights are {taps, C} then."""
    return conv.group == conv.x.lens[1] == epilogue.write.lens[1]


def is_product(conv: Conv) -> bool:
    """Whether each output pixel is made of the input pixel in its place."""
    window = conv.window
    plain = conv.taps == conv.matrices == 1 and not any(window.pad) and set(window.stride) == {1}
    return plain and window.size == window.out


def is_patches(conv: Conv) -> bool:
    """Whether the windows of few channels lie side by side: each is a row of a matrix, which is copied once."""
    window, (_, step, last) = conv.window, conv.w.strides
    apart = window.kernel == window.stride and not any(window.pad) and set(window.dilation) == {1}
    return apart and conv.group == 1 and conv.x.lens[1] < FEW_CHANNELS and (step, last) == (conv.x.lens[1], 1)


def patches(ctx: LoweringContext, conv: Conv, origin: str, by_taps: bool = True) -> View:
    """The windows as a matrix {pixels of the output, taps x channels}, or x {.., channels x taps}."""
    x, rank = conv.x, len(conv.x.lens) - 2
    out, kernel = conv.window.out[-rank:], conv.window.kernel[-rank:]
    steps = x.strides[2:]
    inner = [(*kernel, x.lens[1]), (*steps, x.strides[1])] if by_taps else [(x.lens[1], *kernel), x.strides[1:]]
    lens = (x.lens[0], *out, *inner[0])
    strides = (x.strides[0], *(s * k for s, k in zip(steps, kernel, strict=True)), *inner[1])
    depth = conv.taps * x.lens[1]
    rows = ctx.standard(replace(x, lens=lens, strides=strides), origin)
    return replace(rows, lens=(conv.rows, depth), strides=(depth, 1))


def has_gaps(packed: View) -> bool:
    """Whether channels that are no multiple of ALIGNED are followed by some, or rows of few channels are."""
    return len(packed.lens) == 3 and packed.strides[0] > packed.lens[1] * packed.lens[2]


def packed_weights(ctx: LoweringContext, ins: Instruction, depthwise: bool, origin: str, tight: bool = False) -> View:
    """{OC, taps, channels} of weights {OC, channels, kernel...}, or {taps, C} of those of depthwise ones.

    `tight`: each row, and each tap, begins where the one before ends.
    """
    constant = ctx.constant(ins)
    if constant is not None:
        value, key = constant
        type = multiplied(ctx, dtypes.from_numpy(value.dtype))
        return constant_weights(ctx, value.shape, lambda: value, (*key, "convolution"), type, depthwise, tight)
    scaled = None if depthwise else scaled_weights(ctx, ins, origin)
    return scaled or weights_at_run_time(ctx, as_multiplied(ctx, ctx.view(ins), origin), depthwise, origin)


def scaled_weights(ctx: LoweringContext, ins: Instruction, origin: str) -> View | None:
    """The same of weights {OC, channels, kernel...} that a norm was folded into: scaled as they are copied.

    None where they are others.
    """
    names = [i.name for i in ins.modules[0] if isinstance(i.op, Pointwise)] if ins.name == "pointwise" else []
    by_another = names == ["convert", "mul", "convert"] and len(ins.inputs) == 2  # not by a number, nor by themselves
    made = written_by(ctx, ctx.view(ins)) if by_another else None
    if made is None:
        return None
    (w, scale), (oc, channels, *kernel) = map(ctx.view, ins.inputs), ins.shape.lens
    by_row = not any(scale.strides[1:]) and (w.type, scale.type) == (ins.shape.type, "float")
    flat = w.reshaped((oc, channels, prod(kernel)))
    if flat is None or not by_row or not in_vectors(flat):
        return None
    packed = ctx.temporary(Shape(w.type, (oc, prod(kernel), channels)))
    ctx.call(taps_call(flat, packed, origin, replace(scale, lens=(oc,), strides=scale.strides[:1])))
    emitter_of(ctx).bodies[ctx.view(ins).buffer] = None, made  # dropped where nobody else reads them
    return packed


def constant_weights(
    ctx: LoweringContext,
    lens: Sequence[int],
    value: Callable[[], np.ndarray],
    key: Hashable,
    type: str,
    depthwise: bool,
    tight: bool = False,
) -> View:
    """The weights that `value` makes of these lens, packed; `key` tells them from others."""
    oc, channels, *kernel = lens
    taps = prod(kernel)
    inner = oc if depthwise else channels
    few, whole = inner < ALIGNED and not depthwise, 1 if tight else ALIGNED
    step = taps * channels if few else -(-inner // whole) * whole  # of a tap; few channels: of all taps
    row = -(-taps * channels // whole) * whole if few else taps * step

    def make() -> np.ndarray:
        of = dtypes.to_numpy(type)
        by_tap = np.moveaxis(value(), 1, -1).reshape(oc, taps, channels)
        if depthwise:
            packed = np.zeros((taps, step), of)
            packed[:, :oc] = by_tap[:, :, 0].T
        elif few:
            packed = np.zeros((oc, row), of)
            packed[:, : taps * channels] = by_tap.reshape(oc, -1)
        else:
            packed = np.zeros((oc, taps, step), of)
            packed[:, :, :channels] = by_tap
        return packed

    view = ctx.packed((key, depthwise, type, tight), make)
    if depthwise:
        return replace(view, lens=(taps, oc))
    return replace(view, lens=(oc, taps, channels), strides=(row, channels if few else step, 1))


def weights_at_run_time(ctx: LoweringContext, weights: View, depthwise: bool, origin: str) -> View:
    """The same of weights that are computed, or come in: a copy in the kernels' order."""
    oc, channels, *kernel = weights.lens
    taps, rank = prod(kernel), len(weights.lens)
    if depthwise:
        turned = weights.sliced(1, 0, 1).transposed((*range(2, rank), 0, 1))
        lens: tuple[int, ...] = (taps, oc)
    else:
        turned, lens = weights.transposed((0, *range(2, rank), 1)), (oc, taps, channels)
        flat = weights.reshaped((oc, channels, taps))
        if flat is not None and taps > 1 and in_vectors(flat):
            packed = ctx.temporary(Shape(weights.type, lens))
            ctx.call(taps_call(flat, packed, origin))
            return packed
    packed = ctx.standard(turned, origin).reshaped(lens)
    assert packed is not None
    strides = (oc, 1) if depthwise else (taps * channels, channels, 1)
    return replace(packed, strides=strides)
