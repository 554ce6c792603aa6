"""`migraphx-driver` with `--gpu`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from migraphx.runtime.device import Peaks
from migraphx.targets.gpu.target import GpuTarget
from tests.driver.driving import drive, small, wanted

X = np.random.default_rng(0).standard_normal((1, 16)).astype(np.float32)


@pytest.fixture(autouse=True)
def on_gpu(gpu_target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peaks take a second to measure, and minutes in the interpreter."""
    monkeypatch.setattr(GpuTarget, "peaks", lambda self, threads: Peaks(1e12, 1e12))


@pytest.mark.parametrize("copies", [(), ("--enable-offload-copy",)], ids=["on the device", "copied"])
def test_run(copies: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", X)
    given = ("--load-arg", "@x", tmp_path / "x.npy")
    answer = drive(capsys, "run", small(tmp_path), "--gpu", *copies, *given, "--json")
    assert answer.code == 0, answer.err
    (output,) = json.loads(answer.out)["outputs"]
    np.testing.assert_allclose(np.array(output["values"]).reshape(wanted(X).shape), wanted(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("verb", [("verify",), ("verify", "--per-instruction"), ("time", "-n", "2"), ("compile",)])
def test_verbs(verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = drive(capsys, *verb, small(tmp_path), "--gpu")
    assert answer.code == 0, answer.err


def test_perf_times_each_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = drive(capsys, "perf", small(tmp_path), "--gpu", "-n", "2", "--processes", "1", "--json")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert report["target"] == "gpu" and len(report["steps"]) >= 2 and all(s["kernel"] for s in report["steps"])


def test_explain_and_doctor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "cache"))  # doctor reads every entry
    answer = drive(capsys, "explain", small(tmp_path), "--gpu")
    assert answer.code == 0, answer.err
    answer = drive(capsys, "doctor")
    assert "target gpu: a small program compiles and gives the right answer" in answer.out
