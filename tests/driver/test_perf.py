"""`perf`, `perf diff` and `explain`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from migraphx.driver.statistics import compare, described, mann_whitney
from migraphx.inspect import Report
from tests.driver.driving import drive, small


@pytest.fixture
def file(tmp_path):
    return small(tmp_path)


def test_perf(file, capsys, tmp_path):
    saved, trace = tmp_path / "report.json", tmp_path / "trace.json"
    words = ("perf", file, "--batch", 4, "-n", 12)
    assert drive(capsys, *words, "--json", "-o", saved, "--trace", trace).out == ""
    data = json.loads(saved.read_text())
    report = Report.from_dict(data)
    assert len(report.runs) == 12 and data["batch"] == 4 and data["statistics"]["max"] == max(report.runs)
    dot = next(s for s in report.steps if "dot" in s.kernel)
    assert dot.flops >= 2 * 4 * 16 * 8 and dot.bytes >= 4 * (4 * 16 + 16 * 8 + 4 * 8) and "fc (MatMul)" in dot.origin
    assert report.peaks.flops > 1e9 and report.peaks.bandwidth > 1e8
    events = json.loads(trace.read_text())["traceEvents"]
    assert [e["name"] for e in events] == [s.kernel for s in report.steps]
    assert sum(e["dur"] for e in events) == pytest.approx(1e6 * sum(s.seconds for s in report.steps))
    out = drive(capsys, *words, "--detailed").out
    for needed in ("Summary:", "Batch size: 4", "Rate: ", "Percentiles (90%, 95%, 99%): (", "Overhead: ", "from fc"):
        assert needed in out


def report(seconds, step=1e-3):
    steps = [{"text": "@1", "kernel": "dot", "origin": "", "bytes": 4, "flops": 8, "seconds": step, "share": 0.5}]
    peaks = {"flops": 1e9, "bandwidth": 1e9}
    return {"target": "cpu", "threads": 2, "machine": "m", "runs": list(seconds), "steps": steps, "peaks": peaks}


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
    few = json.dumps(report([1.0] * 3))
    for text, message in (("{", "bad.json"), ("[]", "not a performance report"), (few, "too few")):
        bad.write_text(text)
        answer = drive(capsys, "perf", "diff", good, bad)
        assert answer.code == 3 and message in answer.err


def test_mann_whitney_agrees_with_scipy():
    rng = np.random.default_rng(4)
    for n, m, shift in ((10, 12, 0.0), (30, 25, 0.4), (50, 50, 2.0)):
        for digits in (8, 1):  # one digit: many ties
            a = np.round(rng.standard_normal(n), digits).tolist()
            b = np.round(rng.standard_normal(m) + shift, digits).tolist()
            want = mannwhitneyu(a, b, method="asymptotic").pvalue
            assert mann_whitney(a, b) == pytest.approx(want, rel=1e-9)
    assert mann_whitney([1.0] * 10, [1.0] * 10) == 1.0


def test_equal_distributions_are_rarely_called_different():
    rng = np.random.default_rng(6)
    found = [compare(*rng.lognormal(0, 0.3, (2, 40)), threshold=0.0).significant for _ in range(500)]
    assert np.mean(found) < 0.03


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


def test_dynamic_shapes_are_reported_at_the_batch(file, capsys):
    words = (file, "--dim-param", "@batch", "{min:1, max:8}", "--batch", 3, "--json")
    kernels = drive(capsys, "explain", *words).data["kernels"]
    assert "dot" in [p["text"] for k in kernels for p in k["parts"]] and "{3, 8}" in kernels[0]["text"]
    steps = drive(capsys, "perf", *words, "-n", 10).data["steps"]
    assert sum(s["flops"] for s in steps) >= 2 * 3 * 16 * 8
