"""`run` and `time`: data, targets, precisions."""

from __future__ import annotations

import numpy as np
import pytest

import migraphx
from tests.driver.driving import drive, small, wanted
from tests.tolerances import assert_close


@pytest.fixture
def file(tmp_path):
    return small(tmp_path)


def outputs(answer):
    assert answer.code == 0, answer.err
    return [np.array(o["values"], np.float32) for o in answer.data["outputs"]]


@pytest.mark.parametrize("target", ["cpu", "ref"])
@pytest.mark.parametrize("option, value", [("--fill0", 0.0), ("--fill1", 1.0)])
def test_filled(file, capsys, target, option, value):
    (found,) = outputs(drive(capsys, "run", file, "--batch", 3, f"--{target}", option, "x", "--json"))
    assert_close(found, wanted(np.full((3, 16), value, np.float32)))


def test_loaded(file, capsys, tmp_path):
    x = np.random.default_rng(5).standard_normal((2, 16)).astype(np.float32)
    migraphx.argument(x).save(tmp_path / "x.arg")
    np.save(tmp_path / "x.npy", x)
    for name in ("x.arg", "x.npy"):
        words = ("--batch", 2, "--load-arg", "@x", tmp_path / name, "--json", "--enable-offload-copy")
        assert_close(outputs(drive(capsys, "run", file, *words))[0], wanted(x))
    np.save(tmp_path / "ints.npy", x.astype(np.int32))
    refused = drive(capsys, "run", file, "--batch", 2, "--load-arg", "@x", tmp_path / "ints.npy")
    assert refused.code == 3 and "int32_type" in refused.err
    short = drive(capsys, "run", file, "--batch", 3, "--load-arg", "@x", tmp_path / "x.npy")
    assert short.code == 3 and "must have shape" in short.err


def test_random_data_is_the_same_each_time(file, capsys):
    first, second = (outputs(drive(capsys, "run", file, "--ref", "--json"))[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_text_has_the_program_and_the_answer(file, capsys):
    out = drive(capsys, "run", file, "--ref").out
    assert out.startswith('module: "main"') and "#output_0: float_type, {1, 8}, {8, 1}: [[" in out
    assert drive(capsys, "run", file, "--ref", "-g").out == drive(capsys, "read", file, "-g").out


def test_compiled_file(file, capsys, tmp_path):
    saved = tmp_path / "compiled.mxr"
    drive(capsys, "compile", file, "-o", saved)
    answer = drive(capsys, "run", saved, "--json", "--fill1", "x")
    assert "Compiled already, for cpu" in answer.err
    assert_close(outputs(answer)[0], wanted(np.ones((1, 16), np.float32)))
    assert "Compiling" in drive(capsys, "run", saved, "--ref").err
    late = drive(capsys, "run", saved, "--fp16")
    assert late.code == 2 and "compiled already" in late.err


def test_time(file, capsys):
    answer = drive(capsys, "time", file, "-n", 12, "--batch", 4)
    lines = answer.out.splitlines()
    assert lines[0] == "Batch size: 4" and lines[1].startswith("Rate: ") and lines[2].startswith("Total time: ")
    data = drive(capsys, "time", file, "--iterations", 12, "--json").data
    assert len(data["runs"]) == 12 and data["median"] == pytest.approx(np.median(data["runs"]))
    assert data["p90"] == pytest.approx(np.percentile(data["runs"], 90)) and data["min"] <= data["mean"] <= data["max"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--fill1", "y"], "has no input 'y'"),
        (["--load-arg", "@z", "f"], "has no input 'z'"),
        (["--load-arg", "f"], "belongs to no name"),
        (["--input-dim", "@x", "a"], "'a' is no length"),
        (["--apply-pass", "fuse_pointwisee"], "did you mean fuse_pointwise?"),
        (["--trim", "99"], "leaves nothing"),
        (["--iterations", "3"], "unexpected '--iterations'"),
    ],
)
def test_wrong_words(file, capsys, words, message):
    answer = drive(capsys, "run", file, "--ref", *words)
    assert answer.code == 2 and message in answer.err
