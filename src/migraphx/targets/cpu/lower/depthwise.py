"""Depthwise convolutions, alone or together with the convolutions before and behind them."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from migraphx.ir.module import Instruction
from migraphx.ir.size import hint_of, is_open, likely_less
from migraphx.targets.common.call import Call
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.contract import (
    Bands,
    Convolution,
    Engine,
    banded_call,
    conv_call,
    depthwise_call,
)
from migraphx.targets.cpu.emit.emitter import CppEmitter
from migraphx.targets.cpu.emit.structs import Conv
from migraphx.targets.cpu.pack.conv import pack_depthwise

BETWEEN = 1 << 16  # bytes of an image between two convolutions, for each multiply-add that makes an element of it,
# from which on they take turns: of fewer a cache holds most, of deeper ones the time to write and read them is little
LEAST_DEPTH = 16  # multiply-adds: shallower products count as so deep


def depthwise(ctx: LoweringContext, c: Contraction, source: View, window: Window, epilogue: Epilogue) -> None:
    """A convolution that `in_lanes` says depthwise.hpp takes, of channels-last `source`."""
    assert isinstance(ctx.emit, CppEmitter)
    weights = _depthwise_weights(ctx, c.operands[1], c.origin)
    before = ctx.emit.convolutions.get(source.buffer)
    whole = weights.lens[-1] % ctx.emit.features.lanes == 0
    floats = weights.type == "float" and weights.lens[-2:] == (1, source.lens[1])
    follows = before is not None and floats and _only_reads(ctx, c, source, before.call)
    if before is None or not follows or likely_less(4 * prod(source.lens[1:]), _least_between(before)):
        ctx.call(depthwise_call(source, weights, window, epilogue, whole, c.origin))
        return
    bands = Bands(before, weights, window, epilogue, whole, _taken_back(ctx))
    call = banded_call(bands, c.origin)
    ctx.call(call)
    if _goes_between(epilogue):
        ctx.emit.bands[epilogue.write.buffer] = replace(bands, call=call)


def _least_between(first: Convolution) -> int:
    """Bytes between this convolution and the depthwise one behind it that pay for bands.

    Bands cost rows that two threads compute, rows that are moved, and short products. On 2 cores of a Zen 3 what is
    apart takes 1.21 times as long as bands with 95 x 95 x 192 between, of depth 32, 1.11 times with 150 x 150 x 128 of
    depth 64, as long with 112 x 112 x 96 of depth 16, 0.87 times with 38 x 38 x 512 of depth 128, and 0.80 times with
    19 x 19 x 728 of depth 728. planar.hpp computes single rows as fast as many: with 112 x 112 x 32 behind a picture
    what is apart takes 0.97 to 1.36 times as long there, 0.97 to 1.09 times on an Emerald Rapids.
    """
    return BETWEEN * (LEAST_DEPTH if first.shape else max(hint_of(first.depth), LEAST_DEPTH))


def convolved(
    ctx: LoweringContext, c: Contraction, x: View, packed: View, params: Conv, epilogue: Epilogue, how: Engine
) -> None:
    """A convolution by conv.hpp, in a call of its own or behind the bands that only it reads.

    A depthwise convolution behind it may take its place.
    """
    assert isinstance(ctx.emit, CppEmitter)
    bands, call = ctx.emit.bands.get(x.buffer), conv_call(x, packed, params, epilogue, how, c.origin)
    made = Convolution(call, x, packed, params, epilogue, how)
    one = params.kernel == (1, 1, 1)
    plain = params.stride == (1, 1, 1) and params.pad == (0, 0, 0)
    floats = all(v.type == "float" for v in (x, packed, epilogue.write))
    if bands is not None and bands.call and floats and one and plain and _only_reads(ctx, c, x, bands.call):
        bands = replace(bands, flops=bands.flops + _taken_back(ctx))
        ctx.call(banded_call(bands, c.origin, made))
        return
    call_and_offer(ctx, made, floats and (plain or params.kernel[1] > 1))


def call_and_offer(ctx: LoweringContext, made: Convolution, suits: bool = True) -> None:
    """The call, in whose place one with the depthwise convolution behind it may come, if it `suits` that."""
    assert isinstance(ctx.emit, CppEmitter)
    ctx.call(made.call)
    if suits and _goes_between(made.epilogue):
        ctx.emit.convolutions[made.epilogue.write.buffer] = made


def _goes_between(epilogue: Epilogue) -> bool:
    """Whether what a convolution of images writes may be a band: what its epilogue reads is the same for all rows."""
    varied = any(is_open(s) or s for v in epilogue.views for s in (v.strides[d] for d in epilogue.row_dims))
    return not varied and len(epilogue.write.lens) == 4


def _only_reads(ctx: LoweringContext, c: Contraction, source: View, call: Call[Any]) -> bool:
    """Whether the last call is this one, and a convolution is all that reads what it wrote, which is dense."""
    maker = c.operands[0]
    if not ctx.calls or ctx.calls[-1] is not call or len(ctx.sources) < len(ctx.calls):
        return False  # another call lies between
    whole = source == call.writes[0] and source.buffer.kind == "arena" and source.strides[1] == 1
    if ctx.sources[-1] is not maker or not whole or len(maker.users) > 1:
        return False
    _, channels, _, columns = source.lens
    return source.strides[2:] == (columns * channels, channels)


def _taken_back(ctx: LoweringContext) -> int:
    """The operations of the last call, which another one will do."""
    ctx.calls.pop()
    maker = ctx.sources.pop()
    assert maker is not None  # the convolution
    return maker.flops


def in_lanes(source: View, write: View, group: int, lanes: int) -> bool:
    """Whether depthwise.hpp takes a convolution: of groups of few channels, as many in as out, or one in and few out.

    Few are what a register holds. The engine of products takes as long, times: on a Zen 4 5 for groups of 4, 1.7 to
    2.2 for 8; on an Emerald Rapids 1.2 to 2 for 16; on a Zen 3, whose registers hold 8, 1.4 to 1.9 for 8, 0.9 for 16,
    which take two of them, and 9 to 10 for one channel in and two out (7x7 windows at every second pixel).
    """
    (_, ic, *_), (_, oc, *_) = source.lens, write.lens
    if source.type not in ("float", "half", "bf16"):
        return False
    width, few = ic // group, [n for n in (2, 4, 8, 16) if n <= lanes]
    if ic == oc:
        return width == 1 or (group > 1 and width in few)
    return width == 1 and oc % group == 0 and oc // group in few


def _depthwise_weights(ctx: LoweringContext, weights: Instruction, origin: str) -> View:
    """{spatial..., G, C}."""
    constant = ctx.constant(weights)
    if constant is not None:
        value, key = constant
        return ctx.packed((*key, "depthwise"), lambda: pack_depthwise(value))
    view = ctx.view(weights)
    return ctx.standard(view.transposed((*range(2, len(view.lens)), 1, 0)), origin)
