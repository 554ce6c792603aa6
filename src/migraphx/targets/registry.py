"""The targets of this build, by name. Each is imported when it is first asked for: an import costs what it brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module

from migraphx.ir.operation import Unsupported
from migraphx.passes.interface import Pass
from migraphx.runtime.device import CUDA, Device, provide
from migraphx.targets.target import Target


def _later(module: str, name: str) -> Callable[[], Target]:
    return lambda: getattr(import_module(module), name)()


TARGETS: dict[str, Callable[[], Target]] = {
    "ref": _later("migraphx.targets.ref.target", "RefTarget"),
    "cpu": _later("migraphx.targets.cpu.entry", "CpuEntry"),
    "gpu": _later("migraphx.targets.gpu.entry", "gpu_target"),
}


def _cuda_device(index: int) -> Device:
    return import_module("migraphx.targets.gpu.device").CudaDevice(index)


provide(CUDA, _cuda_device)


def get_target(name: str) -> Target:
    """`ref` (NumPy, the meaning), `cpu` (fused native code) or `gpu` (the current device's).

    Unsupported says what is missing where a target cannot run on this machine.
    """
    if name not in TARGETS:
        near = get_close_matches(str(name).lower(), TARGETS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown target {name!r}: this build has {', '.join(TARGETS)}{hint}")
    return TARGETS[name]()


def known_passes() -> dict[str, Pass]:
    """Every pass of every target, by name."""
    found: dict[str, Pass] = {}
    for target in TARGETS:
        with suppress(Unsupported):  # it cannot run here
            found |= {one.__name__: one for one in get_target(target).passes}
    return found


def passes_named(names: Sequence[str]) -> list[Pass]:
    """The passes of these names, in this order; ValueError for an unknown one."""
    known = known_passes()
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise ValueError(f"unknown pass {name!r}; {hint}")
    return [known[n] for n in names]
