"""The targets of this build, by name."""

from __future__ import annotations

from difflib import get_close_matches

from migraphx.targets.cpu.target import CpuTarget
from migraphx.targets.ref.target import RefTarget
from migraphx.targets.target import Target

TARGETS: dict[str, type] = {"ref": RefTarget, "cpu": CpuTarget}


def get_target(name: str) -> Target:
    """`ref` (NumPy, the meaning) or `cpu` (fused native code)."""
    if name not in TARGETS:
        near = get_close_matches(name, TARGETS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown target {name!r}: this build has {', '.join(TARGETS)}{hint}")
    return TARGETS[name]()
