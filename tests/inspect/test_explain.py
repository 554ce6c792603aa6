"""`explain(why=True)`: what was not fused, not packed or not computed by the fastest kernel, and from where."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.inspect.explain import Refused, explain
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.runtime.options import CompileOptions
from tests.passes.checking import program_of

Build = Callable[..., Instruction]
RNG = np.random.default_rng(0)
IMAGE = (1, 16, 20, 20)
BYTES, HALF = (lambda *lens, t=t: Shape(t, lens) for t in ("int8", "half"))


def weights(b: Builder, *lens: int, type: str = "float") -> Instruction:
    return b.literal(RNG.standard_normal(lens) * 3, type)


def convolution(**given: Any) -> Build:
    """Of 3x3, which Winograd suits unless something is said."""
    type, value = given.pop("type", "float"), given.pop("value", None)

    def build(b: Builder, x: Instruction) -> Instruction:
        attributes: dict[str, Any] = {"padding": [1, 1]} | given
        made = RNG.standard_normal((16, 16, 3, 3))
        if value is not None:
            made[0] = value
        return b.instruction("convolution", [x, b.literal(made, type)], **attributes)

    return build


CASES: list[tuple[str, str, Build, tuple[Any, ...], dict[str, Any]]] = [
    ("winograd", "the weights are not constant", lambda b, x, w: b.convolution(x, w), (IMAGE, (16, 16, 3, 3)), {}),
    ("winograd", "fast_math=False", convolution(), (IMAGE,), {"fast_math": False}),
    ("winograd", "it computes in float only", convolution(type="double"), (Shape("double", IMAGE),), {}),
    ("winograd", "the stride, dilation or groups are not 1",
     convolution(stride=[2, 2]), (IMAGE,), {}),
    ("winograd", "too few pixels or channels share the transforms", convolution(), ((1, 16, 6, 6),), {}),
    ("winograd", "weights that are not finite", convolution(value=np.inf), (IMAGE,), {}),
    ("packed weights", "each batch has a matrix of its own", lambda b, x: b.dot(x, weights(b, 2, 3, 4)), ((2, 5, 3),),
     {}),
    ("packed weights", "the rows that they multiply are not at one step",
     lambda b, x: b.dot(x, weights(b, 3, 4)), (Shape("float", (5, 3), (1, 5)),), {}),
    ("8-bit products", "the weights are no constant int8",
     lambda b, x, w: b.quant_dot(x, w), (BYTES(2, 3), BYTES(3, 4)), {}),
    ("8-bit products", "its groups are not of whole words",
     lambda b, x: b.quant_convolution(x, weights(b, 4, 1, 1, 1, type="int8"), group=2), (BYTES(1, 2, 4, 4),), {}),
    ("concat in place", "it lies elsewhere already, or in another order, and is copied",
     lambda b, x, y: b.concat(x, b.sin(y), axis=0), ((2, 3), (2, 3)), {}),
    ("fuse_epilogue", "what follows it is no pointwise operator",
     lambda b, x, w: b.reduce_sum(b.dot(x, w), axes=[1]), ((2, 3), (3, 4)), {}),
]  # fmt: skip
LOWERINGS = ("targets/cpu/lower", "targets/common/lower")


def refusals(build: Build, shapes: tuple[Any, ...], **options: Any) -> list[Refused]:
    program = program_of(build, **{f"x{n}": s for n, s in enumerate(shapes)})
    for ins in program.main:
        ins.origin = f"line of {ins.name}"
    return list(explain(program, "cpu", why=True, options=CompileOptions(**options)).refused)


@pytest.mark.parametrize(("rule", "why", "build", "shapes", "options"), CASES, ids=[f"{c[0]}: {c[1]}" for c in CASES])
def test_the_reason(rule: str, why: str, build: Build, shapes: tuple[Any, ...], options: dict[str, Any]) -> None:
    (found,) = [r for r in refusals(build, shapes, **options) if (r.rule, r.why) == (rule, why)]
    assert all(part.origin.startswith("line of ") for part in found.parts)
    assert found.lines()[0] == f"{rule}: {why} (once)" and "<- line of" in found.lines()[1]


def test_every_reason_of_lowerings_has_a_program() -> None:
    """Those of passes: tests/passes/test_refusals.py."""
    root, tested, wanted = Path(migraphx.__path__[0]), {case[1] for case in CASES}, set()
    for path in (p for folder in LOWERINGS for p in (root / folder).glob("*.py")):
        for n in ast.walk(ast.parse(path.read_text())):
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "Refuse":
                wanted.add(ast.literal_eval(n.args[0]))
    measured = {"it was slower when it was measured"}  # tests/targets/cpu/test_tune.py
    assert len(wanted) > 8 and wanted - measured <= tested


def test_what_suits_is_not_refused() -> None:
    assert not [r for r in refusals(convolution(), (IMAGE,)) if r.rule == "winograd"]


def test_the_public_face() -> None:
    p = migraphx.program()
    m = p.get_main_module()
    m.set_origin("model.py:7")
    x, w = (m.add_parameter(n, migraphx.shape("float", [3, 3])) for n in "xw")
    y = m.add_instruction(migraphx.op("dot"), [x, w])
    m.add_return([m.add_instruction(migraphx.op("relu"), [y]), y])
    found = migraphx.explain(p, "cpu", why=True, fast_math=False)
    reason, dot = "its result is used more than once", "    dot -> float_type, {3, 3}, {3, 1}  <- model.py:7"
    assert f"fuse_epilogue: {reason} (once)\n{dot}" in str(found)
    assert not migraphx.explain(p, "cpu").refused and not migraphx.explain(p, "ref", why=True).refused


def test_what_rules_are_not_about_is_left_out() -> None:
    found = refusals(lambda b, x: b.mul(x, b.full(2.0, x)), ((2, 3),))
    assert not [r for r in found if r.why == "the factor is not 1"]
