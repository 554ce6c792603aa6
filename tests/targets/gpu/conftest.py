"""The devices that the tests of target gpu run on: Triton's interpreter everywhere, and a GPU where there is one.

`pytest tests/targets/gpu -m device` runs on the GPU alone, `-m "not device"` without one.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from migraphx.ir.operation import Unsupported
from migraphx.targets import registry
from migraphx.targets.gpu import binaries, facts
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.choices import Choices, Config, Problem
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.entry import GpuEntry
from tests.targets.gpu import side_by_side
from tests.targets.gpu.interpreted import InterpretedDevice


@pytest.fixture(params=["interpreter", pytest.param("cuda", marks=pytest.mark.device)])
def accelerator(request: pytest.FixtureRequest) -> Accelerator:
    if request.param == "interpreter":
        return InterpretedDevice()
    try:
        return current_device()
    except Unsupported as error:
        pytest.skip(str(error))


@pytest.fixture
def gpu_target(accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which `get_target` gives target gpu on the device."""
    monkeypatch.setitem(registry.TARGETS, "gpu", lambda: GpuEntry(accelerator))
    return "gpu"


@pytest.fixture
def everywhere(accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    """`side_by_side.check` runs programs on the device."""
    monkeypatch.setattr(side_by_side, "DEVICE", lambda: accelerator)


@pytest.fixture
def hopper_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`hopper_with(fp8=False)`: the facts that the cost models know of an H100 and an H200 change so."""

    def change(**changes: Any) -> None:
        monkeypatch.setitem(facts.KNOWN, "cuda:90", replace(facts.H200, **changes))
        monkeypatch.setattr(facts, "H100", replace(facts.H100, **changes))

    return change


@pytest.fixture(scope="session")
def compilers() -> Iterator[binaries.Compilers]:
    """As many as there are cores for each process that runs tests: each imports Triton."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    with binaries.Compilers(max(1, binaries._processes() // workers)) as made:
        yield made


@pytest.fixture
def warm_compilers(compilers: binaries.Compilers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests share processes that have imported Triton and what it imports late: the time of three kernels."""
    monkeypatch.setattr(binaries, "Compilers", lambda count: nullcontext(compilers))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes every choice this one; `family` as Problem has it."""

    def choose(config: Config, family: str = "") -> None:
        def pick(self: Choices, problem: Problem, *rest: object) -> Config:
            assert problem.family == (family or problem.family)
            return config

        monkeypatch.setattr(Choices, "pick", pick)

    return choose
