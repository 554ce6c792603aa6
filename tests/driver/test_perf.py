"""`perf`, `perf diff` and `explain`."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, rankdata

from migraphx.driver.statistics import compare, described, mann_whitney
from migraphx.driver.verbs.perf import shares
from migraphx.inspect import Report
from tests.driver.driving import drive, small


@pytest.fixture
def file(tmp_path):
    return small(tmp_path)


def test_perf(file, capsys, tmp_path):
    saved, trace = tmp_path / "report.json", tmp_path / "trace.json"
    words = ("perf", file, "--batch", 4, "-n", 12, "--processes", 1)
    assert drive(capsys, *words, "--json", "-o", saved, "--trace", trace).out == ""
    data = json.loads(saved.read_text())
    report = Report.from_dict(data)
    assert len(report.runs) == 12 and data["batch"] == 4 and data["statistics"]["max"] == max(report.runs)
    dot = next(s for s in report.steps if "dot" in s.kernel)
    assert dot.flops >= 2 * 4 * 16 * 8 and dot.bytes >= 4 * (4 * 16 + 16 * 8 + 4 * 8) and "fc (MatMul)" in dot.origin
    assert report.peaks.flops > 0 and report.peaks.bandwidth > 0
    events = json.loads(trace.read_text())["traceEvents"]
    assert [e["name"] for e in events] == [s.kernel for s in report.steps]
    assert sum(e["dur"] for e in events) == pytest.approx(1e6 * sum(s.seconds for s in report.steps))
    out = drive(capsys, *words, "--detailed").out
    for needed in ("Summary:", "Batch size: 4", "Rate: ", "Percentiles (90%, 95%, 99%): (", "Overhead: ", "from fc"):
        assert needed in out


@pytest.mark.slow
def test_perf_in_processes(file, capsys, tmp_path, monkeypatch):
    """On ref, which needs no compiler."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "cache"))
    words = ("perf", file, "--ref", "--fill1", "x", "-n", 5, "--processes", 2, "--trace", tmp_path / "trace.json")
    report = Report.from_dict(drive(capsys, *words, "--json").data)
    assert report.processes == (3, 2) and len(report.runs) == 5
    assert report.medians == [np.median(report.runs[:3]), np.median(report.runs[3:])]
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert report.peaks.flops > 0 and report.peaks.bandwidth > 0
    assert shares(7, 5) == [2, 2, 1, 1, 1] and shares(2, 5) == [1, 1]


def test_a_process_that_fails_says_why(file, capsys, monkeypatch):
    monkeypatch.setattr("sys.executable", "false")
    answer = drive(capsys, "perf", file, "--ref", "-n", 2)
    assert answer.code == 70 and "a process that measures ended with 1" in answer.err


