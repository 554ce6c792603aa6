"""Target gpu as the registry gives it: saved programs run without what compiles."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from migraphx.runtime.device import Device
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.executable import restored
from migraphx.targets.late import LateTarget
from migraphx.targets.target import Target


def gpu_target() -> GpuEntry:
    """For the current device; Unsupported says what is missing."""
    return GpuEntry(current_device())


class GpuEntry(LateTarget):
    """Target gpu for one accelerator."""

    name = "gpu"
    tunes = True

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.device: Device = accelerator

    def whole(self) -> Target:
        return import_module("migraphx.targets.gpu.target").GpuTarget(self.accelerator)

    def restore_static(
        self, data: dict[str, Any], tensors: dict[str, np.ndarray], trust_code: bool, options: CompileOptions
    ) -> Executable | None:
        return restored(self.accelerator, data, tensors, trust_code, options.offload_copy)
