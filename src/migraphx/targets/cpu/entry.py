"""Target cpu as the registry gives it: saved programs run without what compiles."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from migraphx.runtime.cores import available
from migraphx.runtime.device import HOST, Device
from migraphx.runtime.executable import Executable
from migraphx.runtime.memory_image import MemoryImage, Ranges, Requests
from migraphx.runtime.options import CompileOptions
from migraphx.runtime.repeat import Decode, DecodeOptions
from migraphx.targets.cpu.executable import restore
from migraphx.targets.cpu.isa import check_processor
from migraphx.targets.cpu.threads import runtime
from migraphx.targets.late import LateTarget
from migraphx.targets.target import Target


class CpuEntry(LateTarget):
    """Target cpu."""

    name = "cpu"
    device: Device = HOST
    tunes = True
    levels = True

    def whole(self) -> Target:
        return import_module("migraphx.targets.cpu.target").CpuTarget()

    def restore_static(
        self, data: dict[str, Any], tensors: dict[str, np.ndarray], trust_code: bool, options: CompileOptions
    ) -> Executable | None:
        check_processor(options.isa)
        return restore(data, tensors, trust_code, options)

    def concurrency(self) -> int:
        return available()

    def memory_image(
        self, stages: Sequence[Ranges], requests: Requests | None = None, lasting: bool = False
    ) -> MemoryImage | None:
        return import_module("migraphx.targets.cpu.memory_image").memory_image(stages, requests, lasting)

    def decode(self, logits: np.ndarray, inputs: Sequence[np.ndarray], options: DecodeOptions) -> Decode | None:
        return import_module("migraphx.targets.cpu.decode").decode(logits, inputs, options)

    def share(self, runs: int) -> None:
        runtime().set_threads(max(1, available() // runs))
