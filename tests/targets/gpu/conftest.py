"""The devices that the tests of target gpu run on: Triton's interpreter everywhere, and a GPU where there is one."""

import pytest

from migraphx.targets import registry
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.gpu.interpreted import InterpretedDevice


@pytest.fixture
def gpu_target(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which `get_target` gives target gpu on a device."""
    device = InterpretedDevice()
    monkeypatch.setitem(registry.TARGETS, "gpu", lambda: GpuTarget(device))
    return "gpu"
