"""What the stages of a fused reduction compute, keep and leave in the output."""

from __future__ import annotations

import pytest

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import operation
from migraphx.ir.shape import Shape, standard_strides
from migraphx.targets.common.stages import FusedReduction
from migraphx.targets.common.views import Buffer, View

LENS = (4, 16)


def view(lens: tuple[int, ...], strides: tuple[int, ...] | None = None) -> View:
    return View(Buffer("arena", 4096), "float", lens, strides or standard_strides(lens))


def softmax() -> Module:
    """exp(x - max) / sum."""
    m = Module("softmax")
    x = m.add_parameter("x", Shape("float", LENS))
    top = m.add_instruction(operation("reduce_max", axes=[1]), [x])
    wide = operation("multibroadcast", out_lens=LENS)
    shifted = m.add_instruction(operation("sub"), [x, m.add_instruction(wide, [top])])
    power = m.add_instruction(operation("exp"), [shifted])
    total = m.add_instruction(operation("reduce_sum", axes=[1]), [power])
    m.add_return([m.add_instruction(operation("div"), [power, m.add_instruction(wide, [total])])])
    return m


def names(values: tuple[Instruction, ...]) -> list[str]:
    return [i.name for i in values]


def test_what_is_expensive_waits_in_the_output() -> None:
    found = FusedReduction.of(softmax(), [1], [view(LENS)], view(LENS), holds=lambda type: type == "float")
    first, second, last = found.stages
    assert [names(s.reductions) for s in found.stages] == [["reduce_max"], ["reduce_sum"], []]
    assert [names(s.values) for s in found.stages] == [["@param"], ["@param", "sub", "exp"], ["exp", "div"]]
    assert first.waiting is first.kept is second.waiting is None
    assert second.kept is last.waiting
    assert second.kept is not None and second.kept.name == "exp"


def test_what_memory_does_not_hold_is_computed_again() -> None:
    found = FusedReduction.of(softmax(), [1], [view(LENS)], view(LENS))
    assert not any(s.kept or s.waiting for s in found.stages)
    assert names(found.stages[-1].values) == ["@param", "sub", "exp", "div"]


def test_one_value_a_row_needs_no_last_stage() -> None:
    m = Module("norm")
    x, scale = m.add_parameter("x", Shape("float", LENS)), m.add_parameter("scale", Shape("float", (4, 1)))
    squared = m.add_instruction(operation("mul"), [x, x])
    total = m.add_instruction(operation("reduce_sum", axes=[1]), [squared])
    result = m.add_instruction(operation("mul"), [total, scale])
    m.add_return([result])
    found = FusedReduction.of(m, [1], [view(LENS), view((4, 1))], view((4, 1)), holds=lambda _: True)
    (stage,) = found.stages
    assert names(stage.values) == ["@param", "mul"] and stage.kept is None and not found.full_output
    assert [found.varies[i] for i in (x, scale, squared, total, result)] == [True, False, True, False, False]
    assert [found.level[i] for i in (x, scale, squared, total, result)] == [0, 0, 0, 1, 1]
    assert (found.number[scale], found.out, found.kept.lens, found.reduced.lens) == (1, 2, (4,), (16,))


@pytest.mark.parametrize(("strides", "axes", "rowwise"), [((16, 1), [1], True), ((16, 1), [0], False)])
def test_vectors_run_along_neighbours(strides: tuple[int, ...], axes: list[int], rowwise: bool) -> None:
    m = Module("sum")
    x = m.add_parameter("x", Shape("float", LENS))
    m.add_return([m.add_instruction(operation("reduce_sum", axes=axes), [x])])
    lens = tuple(1 if d in axes else n for d, n in enumerate(LENS))
    assert FusedReduction.of(m, axes, [view(LENS, strides)], view(lens)).rowwise is rowwise
