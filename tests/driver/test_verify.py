"""`verify`: whole, by instruction, reduced, bisected; and a target that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.text import parse_program
from migraphx.targets.cpu.target import CpuTarget
from tests.driver.driving import drive, small


@pytest.fixture
def file(tmp_path):
    return small(tmp_path)


def test_right(file, capsys):
    answer = drive(capsys, "verify", file, "--batch", 2, "--ref-use-double")
    assert answer.code == 0 and "cpu agrees with ref" in answer.out
    data = drive(capsys, "verify", file, "--json", "-i").data
    assert data["passed"] and data["instructions"][0]["origin"] == "fc (MatMul)"
    for mode, key, value in (("-r", "reduced", None), ("-b", "bisection", "none")):
        data = drive(capsys, "verify", file, mode, "--json").data
        assert data["passed"] and (data[key] or {}).get("kind") == value


def test_tolerance(file, capsys):
    strict = drive(capsys, "verify", file, "--rms-tol", 0, "--atol", 0, "--rtol", 0, "--ref-use-double")
    assert strict.code == 1 and "FAILED" in strict.out and "DIFFERS" in strict.out
    narrow = drive(capsys, "verify", file, "--bf16", "--atol", 0.05)
    assert narrow.code == 0 and "(tolerance: rms 0.08, absolute 0.05, relative 0.04)" in narrow.out


def relu_is_off(module):
    """A pass that is wrong: relu becomes neg."""
    for ins in module:
        if ins.name == "relu":
            module.replace(ins, Builder(module, before=ins).neg(ins.inputs[0]))


@pytest.mark.slow
def test_wrong_pass_is_found(file, capsys, monkeypatch):
    passes = [*CpuTarget.passes]
    monkeypatch.setattr("migraphx.targets.cpu.target.PASSES", [*passes[:2], relu_is_off, *passes[2:]])
    monkeypatch.setattr(CpuTarget, "passes", [*passes[:2], relu_is_off, *passes[2:]])
    assert drive(capsys, "verify", file).code == 1
    found = drive(capsys, "verify", file, "--bisect", "--json").data["bisection"]
    assert found["kind"] == "pass" and found["name"] == "relu_is_off" and found["index"] == 2
    answer = drive(capsys, "verify", file, "--reduce", "--json")
    reduced = answer.data["reduced"]
    assert answer.code == 1 and "relu" in reduced["instruction"] and reduced["origin"] == "act (Relu)"
    main = parse_program(reduced["program"]).main
    assert [i.name for i in main if not i.name.startswith("@")] == ["relu"]
    by_instruction = drive(capsys, "verify", file, "-i", "--json").data["instructions"]
    assert [i["origin"] for i in by_instruction if not i["passed"]] == ["act (Relu)"]
    assert np.isfinite(reduced["outputs"][0]["max_abs"])
