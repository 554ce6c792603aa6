"""tools.replay: what it records of a compilation, and which differences it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from migraphx.runtime.options import CompileOptions
from migraphx.targets.cpu.lower import CPU
from migraphx.targets.cpu.target import CpuTarget
from migraphx.targets.target import UnsupportedOperator
from tests.targets.cpu.golden_programs import program_of
from tools.replay import programs, report
from tools.replay_record import Recorder

TEST = "tests/a.py::test_b"


def recorded(folder: Path, *names: str) -> dict[str, Any]:
    folder.mkdir()
    recorder = Recorder(folder)
    recorder.test = TEST
    for name in names:
        recorder.record(CpuTarget(), program_of(name), CompileOptions())
    return dict(programs(folder))


def test_equal_programs_are_one_and_their_order_does_not_matter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    then = recorded(tmp_path / "then", "reduce_rows", "if", "reduce_rows")
    now = recorded(tmp_path / "now", "if", "reduce_rows")
    assert list(then) == [f"{TEST} #1", f"{TEST} #2"]
    assert report(then, now) == 0
    assert capsys.readouterr().out == "2 programs compared, 0 differ, 0 are gone, 0 are new\n"


def test_each_part_that_differs_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (name, old), *_ = recorded(tmp_path / "then", "dot_epilogue").items()
    source = old["sources"][-1].replace("mgx::max(v1, v2)", "mgx::min(v1, v2)")
    table = [line.replace("(7, 24,", "(7, 25,") for line in old["table"]]
    new = {"sources": [*old["sources"][:-1], source], "table": table, "weights": old["weights"][1:]}
    other = f"{TEST} #2"
    assert report({name: old, other: old}, {name: new}) == 1
    shown = capsys.readouterr().out
    for line in ("v3 = mgx::max(v1, v2);", "v3 = mgx::min(v1, v2);", "k0 (7, 24,", "k0 (7, 25,", old["weights"][0]):
        assert line in shown
    assert f"not compiled any more: {other}" in shown and "1 programs compared, 1 differ, 1 are gone" in shown


def test_a_refusal_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CPU._operators, "attention")
    folder = tmp_path / "found"
    with pytest.raises(UnsupportedOperator):
        recorded(folder, "attention")
    (program,) = programs(folder).values()
    assert program["error"].startswith("UnsupportedOperator: the cpu target refuses attention")
