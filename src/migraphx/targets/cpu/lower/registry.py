"""The registry that the lowerings of target cpu declare themselves in."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.targets.common.lower import NEUTRAL
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Lowerings
from migraphx.targets.cpu.emit.emitter import CppEmitter
from migraphx.targets.cpu.toolchain import Features

CPU = Lowerings("cpu", NEUTRAL, body="cpp")


def pick(ctx: LoweringContext, question: str, ways: Sequence[str]) -> str:
    """The way to go for the present instruction: the first of `ways`, unless another was measured to be faster."""
    assert isinstance(ctx.emit, CppEmitter)
    return ctx.emit.choices.pick(ctx.instruction, question, ways)


def features_of(ctx: LoweringContext) -> Features:
    """What the kernels that are called can use of the processor."""
    assert isinstance(ctx.emit, CppEmitter)
    return ctx.emit.features
