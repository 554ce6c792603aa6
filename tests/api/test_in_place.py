"""Outputs in the memory of inputs: rows of a cache are replaced where it lies."""

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape


def program(read_elsewhere: bool = False) -> migraphx.program:
    """Rows `at` of `cache` {3, 6, 4} replaced by `new` {3, 2, 4}, and their sum; or the old cache's sum."""
    made = migraphx.program()
    main = made.graph.main
    cache, new, at = (
        main.add_parameter(name, Shape(type, lens))
        for name, type, lens in (("cache", "float", (3, 6, 4)), ("new", "float", (3, 2, 4)), ("at", "int64", (2,)))
    )
    b = Builder(main)
    rows = b.multibroadcast(b.reshape(at, dims=(1, 2, 1)), out_lens=new.shape.lens)
    present = b.scatter_none(cache, rows, new, axis=1)
    main.add_return([b.reduce_sum(cache if read_elsewhere else present, axes=(0, 1, 2)), present])
    made.compile(migraphx.get_target("cpu"), offload_copy=False)
    return made


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    made = {n: rng.standard_normal(s).astype(np.float32) for n, s in (("cache", (3, 6, 4)), ("new", (3, 2, 4)))}
    return {**made, "at": np.array([4, 1])}


def test_rows_are_replaced_in_the_input(tmp_path):
    made = program()
    assert made.get_in_place() == {"main:#output_1": "cache"}
    migraphx.save(made, str(tmp_path / "p.mxr"))
    for one in (made, migraphx.load(str(tmp_path / "p.mxr"))):
        given, total = inputs(), np.empty((1, 1, 1), np.float32)
        want = given["cache"].copy()
        want[:, [4, 1]] = given["new"]
        bound = {"main:#output_0": total, "main:#output_1": given["cache"]}
        one.run({**given, **bound})
        np.testing.assert_array_equal(given["cache"], want)
        np.testing.assert_allclose(total, want.sum(), rtol=1e-5)


def test_other_memory_is_filled():
    given, made = inputs(), program()
    before, present = given["cache"].copy(), np.full((3, 6, 4), np.nan, np.float32)
    made.run({**given, "main:#output_0": np.empty((1, 1, 1), np.float32), "main:#output_1": present})
    np.testing.assert_array_equal(given["cache"], before)
    before[:, [4, 1]] = given["new"]
    np.testing.assert_array_equal(present, before)


def test_what_is_read_elsewhere_too_stays_apart():
    given, made = inputs(), program(read_elsewhere=True)
    assert made.get_in_place() == {}
    bound = {"main:#output_0": np.empty((1, 1, 1), np.float32), "main:#output_1": given["cache"]}
    with pytest.raises(ValueError, match="output 1 shares memory with input"):
        made.run({**given, **bound})
