"""verify_program, verify_instructions, reduce_program and bisect, on right and on wrong targets."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from migraphx.inspect import (
    Settings,
    Tolerance,
    bisect,
    performance_report,
    reduce_program,
    run_trace,
    verify_instructions,
    verify_program,
)
from migraphx.inspect.compare import compare
from migraphx.inspect.running import on_ref
from migraphx.ir.builder import Builder
from migraphx.ir.program import Program
from migraphx.ir.shape import DynamicDimension, Shape
from migraphx.runtime.options import CompileOptions
from migraphx.targets.registry import TARGETS, get_target
from tests.inspect.targets import WrongKernel, WrongPass, WrongTogether, chain, numbers
from tests.tolerances import assert_close
from tests.writers.programs import rich

INPUTS = {"x": numbers()}


@pytest.fixture(autouse=True)
def wrong_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, target in (("pass", WrongPass), ("kernel", WrongKernel), ("together", WrongTogether)):
        monkeypatch.setitem(TARGETS, name, target)


def rich_inputs() -> dict[str, np.ndarray]:
    image = numbers((1, 3, 8, 8), 2)
    return {"x": numbers((2, 3)), "turned": numbers((2, 3), 1), "flag": np.array([True]), "image": image}


def test_cpu_agrees_on_outputs_and_on_every_instruction() -> None:
    plain = chain("relu", "exp", "tanh", "sigmoid")
    for double in (False, True):
        report = verify_program(plain, "cpu", INPUTS, Settings(double=double))
        assert report.passed and [o.name for o in report.outputs] == ["main:#output_0", "main:#output_1"]
        checks = verify_instructions(plain, "cpu", INPUTS, Settings(double=double))
        assert [c.text.split()[2].split("(")[0] for c in checks] == ["relu", "exp", "tanh", "sigmoid"]
        assert all(c.passed and len(c.outputs) == 1 for c in checks) and checks[1].origin == "line 1"


def test_every_instruction_of_a_program_with_modules_and_tuples() -> None:
    checks = verify_instructions(rich(), "ref", rich_inputs())
    assert all(c.passed and c.outputs for c in checks)
    names = {c.text.split(" = ")[1].split("[")[0].split("(")[0] for c in checks}
    assert names >= {"if", "dot", "pooling", "leaky_relu", "convert", "softmax"} and "get_tuple_elem" not in names


def test_double_uses_double_precision() -> None:
    p = Program()
    b = Builder(p.main)
    x = p.main.add_parameter("x", Shape("half", (64, 64)))
    narrow = b.convert(b.reduce_sum(b.mul(x, x), axes=(0, 1)), target_type="bf16")
    p.main.add_return([narrow])
    value = numbers((64, 64)).astype(np.float16)
    (got,) = on_ref(p, {"x": value}, double=True)
    assert got.dtype == np.float64
    assert_close(got.item(), np.square(value.astype(np.float64)).sum())
    (plain,) = on_ref(p, {"x": value}, double=False)
    assert plain.dtype == ml_dtypes.bfloat16


def test_wrong_instruction_is_named() -> None:
    program = chain("relu", "exp", "tanh", "sigmoid", "relu")
    assert not verify_program(program, "kernel", INPUTS).passed
    checks = verify_instructions(program, "kernel", INPUTS)
    assert [c.passed for c in checks] == [True, True, False, True, True], "errors do not spread"
    assert checks[2].text.startswith("@3 = tanh") and checks[2].origin == "line 2"


def test_reduce_ends_at_the_wrong_instruction() -> None:
    program = chain("relu", "exp", "tanh", "sigmoid", "neg", "abs", "relu", "sin")
    found = reduce_program(program, "kernel", INPUTS)
    assert found is not None and found.instruction.startswith("@3 = tanh") and found.origin == "line 2"
    assert [i.name for i in found.program.main] == ["@param", "tanh", "@return"]
    assert not verify_program(found.program, "kernel", found.inputs).passed
    assert reduce_program(program, "ref", INPUTS) is None


def test_reduce_keeps_what_the_failure_needs() -> None:
    found = reduce_program(chain("relu", "abs", "relu", "tanh", "sin"), "together", INPUTS)
    assert found is not None and found.instruction.startswith("@4 = tanh")
    assert [i.name for i in found.program.main] == ["@param", "relu", "abs", "relu", "tanh", "@return"]


@pytest.mark.parametrize(
    ("target", "kind", "name"),
    [
        ("ref", "none", ""),
        ("pass", "pass", "wrong_exp"),
        ("kernel", "instruction", "tanh"),
        ("together", "program", ""),
    ],
)
def test_bisect(target: str, kind: str, name: str) -> None:
    found = bisect(chain("relu", "exp", "tanh", "relu", "sin"), target, INPUTS)
    assert found.kind == kind and name in found.name
    assert found.report.passed == (kind == "none")
    if kind == "pass":
        assert found.index == 2
    if kind == "instruction":
        assert found.index == 2 and found.origin == "line 2" and "tanh" in str(found)


def test_compare_knows_nan_infinities_and_integers() -> None:
    def verdict(got: list, want: list, type: str = "float32") -> bool:
        return compare("y", np.array(got, type), np.array(want, type), Tolerance()).passed

    assert verdict([np.nan, np.inf, 1.0005], [np.nan, np.inf, 1.0])
    assert not verdict([np.nan], [0.0]) and not verdict([0.0], [np.nan])
    assert not verdict([np.inf], [-np.inf]) and not verdict([np.inf], [1.0])
    assert not verdict([1.1, 1], [1.0, 1]) and not verdict([1.0], [1.0, 2.0])
    assert verdict([100_000], [100_000], "int64") and not verdict([100_001], [100_000], "int64")
    assert verdict([], []) and verdict([0.0], [0.0])


def test_compare_says_how_far() -> None:
    check = compare("y", np.array([3.0, 0.5, 1.0]), np.array([4.0, 0.0, 1.0]), Tolerance())
    assert check.max_abs == 1.0 and check.max_rel == 0.25 and not check.passed
    assert check.rms == pytest.approx(np.sqrt((1 + 0.25) / 3) / 4)


def test_trace_shows_every_value() -> None:
    seen: list[tuple[str, np.ndarray]] = []
    program = chain("relu", "exp")
    outputs = run_trace(program, INPUTS, lambda ins, value: seen.append((ins.name, value)))
    assert [n for n, _ in seen] == ["@param", "relu", "exp"]
    np.testing.assert_array_equal(seen[1][1], np.maximum(INPUTS["x"], 0))
    np.testing.assert_array_equal(outputs[0], seen[2][1])

    def stop(ins: object, value: object) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        run_trace(program, INPUTS, stop)


def test_inputs_are_checked() -> None:
    with pytest.raises(ValueError, match=r"'x' \(float_type"):
        verify_program(chain("relu"), "ref", {})
    with pytest.raises(ValueError, match="lens"):
        verify_program(chain("relu"), "ref", {"x": numbers((5, 4))})
    with pytest.raises(ValueError, match="unknown target 'cpux'"):
        verify_program(chain("relu"), "cpux", INPUTS)


def test_dynamic_programs_are_taken_as_they_are_for_the_inputs() -> None:
    p = Program()
    b = Builder(p.main)
    x = p.main.add_parameter("x", Shape("float", dyn_dims=(DynamicDimension(1, 9), DynamicDimension(5, 5))))
    p.main.add_return([b.tanh(b.dot(x, b.literal(numbers((5, 3)))))])
    for rows in (2, 4):
        given = {"x": numbers((rows, 5))}
        for target in ("ref", "cpu"):
            assert verify_program(p, target, given, Settings(double=True)).passed
        assert [c.passed for c in verify_instructions(p, "kernel", given)] == [True, False]
        found = reduce_program(p, "kernel", given)
        assert found is not None and "tanh" in found.instruction and bisect(p, "kernel", given).kind == "instruction"
        seen: dict[str, int] = {}
        (out,) = run_trace(p, given, lambda ins, value, seen=seen: seen.update({ins.name: len(value)}))
        assert out.shape == (rows, 3) and seen["dot"] == seen["tanh"] == rows
    executable = get_target("cpu").compile(p, CompileOptions())
    report = performance_report(executable, {"x": numbers((4, 5))}, runs=2)
    assert [s.flops for s in report.steps] == [2 * 4 * 5 * 3 + 4 * 3]
