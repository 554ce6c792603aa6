"""The driver's frame: exit codes, the log, variables, colours, the process."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from migraphx.driver import environment
from migraphx.driver.main import VERBS, main
from migraphx.driver.result import MEANINGS, Exit, Result, plain
from migraphx.driver.terminal import Progress, coloured, progress, quantity, table
from migraphx.runtime.options import CompileOptions
from migraphx.targets.gpu import device, driver
from tests.driver.driving import drive, small
from tests.onnx.one_node import model

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path):
    return small(tmp_path)


def test_as_a_process(file):
    done = subprocess.run(
        [sys.executable, "-m", "migraphx.driver", "params", str(file)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("x: float_type, {1, 16}") and done.stderr.startswith("Reading: ")


def test_help_says_exit_codes_and_verbs(capsys):
    answer = drive(capsys, "--help")
    assert answer.code == 0 and all(f"{c.value}  " in answer.out for c in Exit) and set(MEANINGS) == set(Exit)
    assert all(name in answer.out for name in VERBS)
    for name in VERBS:
        assert "--json" in drive(capsys, *name.split(), "--help").out


def test_usage_errors(file, capsys):
    for words, message in (
        ([], "a verb is missing"),
        (["raed"], "did you mean 'read'?"),
        (["frobnicate"], "there are read, params"),
        (["perf", file, "--fp17"], "did you mean --fp16?"),
        (["read", file, "--cpp", "--netron"], "not allowed"),
        (["read", file, "--cpp", "--json"], "--json and --cpp"),
        (["read", file, "--batch", "0"], "--batch: '0' is no whole number from 1 on"),
        (["verify", file, "-i", "-r"], "not allowed"),
        (["verify", file, "--atol", "nan"], "--atol: 'nan' is no number from 0 on"),
        (["verify", file, "--rtol", "-1"], "--rtol: '-1' is no number from 0 on"),
        (["perf", "diff", "a", "b", "--alpha", "x"], "--alpha: 'x' is no number from 0 on"),
    ):
        answer = drive(capsys, *words)
        assert answer.code == Exit.USAGE and message in answer.err and ("--json" in words or not answer.out)
    assert "exit codes:" in drive(capsys).err


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["read", "none.onnx"], "input"),
        (["read", "none.onnx", "--frob"], "usage"),
        (["frobnicate"], "usage"),
        (["op", "no_such_operator"], "usage"),
        (["perf", "diff", "a", "b"], "input"),
        (["onnx", "--log-file", "no/folder/log"], "input"),
        (["onnx", "-o", "no/folder/list"], "input"),
    ],
)
def test_errors_are_json_too(words, kind, capsys):
    answer = drive(capsys, *words, "--json")
    error = answer.data["error"]
    assert error["kind"] == kind and error["code"] == answer.code == Exit[kind.upper()]
    assert error["message"] in answer.err


def test_outputs_are_checked_before_the_work(file, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(VERBS["perf"], "run", lambda args: pytest.fail("it ran"))
    for flag in ("--output", "--trace"):
        for path, reason in ((tmp_path / "no" / "x", "no such folder"), (tmp_path, "is a folder")):
            answer = drive(capsys, "perf", file, flag, path)
            assert answer.code == Exit.INPUT and reason in answer.err and str(tmp_path) in answer.err


def test_bad_files(capsys, tmp_path):
    assert drive(capsys, "read", tmp_path / "none.onnx").code == Exit.INPUT
    for content in (b"", b"rubbish", b"{", b"\x80"):
        path = tmp_path / "bad"
        path.write_bytes(content)
        answer = drive(capsys, "read", path)
        assert answer.code == Exit.INPUT and "bad" in answer.err


def test_unsupported(file, capsys, tmp_path, monkeypatch):
    library = replace(driver.CUDA_DRIVER, file="libnothing.so.1")
    monkeypatch.setattr(device, "cuda_driver", lambda: driver.Driver(library))
    answer = drive(capsys, "run", file, "--gpu")
    assert answer.code == Exit.UNSUPPORTED and "target gpu needs libnothing.so.1" in answer.err
    compiled = {"version": 7, "migraphx_version": "2", "targets": [{"name": "gpu"}], "contexts": [], "modules": {}}
    (tmp_path / "gpu.json").write_text(json.dumps(compiled))
    answer = drive(capsys, "read", tmp_path / "gpu.json")
    assert answer.code == Exit.UNSUPPORTED and "compiled for gpu" in answer.err


def test_compiler_errors(file, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    answer = drive(capsys, "run", file)
    assert answer.code == Exit.COMPILER and "install" in answer.err


def test_internal_errors_and_interrupts(capsys, monkeypatch):
    def broken(args):
        raise RuntimeError("inside")

    monkeypatch.setattr(VERBS["onnx"], "run", broken)
    answer = drive(capsys, "onnx", "--log-level", "debug")
    assert answer.code == Exit.INTERNAL and "RuntimeError: inside" in answer.err and "Traceback" in answer.err

    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(VERBS["onnx"], "run", interrupted)
    assert drive(capsys, "onnx").code == Exit.INTERRUPTED


def test_unknown_variables_are_warned_of_once(capsys, monkeypatch):
    monkeypatch.setenv("MIGRAPHX_TIME_PASS", "1")
    monkeypatch.setenv("MIGRAPHX_DISABLE_MLIR", "1")
    err = drive(capsys, "onnx").err
    assert err.count("MIGRAPHX_DISABLE_MLIR has no effect") == 1
    assert "MIGRAPHX_TIME_PASS has no effect in OpenMGX; did you mean MIGRAPHX_TIME_PASSES?" in err
    assert drive(capsys, "onnx", "--log-level", "none").err == ""
    assert set(environment.LOGGERS) <= set(environment.VARIABLES)


def test_known_variables_and_the_log(file, capsys, monkeypatch, tmp_path):
    before = logging.getLogger("migraphx.passes.manager").level, list(logging.getLogger("migraphx").handlers)
    monkeypatch.setenv("MIGRAPHX_TIME_PASSES", "1")
    answer = drive(capsys, "read", file, "-O", "--log-file", tmp_path / "log")
    assert "simplify_algebra" in (tmp_path / "log").read_text() and "simplify_algebra" not in answer.err
    assert "has no effect" not in answer.err
    assert before == (logging.getLogger("migraphx.passes.manager").level, list(logging.getLogger("migraphx").handlers))
    assert drive(capsys, "onnx", "--log-file", tmp_path / "no" / "log").code == Exit.INPUT
    answer = drive(capsys, "compile", file, "--log-level", "info")
    assert re.search(r"compiled in [\d.]+ s: passes [\d.]+, lowering [\d.]+, C\+\+ text [\d.]+, compiler", answer.err)


def test_variables_and_the_command_are_documented():
    table = (PROJECT / "ARCHITECTURE.md").read_text().split("## Environment")[1]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == set(environment.VARIABLES)
    module, _, function = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"][
        "migraphx-driver"
    ].partition(":")
    assert (module, function) == (main.__module__, main.__name__)


def test_every_compile_option_has_a_flag(capsys):
    out = drive(capsys, "compile", "--help").out
    for flag in ("--enable-offload-copy", "--disable-fast-math", "--exhaustive-tune", "--num-threads"):
        assert flag in out
    assert all(name.replace("_", "-") in out for name in vars(CompileOptions()))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_only_on_a_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert coloured("word", "bad", io.StringIO()) == "word"
    assert coloured("word", "bad", Terminal()) == "\033[31mword\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("word", "bad", Terminal()) == "word"


def test_progress_only_on_a_terminal(monkeypatch):
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("working", 4) as bar:
            assert isinstance(bar, Progress)
            for _ in range(4):
                bar.advance()
        shown = "4/4" in stream.getvalue() and stream.getvalue().endswith("\r\033[K")
        assert shown if stream.isatty() else stream.getvalue() == ""


def test_json_is_strict():
    assert plain({"a": (1.5, float("nan")), 2: [float("inf"), -float("inf")]}) == {
        "a": [1.5, "NaN"],
        "2": ["Infinity", "-Infinity"],
    }
    assert Result("t", {"x": float("nan")}).rendered(True) == b'{\n "x": "NaN"\n}\n'


def test_nan_in_an_output(tmp_path, capsys):
    path = tmp_path / "log.onnx"
    path.write_bytes(model([helper.make_node("Log", ["x"], ["y"])], {"x": np.zeros(2, np.float32)}, ["y"]))
    found = drive(capsys, "run", path, "--ref", "--fill0", "x", "--json").data
    assert found["outputs"][0]["values"] == ["-Infinity", "-Infinity"]


def test_quantities():
    assert [quantity(v, "B") for v in (0, 12, 1234, 5.6e9, 7e15)] == ["0 B", "12 B", "1.23 kB", "5.6 GB", "7e+03 TB"]
    assert table([["a", "1"], ["bb", "22"]], ["name", "n"]) == "name   n\na      1\nbb    22"


@pytest.mark.slow
def test_closed_pipe(file):
    command = f'"{sys.executable}" -m migraphx.driver op --list | head -1'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "@literal\n" and "Traceback" not in done.stderr
    assert main(["op", "relu", "--log-level", "none"]) == 0
