"""What no target has a kernel for, between what the device computes: NumPy runs it, its values go there and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.api.program import program
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import DynamicDimension, Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.device import HOST
from migraphx.targets.common.dynamic import DynamicExecutable
from migraphx.targets.gpu.accelerator import Accelerator
from tests.targets.gpu.side_by_side import built
from tests.tolerances import assert_close

RNG = np.random.default_rng(3)
A = RNG.standard_normal((2, 5, 5)).astype(np.float32) + 4 * np.eye(5, dtype=np.float32)
B = RNG.standard_normal((2, 5, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def on_gpu(gpu_target: str) -> None:
    """All tests here ask for the target by its name."""


def solved(b: Builder, a: Instruction, right: Instruction) -> list[Instruction]:
    """Products before, between and behind what NumPy solves; an `info` that must be 0; a value that stays there."""
    square = b.dot(a, b.transpose(a, permutation=(0, 2, 1)))
    pair = b.solve(square, right)
    result, info = b.get_tuple_elem(pair, index=0), b.get_tuple_elem(pair, index=1)
    checked = b.linalg_check(info, api="torch.linalg.solve")
    factor = b.get_tuple_elem(b.cholesky(b.add(square, square)), index=0)
    return [b.relu(result), b.convert(checked, target_type="float"), b.dot(factor, right), b.tanh(a)]


def wanted(a: np.ndarray, right: np.ndarray) -> list[np.ndarray]:
    square = a.astype(np.float64) @ a.astype(np.float64).swapaxes(1, 2)
    answer = np.linalg.solve(square, right.astype(np.float64))
    return [np.maximum(answer, 0), np.zeros(len(a)), np.linalg.cholesky(2 * square) @ right, np.tanh(a)]


def compiled(*shapes: Shape, **options: Any) -> program:
    made = built(solved, *(shapes or (Shape("float", A.shape), Shape("float", B.shape))))
    made.compile(migraphx.get_target("gpu"), **options)
    return made


def compare(made: program, given: Mapping[str, np.ndarray]) -> None:
    for got, want in zip(made.run(dict(given)), wanted(*given.values()), strict=True):
        assert_close(np.asarray(got), want.astype(np.float32), scale=64)


def test_numpy_runs_it_between_kernels() -> None:
    """Twice, since the second run finds what the first left behind; each step of it is told."""
    made = compiled()
    for n in (1, 2):
        compare(made, {"x0": A * n, "x1": B})
    executable = made.executable
    assert isinstance(executable, DynamicExecutable)
    kernels = [s.kernel for s in executable.steps]
    assert kernels.count("host") >= 3 and any("solve(" in s.text for s in executable.steps)
    assert len(executable.profile([Argument.of(x) for x in (A, B)], 1)) == len(executable.steps)


def test_arguments_on_the_device(accelerator: Accelerator) -> None:
    """Results lie there; what NumPy reads waits for the stream in which it is made."""
    made = compiled(offload_copy=False)
    given = {"x0": migraphx.to_gpu(migraphx.argument(A)), "x1": migraphx.to_gpu(migraphx.argument(B))}
    places = [migraphx.allocate_gpu(s) for s in made.get_output_shapes()]
    outputs = {f"main:#output_{k}": place for k, place in enumerate(places)}
    results = made.run(given)
    made.run_async({**given, **outputs}, accelerator.stream(), "ihipStream_t")
    migraphx.gpu_sync()
    for got, place, want in zip(results, places, wanted(A, B), strict=True):
        assert got.device is accelerator is not HOST
        assert_close(np.asarray(migraphx.from_gpu(got)), want.astype(np.float32), scale=64)
        assert_close(np.asarray(migraphx.from_gpu(place)), want.astype(np.float32), scale=64)


@pytest.mark.parametrize("offload", [True, False])
def test_what_has_no_answer_is_an_error(offload: bool) -> None:
    """Which says where; the next run is as ever."""
    made = compiled(offload_copy=offload)
    bad = A.copy()
    bad[1] = 0
    arrays = {"x0": bad, "x1": B}
    given = arrays if offload else {n: migraphx.to_gpu(migraphx.argument(x)) for n, x in arrays.items()}
    with pytest.raises(np.linalg.LinAlgError, match=r"torch\.linalg\.solve: \(Batch element 1\)"):
        made.run(given)
    if offload:
        compare(made, {"x0": A, "x1": B})


def test_of_any_length() -> None:
    """Batches of lengths that are known when they come."""
    batch = DynamicDimension(1, 8, symbol="batch")
    made = compiled(*(Shape.of_dims("float", (batch, *own)) for own in ((5, 5), (5, 3))))
    for n in (1, 2, 1):
        compare(made, {"x0": A[:n], "x1": B[:n]})


def test_a_saved_program_runs(tmp_path: Path) -> None:
    made = compiled()
    migraphx.save(made, str(tmp_path / "p.mxr"))
    compare(migraphx.load(str(tmp_path / "p.mxr")), {"x0": A, "x1": B})
