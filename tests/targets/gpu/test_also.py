"""What a norm or an attention stores besides its own result: a pointwise body of it, without a kernel more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.targets.gpu.choices import Choices, Config
from migraphx.targets.gpu.emit import plans
from tests.targets.gpu.side_by_side import built, check

pytestmark = pytest.mark.usefixtures("everywhere")
RNG = np.random.default_rng(7)
TOKENS, HEADS = Shape("half", (2, 9, 48)), (Shape("half", (2, 3, 9, 16)),) * 3


def through(b: Builder, x: Instruction, scale: float = 0.02) -> Instruction:
    scales = b.full(scale, x)
    return b.dequantizelinear(b.quantizelinear(x, scales, out_type="fp8e4m3fn"), scales)


def weights(b: Builder, k: int) -> Instruction:
    w = through(b, b.literal(RNG.standard_normal((k, 48)).astype(np.float16)))
    return b.broadcast_to(w, (2, k, 48))


def norm(b: Builder, x: Instruction) -> Instruction:
    """Codes are multiplied, and the norm itself is added."""
    y = b.layer_norm(x)
    return b.add(b.dot(through(b, y), weights(b, 48)), y)


def attention(b: Builder, q: Instruction, k: Instruction, v: Instruction) -> Instruction:
    """The heads side by side, of which only the codes are read."""
    y = b.transpose(b.attention(q, k, v), permutation=(0, 2, 1, 3))
    return b.dot(through(b, b.reshape(y, dims=(2, 9, 48))), weights(b, 48))


def two_scales(b: Builder, x: Instruction) -> Instruction:
    """The second body is a kernel of its own."""
    y = b.layer_norm(x)
    return b.add(b.dot(through(b, y), weights(b, 48)), b.dot(through(b, y, 0.03), weights(b, 48)))


def turned(b: Builder, x: Instruction) -> Instruction:
    """So is one whose result lies in another order."""
    y = b.contiguous(b.transpose(b.layer_norm(x), permutation=(0, 2, 1)))
    return b.dot(through(b, y), weights(b, 9))


@pytest.mark.parametrize(("build", "shapes", "kernels"), [
    (norm, (TOKENS,), 2),
    (attention, HEADS, 2),
    (two_scales, (TOKENS,), 4),
])  # fmt: skip
def test_codes_are_stored_by_what_computes_them(
    build: Callable[..., Instruction], shapes: tuple[Shape, ...], kernels: int
) -> None:
    made = check(built(build, *shapes))
    assert len(made.executable.steps) == kernels


def test_codes_of_whole_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    pick, whole = Choices.pick, Config("whole heads", 16, 16, 16, 1, 4, 1, 1)
    monkeypatch.setattr(
        Choices, "pick", lambda self, p, *rest: whole if p.family == "attention" else pick(self, p, *rest)
    )
    assert len(check(built(attention, *HEADS)).executable.steps) == 2


def test_what_lies_in_another_order_is_another_kernel() -> None:
    assert len(check(built(turned, TOKENS)).executable.steps) > 2


def test_outputs_are_kernels_of_their_own() -> None:
    """The caller's memory may be what something else still reads."""

    def build(b: Builder, x: Instruction) -> list[Instruction]:
        y = b.layer_norm(x)
        return [y, b.convert(y, target_type="fp8e4m3fn")]

    assert len(check(built(build, TOKENS)).executable.steps) == 2


def test_codes_of_rows_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PROGRAMS", 1)
    w = RNG.standard_normal((512, 16)).astype(np.float16)

    def build(b: Builder, x: Instruction) -> list[Instruction]:
        y = b.layer_norm(x)
        return [b.dot(through(b, y), b.broadcast_to(through(b, b.literal(w)), (2, 512, 16))), y]

    made = check(built(build, Shape("half", (2, 9, 512))), scale=4)
    stored, product = cast(Any, made.executable).plan.kernels
    assert ("COLS", 256) in stored.constants and "out1" in stored.source and product.name != stored.name