def report(seconds, step=1e-3, processes=5):
    steps = [{"text": "@1", "kernel": "dot", "origin": "", "bytes": 4, "flops": 8, "seconds": step, "share": 0.5}]
    peaks = {"flops": 1e9, "bandwidth": 1e9}
    made = {"target": "cpu", "threads": 2, "machine": "m", "runs": list(seconds), "steps": steps, "peaks": peaks}
    return made | {"processes": [len(seconds) // processes] * processes}


def test_perf_diff(capsys, tmp_path):
    rng = np.random.default_rng(2)
    base = 1e-3 + 5e-5 * rng.random(40)
    files = {}
    for name, seconds in {"a": base, "same": rng.permutation(base), "slow": 1.1 * base, "fast": 0.9 * base}.items():
        files[name] = tmp_path / f"{name}.json"
        files[name].write_text(json.dumps(report(seconds, float(np.mean(seconds)))))
    for name, verdict, code in (("same", "no significant change", 0), ("slow", "slower", 1), ("fast", "faster", 0)):
        answer = drive(capsys, "perf", "diff", files["a"], files[name])
        assert answer.code == code and verdict in answer.out and "Mann-Whitney" in answer.out
    data = drive(capsys, "perf", "diff", files["a"], files["slow"], "--json").data
    assert data["significant"] and data["change"] == pytest.approx(0.1) and data["instructions"][0]["text"] == "@1"
    lenient = drive(capsys, "perf", "diff", files["a"], files["slow"], "--threshold", 0.2)
    assert lenient.code == 0


def test_perf_diff_of_something_else(capsys, tmp_path):
    good, bad, other = (tmp_path / n for n in ("good.json", "bad.json", "other.json"))
    good.write_text(json.dumps(report([1e-3] * 20)))
    other.write_text(json.dumps(report([1e-3] * 20) | {"threads": 8}))
    assert "threads differs: 2 and 8" in drive(capsys, "perf", "diff", good, other).out
    few, odd = json.dumps(report([1.0] * 20, processes=4)), json.dumps(report([1.0] * 20) | {"processes": [3, 3]})
    wrong = "not a performance report"
    for text, message in (("{", "bad.json"), ("[]", wrong), (few, "5 and 4 processes are too few"), (odd, wrong)):
        bad.write_text(text)
        answer = drive(capsys, "perf", "diff", good, bad)
        assert answer.code == 3 and message in answer.err


def test_mann_whitney_agrees_with_scipy():
    rng = np.random.default_rng(4)
    for n, m, shift in ((5, 5, 3.0), (10, 12, 0.0), (30, 25, 0.4)):
        a, b = rng.standard_normal(n).tolist(), (rng.standard_normal(m) + shift).tolist()
        assert mann_whitney(a, b) == pytest.approx(mannwhitneyu(a, b, method="exact").pvalue, rel=1e-9)
    assert mann_whitney([1.0] * 10, [1.0] * 10) == 1.0


def test_mann_whitney_with_ties_counts_the_ways_to_draw():
    a, b = [1.0, 2.0, 2.0, 3.0], [2.0, 3.0, 4.0, 4.0, 5.0]
    ranks = rankdata([*a, *b])
    sums = [sum(drawn) for drawn in combinations(ranks, len(a))]
    far = abs(sum(ranks[: len(a)]) - np.mean(sums))
    assert mann_whitney(a, b) == pytest.approx(np.mean([abs(s - np.mean(sums)) >= far - 1e-9 for s in sums]))


def test_equal_distributions_are_rarely_called_different():
    """Processes differ by 5%, runs of one process by 1%: a test of single runs would call most pairs different."""
    rng = np.random.default_rng(6)
    found = []
    for _ in range(500):
        runs = rng.lognormal(0, 0.05, (10, 1)) * rng.lognormal(0, 0.01, (10, 20))
        medians = np.median(runs, axis=1).tolist()
        found.append(compare(medians[:5], medians[5:], threshold=0.0).significant)
    assert np.mean(found) < 0.02


def test_described():
    seconds = list(np.random.default_rng(1).random(50))
    found = described(seconds)
    assert found["p95"] == pytest.approx(np.percentile(seconds, 95)) and found["min"] == min(seconds)


def test_explain(file, capsys):
    data = drive(capsys, "explain", file, "--json").data
    fused = next(k for k in data["kernels"] if len(k["parts"]) == 3)
    assert [p["text"] for p in fused["parts"]] == ["dot", "add", "relu"]
    assert [p["origin"] for p in fused["parts"]] == ["fc (MatMul)", "bias (Add)", "act (Relu)"]
    assert fused["flops"] >= 2 * 16 * 8 and fused["bytes"] > 0 and fused["calls"] >= 1
    floor = max(fused["flops"] / data["peaks"]["flops"], fused["bytes"] / data["peaks"]["bandwidth"])
    assert fused["floor_seconds"] == pytest.approx(floor)
    out = drive(capsys, "explain", file, "--ref").out
    assert "<- soft (Softmax)" in out and "cost: " in out


@pytest.mark.slow
def test_dynamic_shapes_are_reported_at_the_batch(file, capsys):
    words = (file, "--dim-param", "@batch", "{min:1, max:8}", "--batch", 3, "--json")
    kernels = drive(capsys, "explain", *words).data["kernels"]
    assert "dot" in [p["text"] for k in kernels for p in k["parts"]] and "{3, 8}" in kernels[0]["text"]
    steps = drive(capsys, "perf", *words, "-n", 10, "--processes", 1).data["steps"]
    assert sum(s["flops"] for s in steps) >= 2 * 3 * 16 * 8


@pytest.mark.slow
def test_explain_says_why(file, capsys):
    """With the ONNX node that an instruction came from."""
    answer = drive(capsys, "explain", file, "--why")
    assert "Not taken, or not fused:" in answer.out
    refused = drive(capsys, "explain", file, "--why", "--json").data["refused"]
    assert all(r["rule"] and r["why"] and r["parts"] for r in refused)
    (found,) = [r for r in refused if r["rule"] == "fuse_reduce"]
    assert found["why"] == "it can be the epilogue of a dot or convolution"
    assert [p["origin"] for p in found["parts"]] == ["act (Relu)"]
    assert "refused" not in drive(capsys, "explain", file, "--json").data
