"""Attention by programs that hold all keys and values of a head, on target gpu against ref."""

from __future__ import annotations

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu import facts
from migraphx.targets.gpu.choices import Choices, Config
from migraphx.targets.gpu.costs.attentions import attention_cost, attentions
from migraphx.targets.gpu.emit.attention import Attention
from tests.targets.gpu.side_by_side import built, check

pytestmark = pytest.mark.usefixtures("everywhere")
RNG = np.random.default_rng(5)


def weight(*lens: int, type: str = "half") -> np.ndarray:
    return RNG.standard_normal(lens).astype(dtypes.to_numpy(type))


def always(monkeypatch: pytest.MonkeyPatch, config: Config) -> None:
    """Makes every choice this one."""
    monkeypatch.setattr(Choices, "pick", lambda *_: config)


@pytest.mark.parametrize(("heads", "keys", "tile", "turns"), [(4, 23, 64, 1), (2, 70, 16, 2)])
def test_attention_of_whole_heads(
    heads: int, keys: int, tile: int, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys in several blocks, the last of them not full; heads that share keys; more tiles than rows."""
    always(monkeypatch, Config("whole heads", tile, 64, 16, group=turns))
    lens = (2, 4, 21, 16), (2, heads, keys, 16), (2, heads, keys, 16)
    for type, scale in (("half", 0.3), ("bf16", 1.0)):
        arrays = {f"x{n}": 3 * weight(*s, type=type) for n, s in enumerate(lens)}
        check(built(lambda b, *x, s=scale: b.attention(*x, scale=s), *(Shape(type, s) for s in lens)), arrays, scale=4)


def test_heads_side_by_side_in_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries, keys and values of 70 tokens as a linear layer gives them; scores so large that one key has all."""
    always(monkeypatch, Config("whole heads", 64, 80, 16, group=1))
    x = weight(2, 70, 96)
    x[0] *= 30

    def heads(b: Builder, x: Instruction, at: int) -> Instruction:
        part = b.slice(x, axes=(2,), starts=(at,), ends=(at + 32,))
        return b.transpose(b.reshape(part, dims=(2, 70, 2, 16)), permutation=(0, 2, 1, 3))

    def build(b: Builder, x: Instruction) -> Instruction:
        y = b.attention(*(heads(b, x, at) for at in (0, 32, 64)))
        return b.reshape(b.transpose(y, permutation=(0, 2, 1, 3)), dims=(2, 70, 32))

    check(built(build, Shape("half", x.shape)), {"x0": x}, scale=4)


def test_which_attention_holds_whole_heads() -> None:
    """Where they fill the device; not with masks, nor where a program's registers do not hold the scores."""

    def best(batch: int, rows: int, keys: int, causal: bool = False, type: str = "half") -> Config:
        q, k = (View(Buffer("arena", 1), type, (batch, 12, n, 64), (n * 768, 64, 768, 1)) for n in (rows, keys))
        a = Attention(q, k, k, None, q, 0.125, causal, False)
        return min(attentions(a, facts.H200), key=lambda c: attention_cost(c, a, facts.H200))

    assert [best(32, n, n).group for n in (197, 128) if best(32, n, n).kernel == "whole heads"] == [4, 2]
    others = (
        best(1, 197, 197),
        best(32, 1, 197),
        best(32, 256, 256),
        best(32, 197, 384),
        best(32, 197, 197, causal=True),
        best(32, 99, 99, type="float"),
    )
    assert {other.kernel.split()[0] for other in others} == {"attention"}
