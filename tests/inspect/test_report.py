"""Performance reports, chrome traces and explanations."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from migraphx.inspect import Report, chrome_trace, explain, performance_report
from migraphx.ir.builder import Builder
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.passes.manager import run_passes
from migraphx.runtime.options import CompileOptions
from migraphx.targets.cpu.target import PASSES
from migraphx.targets.registry import get_target
from tests.inspect.targets import numbers


def model() -> Program:
    """A dot with an epilogue, a softmax, and a transpose that is only a view."""
    p = Program()
    x = p.main.add_parameter("x", Shape("float", (8, 16)))
    w, v = numbers((16, 32), 1), numbers((32, 4), 2)
    y = Builder(p.main, origin="fc").dot(x, Builder(p.main).literal(w))
    y = Builder(p.main, origin="act").relu(y)
    y = Builder(p.main, origin="norm").softmax(y, axis=1)
    y = Builder(p.main, origin="head").dot(y, Builder(p.main).literal(v))
    p.main.add_return([y])
    return p


@pytest.fixture(scope="module")
def report() -> Report:
    executable = get_target("cpu").compile(model(), CompileOptions())
    return performance_report(executable, {"x": numbers((8, 16))}, runs=7)


@pytest.mark.slow
def test_report_says_what_each_step_is_and_costs(report: Report) -> None:
    assert report.target == "cpu" and report.threads >= 1 and len(report.runs) == 7
    dots = [s for s in report.steps if "dot" in s.kernel]
    assert [d.origin for d in dots] == ["fc, act", "head"]
    assert dots[0].flops == 2 * 8 * 16 * 32 + 8 * 32 and dots[1].flops == 2 * 8 * 32 * 4
    assert dots[0].bytes >= 4 * (8 * 16 + 16 * 32 + 8 * 32)
    assert all(s.seconds > 0 and s.share > 0 for s in report.steps)
    assert report.flops == sum(s.flops for s in report.steps) > 0 and report.bytes > 0
    assert report.peaks.flops > 0 and report.peaks.bandwidth > 0


def test_percentiles_are_numpys(report: Report) -> None:
    found = report.percentiles
    assert list(found) == ["min", "p50", "p90", "p95", "p99", "max"]
    assert found["min"] == min(report.runs) and found["max"] == max(report.runs)
    assert found["p50"] == report.seconds == np.median(report.runs)
    assert sorted(found.values()) == list(found.values())


def test_report_survives_json(report: Report) -> None:
    assert Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    for broken in ({}, report.to_dict() | {"steps": [{"text": "x"}]}, report.to_dict() | {"peaks": {"flops": 1}}):
        with pytest.raises(ValueError, match="not a performance report"):
            Report.from_dict(broken)


def test_chrome_trace_lays_steps_end_to_end(report: Report) -> None:
    events = json.loads(json.dumps(chrome_trace(report)))["traceEvents"]
    assert len(events) == len(report.steps) and all(e["ph"] == "X" for e in events)
    for first, second in pairwise(events):
        assert second["ts"] == pytest.approx(first["ts"] + first["dur"])
    assert events[0]["args"]["origin"] == report.steps[0].origin


def test_ref_reports_every_instruction() -> None:
    executable = get_target("ref").compile(model(), CompileOptions())
    found = performance_report(executable, {"x": numbers((8, 16))}, runs=2)
    assert [s.kernel for s in found.steps] == ["dot", "relu", "softmax", "dot"]
    assert found.steps[0].flops == 2 * 8 * 16 * 32 and found.steps[0].origin == "fc"
    with pytest.raises(ValueError, match="runs must be at least 1"):
        performance_report(executable, {"x": numbers((8, 16))}, runs=0)


def test_flops_do_not_change_where_operators_are_fused() -> None:
    p = Program()
    b = Builder(p.main)
    x = p.main.add_parameter("x", Shape("float", (1, 4, 10, 10)))
    y = b.convolution(x, b.literal(numbers((6, 4, 3, 3))), padding=(1, 1, 1, 1))
    y = b.mul(b.sigmoid(y), y)
    p.main.add_return([y])
    before = sum(i.flops for i in p.main)
    assert before == 2 * 6 * 100 * 4 * 9 + 2 * 600
    run_passes(p, PASSES)
    assert sum(i.flops for i in p.main) == before


def test_explain_names_what_was_fused_and_its_origins() -> None:
    found = explain(model(), "cpu")
    assert found.before == 4
    working = [k for k in found.kernels if not k.view]
    (first,) = (k for k in working if k.name == "group")
    assert [p.text.split("[")[0] for p in first.parts] == ["dot", "relu"] and first.origins == ("fc", "act")
    (norm,) = (k for k in working if k.name == "fused_reduce")
    assert norm.origins == ("norm",) and len(norm.parts) > 3
    assert "<- fc" in str(found) and "4 instructions became" in str(found)
    assert explain(model(), "ref").kernels[0].parts[0].text == "dot"


def test_a_product_of_4_bit_weights_is_work() -> None:
    p = Program()
    b, x = Builder(p.main), p.main.add_parameter("x", Shape("float", (3, 8)))
    p.main.add_return([b.dot_int4(x, b.literal(np.ones((4, 5), np.int8)), b.literal(numbers((2, 5))))])
    for target in ("cpu", "ref"):
        (step,) = get_target(target).compile(p, CompileOptions()).steps
        assert step.flops == 2 * 3 * 8 * 5


def test_a_row_of_a_scan_is_all_that_is_read() -> None:
    p = Program()
    x, index = p.main.add_parameter("x", Shape("float", (1000, 8))), p.main.add_parameter("i", Shape("int64", (1,)))
    p.main.add_return([Builder(p.main).scan_slice(x, index, axis=0)])
    for target in ("cpu", "ref"):
        (step,) = get_target(target).compile(p, CompileOptions()).steps
        assert step.bytes == 8 + 2 * 8 * 4


@pytest.mark.parametrize("target", ["cpu", "ref"])
def test_a_gather_reads_no_more_of_its_table_than_it_gives(target: str) -> None:
    p = Program()
    indices = p.main.add_parameter("i", Shape("int64", (3,)))
    p.main.add_return([Builder(p.main).gather(Builder(p.main).literal(numbers((1000, 8))), indices, axis=0)])
    (step,) = get_target(target).compile(p, CompileOptions()).steps
    assert step.bytes == 3 * 8 + 2 * 3 * 8 * 4
