"""What this machine is and can do: description, versions, multiply-add peak, copy bandwidth, foreign load."""

import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import astuple, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "torchvision", "transformers", "onnxruntime", "openvino", "numpy", "openmgx")


@dataclass(frozen=True)
class Floors:
    """The best of some threads.

    FLOP/s; bytes/s of a copy, read plus written; FLOP/s of bf16 tiles (0: no AMX); bytes/s where they only read.
    """

    flops: float
    bandwidth: float
    tiles: float = 0.0
    reads: float = 0.0

    def best(self, other: "Floors") -> "Floors":
        """The better of two measurements, each way: other programs can only lower one."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Floors(*(max(pair) for pair in pairs))


class Meter:
    """floors.cpp, compiled for this CPU, or for the instruction set that `march` names."""

    def __init__(self, threads: int, march: str = "-march=native") -> None:
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
        if compiler is None:
            raise RuntimeError("the floors need a C++ compiler: install g++ or clang++, or set CXX")
        self._folder = tempfile.TemporaryDirectory()  # removed with this object
        self._command = [str(Path(self._folder.name, "floors")), str(threads)]
        source = Path(__file__).with_name("floors.cpp")
        flags = ["-std=c++17", "-O3", march, "-ffp-contract=fast", "-pthread"]
        subprocess.run([compiler, *flags, source, "-o", self._command[0]], check=True)
        self.floors = Floors(0.0, 0.0)

    def measure(self) -> Floors:
        """The best so far, with some seconds of trying."""
        flops, bandwidth, reads, _ = map(float, subprocess.check_output(self._command, text=True).split())
        self.floors = self.floors.best(Floors(flops, bandwidth, 0.0, reads))
        return self.floors

    def slowed(self) -> float:
        """The share of the best multiply-adds, or products of tiles, that is missing now, in some milliseconds of them.

        Other virtual machines on the same cores are in no count of this one's: only this shows them.
        """
        flops, tiles, _ = map(float, subprocess.check_output([*self._command, "now"], text=True).split())
        self.floors = self.floors.best(Floors(flops, 0.0, tiles))
        slowed = 1 - flops / self.floors.flops
        return max(slowed, 1 - tiles / self.floors.tiles) if self.floors.tiles else slowed


def measure_floors(threads: int, march: str = "-march=native") -> Floors:
    """What a new `Meter` measures."""
    return Meter(threads, march).measure()


def describe() -> dict[str, Any]:
    """Processor, cores, memory, versions and commit, as plain JSON values."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "commit": _commit(),
    }


def _processor() -> str:
    """The CPU's name, and the vector extensions that decide speed."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    known = {key.strip(): value.strip() for key, value in pairs}
    wanted = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "asimd")
    found = [flag for flag in wanted if flag in known.get("flags", known.get("Features", "")).split()]
    family = f"family {known['cpu family']} model {known['model']}, " if "cpu family" in known else ""
    return f"{known.get('model name', platform.machine())} ({family}{' '.join(found)})"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    return done.stdout.strip() or None


def busy_seconds() -> float | None:
    """CPU time that the whole machine has spent on anything so far; None where /proc/stat is missing."""
    try:
        numbers = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    except OSError:
        return None
    idle = numbers[3] + numbers[4]
    return (sum(numbers[:8]) - idle) / os.sysconf("SC_CLK_TCK")
