"""What lowering knows of an instruction set is what the compiler says; fixture `portable` compiles for several."""

from __future__ import annotations

from pathlib import Path

import pytest

from migraphx.targets.cpu import toolchain
from tests.targets.cpu.conftest import x86


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
