"""A program gets as many threads as its work is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape
from migraphx.targets.cpu import executable

CORES = 8


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "available", lambda: CORES)


def dots(rows: int, n: int, trips: int = 0) -> migraphx.program:
    """x {rows, n} times {n, n}; as the body of a loop, where there are trips."""
    p = migraphx.program()
    b = Builder(p.graph.main)
    x = b.module.add_parameter("x", Shape("float", (rows, n)))
    weights = b.literal(np.eye(n, dtype=np.float32))
    made = b.dot(x, weights)
    if trips:
        body = p.graph.fresh_module("body")
        _, going, state = (
            body.add_parameter(name, s)
            for name, s in (("number", Shape("int64", ())), ("going", Shape("bool", ())), ("state", x.shape))
        )
        body.add_return([going, Builder(body).tanh(Builder(body).dot(state, weights))])
        given = b.literal(np.array(trips)), b.literal(np.array(True)), x
        (made,) = b.outputs(b.loop(*given, modules=[body], max_iterations=trips), 1)
    b.module.add_return([made])
    return p


def chosen(p: migraphx.program, **options: Any) -> int:
    p.compile(migraphx.get_target("cpu"), **options)
    return p.executable.threads


def test_threads_for_the_work() -> None:
    assert chosen(dots(1, 64)) == 1
    assert 1 < chosen(dots(128, 256)) < CORES
    assert chosen(dots(1024, 1024)) == CORES


def test_a_loop_s_trips_count() -> None:
    assert chosen(dots(128, 128, trips=1)) == 1 < chosen(dots(128, 128, trips=500))
    assert chosen(dots(1, 16, trips=500)) == 1  # many trips of which none is worth a barrier


def test_threads_that_were_asked_for() -> None:
    assert chosen(dots(1, 64), num_threads=3) == 3
    assert chosen(dots(1024, 1024), num_threads=1) == 1


def test_a_loaded_program_has_the_same(tmp_path: Path) -> None:
    for rows in (1, 128):
        p = dots(rows, 256)
        count = chosen(p)
        migraphx.save(p, str(tmp_path / "p.mxr"))
        loaded = migraphx.load(str(tmp_path / "p.mxr")).executable
        assert loaded is not None and loaded.threads == count
