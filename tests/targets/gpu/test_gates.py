"""Gated layers of many rows: two products in one kernel against ref, and where they stay two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import migraphx
from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.runtime.options import CompileOptions
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.choices import APART, Choices, Config, Problem
from migraphx.targets.gpu.kernel import Kernel
from migraphx.targets.gpu.target import GpuTarget
from migraphx.targets.gpu.weights import check_reach
from tests.targets.gpu import test_forms
from tests.targets.gpu.interpreted import InterpretedDevice
from tests.targets.gpu.side_by_side import built, check, either
from tests.tiers import few
from tests.tolerances import assert_close

pytestmark = pytest.mark.usefixtures("everywhere")
RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def few_processors(hopper_with: Callable[..., None]) -> None:
    """A device that small problems fill: programs take several tiles."""
    hopper_with(processors=2)


def weight(*lens: int, type: str = "half") -> np.ndarray:
    return RNG.standard_normal(lens).astype(dtypes.to_numpy(type))


@pytest.mark.parametrize("type", few(["half", "bf16"], "half"))
def test_gates_in_one_kernel(type: str, always: Callable[..., None]) -> None:
    """The halves of a wide product with a bias, which one multiplies the other with: ends of tiles, several of them."""
    always(Config("described", 16, 32, 32, group=2))
    for k, n, gelu_of in ((72, 40, 0), (96, 16, 1), (80, 88, 1)):
        w, bias = weight(2 * n, k, type=type), weight(2 * n, type=type)

        def gated(
            b: Builder, x: Instruction, w: Any = w, bias: Any = bias, n: int = n, of: int = gelu_of
        ) -> Instruction:
            wide = b.linear(x, b.literal(w), b.literal(bias))
            halves = [b.slice(wide, axes=(2,), starts=(s,), ends=(s + n,)) for s in (0, n)]
            return b.mul(b.gelu(halves[of]), halves[1 - of])

        steps = check(built(gated, Shape(type, (2, 35, k))), scale=8).executable.steps
        assert [s.kernel for s in steps if "dot" in s.kernel] == [s.kernel for s in steps][-1:]


@pytest.mark.parametrize("behind", [False, True])
def test_gates_whose_weights_are_inputs(behind: bool, always: Callable[..., None]) -> None:
    """Wherever they lie: which comes first in memory is known when the kernel runs."""
    always(Config("described", 16, 32, 32, group=2))
    k, n = 80, 40

    def gated(b: Builder, x: Instruction, both: Instruction) -> Instruction:
        parts = [b.slice(both, axes=(0,), starts=(s,), ends=(s + n,)) for s in (0, n)]
        first, second = (b.dot(x, b.transpose(w, permutation=(1, 0))) for w in parts[:: -1 if behind else 1])
        return b.mul(b.mul(first, b.sigmoid(first)), second)

    made = built(gated, Shape("half", (70, k)), Shape("half", (2 * n, k)))
    steps = check(made, {"x0": weight(70, k), "x1": weight(2 * n, k)}, scale=8).executable.steps
    assert sum("dot" in s.kernel for s in steps) == 1


@pytest.mark.parametrize(
    "why",
    few(
        ["seen elsewhere", "other rows", "few rows", "other weights", "two inputs", "floats"],
        "seen elsewhere",
        "few rows",
    ),
)
def test_gates_that_stay_apart(why: str, always: Callable[..., None]) -> None:
    """Each reason why one kernel cannot compute both."""
    always(Config("product", 16, 32, 32) if why in ("few rows", "floats") else Config("described", 16, 32, 32, group=2))
    rows, k, n, type = 32 if why == "few rows" else 70, 80, 40, "float" if why == "floats" else "half"

    def gated(b: Builder, x: Instruction, y: Instruction, w: Instruction, *others: Instruction) -> list[Instruction]:
        wide = b.dot(x, b.transpose(w, permutation=(1, 0)))
        if why in ("few rows", "floats"):
            first, second = (b.slice(wide, axes=(1,), starts=(s,), ends=(s + n,)) for s in (0, n))
        else:
            upper, lower = (b.slice(w, axes=(0,), starts=(s,), ends=(s + n,)) for s in (0, n))
            first = b.dot(x, b.transpose(upper, permutation=(1, 0)))
            lower = others[1] if why == "two inputs" else lower
            lower = others[0] if why == "other weights" else b.transpose(lower, permutation=(1, 0))
            second = b.dot(y if why == "other rows" else x, lower)
        return [b.mul(b.sigmoid(first), second), *([b.neg(first)] if why == "seen elsewhere" else [])]

    shapes = [Shape(type, lens) for lens in ((rows, k), (rows, k), (2 * n, k), (k, n), (n, k))]
    inputs = {f"x{i}": weight(*s.lens, type=type) for i, s in enumerate(shapes)}
    steps = check(built(gated, *shapes), inputs, scale=8).executable.steps
    products = [s.kernel for s in steps if "dot" in s.kernel]
    assert len(products) == (1 if why in ("few rows", "floats") else 2)


def test_gates_beside_control_flow(always: Callable[..., None]) -> None:
    """They stay apart: what nobody reads is not dropped there."""
    always(Config("described", 16, 32, 32, group=2))
    weights = [weight(80, 40) for _ in range(2)]

    def gated(b: Builder, x: Instruction, condition: Instruction) -> Instruction:
        value, gate = (b.dot(x, b.literal(w)) for w in weights)
        return either(b, condition, b.mul(value, b.sigmoid(gate)))

    shapes = Shape("half", (70, 80)), Shape("bool", (1,))
    made = built(gated, *shapes)
    steps = check(made, {"x0": weight(70, 80), "x1": np.ones(1, bool)}, scale=8).executable.steps
    assert sum("dot" in s.kernel for s in steps) == 2


def test_weights_out_of_reach_are_refused() -> None:
    """A descriptor's stride would be cut, and lead elsewhere."""
    gated, other = (Kernel("k", text, (), (), ()) for text in ("acc, more = gated_sums(rows)", "acc = sums(rows)"))
    near, far = ([SimpleNamespace(address=n) for n in (1 << 20, end)] for end in (1 << 40, (1 << 40) + (1 << 20)))
    check_reach([other, gated], cast(Any, near))
    check_reach([other], cast(Any, far))
    with pytest.raises(RuntimeError, match="spans less than 1099511627776"):
        check_reach([other, gated], cast(Any, far))


