"""What an executable does with memory, graphs and control flow, whatever its kernels compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.targets.common.call import AGAIN, IF, JUMP, LOOP, NUMBER, Call
from migraphx.targets.common.plan_memory import plan_memory
from migraphx.targets.common.sections import Outline
from migraphx.targets.common.steps import lifetimes
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu.accelerator import ALIGNMENT, Accelerator
from migraphx.targets.gpu.executable import GpuExecutable
from migraphx.targets.gpu.kernel import Kernel, Launch
from migraphx.targets.gpu.plan import Plan
from migraphx.targets.gpu.slots import Slots
from tests.targets.gpu.interpreted import InterpretedDevice

TEXT = """
import triton
import triton.language as tl


@triton.jit
def axpy(x, y, out, n, ALPHA: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, ALPHA * tl.load(x + i, m) + tl.load(y + i, m), m)
"""
BLOCK = 16


def axpy(x: View, y: View, out: View, alpha: float = 1.0) -> Call:
    """out = alpha x + y."""
    constants = (("ALPHA", alpha), ("BLOCK", BLOCK))
    kernel = Kernel("axpy", TEXT, ("*fp32", "*fp32", "*fp32", "i32"), constants)
    return Call(Launch(kernel, (-(-out.elements // BLOCK), 1, 1)), (x, y), (out,), (out.elements,), "axpy")


def vector(kind: str, index: int, n: int, type: str = "float") -> View:
    size = Shape(type, (n,)).bytes
    return View(Buffer(kind, size, index), type, (n,), (1,))


def executable(
    device: Accelerator, calls: list[Call], inputs: list[View], outputs: list[View], slots: int = 0,
    weights: Sequence[np.ndarray] = (), checks: Sequence[str] = (), offload_copy: bool = True,
    memory: Slots | None = None, keep_weights: bool = True,
) -> GpuExecutable:  # fmt: skip
    plan = Plan.of(calls, plan_memory(lifetimes(calls), ALIGNMENT), slots)
    parameters = {f"x{v.buffer.index}": Shape(v.type, v.lens) for v in inputs}
    outline = Outline(parameters, [Shape(v.type, v.lens) for v in outputs], [], list(checks), plan.arena)
    return GpuExecutable(device, plan, outline, weights, offload_copy, (), memory, keep_weights)


def run(made: GpuExecutable, *inputs: np.ndarray) -> list[np.ndarray]:
    return [a.array for a in made.run([Argument.of(i) for i in inputs], None)]


def floats(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def test_a_chain_of_kernels(accelerator: Accelerator) -> None:
    """Temporaries, weights, and an input that two kernels read."""
    x, y, w, t, u = (
        vector(k, i, 37) for k, i in [("input", 0), ("input", 1), ("weight", 0), ("arena", 0), ("arena", 1)]
    )
    out = vector("output", 0, 37)
    weight = floats(37, 2)
    calls = [axpy(x, y, t, 2.0), axpy(t, w, u), axpy(u, x, out, 0.5)]
    made = executable(accelerator, calls, [x, y], [out], weights=[weight])
    for seed in (0, 1):
        a, b = floats(37, seed), floats(37, seed + 10)
        np.testing.assert_allclose(run(made, a, b)[0], 0.5 * (2 * a + b + weight) + a, rtol=1e-6, atol=1e-6)


def test_memory_outside_is_refused() -> None:
    x, out = vector("input", 0, 20), vector("output", 0, 20)
    past = View(x.buffer, "float", (20,), (1,), offset=1)
    made = executable(InterpretedDevice(), [axpy(past, x, out)], [x], [out])
    with pytest.raises(Exception, match=r"reads 4 bytes at 0x.*outside of all memory: 1 lanes"):
        run(made, floats(20))


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_a_loop_moves_its_views(accelerator: Accelerator, trips: int) -> None:
    """acc = 0; for i in range(trips): acc = acc + rows[i], written to history[i]; trip numbers are stored too."""
    n, most = 18, 4
    rows, numbers = vector("input", 0, n * most), vector("output", 1, most, "int64")
    zero, count, out = vector("input", 1, n), vector("input", 2, 1, "int64"), vector("output", 0, n)
    ring = View(Buffer("arena", 2 * n * 4, 0), "float", (2, n), (n, 1))
    now, after = ring.row(0, 0, 0, mask=1).first(), ring.row(0, 0, 0, phase=1, mask=1).first()
    row = View(rows.buffer, "float", (most, n), (n, 1)).row(0, 0, 0).first()
    number = View(numbers.buffer, "int64", (most, 1), (1, 1)).row(0, 0, 0).first()
    start = View(ring.buffer, "float", (n,), (1,))
    calls = [
        axpy(zero, zero, start),
        Call(None, (count,), (), (LOOP, 0, 5, most, 1, 0), "loop"),
        Call(None, (number,), (), (NUMBER, 0, -1), "number"),
        axpy(now, row, after),
        Call(None, (count,), (), (AGAIN, 0, 2, most, 1, 0), "again"),
        axpy(now, zero, out),
    ]
    made = executable(accelerator, calls, [rows, zero, count], [out, numbers], slots=1)
    data = floats(n * most).reshape(most, n)
    got, counted = run(made, data.reshape(-1), np.zeros(n, np.float32), np.array([trips], np.int64))
    np.testing.assert_allclose(got, data[:trips].sum(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(counted[:trips], range(trips))


@pytest.mark.parametrize("taken", [False, True])
def test_a_branch(accelerator: Accelerator, taken: bool) -> None:
    x, which, out = vector("input", 0, 20), vector("input", 1, 1, "bool"), vector("output", 0, 20)
    calls = [
        Call(None, (which,), (), (IF, 0, 3), "if"),
        axpy(x, x, out, 2.0),
        Call(None, (), (), (JUMP, 0, 4), "else"),
        axpy(x, x, out, -2.0),
    ]
    made = executable(accelerator, calls, [x, which], [out])
    a = floats(20)
    np.testing.assert_allclose(run(made, a, np.array([taken]))[0], (3 if taken else -1) * a, rtol=1e-6)
