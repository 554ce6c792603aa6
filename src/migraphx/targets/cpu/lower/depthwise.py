"""Depthwise convolutions, alone or together with the convolution before them."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.ir.size import is_open, likely_less
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.contract import Convolution, Engine, banded_call, depthwise_call
from migraphx.targets.cpu.emit.emitter import CppEmitter
from migraphx.targets.cpu.emit.structs import Conv
from migraphx.targets.cpu.pack.conv import pack_depthwise

BETWEEN = 1 << 21  # bytes of an image between two convolutions from which on they take turns: fewer stay in caches


def depthwise(ctx: LoweringContext, c: Contraction, source: View, window: Window, epilogue: Epilogue) -> None:
    """A convolution that `in_lanes` says depthwise.hpp takes, of channels-last `source`."""
    weights = _depthwise_weights(ctx, c.operands[1], c.origin)
    before = _in_bands(ctx, c.operands[0], source, weights)
    if before is None:
        ctx.call(depthwise_call(source, weights, window, epilogue, c.origin))
        return
    ctx.calls.pop()
    maker = ctx.sources.pop()
    assert maker is not None  # the convolution
    ctx.call(banded_call(before, weights, window, epilogue, maker.flops, c.origin))


def note_convolution(
    ctx: LoweringContext, x: View, packed: View, params: Conv, epilogue: Epilogue, how: Engine
) -> None:
    """Of the last call: a depthwise convolution behind it may take its place."""
    assert isinstance(ctx.emit, CppEmitter)
    floats = all(v.type == "float" for v in (x, packed, epilogue.write))
    varied = any(is_open(s) or s for v in epilogue.views for s in (v.strides[d] for d in epilogue.row_dims))
    plain = params.kernel[1] > 1 or (params.stride == (1, 1, 1) and params.pad == (0, 0, 0))
    if floats and plain and not varied and len(epilogue.write.lens) == 4 and ctx.calls:
        made = Convolution(ctx.calls[-1], x, packed, params, epilogue, how)
        ctx.emit.convolutions[epilogue.write.buffer] = made


def _in_bands(ctx: LoweringContext, maker: Instruction, source: View, weights: View) -> Convolution | None:
    """The convolution whose result only this depthwise one reads, where banded.hpp is to compute the two."""
    assert isinstance(ctx.emit, CppEmitter)
    before = ctx.emit.convolutions.get(source.buffer)
    if before is None or ctx.calls[-1] is not before.call or len(ctx.sources) < len(ctx.calls):
        return None  # another call lies between
    whole = source == before.epilogue.write and source.buffer.kind == "arena" and source.strides[1] == 1
    if ctx.sources[-1] is not maker or not whole or len(maker.users) > 1:
        return None
    _, channels, rows, columns = source.lens
    dense = source.strides[2:] == (columns * channels, channels)
    floats = weights.type == "float" and weights.lens[-2] == 1
    return before if dense and floats and not likely_less(4 * channels * rows * columns, BETWEEN) else None


def in_lanes(source: View, write: View, group: int, lanes: int) -> bool:
    """Whether depthwise.hpp takes a convolution: of groups with as many channels in as out, few enough for a register.

    Measured on a Zen 4: 5 times as fast as the engine of products for groups of 4, 1.7 to 2.2 times for 8 (AVX2: 1 to
    1.3), half as fast for 16.
    """
    (_, ic, *_), (_, oc, *_) = source.lens, write.lens
    if ic != oc or source.type not in ("float", "half", "bf16"):
        return False
    width = ic // group
    return width == 1 or (group > 1 and width in (2, 4, 8) and width <= lanes)


def _depthwise_weights(ctx: LoweringContext, weights: Instruction, origin: str) -> View:
    """{spatial..., G, C}."""
    constant = ctx.constant(weights)
    if constant is not None:
        value, key = constant
        return ctx.packed((*key, "depthwise"), lambda: pack_depthwise(value))
    view = ctx.view(weights)
    return ctx.standard(view.transposed((*range(2, len(view.lens)), 1, 0)), origin)
