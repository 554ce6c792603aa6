"""The public calls about GPUs: memory there and back, programs on it, streams, errors that come later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.ir.shape import Shape
from migraphx.runtime.device import HOST
from migraphx.targets.gpu.accelerator import Accelerator
from tests.targets.gpu.side_by_side import built

X = np.random.default_rng(0).standard_normal((4, 33)).astype(np.float32)


@pytest.fixture(autouse=True)
def on_gpu(gpu_target: str) -> None:
    """All tests here ask for the target by its name."""


def compiled(**options: Any) -> migraphx.program:
    made = built(lambda b, x: [b.relu(x), b.add(x, x)], Shape("float", X.shape))
    made.compile(migraphx.get_target("gpu"), **options)
    return made


def test_there_and_back(accelerator: Accelerator) -> None:
    there = migraphx.to_gpu(migraphx.argument(X))
    assert there.device is accelerator and there.data_ptr() % 256 == 0
    np.testing.assert_array_equal(migraphx.from_gpu(there), X)
    again = migraphx.to_gpu(there)
    assert again.data_ptr() != there.data_ptr() and again == there
    pinned = migraphx.to_gpu(there, host=True)
    assert pinned.device is HOST
    np.testing.assert_array_equal(pinned, X)
    empty = migraphx.allocate_gpu(there.get_shape())
    assert empty.device is accelerator and empty.get_shape() == there.get_shape()
    np.testing.assert_array_equal(migraphx.allocate_gpu(there.get_shape(), host=True), np.zeros_like(X))


def test_a_program_on_the_device(accelerator: Accelerator) -> None:
    """With its outputs made there, or where the caller says; by pointers too."""
    made = compiled(offload_copy=False)
    x = migraphx.to_gpu(migraphx.argument(X))
    results = made.run({"x0": x})
    assert all(r.device is accelerator for r in results)
    np.testing.assert_array_equal(migraphx.from_gpu(results[0]), np.maximum(X, 0))
    places = [migraphx.allocate_gpu(s) for s in made.get_output_shapes()]
    given = {"x0": x, "main:#output_0": places[0], "main:#output_1": places[1]}
    made.run_async(given, accelerator.stream(), "ihipStream_t")
    migraphx.gpu_sync()
    np.testing.assert_array_equal(migraphx.from_gpu(places[1]), X + X)
    pointed = migraphx.argument_from_pointer(x.get_shape(), x.data_ptr())
    np.testing.assert_array_equal(migraphx.from_gpu(made.run({"x0": pointed})[0]), np.maximum(X, 0))


def test_arguments_of_another_device_are_named(accelerator: Accelerator) -> None:
    with pytest.raises(ValueError, match=r"cpu.*cuda:0|cuda:0.*cpu"):
        compiled(offload_copy=False).run({"x0": X})
    x = migraphx.to_gpu(migraphx.argument(X))
    there = compiled().run({"x0": X})
    assert all(r.device is HOST for r in there)
    np.testing.assert_array_equal(there[1], X + X)
    del x


def test_what_kernels_find_is_raised_where_somebody_waits() -> None:
    made = built(lambda b, x, i: b.gather(x, i, axis=0), Shape("float", X.shape), Shape("int64", (2,)))
    plain = made.clone()
    made.compile(migraphx.get_target("gpu"), offload_copy=False)
    plain.compile(migraphx.get_target("gpu"))
    wrong, right = np.array([1, 9]), np.array([1, -1])
    given = {"x0": migraphx.to_gpu(migraphx.argument(X)), "x1": migraphx.to_gpu(migraphx.argument(wrong))}
    made.run_async(given)
    with pytest.raises(IndexError, match="found 9"):
        migraphx.gpu_sync()
    migraphx.gpu_sync()
    with pytest.raises(IndexError, match="found 9"):
        made.run(given)
    with pytest.raises(IndexError, match="found 9"):
        plain.run({"x0": X, "x1": wrong})
    np.testing.assert_array_equal(plain.run({"x0": X, "x1": right})[0], X[right])
