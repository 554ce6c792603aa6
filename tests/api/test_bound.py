"""A run on the arguments of the run before: it checks nothing again, and must notice everything that is another."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

import migraphx

OUTPUT = "main:#output_0"
LENS = (3, 5)


def random(seed: int) -> np.ndarray:
    return default_rng(seed).standard_normal(LENS).astype(np.float32)


@pytest.fixture(params=["ref", "cpu"])
def minus(request: pytest.FixtureRequest) -> migraphx.program:
    p = migraphx.program()
    main, s = p.get_main_module(), migraphx.shape("float", list(LENS))
    x, y = main.add_parameter("x", s), main.add_parameter("y", s)
    main.add_return([main.add_instruction(migraphx.op("sub"), [x, y])])
    p.compile(migraphx.get_target(request.param))
    return p


def arguments(seed: int) -> dict[str, Any]:
    """Inputs and an output, as arguments."""
    made = {"x": random(seed), "y": random(seed + 1), OUTPUT: np.zeros(LENS, np.float32)}
    return {name: migraphx.argument(a) for name, a in made.items()}


def check(p: migraphx.program, given: dict[str, Any]) -> None:
    (got,) = p.run(given)
    expected = np.asarray(given["x"]) - np.asarray(given["y"])
    np.testing.assert_array_equal(np.asarray(given[OUTPUT]), expected)
    assert got.data_ptr() == given[OUTPUT].data_ptr()


def test_new_values_in_the_same_memory_and_other_arguments(minus: migraphx.program) -> None:
    first, second = arguments(0), arguments(10)
    for turn in range(4):
        for given in (first, first, second, {**first, "y": second["y"]}, {**first, OUTPUT: second[OUTPUT]}):
            first["x"].array[...] = random(20 + turn)
            check(minus, given)
    check(minus, dict(reversed(first.items())))
    check(minus, {**first, "x": first["y"], "y": first["x"]})  # the same objects under other names


def test_what_is_wrong_behind_a_run_that_was_right(minus: migraphx.program) -> None:
    given = arguments(0)
    wide = migraphx.argument(np.zeros((3, 6), np.float32))
    frozen = np.zeros(LENS, np.float32)
    frozen.flags.writeable = False
    without = {k: v for k, v in given.items() if k != "y"}
    for params, error, words in (
        ({**given, "z": wide}, ValueError, "no parameter 'z'"),
        (without, ValueError, "'y' .*is missing"),
        ({**without, "z": given["y"]}, ValueError, "'y' .*is missing"),
        ({**given, "x": wide}, ValueError, "'x' must have shape"),
        ({**given, OUTPUT: wide}, ValueError, "must have shape"),
        ({**given, OUTPUT: frozen}, ValueError, "read-only"),
        ({**given, OUTPUT: given["x"]}, ValueError, "shares memory"),
        ([*given.items()], TypeError, "must map names to values"),
    ):
        check(minus, given)
        with pytest.raises(error, match=words):
            minus.run(params)  # type: ignore[arg-type]
    check(minus, given)
    with pytest.raises(ValueError, match="stream"):
        minus.run_async(given, 7)


def test_outputs_that_become_read_only(minus: migraphx.program) -> None:
    given = arguments(0)
    check(minus, given)
    given[OUTPUT].array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        minus.run(given)


def test_arrays_may_change_their_shape_between_runs(minus: migraphx.program) -> None:
    given = {name: np.array(a) for name, a in arguments(0).items()}
    for _ in range(2):
        minus.run(given)
        np.testing.assert_array_equal(given[OUTPUT], given["x"] - given["y"])
    given["x"].shape = (5, 3)
    with pytest.raises(ValueError, match="'x' must have shape"):
        minus.run(given)


def test_a_program_keeps_no_arguments_alive(minus: migraphx.program) -> None:
    given = arguments(0)
    check(minus, given)
    held = [weakref.ref(a) for a in given.values()]
    given = arguments(10)
    gc.collect()
    assert [ref() for ref in held] == [None] * 3
    check(minus, given)
    for p in (minus.clone(), copy.copy(minus), pickle.loads(pickle.dumps(minus))):
        check(p, given)
        check(p, arguments(20))
