"""The benchmarks' own machinery: equal models at each call, one engine measured for real."""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import benchmarks.__main__
from benchmarks.__main__ import Options, dumps, engines_of, neighbours, quiet_turn, take_rounds
from benchmarks.engines import ENGINES, ISAS, NOT_HELD, Task, held_to, load_inputs, prepare
from benchmarks.machine import Floors, Meter, describe
from benchmarks.models import CASES, build
from benchmarks.worker import start, turn
from migraphx.targets.cpu import isa
from migraphx.targets.target import UnsupportedProcessor


def test_models_are_the_same_at_every_call():
    state = torch.random.get_rng_state()
    (one, (x,)), (two, (y,)) = build("mobilenet_v2"), build("mobilenet_v2")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not one.training and torch.equal(x, y)
    for (name, p), q in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.equal(p, q)
        assert p.numel() == 1 or p.dtype != torch.float32 or p.std() > 0, f"{name} is constant"


def test_an_engine_is_measured(tmp_path):
    grad, threads = torch.is_grad_enabled(), torch.get_num_threads()
    try:
        task = Task("mobilenet_v2", tmp_path, threads, batch=2)
        prepare(task, onnx=False)
        run, report = start(task, "eager")
        taken = turn(run, 0.05)
    finally:
        torch.set_grad_enabled(grad)
    assert report["error"] == 0.0 and report["first"] > 0
    assert taken["runs"] >= 5 and 0 < taken["least"] <= taken["median"] <= taken["p90"] <= taken["p99"]
    work = json.loads((tmp_path / "work.json").read_text())
    assert 1e9 < work["flops"] < 1.4e9  # the paper: 300 million multiply-adds a picture
    assert 1.3e7 < work["bytes"] < 1.6e7  # the paper: 3.4 million parameters
    assert [x.shape for x in load_inputs(task)] == [(2, 3, 224, 224)]


class Disturbed:
    """A worker and a meter, of turns whose foreign load and whose slowness are given."""

    def __init__(self, turns: list[tuple[float, float]]) -> None:
        self.left = turns

    def turn(self, seconds: float) -> dict[str, Any]:
        return {"foreign": self.left[0][0], "left": len(self.left)}

    def slowed(self) -> float:
        self.calls = getattr(self, "calls", 0) + 1
        return 0.0 if self.calls % 2 else self.left.pop(0)[1]


@pytest.mark.parametrize(
    ("turns", "taken"),
    [
        ([(0.0, 0.05), (0.0, 0.0)], 2),
        ([(0.1, 0.0), (0.0, 0.5), (0.0, 0.02)], 1),
        ([(0.1, 0.0), (0.0, 0.2), (0.09, 0.0)], 2),
    ],
)
def test_disturbed_turns_are_taken_again(
    turns: list[tuple[float, float]], taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first quiet one is kept, or the least disturbed."""
    monkeypatch.setattr(benchmarks.__main__, "REST", 0)
    options = Options([], [], 2, 1, 1, 0.1, busy=0, retries=len(turns) - 1, lock=None, output=None)
    machine: Any = Disturbed(list(turns))
    assert quiet_turn(machine, machine, options)["left"] == taken


def test_figures_are_medians_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round in which the machine is slow, and steady, changes none of them."""
    slow = {"median": 4.0, "p90": 4.0, "p99": 4.0, "least": 4.0, "foreign": 0.0, "slowed": 0.0, "peak_rss": 1}
    quick = slow | {"median": 1.0, "p90": 1.5, "p99": 2.0, "least": 0.5}
    turns = [quick, slow, quick]
    monkeypatch.setattr(benchmarks.__main__, "quiet_turn", lambda *_: turns.pop())
    report: dict[str, Any] = {"turns": []}
    worker: Any = None
    options = Options([], [], 2, 1, 3, 0.1, busy=0, retries=0, lock=None, output=None)
    take_rounds({"engine": worker}, {"engine": report}, worker, options)
    assert [report[f"{key}_s"] for key in ("latency", "p90", "p99", "least")] == [1, 1.5, 2, 0.5]
    assert report["rounds_s"] == [1, 4, 1] and report["spread"] == 3


@pytest.mark.slow
def test_the_meter_tells_what_is_missing() -> None:
    meter = Meter(1)
    for floors in (Floors(1e30, 0.0), Floors(0.0, 0.0, 1e30)):  # multiply-adds are missing; tiles are
        meter.floors = floors
        assert 0.99 < meter.slowed() <= 1
    meter.floors = Floors(0.0, 0.0)
    assert meter.slowed() == 0 and meter.floors.flops > 0


def test_neighbours_end_with_the_turn():
    with neighbours(2) as busy:
        assert [process.poll() for process in busy] == [None, None]
    assert all(process.poll() is not None for process in busy)


@pytest.mark.slow
def test_engines_are_held_to_an_instruction_set():
    """Each in the words that its library reads; the floors are those of the same instruction set."""
    script = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    environment = os.environ | ISAS["avx2"]
    shown = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() in ("AVX2", "DEFAULT", "NO AVX")
    assert ISAS["native"] == {} and set(ENGINES) > NOT_HELD


def test_an_instruction_set_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is compiled for it."""
    monkeypatch.setattr(isa, "instruction_set", lambda: " ".join(isa.LEVELS["x86-64-v3"]))
    assert held_to("native") == {} and held_to("avx2") == ISAS["avx2"]
    with pytest.raises(UnsupportedProcessor, match=r"x86-64-v4.* lacks avx512bw"):
        held_to("avx512")


def test_pictures_are_measured_in_both_layouts():
    assert engines_of("resnet50", ["eager", "inductor"]) == ["eager", "inductor", "inductor_nhwc"]
    assert engines_of("bert", ["eager", "inductor"]) == ["eager", "inductor"]
    assert set(CASES) >= {"resnet50", "bert"}


def test_results_are_short_json():
    value = {"a": [1.23456, 2.0], "b": {"c": None, "d": 12345678}}
    assert json.loads(dumps(value)) == {"a": [1.235, 2.0], "b": {"c": None, "d": 12345678}}
    assert "[ 1.235, 2.0 ]" in dumps(value)


def test_floors_keep_the_better_measurement():
    assert Floors(1.0, 4.0, 5.0, 8.0).best(Floors(2.0, 3.0, 6.0, 7.0)) == Floors(2.0, 4.0, 6.0, 8.0)
    assert describe()["versions"]["numpy"] == np.__version__
