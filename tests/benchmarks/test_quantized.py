"""python -m benchmarks.quantized, without the measuring."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import quantized
from benchmarks.__main__ import Options
from benchmarks.machine import Meter


def test_table_and_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def measure(model: str, meter: Meter, options: Options) -> dict[str, Any]:
        assert model in options.models and options.batch == 1 and options.rounds == 2
        engines: dict[str, Any] = {n: {"latency_s": 0.002 * k, "error": 0.5} for k, n in enumerate(options.peers, 1)}
        return {"engines": engines | {"openmgx_bf16": {"failure": "Traceback\nValueError: no"}}}

    monkeypatch.setattr(quantized, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["quantized", "--models", "bert", "--rounds", "2", "--output", f"{tmp_path}/a"])
    quantized.main()
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.split()[:2] == ["bert", "ms"] and len(rows) == len(quantized.PRECISIONS)
    assert rows[0].split()[-5:] == ["2.00", "1.00", "2.00", "3.00", "5.0e-01"]  # ONNX Runtime's float model
    assert "failed: ValueError: no" in rows[4]
    assert json.loads((tmp_path / "a").read_text())["bert"]["engines"]["openmgx_int8"]["latency_s"] == 0.014
