"""Every verb, and every function that looks inside, on a program whose batch and length are open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import migraphx
from tests.driver.driving import drive
from tests.onnx.one_node import model, theirs
from tests.tolerances import assert_close

RNG = np.random.default_rng(17)
CONSTANTS = {"w": RNG.standard_normal((16, 8)).astype(np.float32), "lens": np.array([0, -1])}
NODES = [
    ("MatMul", ["x", "w"], "h", {}),
    ("Softmax", ["h"], "p", {}),
    ("Transpose", ["p"], "t", {"perm": [0, 2, 1]}),
    ("Reshape", ["t", "lens"], "y", {}),
]
DATA = model(
    [helper.make_node(op, i, [o], name=o, **more) for op, i, o, more in NODES],
    {"x": (1, ["batch", "length", 16])}, ["y"], CONSTANTS,
)  # fmt: skip
OPEN = ("--dyn-input-dim", "@x", "[{min:1, max:8}, {min:1, max:32}, 16]")
VERBS: list[tuple[str, ...]] = [
    ("run",), ("time", "--iterations", "1"), ("perf", "--iterations", "1", "--processes", "1"), ("compile",),
    ("explain",), ("verify",), ("verify", "--per-instruction"), ("verify", "--bisect"), ("verify", "--reduce"),
]  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "open.onnx"
    path.write_bytes(DATA)
    return path


def parsed() -> migraphx.program:
    open_dim = migraphx.shape.dynamic_dimension
    return migraphx.parse_onnx_buffer(DATA, dim_params={"batch": open_dim(1, 8), "length": open_dim(1, 32)})


@pytest.mark.slow
def test_every_verb_at_the_lengths_given(file, tmp_path, capsys):
    saved = tmp_path / "open.mxr"
    made = drive(capsys, "compile", file, *OPEN, "--input-dim", "@x", 2, 5, 16, "--binary", "--output", saved)
    assert made.code == 0, made.err
    for batch, length, *source in ((2, 5, file, *OPEN), (3, 4, saved)):
        for verb, *more in VERBS:
            answer = drive(capsys, verb, *source, *more, "--input-dim", "@x", batch, length, 16)
            assert answer.code == 0, answer.err
            if verb not in ("time", "verify") or "--per-instruction" in more:  # these show what runs
                assert f"{{{batch}, {length}, 8}}" in answer.out and "onnx[" not in answer.out
    late = drive(capsys, "verify", saved, "--input-dim", "@x", 2, 99, 16)
    assert late.code and "dimension 1 must be in [1, 32], is 99" in late.err


def inside(p: migraphx.program, given: dict[str, Any]) -> None:
    """Everything that looks inside, at these lengths."""
    batch, length, _ = given["x"].shape
    seen: dict[str, list[int]] = {}

    def note(ins: migraphx.instruction_ref, value: Any) -> None:
        seen[ins.name()] = value.get_shape().lens()

    (y,) = migraphx.run_trace(p, given, note)
    assert_close(np.array(y), theirs(DATA, given)[0])
    assert seen["dot"] == seen["softmax"] == [batch, length, 8] and seen["transpose"] == [batch, 8, length]
    assert migraphx.verify_program(p, "cpu", given).passed
    assert {"dot", "softmax"} <= {c.text.split()[2].split("[")[0].split("(")[0] for c in checked(p, given)}
    assert migraphx.bisect(p, "cpu", given).kind == "none" and migraphx.reduce_program(p, "cpu", given) is None
    assert f"{{{batch}, {length}, 8}}" in str(migraphx.explain(p, "cpu", given))


def checked(p: migraphx.program, given: dict[str, Any]) -> list[Any]:
    found = migraphx.verify_instructions(p, "cpu", given)
    assert all(c.passed and c.origin for c in found)
    return found


@pytest.mark.slow
def test_looking_inside_before_and_after_compiling_and_loading():
    p = parsed()
    given = [{"x": RNG.standard_normal((b, n, 16)).astype(np.float32)} for b, n in ((2, 5), (3, 4))]
    inside(p, given[0])
    p.compile(migraphx.get_target("cpu"))
    loaded = migraphx.load_buffer(migraphx.save_buffer(p))
    for q in (p, loaded):
        inside(q, given[1])
        for one in given:
            report = migraphx.performance_report(q, one, runs=1)
            assert sum("dot(" in s.text and s.flops == 2 * one["x"].size * 8 for s in report.steps) == 1


@pytest.mark.parametrize("ask", [
    lambda p, x: migraphx.verify_program(p, "cpu", x),
    lambda p, x: migraphx.verify_instructions(p, "cpu", x),
    lambda p, x: migraphx.bisect(p, "cpu", x),
    lambda p, x: migraphx.reduce_program(p, "cpu", x),
    lambda p, x: migraphx.run_trace(p, x, lambda *_: None),
    lambda p, x: migraphx.explain(p, "cpu", x),
])  # fmt: skip
def test_lengths_out_of_range_and_missing_inputs(ask):
    p = parsed()
    with pytest.raises(ValueError, match=r"'x' must have lens \[1 to 8, 1 to 32, 16\], got \[2, 33, 16\]"):
        ask(p, {"x": np.ones((2, 33, 16), np.float32)})
    with pytest.raises(ValueError, match=r"'x' must have lens .*, got \[2, 3\]"):
        ask(p, {"x": np.ones((2, 3), np.float32)})
    with pytest.raises(ValueError, match=r"'x' .* is missing"):
        ask(p, {})


def test_explaining_needs_lengths():
    with pytest.raises(ValueError, match=r"dynamic shapes: give inputs \(x\)"):
        migraphx.explain(parsed(), "cpu")


def test_lengths_that_nobody_gave_are_told(file, capsys):
    answer = drive(capsys, "run", file, "--default-dyn-dim", "{min:1,max:8}", "--batch", 2)
    assert (
        answer.code == 0
        and "Open lengths are 2, by --batch (--input-dim chooses them): {'x': [2, 2, 16]}" in answer.err
    )
    answer = drive(capsys, "run", file, *OPEN, "--input-dim", "@x", 2, 5, 16)
    assert answer.code == 0 and "Open lengths" not in answer.err
