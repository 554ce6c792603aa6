"""Memory on a GPU: upstream's names, which need a target that this build does not have."""

from __future__ import annotations

from typing import NoReturn

from migraphx.api.argument import argument
from migraphx.api.shape import shape
from migraphx.targets.registry import TARGETS


def allocate_gpu(s: shape, host: bool = False) -> argument:
    """Memory for `s` on the GPU (`host`: pinned main memory); RuntimeError without the gpu target."""
    _missing("allocate_gpu")


def to_gpu(arg: argument, host: bool = False) -> argument:
    """A copy on the GPU; RuntimeError without the gpu target."""
    _missing("to_gpu")


def from_gpu(arg: argument) -> argument:
    """A copy in main memory; RuntimeError without the gpu target."""
    _missing("from_gpu")


def gpu_sync() -> None:
    """Wait for the GPU; RuntimeError without the gpu target."""
    _missing("gpu_sync")


def _missing(name: str) -> NoReturn:
    raise RuntimeError(f"{name} needs the target gpu, which this build does not have: it has {', '.join(TARGETS)}")
