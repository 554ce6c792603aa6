"""What target gpu needs of a machine: devices and their driver, Triton, and libraries that make it faster."""

from __future__ import annotations

from collections.abc import Callable

from migraphx.runtime.device import CUDA, device_of
from migraphx.targets.gpu.binaries import HELP, triton_version
from migraphx.targets.gpu.device import CudaDevice, device_count
from migraphx.targets.gpu.driver import CUDA_DRIVER, cuda_driver
from migraphx.targets.gpu.libraries.find import wheel

LIBRARIES = {"cuBLASLt": "cublasLt", "cuDNN": "cudnn"}


def devices() -> str:
    return "; ".join(map(_described, range(device_count())))


def _described(index: int) -> str:
    device = device_of(CUDA, index)
    assert isinstance(device, CudaDevice)
    free, total = device.memory()
    return f"{device.name} {device.model} ({device.chip}), {free:,} of {total:,} bytes free"


def driver() -> str:
    version = cuda_driver().number("version")
    return f"{CUDA_DRIVER.file} for CUDA {version // 1000}.{version % 1000 // 10}"


def triton() -> str:
    return f"Triton {triton_version()} compiles kernels; those in the cache need none"


def libraries() -> str:
    """None is needed: own kernels do what they do."""
    found = []
    for name, library in LIBRARIES.items():
        version = wheel(library)
        found.append(f"{name} {version}" if version else f"{name} not installed ({HELP})")
    return ", ".join(found)


CHECKS: dict[str, Callable[[], str]] = {
    "gpu devices": devices,
    "gpu driver": driver,
    "gpu compiler": triton,
    "gpu libraries": libraries,
}
