"""Other instruction sets and compilers than this machine's best give the same answers."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from migraphx.targets.cpu import toolchain
from migraphx.targets.cpu.isa import instruction_set
from tests.limits import HANG

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = [
    "tests/targets/cpu/test_contractions.py",
    "tests/targets/cpu/test_pointwise_reduce.py::test_pointwise_types",
]
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of x86-64")
WIDE = "avx512f" in instruction_set().split()


def suite(cases: list[str], **environment: str) -> None:
    """The cases in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *cases]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert not done.returncode, done.stdout[-3000:]


@x86
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param("-mno-avx512f", marks=pytest.mark.skipif(not WIDE, reason="what the other tests run here")),
        "-march=x86-64",
    ],
)
def test_narrower_vectors(flags: str) -> None:
    """With little optimisation: what the compiler makes of vectors of any width is the kernels' tests' matter."""
    suite(SAMPLE, OPENMGX_CXXFLAGS=f"{flags} -Og")


@pytest.mark.skipif(not shutil.which("clang++"), reason="needs clang++")
def test_clang() -> None:
    suite(SAMPLE, CXX="clang++")


@x86
def test_lanes_are_what_the_compiler_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path))
    for flags, lanes in (("-march=x86-64", 4), ("-march=haswell", 8), ("-march=skylake-avx512", 16)):
        monkeypatch.setenv("OPENMGX_CXXFLAGS", flags)
        assert toolchain.features().lanes == lanes
    toolchain._macros.cache_clear()
    monkeypatch.setattr(toolchain, "_call", lambda command: pytest.fail("asked again"))
    assert toolchain.features().lanes == 16  # from the disk
    monkeypatch.setattr(toolchain, "find_compiler", lambda: toolchain.Compiler(("g++", "-m32"), "another"))
    with pytest.raises(pytest.fail.Exception):
        toolchain.features()  # whose answer may differ
