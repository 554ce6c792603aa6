"""Regions of interest, windows as rows, determinants and random numbers on cpu against ref."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from tests.targets.cpu.side_by_side import Case, check
from tests.tiers import few


def shape(*lens: int, type: str = "float") -> Shape:
    return Shape(type, lens)


@pytest.mark.parametrize("mode", few(["avg", "max"], "max"))
def test_roialign(mode: str) -> None:
    def pooled(**attributes: Any):
        def build(b: Builder, x: Instruction, rois: Instruction, images: Instruction) -> Instruction:
            wide = b.mul(rois, b.full(4.0, rois))  # some regions reach outside, some are empty
            inside = b.clamp(images, 0, 1)
            return b.roialign(x, wide, inside, mode=mode, output_height=3, output_width=2, **attributes)

        return build

    def inputs(type: str = "float") -> tuple[Shape, ...]:
        return shape(2, 3, 9, 7, type=type), shape(6, 4, type=type), shape(6, type="int64")

    cases = [
        Case("adaptive", pooled(), inputs(), 4),
        Case("samples", pooled(sampling_ratio=2, spatial_scale=0.7), inputs(), 4),
        Case("whole", pooled(coordinate_transformation_mode="output_half_pixel"), inputs(), 4),
        Case("half", pooled(sampling_ratio=2), inputs("half"), 4),
        Case("double", pooled(sampling_ratio=3), inputs("double"), 4),
    ]
    check(cases)


@pytest.mark.slow
def test_nonmaxsuppression() -> None:
    def kept(most: int, overlap: float, least: float, **attributes: object):
        def build(b: Builder, boxes: Instruction, scores: Instruction) -> Instruction:
            limits = [np.array([most]), np.array([overlap], np.float32), np.array([least], np.float32)]
            ties = b.div(b.nearbyint(b.mul(scores, b.full(4.0, scores))), b.full(4.0, scores))
            return b.nonmaxsuppression(boxes, ties, *map(b.literal, limits), **attributes)

        return build

    def inputs(type: str) -> tuple[Shape, ...]:
        return shape(2, 40, 4, type=type), shape(2, 3, 40, type=type)

    cases = [
        Case("some", kept(5, 0.4, 0.1), inputs("float")),
        Case("all", kept(100, 0.9, -99), inputs("float")),
        Case("none", kept(0, 0.5, 0), inputs("float")),
        Case("centered", kept(9, 0.2, -0.5, center_point_box=True), inputs("double")),
        Case("half", kept(9, 0.3, 0), inputs("half")),
    ]
    check(cases)


def test_im2col() -> None:
    def rows(**attributes: object):
        return lambda b, x, w: b.im2col(x, w, **attributes)

    image, kernel = shape(1, 3, 7, 8), shape(5, 3, 3, 2)
    cases = [
        Case("plain", rows(), (image, kernel)),
        Case("padded", rows(padding=(1, 2), stride=(2, 1)), (image, kernel)),
        Case("dilated", rows(padding=(0, 1, 2, 0), dilation=(2, 3)), (image, kernel)),
        Case("turned", rows(), (permuted("half", (1, 3, 7, 8), (0, 2, 3, 1)), shape(5, 3, 3, 2, type="half"))),
    ]
    check(cases)


def test_det() -> None:
    cases = [
        Case("many", lambda b, x: b.det(x), (shape(3, 2, 4, 4),), 30),
        Case("one", lambda b, x: b.det(x), (shape(7, 7, type="double"),), 30),
        Case("half", lambda b, x: b.det(x), (shape(5, 2, 2, type="half"),), 30),
        Case("singular", lambda b, x: b.det(b.mul(x, b.full(0.0, x))), (shape(3, 3),)),
    ]
    check(cases)


def test_random_numbers() -> None:
    def uniform(seed: int, type: str):
        return lambda b, x: b.random_uniform(b.literal(np.array([seed])), b.cast(x, type))

    def drawn(b: Builder, x: Instruction) -> Instruction:
        return b.multinomial(b.prefix_scan_sum(b.abs(x), axis=1), b.random_uniform(b.literal(np.array([7])), x))

    cases = [Case(f"{t}_{s}", uniform(s, t), (shape(40, 23),)) for s in (0, 2**40 + 3) for t in ("float", "double")]
    check([*cases, Case("multinomial", drawn, (shape(5, 60),))])


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_seeds_differ(target: str) -> None:
    program = migraphx.program()
    module = program.get_main_module()
    seed = module.add_instruction(migraphx.op("random_seed"), [])
    x = module.add_parameter("x", migraphx.shape("float", [4]))
    module.add_return([module.add_instruction(migraphx.op("random_uniform"), [seed, x])])
    program.compile(migraphx.get_target(target))
    first, second = (np.array(program.run({"x": np.zeros(4, np.float32)})[0]) for _ in range(2))
    assert (first != second).any()
    assert ((first >= 0) & (first < 1)).all()


def test_regions_that_cannot_be_are_named() -> None:
    program = migraphx.program()
    module = program.get_main_module()
    shapes = {"x": ("float", [2, 1, 4, 4]), "rois": ("float", [1, 4]), "images": ("int64", [1])}
    inputs = [module.add_parameter(n, migraphx.shape(*s)) for n, s in shapes.items()]
    module.add_return([module.add_instruction(migraphx.op("roialign"), inputs)])
    program.compile(migraphx.get_target("cpu"))
    given = {n: np.full(s[1], 2, s[0].replace("float", "float32")) for n, s in shapes.items()}
    with pytest.raises(IndexError, match="roialign: the image of a region is not one of 2"):
        program.run(given)
    for edge in (1e30, np.inf, np.nan):
        wide = {"rois": np.array([[0, 0, edge, 2]], np.float32), "images": np.array([0])}
        with pytest.raises(IndexError, match="roialign: the samples of a bin of a region, or NaN, are more than 4096"):
            program.run(given | wide)
