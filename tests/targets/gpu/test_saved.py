"""Programs in files: what is restored, from where, and what a file may not do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.api.program import program, published
from migraphx.ir.shape import Shape
from migraphx.targets.common import cache
from migraphx.targets.gpu.executable import GpuExecutable
from migraphx.targets.gpu.saved import plan_data, read_plan
from tests.targets.cpu import test_control
from tests.targets.gpu.side_by_side import built

X = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
WEIGHT = np.random.default_rng(1).standard_normal(40).astype(np.float32)


def compiled() -> program:
    made = built(
        lambda b, x: b.exp(b.transpose(b.add(*b.common(x, b.literal(WEIGHT))), permutation=(1, 0))),
        Shape("float", X.shape),
    )
    made.compile(migraphx.get_target("gpu"))
    return made


def answer(p: program) -> np.ndarray:
    return np.asarray(p.run({"x0": X})[0])


def plan_of(p: program) -> Any:
    assert isinstance(p.executable, GpuExecutable)
    return p.executable.plan


def test_plans_are_the_same_from_a_file(gpu_target: str) -> None:
    made = plan_of(compiled())
    assert read_plan(plan_data(made)) == made
    loops = published(test_control.all_loops().program.clone())
    loops.compile(migraphx.get_target(gpu_target))
    assert read_plan(plan_data(plan_of(loops))) == plan_of(loops)


@pytest.mark.parametrize("code", [False, True])
def test_restored_from_the_cache(gpu_target: str, code: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = compiled()
    migraphx.save(made, tmp_path / "p.mxr", code=code)
    caplog.set_level(logging.INFO)
    again = migraphx.load(tmp_path / "p.mxr")
    assert "compiling it again" not in caplog.text and plan_of(again) == plan_of(made)
    np.testing.assert_array_equal(answer(again), answer(made))


def test_restored_from_a_trusted_file(
    gpu_target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the cache has nothing: with trust from the file, else compiled again."""
    made = compiled()
    migraphx.save(made, tmp_path / "p.mxr", code=True)
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "other"))
    np.testing.assert_array_equal(answer(migraphx.load(tmp_path / "p.mxr", trust_code=True)), answer(made))
    assert "compiling it again" not in caplog.text
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "third"))
    np.testing.assert_array_equal(answer(migraphx.load(tmp_path / "p.mxr")), answer(made))
    assert "compiling it again" in caplog.text


CHANGES: dict[str, tuple[Callable[[dict[str, Any], dict[str, np.ndarray]], Any], str | None]] = {
    "no arena": (lambda d, t: d.update(arena_bytes=d["arena_bytes"] + 256), "blocks of other sizes"),
    "short input": (lambda d, t: d["parameters"][0][1].update(lens=[3, 39]), "blocks of other sizes"),
    "short output": (lambda d, t: d["outputs"][0].update(lens=[40, 2]), "blocks of other sizes"),
    "short weight": (
        lambda d, t: t.update({n: a[:1] for n, a in t.items() if n.startswith("weight")}),
        "of other sizes",
    ),
    "no checks": (lambda d, t: d.update(checks=["one"]), "blocks of other sizes"),
    "another chip": (lambda d, t: d.update(chip="cuda:1"), None),
    "an unknown plan": (lambda d, t: d.update(plan="0" * 40), None),
    "a path for a plan": (lambda d, t: d.update(plan="../plan"), None),
    "another plan inside": (lambda d, t: (d.update(plan="0" * 40), t.update({"plan.code": t["code"]})), None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_cannot_say_where_kernels_write(gpu_target: str, change: str) -> None:
    """Sizes that differ from the plan's are refused; a plan that is not ours is not used."""
    made, (damage, why) = compiled(), CHANGES[change]
    data, tensors = made.executable.sections()
    damage(data, tensors)
    target = migraphx.get_target(gpu_target)
    if why is None:
        assert target.restore(data, tensors, False, lambda: made.graph, made._options) is None
    else:
        with pytest.raises(ValueError, match=why):
            target.restore(data, tensors, False, lambda: made.graph, made._options)


def test_a_damaged_plan_in_the_cache_is_not_used(
    gpu_target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path))  # others use theirs
    made = compiled()
    data, tensors = made.executable.sections()
    path = cache.lookup(data["plan"], ".plan")
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1])
    target = migraphx.get_target(gpu_target)
    assert target.restore(data, tensors, False, lambda: made.graph, made._options) is None
