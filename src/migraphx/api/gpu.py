"""Memory on a GPU, under upstream's names."""

from __future__ import annotations

from migraphx.api.argument import argument, publish
from migraphx.api.shape import shape
from migraphx.ir.operation import Unsupported
from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.device import HOST, Device
from migraphx.targets.registry import get_target


def allocate_gpu(s: shape, host: bool = False) -> argument:
    """Uninitialised memory for `s` on the current GPU; `host`: main memory that is pinned for it.

    RuntimeError without a GPU, MemoryError where it has no room.
    """
    return publish(_empty(s._impl, _gpu("allocate_gpu"), host))


def to_gpu(arg: argument, host: bool = False) -> argument:
    """A copy on the current GPU, or (`host`) in main memory that is pinned for it; RuntimeError without a GPU."""
    device = _gpu("to_gpu")
    copy = _empty(arg.shape, device, host)
    given: Argument = arg
    if arg.device not in (HOST, device):
        arg.device.synchronise()
        given = arg.to(HOST)
    if host:
        given.device.read(copy.pointer, given.pointer, given.shape.bytes)
    elif given.device is HOST:
        device.write(copy.pointer, given.pointer, given.shape.bytes)
    else:
        device.copy(copy.pointer, given.pointer, given.shape.bytes)
    return publish(copy)


def from_gpu(arg: argument) -> argument:
    """A copy in main memory, when all that the GPU on which it lies has to do is done; RuntimeError without a GPU."""
    (_gpu("from_gpu") if arg.device is HOST else arg.device).synchronise()
    copy = Argument.empty(arg.shape)
    arg.device.read(copy.pointer, arg.pointer, arg.shape.bytes)
    return publish(copy)


def gpu_sync() -> None:
    """Wait for all that the current GPU has to do; what its programs found wrong is raised here.

    RuntimeError without a GPU.
    """
    _gpu("gpu_sync").synchronise()


def _gpu(name: str) -> Device:
    try:
        return get_target("gpu").device
    except Unsupported as error:
        raise RuntimeError(f"{name} needs the target gpu: {error}") from None


def _empty(s: Shape, device: Device, host: bool) -> Argument:
    return Argument(s, *device.pinned(s.bytes)) if host else Argument.empty(s, device)
