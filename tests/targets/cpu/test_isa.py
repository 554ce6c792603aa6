"""`isa=`: code for a level of x86-64, on this processor, on others, and on those that lack something."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import migraphx
from migraphx.runtime.options import ISAS
from migraphx.targets.cpu import isa, toolchain
from migraphx.targets.target import UnsupportedProcessor
from tests.limits import HANG

LOADER = Path("/lib64/ld-linux-x86-64.so.2")
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of x86-64")
VALUE = np.array([[-1, 2, -3, 4], [5, -6, 7, -8]], np.float32)


def processor(level: str, name: str = "Another 1") -> str:
    """What `instruction_set` says of a processor that has a level and nothing else."""
    return f"x86_64model name\t: {name}flags\t\t: {' '.join(sorted(isa.LEVELS[level]))} "


def relu(rows: migraphx.shape, **options: str) -> migraphx.program:
    p = migraphx.program()
    m = p.get_main_module()
    m.add_return([m.add_instruction(migraphx.op("relu"), [m.add_parameter("x", rows)])])
    p.compile(migraphx.get_target("cpu"), **options)  # type: ignore[arg-type]
    return p


STATIC = migraphx.shape(type="float", lens=[2, 4])


@x86
@pytest.mark.skipif(not LOADER.exists(), reason="no glibc")
def test_levels_are_those_of_the_systems_loader() -> None:
    """glibc looks for libraries of the levels that the processor has, and says which."""
    said = subprocess.run([LOADER, "--help"], capture_output=True, text=True, check=False).stdout
    known = re.findall(r"^\s+(x86-64-v\d)(.*)$", said, re.M)
    if not known:
        pytest.skip("this glibc does not tell")
    for level, words in known:
        assert (not isa.missing(level)) == ("supported" in words), level


@pytest.mark.parametrize("has", list(isa.LEVELS))
def test_a_processor_runs_its_level_and_those_below(has: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa, "instruction_set", lambda: processor(has))
    assert isa.best_level() == has
    below = list(isa.LEVELS).index(has)
    isa.check_processor("native")
    for k, level in enumerate(isa.LEVELS):
        if k <= below:
            isa.check_processor(level)
            continue
        message = rf"isa='{level}' .*\(Another 1\) lacks .*{isa.ADDED[level].split()[0]}.*; it can run isa='{has}'"
        with pytest.raises(UnsupportedProcessor, match=message):
            isa.check_processor(level)


def test_a_machine_of_another_kind_runs_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa, "instruction_set", lambda: "aarch64Features\t: fp asimd")
    with pytest.raises(UnsupportedProcessor, match=r"lacks .*sse2.*; it can run none of the levels"):
        isa.check_processor("x86-64")


@x86
def test_vectors_are_those_of_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this processor has, and whatever instructions the flags of all compilations add."""
    monkeypatch.setenv("OPENMGX_CXXFLAGS", "-march=x86-64 -mavx512f -O1")
    found = {level: toolchain.features(level) for level in isa.LEVELS}
    assert {level: f.lanes for level, f in found.items()} == dict(zip(isa.LEVELS, (4, 4, 8, 16), strict=True))
    assert not any(f.amx or f.bf16_words for f in found.values())
    flags = toolchain._flags(toolchain.find_compiler(), "x86-64-v3", toolchain.extra_flags())
    assert [flag for flag in flags if flag.startswith("-m")] == ["-march=x86-64-v3"] and "-O1" in flags


def test_objects_of_a_level_do_not_depend_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    before = toolchain.identity(), toolchain.identity("x86-64-v3")
    monkeypatch.setattr(isa, "instruction_set", lambda: "another")
    assert toolchain.identity() != before[0] and toolchain.identity("x86-64-v3") == before[1]
    assert len({toolchain.identity(level) for level in ISAS}) == len(ISAS)


def test_only_target_cpu_takes_it() -> None:
    p = migraphx.program()
    with pytest.raises(ValueError, match="target 'ref' makes no code for a processor: it refuses isa='x86-64-v3'"):
        p.compile(migraphx.get_target("ref"), isa="x86-64-v3")
    with pytest.raises(ValueError, match=r"option 'isa' must be 'native' or 'x86-64' .*got 'avx2'"):
        p.compile(migraphx.get_target("cpu"), isa="avx2")


def test_compiling_for_what_this_processor_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa, "instruction_set", lambda: processor("x86-64-v2"))
    with pytest.raises(UnsupportedProcessor, match=r"isa='x86-64-v4'.*Another 1.*avx512f"):
        relu(STATIC, isa="x86-64-v4")


def elsewhere(path: Path, level: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Load and run on another processor: with an empty cache, and without a compiler."""
    script = (
        "import numpy as np, migraphx\n"
        "from migraphx.targets.cpu import isa\n"
        f"isa.instruction_set = lambda: {processor(level)!r}\n"
        f"p = migraphx.load({str(path)!r}, trust_code=True)\n"
        f"print(np.asarray(p.run({{'x': np.array({VALUE.tolist()}, np.float32)}})[0]).tolist())\n"
    )
    environment = os.environ | {"OPENMGX_CACHE": str(folder), "CXX": "/nonexistent/c++"}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG, check=False)


@pytest.mark.slow
@x86
def test_saved_code_of_a_level_runs_on_other_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Static and dynamic; code for this processor does not."""
    dims = [migraphx.shape.dynamic_dimension(1, 4, {2}), migraphx.shape.dynamic_dimension(4, 4)]
    made = {
        "static": relu(STATIC, isa="x86-64"),
        "dynamic": relu(migraphx.shape(type="float", dyn_dims=dims), isa="x86-64"),
        "native": relu(STATIC),
    }
    for name, p in made.items():
        np.testing.assert_array_equal(np.asarray(p.run({"x": VALUE})[0]), np.maximum(VALUE, 0))
        migraphx.save(p, tmp_path / f"{name}.mxr", code=True)
    for name in ("static", "dynamic"):
        done = elsewhere(tmp_path / f"{name}.mxr", "x86-64-v3", tmp_path / "empty")
        assert not done.returncode, done.stderr
        assert done.stdout.strip() == str(np.maximum(VALUE, 0).tolist())
    refused = elsewhere(tmp_path / "native.mxr", "x86-64-v3", tmp_path / "empty")
    assert refused.returncode and "its code is for another processor" in refused.stderr
    assert "needs a C++ compiler" in refused.stderr
    monkeypatch.setattr(isa, "instruction_set", lambda: "x86_64model name\t: Old 7flags\t: fpu")
    for name in ("static", "dynamic"):
        with pytest.raises(UnsupportedProcessor, match=rf"{name}\.mxr: isa='x86-64' .*\(Old 7\) lacks .*sse2"):
            migraphx.load(tmp_path / f"{name}.mxr", trust_code=True)
