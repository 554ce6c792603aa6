"""What target cpu needs of a machine: a processor, a compiler, threads."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from pathlib import Path

from migraphx.runtime.cores import available
from migraphx.targets.cpu.isa import best_level
from migraphx.targets.cpu.threads import runtime
from migraphx.targets.cpu.toolchain import features, find_compiler

EXTENSIONS = (
    *("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile"),
    *("asimd", "sve"),
)


def processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    name = re.search(r"^model name\s*: (.*)$", text, re.M)
    flags = re.search(r"^(?:flags|Features)\s*: (.*)$", text, re.M)
    has = [e for e in EXTENSIONS if flags and e in flags[1].split()]
    level = f"; isa {best_level()}" if best_level() else ""
    return f"{name[1] if name else platform.machine()}; {' '.join(has) or 'no vector extension known here'}{level}"


def compiler() -> str:
    found = find_compiler()
    return f"{' '.join(found.command)} ({found.version}); vectors of {features().lanes} floats"


def threads() -> str:
    found = runtime()
    if not found.parallel:
        raise RuntimeError(f"no OpenMP runtime (libgomp or libomp): 1 thread instead of {available()}")
    return f"{available()} of {os.cpu_count()} cores; OpenMP from {found.path}"


CHECKS: dict[str, Callable[[], str]] = {"processor": processor, "compiler": compiler, "threads": threads}
