"""What a device can do: its matrix units by their data sheets, its memory as a copy reaches it."""

from __future__ import annotations

from migraphx.runtime.device import Peaks
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.emit.pointwise import copy_call
from migraphx.targets.gpu.tune import Tuner

COPIED = 512 << 20  # bytes: far more than caches hold


def measure_peaks(device: Accelerator) -> Peaks:
    """Of matrix units, which programs in fp32 don't use, and of a copy."""
    source, target = (View(Buffer("arena", COPIED, k), "uint32", (COPIED // 4,), (1,)) for k in range(2))
    with device.current():
        microseconds = Tuner(device).time([copy_call(source, target)])
    return Peaks(device.peak_flops(), 2 * COPIED / microseconds * 1e6)
