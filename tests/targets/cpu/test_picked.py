"""Dots with some of several constant matrices, against NumPy: the experts that a token takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape
from migraphx.runtime.options import CompileOptions
from migraphx.targets.cpu.target import translate
from migraphx.targets.cpu.toolchain import features
from tests.tolerances import assert_close

TYPES = ("float", "half", "bf16")
T, M, K, N, E = 3, 2, 10, 70, 5


def numbers(rng: np.random.Generator, type: str, *lens: int) -> np.ndarray:
    return (rng.standard_normal(lens) / 4).astype(dtypes.to_numpy(type))


def experts() -> migraphx.program:
    """For each type: matrices as they lie, transposed before and after they are gathered, with an epilogue; a copy.

    All types are one program, so that there is one compilation.
    """
    p = migraphx.program()
    main, rng = p.graph.main, np.random.default_rng(0)
    b = Builder(main)
    index = main.add_parameter("index", Shape("int64", (T,)))
    outputs: list[Any] = []
    for type in TYPES:
        x = main.add_parameter(type, Shape(type, (T, M, K)))
        plain = b.gather(b.literal(numbers(rng, type, E, K, N)), index, axis=0)
        before = b.gather(b.transpose(b.literal(numbers(rng, type, E, N, K)), permutation=(0, 2, 1)), index, axis=0)
        after = b.transpose(b.gather(b.literal(numbers(rng, type, E, N, K)), index, axis=0), permutation=(0, 2, 1))
        read = b.gather(b.literal(numbers(rng, type, E, K, N)), index, axis=0)
        outputs += [b.dot(x, plain), b.relu(b.dot(x, before)), b.dot(x, after), b.dot(x, read), read]
    main.add_return(outputs)
    return p


@pytest.mark.slow
def test_matrices_are_read_where_they_lie() -> None:
    p, q = experts(), experts()
    calls = translate(experts().graph, CompileOptions(), features()).lowered.calls
    assert [c.label.split()[0] for c in calls].count("picked") == 3 * len(TYPES)
    p.compile(migraphx.get_target("cpu"))
    q.compile(migraphx.get_target("ref"))
    rng = np.random.default_rng(1)
    for index in ([4, -5, 2], [1, 1, -1]):
        given = {"index": np.array(index), **{t: numbers(rng, t, T, M, K) for t in TYPES}}
        for got, want in zip(p.run(given), q.run(given), strict=True):
            assert_close(np.array(got), np.array(want))
    with pytest.raises(IndexError, match="gather: an index is out of range for a length of 5: found 5"):
        p.run({**given, "index": np.array([0, 5, 1])})
