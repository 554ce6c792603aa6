"""Operators that users declare, on ref and on cpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.ir.operation import ShapeError
from migraphx.targets.cpu.toolchain import CompilerError
from migraphx.targets.target import UnsupportedOperator
from tests.tolerances import assert_close


class Scaled(migraphx.custom_op, name="test::scaled"):
    """x * factor, plus the sum of steps."""

    factor: float = 2.0
    steps: tuple[int, ...] = (1, 2)
    twice: bool = False
    cpp = """
    float total = 0;
    for (int64_t s : steps) total += float(s);
    for (int64_t i = begin; i < end; ++i) out[i] = in0[i] * float(factor) * (twice ? 2 : 1) + total;
    """

    def compute_shape(self, x: migraphx.shape) -> migraphx.shape:
        if x.type_string() != "float_type":
            raise ValueError("scaled takes floats")
        return migraphx.shape(type=x.type_string(), lens=x.lens())

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x * np.float32(self.factor) * np.float32(1 + self.twice) + np.float32(sum(self.steps))


class RowNorm(migraphx.custom_op, name="test::row_norm"):
    """The length of every row, a string saying which: inputs of two types, an output of other lens."""

    kind: str = "$l2"
    cpp = """
    for (int64_t i = begin; i < end; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < in0_lens[1]; ++k) {
            const double v = in0[i * in0_lens[1] + k];
            sum += kind[1] == 'l' ? v * v : 0;
        }
        out[i] = std::sqrt(sum) + double(in1[0]);
    }
    """

    def compute_shape(self, x: migraphx.shape, offset: migraphx.shape) -> migraphx.shape:
        return migraphx.shape(type="double", lens=[x.lens()[0]])

    def compute(self, x: np.ndarray, offset: np.ndarray) -> np.ndarray:
        return np.sqrt(np.square(x.astype(np.float64)).sum(1)) + offset[0]


class NoBody(migraphx.custom_op, name="test::no_body"):
    """Only ref can run it."""

    def compute_shape(self, x: migraphx.shape) -> migraphx.shape:
        return x

    def compute(self, x: np.ndarray) -> np.ndarray:
        return -x


class Unspelt(NoBody, name="test::unspelt"):
    """Has an attribute that C++ cannot have."""

    weights: tuple[float, ...] = (0.5,)
    cpp = "out[0] = 0;"


class WrongBody(NoBody, name="test::wrong_body"):
    """Does not compile."""

    cpp = "out[0] = nothing_of_this_name;"


class WrongAnswer(NoBody, name="test::wrong_answer"):
    """Gives other lens than it promises."""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x[:1]


class WrongShape(NoBody, name="test::wrong_shape"):
    """Its shape rule gives no shape."""

    def compute_shape(self, x: migraphx.shape) -> Any:
        return x.lens()


def program(*operators: migraphx.op) -> migraphx.program:
    """Each on x, the relu of the first, x transposed into the second, and an offset where it takes one."""
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", [6, 40]))
    turned = m.add_instruction(migraphx.op("transpose", permutation=[1, 0]), [x])
    offset = m.add_literal(np.array([3], np.int32))
    outputs = []
    for op in operators:
        inputs = [turned, offset] if op.name() == "test::row_norm" else [x]
        outputs.append(m.add_instruction(op, inputs))
    outputs.append(m.add_instruction(migraphx.op("relu"), outputs[:1]))
    m.add_return(outputs)
    return p


X = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_answers(target: str) -> None:
    scaled = migraphx.op("test::scaled", factor=-1.5, steps=[3], twice=True)
    kind = '?l)mgx"; #error "\\\n??/"$x é'  # what ends literals of C++
    p = program(scaled, migraphx.op("test::row_norm", kind=kind))
    assert [s.lens() for s in p.get_output_shapes()] == [[6, 40], [40], [6, 40]]
    p.compile(migraphx.get_target(target))
    first, norms, relu = (np.array(a) for a in p.run({"x": X}))
    assert_close(first, X * -3 + 3)
    assert_close(norms, np.linalg.norm(X.astype(np.float64), axis=0) + 3)
    np.testing.assert_array_equal(relu, np.maximum(first, 0))


def test_it_is_an_operator_like_any_other(tmp_path: Any) -> None:
    p = program(migraphx.op("test::scaled", factor=4))
    assert "test::scaled[factor=4,steps={1, 2},twice=0](x)" in repr(p)
    migraphx.save(p, tmp_path / "p.mxr")
    assert migraphx.load(tmp_path / "p.mxr") == p
    report = migraphx.verify_program(p, "cpu", {"x": X})
    assert report.passed and len(report.outputs) == 2
    with pytest.raises(ValueError, match=r"factr.*factor"):
        migraphx.op("test::scaled", factr=1.0)


def test_mistakes_are_named() -> None:
    with pytest.raises(
        UnsupportedOperator, match=r"refuses test::no_body -> .*: there is no kernel without a body for it, `cpp`"
    ):
        program(migraphx.op("test::no_body")).compile(migraphx.get_target("cpu"))
    with pytest.raises(UnsupportedOperator, match=r"unspelt -> .*body cannot have the attribute weights=\(0\.5,\)"):
        program(migraphx.op("test::unspelt")).compile(migraphx.get_target("cpu"))
    with pytest.raises(CompilerError, match="nothing_of_this_name"):
        program(migraphx.op("test::wrong_body")).compile(migraphx.get_target("cpu"))
    with pytest.raises(ShapeError, match="test::wrong_shape: compute_shape gave"):
        program(migraphx.op("test::wrong_shape"))
    wrong = program(migraphx.op("test::wrong_answer"))
    wrong.compile(migraphx.get_target("ref"))
    with pytest.raises(ShapeError, match=r"compute gave float32 of lens \[1, 40\]"):
        wrong.run({"x": X})
    m = migraphx.program().get_main_module()
    whole = m.add_parameter("n", migraphx.shape("int32", [2]))
    with pytest.raises(ValueError, match="scaled takes floats"):
        m.add_instruction(migraphx.op("test::scaled"), [whole])
    with pytest.raises(TypeError, match="declared twice"):
        type("Other", (migraphx.custom_op,), {}, name="relu")