def test_gates_of_convolutions(always: Callable[..., None]) -> None:
    """Of single pixels, which are rows of products as well."""
    always(Config("described", 16, 32, 32, group=2))
    weights = [weight(24, 72, 1, 1) for _ in range(2)]

    def gated(b: Builder, x: Instruction) -> Instruction:
        value, gate = (b.convolution(x, b.literal(w)) for w in weights)
        return b.mul(value, b.sigmoid(gate))

    made = built(gated, permuted("half", (2, 72, 6, 7), (0, 2, 3, 1)))
    steps = check(made, scale=8).executable.steps
    assert sum("convolution" in s.kernel or "dot" in s.kernel for s in steps) == 1


def test_gates_of_any_length(accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled once, with as many rows as come."""
    weights = [weight(96, 40) / 8 for _ in range(2)]

    def gated(b: Builder, x: Instruction) -> list[Instruction]:
        value, gate = (b.matmul(x, b.literal(w)) for w in weights)
        return [b.cast(b.mul(value, b.sigmoid(gate)), "float")]

    parameters: test_forms.Parameters = {"x0": ("half", [test_forms.B, test_forms.S, 96])}
    monkeypatch.setitem(test_forms.CASES, "gates", (gated, parameters, 1))
    monkeypatch.setattr(Choices, "winners", lambda self, problem: iter(()))
    made = test_forms.compiled("gates", accelerator)
    for batch, tokens in ((2, 40), (3, 33), (1, 200), (2, 7)):
        given = test_forms.random(parameters, {"batch": batch, "tokens": tokens})
        oracle = built(gated, *(Shape.of(x) for x in given.values()))
        oracle.compile(migraphx.get_target("ref"))
        got, want = (np.asarray(run(given)[0]).astype(np.float16) for run in (made.run, oracle.run))
        assert_close(got, want, scale=8)
    forms = test_forms.region(made).forms
    if forms.improving is not None:
        forms.improving.join()
    assert forms.waited == 1
    assert sum("dot" in s.kernel for s in made.executable.steps) == 1


@pytest.mark.parametrize("apart", [False, True])
def test_the_faster_way_is_taken(apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured decides; `explain` tells of the other."""
    seen = dict[Problem, list[Config]]()

    def winners(self: Choices, problem: Problem) -> Iterator[Config]:
        return iter([Config(APART, 0, 0, 0)] if apart and problem.family == "gated" else [])

    pick = Choices.pick

    def noted(self: Choices, problem: Problem, candidates: list[Config], *rest: Any) -> Config:
        seen[problem] = candidates = [*candidates]
        return pick(self, problem, candidates, *rest)

    monkeypatch.setattr(Choices, "winners", winners)
    monkeypatch.setattr(Choices, "pick", noted)

    def gated(b: Builder, x: Instruction, w: Instruction) -> Instruction:
        wide = b.dot(x, b.transpose(w, permutation=(1, 0)))
        halves = (b.slice(wide, axes=(1,), starts=(s,), ends=(s + 64,)) for s in (0, 64))
        return b.mul(b.sigmoid(next(halves)), next(halves))

    shapes = Shape("half", (128, 96)), Shape("half", (128, 96))
    made = built(gated, *shapes)
    compiled = check(made, {f"x{i}": weight(*s.lens) for i, s in enumerate(shapes)}, scale=8)
    (problem,) = (p for p in seen if p.family == "gated")
    assert problem.shape == (1, 128, 128, 96) and Config(APART, 0, 0, 0) in seen[problem]
    assert sum("dot" in s.kernel for s in compiled.executable.steps) == (2 if apart else 1)
    refusals = GpuTarget(InterpretedDevice()).refusals(made.graph.clone(), CompileOptions())
    taken = "beside two products, which was measured" if apart else "beside described (tiles "
    told = [str(r.why) for r in refusals if r.rule == "gated"]
    assert told and all(taken in text for text in told)
