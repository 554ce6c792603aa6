"""What the benchmarks compute from their measurements, on made measurements."""

import json

import pytest

from benchmarks.table import BEGIN, END, best_form, geometric_mean, main, markdown, ratio


def engine(latency: float) -> dict:
    return {
        "latency_s": latency,
        "p90_s": latency * 1.5,
        "p99_s": latency * 2,
        "least_s": latency / 2,
        "cold_first_answer_s": 2.0,
        "warm_first_answer_s": 0.5,
        "peak_rss": 3e8,
        "error": 2e-7,
    }


def result() -> dict:
    engines = {
        "eager": engine(0.02),
        "inductor": engine(0.012),
        "inductor_nhwc": engine(0.009),
        "onnxruntime": engine(0.006),
        "openvino": {"failure": "no such operator"},
        "openmgx": engine(0.004),
    }
    return {
        "command": "python -m benchmarks",
        "date": "2000-01-01",
        "machine": {"processor": "none", "versions": {"torch": "0"}, "commit": "0"},
        "threads": 2,
        "floors": {"flops": 1e12, "bandwidth": 1e10},
        "models": {"net": {"flops": 1e9, "bytes": 1e7, "engines": engines}},
    }


def test_ratio_is_fastest_rival_over_ours():
    engines = result()["models"]["net"]["engines"]
    assert best_form(engines, "inductor") == engines["inductor_nhwc"]
    assert best_form(engines, "openvino") is None
    assert ratio(engines) == pytest.approx(1.5)
    assert ratio({"eager": engine(1.0), "openmgx": engine(0.5)}) is None


def test_geometric_mean():
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


def test_table_shows_figures_and_fills_the_readme(tmp_path, monkeypatch):
    text = markdown(result())
    assert "| net | 20.00 | 9.00 | 6.00 | - | 4.00 | 1.50 | 25% |" in text
    readme, measured = tmp_path / "README.md", tmp_path / "result.json"
    readme.write_text(f"before\n{BEGIN}\nstale\n{END}\nafter\n")
    measured.write_text(json.dumps(result()))
    monkeypatch.setattr("sys.argv", ["table", str(measured), "--readme", str(readme)])
    main()
    filled = readme.read_text()
    assert filled.startswith("before\n") and filled.endswith("after\n")
    assert text in filled and "stale" not in filled


def test_percentiles_and_neighbours_are_shown():
    text = markdown(result() | {"busy": 2})
    held = markdown(result() | {"isa": "avx2", "not_held": ["onnxruntime"]})
    assert "held to avx2 (onnxruntime is not)" in held and "held" not in markdown(result() | {"isa": "native"})
    assert "beside 2 busy processes" in text and "busy" not in markdown(result())
    rows = text.split("In ms, 90th percentiles:")[1].split("\n\n")[1]
    assert "| net | 30.00 | 13.50 | 9.00 | - | 6.00 |" in rows


def test_the_spread_is_shown_where_it_was_measured():
    measured = result()
    assert "/ its least" not in markdown(measured)
    for engine in measured["models"]["net"]["engines"].values():
        engine |= {"spread": 1.25}
    assert "| net | 1.25 | 1.25 | 1.25 | - | 1.25 |" in markdown(measured).split("/ its least:")[1]
