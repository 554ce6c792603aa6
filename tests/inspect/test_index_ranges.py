"""Inputs that become indices: the values of their range run, and those beside it do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.inspect.index_ranges import index_ranges
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape

LENS = (2, 3)
Write = Callable[[Builder, Any], Any]


def constant(b: Builder, value: Any) -> Any:
    return b.multibroadcast(b.literal(np.array(value, np.int64)), out_lens=LENS)


def table(b: Builder, *lens: int) -> Any:
    return b.literal(np.zeros(lens, np.float32))


def taken(length: int, indices: Write) -> Write:
    return lambda b, i: b.gather(table(b, length, 2), indices(b, i), axis=0)


def narrowest(b: Builder, i: Any) -> Any:
    """Two tables, as a BERT's words and kinds would be, did they have one input."""
    return b.add(taken(9, lambda b, i: i)(b, i), taken(5, lambda b, i: i)(b, i))


def wrapped(b: Builder, i: Any) -> Any:
    """Counted from the end where negative: only the branch that takes the input as it is can be satisfied."""
    return b.where(b.less(i, constant(b, 0)), b.add(i, constant(b, 7)), i)


CASES: dict[str, tuple[Write, tuple[int, int]]] = {
    "gather": (taken(7, lambda b, i: i), (0, 6)),
    "several": (narrowest, (0, 4)),
    "casts": (taken(7, lambda b, i: b.convert(b.convert(i, target_type="float"), target_type="int32")), (0, 6)),
    "reshape": (taken(7, lambda b, i: b.reshape(b.transpose(i, permutation=(1, 0)), dims=(6,))), (0, 6)),
    "slice": (taken(7, lambda b, i: b.slice(i, axes=(1,), starts=(1,), ends=(2,))), (0, 6)),
    "concat": (taken(7, lambda b, i: b.concat(i, b.reverse(i, axes=(0,)), axis=0)), (0, 6)),
    "add": (taken(7, lambda b, i: b.add(i, constant(b, [2, 0, 1]))), (0, 4)),
    "sub": (taken(7, lambda b, i: b.sub(i, constant(b, 3))), (3, 9)),
    "sub from": (taken(7, lambda b, i: b.sub(constant(b, 8), i)), (2, 8)),
    "mul": (taken(7, lambda b, i: b.mul(i, constant(b, 3))), (0, 2)),
    "div": (taken(7, lambda b, i: b.div(i, constant(b, 2))), (0, 12)),
    "square": (taken(17, lambda b, i: b.mul(i, i)), (0, 4)),
    "twice": (taken(17, lambda b, i: b.add(i, i)), (0, 8)),
    "where": (taken(7, wrapped), (0, 6)),
    "prefix sum": (taken(7, lambda b, i: b.prefix_scan_sum(i, axis=1)), (0, 2)),
    "clip": (taken(7, lambda b, i: b.max(i, constant(b, 2))), (0, 6)),
    "gather_elements": (lambda b, i: b.gather_elements(table(b, 2, 7), i, axis=-1), (0, 6)),
    "gathernd": (lambda b, i: b.gathernd(table(b, 4, 7, 9), i), (0, 3)),
    "scatter": (lambda b, i: b.scatter_add(table(b, 2, 7), i, table(b, *LENS), axis=1), (0, 6)),
    "scatternd": (lambda b, i: b.scatternd_none(table(b, 4, 7, 9), i, table(b, 2)), (0, 3)),
    "data of a gather": (
        taken(7, lambda b, i: b.gather(i, b.literal(np.array([1], np.int64)), axis=0)),
        (0, 6),
    ),
}


def program(write: Write) -> migraphx.program:
    p = migraphx.program()
    main = p.graph.main
    main.add_return([write(Builder(main), main.add_parameter("i", Shape("int64", LENS)))])
    return p


@pytest.mark.parametrize("case", CASES)
def test_every_value_of_the_range_fits(case: str) -> None:
    write, wanted = CASES[case]
    p = program(write)
    assert index_ranges(p.graph) == {"i": wanted}
    p.compile(migraphx.get_target("ref"))
    for value in wanted:
        p.run({"i": np.full(LENS, value, np.int64)})
    with pytest.raises(IndexError):
        for beside in (wanted[0] - 2, wanted[1] + 2):  # one of which may be an index from the end
            p.run({"i": np.full(LENS, beside, np.int64)})


def test_what_becomes_no_index_has_no_range() -> None:
    p = program(lambda b, i: b.add(i, i))
    assert index_ranges(p.graph) == {}
    p = program(lambda b, i: b.gather(table(b, 0, 2), i, axis=0))
    assert index_ranges(p.graph) == {}, "no value fits"
    p = program(lambda b, i: b.gather(table(b, 500), b.convert(b.convert(i, target_type="int8"), target_type="int32")))
    assert index_ranges(p.graph) == {"i": (0, 127)}, "or it wraps"


@pytest.mark.parametrize("given", [True, False], ids=["given", "captured"])
def test_branches(given: bool) -> None:
    """Indices inside of a branch, and those that a branch gives."""
    p = migraphx.program()
    main = p.graph.main
    yes = main.add_parameter("c", Shape("bool", (1,)))
    i, j = (main.add_parameter(name, Shape("int64", LENS)) for name in "ij")
    modules = []
    for name, length in (("then", 6), ("otherwise", 4)):
        module = p.graph.create_module(name)
        own = [module.add_parameter(f"{name}_{n}", Shape("int64", LENS)) for n in "ij"] if given else [i, j]
        b = Builder(module)
        module.add_return([b.gather(table(b, length, 2), own[0], axis=0), b.add(own[1], constant(b, 1))])
        modules.append(module)
    b = Builder(main)
    taken, places = b.outputs(b.instruction("if", [yes, i, j] if given else [yes], modules), 2)
    main.add_return([taken, b.gather(table(b, 5), places, axis=0)])
    assert index_ranges(p.graph) == {"i": (0, 3), "j": (-1, 3)}
    p.compile(migraphx.get_target("ref"))
    for c in (True, False):
        p.run({"c": np.array([c]), "i": np.full(LENS, 3), "j": np.full(LENS, -1)})
