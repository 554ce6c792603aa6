"""Instruction sets that programs can be compiled for: the levels of the x86-64 ABI, and what this processor has.

Levels: https://gitlab.com/x86-psABIs/x86-64-ABI, "Micro-Architecture Levels".
"""

from __future__ import annotations

import platform
import re
from functools import cache
from itertools import accumulate
from pathlib import Path

from migraphx.runtime.options import ISAS, NATIVE
from migraphx.targets.target import UnsupportedProcessor

ADDED = {
    "x86-64": "cmov cx8 fpu fxsr mmx sse sse2 syscall",
    "x86-64-v2": "cx16 lahf_lm pni popcnt sse4_1 sse4_2 ssse3",
    "x86-64-v3": "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
    "x86-64-v4": "avx512bw avx512cd avx512dq avx512f avx512vl",
}
"""What each level has beyond the one before, by Linux's names."""
LEVELS = dict(zip(ADDED, accumulate((frozenset(w.split()) for w in ADDED.values()), frozenset.union), strict=True))
assert (NATIVE, *LEVELS) == ISAS


@cache
def instruction_set() -> str:
    """The machine and its processor's features, which objects depend on that are compiled for this processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = {
        line.split(":")[0].strip(): line for line in lines if line.startswith(("flags", "Features", "model name"))
    }
    return platform.machine() + "".join(wanted.values())


def made_for(isa: str) -> str:
    """The instruction set that objects for `isa` depend on: of a level, its name alone."""
    return instruction_set() if isa == NATIVE else isa


def check_processor(isa: str) -> None:
    """UnsupportedProcessor where this processor cannot run what is compiled for `isa`: names both, and what lacks."""
    if isa == NATIVE:
        return
    lacking = missing(isa)
    if lacking:
        best = best_level()
        raise UnsupportedProcessor(
            f"isa={isa!r} is asked for, and this processor ({_processor()}) lacks {', '.join(sorted(lacking))}; "
            + (f"it can run isa={best!r}" if best else "it can run none of the levels")
        )


def best_level() -> str:
    """The highest level that this processor has; "" where it has none."""
    return next((level for level in reversed(LEVELS) if not missing(level)), "")


def missing(isa: str) -> frozenset[str]:
    """What this processor lacks of a level."""
    return LEVELS[isa] - frozenset(instruction_set().split())


def _processor() -> str:
    name = re.search(r"model name\s*: (.*?)(?:flags|Features|$)", instruction_set())
    return name[1].strip() if name else platform.machine()
