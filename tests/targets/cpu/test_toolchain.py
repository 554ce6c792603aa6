"""Compilers that are missing or fail, caches that cannot be used or lie, processes that race."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape
from migraphx.targets.cpu.toolchain import CompilerError, build, find_compiler
from tests.limits import HANG
from tests.tiers import few
from tests.tolerances import assert_close, relative_error, tolerance

pytestmark = pytest.mark.unoptimised

SCRIPT = """
import numpy as np, migraphx
from tests.tolerances import assert_close
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape
p = migraphx.program()
main = p.graph.main
x = main.add_parameter("x", Shape("float", (3, {n})))
b = Builder(main)
main.add_return([b.tanh(b.add(x, x))])
p.compile(migraphx.get_target("cpu"))
x = np.random.default_rng(0).standard_normal((3, {n})).astype(np.float32)
assert_close(p.run({{"x": x}})[0], np.tanh(x + x))
"""


def program(n: int = 7) -> migraphx.program:
    p = migraphx.program()
    main = p.graph.main
    x = main.add_parameter("x", Shape("float", (2, n)))
    b = Builder(main)
    main.add_return([b.exp(b.mul(x, x))])
    return p


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def answer(p: migraphx.program) -> None:
    x = np.random.default_rng(1).standard_normal(p.get_parameter_shapes()["x"].lens()).astype(np.float32)
    assert_close(p.run({"x": x})[0], np.exp(x * x))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CompilerError, match=r"needs a C\+\+ compiler.*g\+\+.*openmgx\[compiler\]"):
        program().compile(migraphx.get_target("cpu"))


def test_not_a_posix_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migraphx.targets.cpu.toolchain.os", SimpleNamespace(name="nt"))
    with pytest.raises(CompilerError, match="on Windows use WSL"):
        find_compiler()


def test_compiler_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    broken = tmp_path / "broken-c++"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && echo broken 1.0 && exit 0\necho disk on fire >&2\nexit 3\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert find_compiler().version == "broken 1.0"
    with pytest.raises(CompilerError, match=r"exit code 3(.|\n)*disk on fire"):
        program().compile(migraphx.get_target("cpu"))
    assert not list(cache.glob("*.so"))


def test_second_compile_comes_from_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program().compile(migraphx.get_target("cpu"))
    monkeypatch.setattr("migraphx.targets.cpu.toolchain._compile", None)
    p = program()
    p.compile(migraphx.get_target("cpu"))
    answer(p)


@pytest.mark.slow
def test_one_source_is_not_its_own_part(cache: Path) -> None:
    """The lock of the whole is held while its parts are made: two of one name would wait for each other for ever."""
    source = 'extern "C" int f() { return 3; }'
    script = f"from migraphx.targets.cpu.toolchain import build\nprint(build([{source!r}], 'f'))"
    env = {**os.environ, "PYTHONPATH": pythonpath()}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=HANG, check=True
    )
    assert ctypes.CDLL(done.stdout.strip()).f() == 3


def test_a_source_that_needs_the_library_of_cpp(cache: Path) -> None:
    """Kernels need little of it, and are linked without; those of others may need more."""
    made = build(['extern "C" int f(int n) { int* x = new int[n]; x[1] = n; n += x[1]; delete[] x; return n; }'], "f")
    assert ctypes.CDLL(str(made)).f(4) == 8


def test_damaged_entries_are_made_anew(tmp_path: Path) -> None:
    """In caches of their own, by other processes: the loader keeps mapped what this one has loaded."""
    whole, *caches = (tmp_path / damage for damage in ("whole", "truncate", "flip", "empty", "seal"))
    each = "import os, sys\nfor os.environ['OPENMGX_CACHE'] in sys.argv[1:]:\n" + indent(SCRIPT.format(n=7), "    ")
    command = [sys.executable, "-c", each]
    environment = os.environ | {"PYTHONPATH": pythonpath()}
    subprocess.run([*command, whole], check=True, env=environment)
    for cache in caches:
        shutil.copytree(whole, cache)
        (entry,) = cache.glob("*.so")
        data = bytearray(entry.read_bytes())
        data[len(data) // 2] ^= 1
        if cache.name == "seal":
            entry.with_name(entry.name + ".sha256").unlink()
        else:
            entry.write_bytes({"truncate": data[: len(data) // 2], "flip": data, "empty": b""}[cache.name])
    subprocess.run([*command, *caches], check=True, env=environment)
    for cache in caches:
        (entry,) = cache.glob("*.so")
        seal = entry.with_name(entry.name + ".sha256").read_text().split()[-1]
        assert seal == hashlib.sha256(entry.read_bytes()).hexdigest()


def pythonpath() -> str:
    return os.pathsep.join(p for p in sys.path if p)


def test_cache_folder_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    monkeypatch.setenv("OPENMGX_CACHE", str(occupied / "cache"))
    p = program(31)
    p.compile(migraphx.get_target("cpu"))
    answer(p)
    assert "cannot be used" in caplog.text


@pytest.mark.parametrize("least", [60, 4000])  # a disk without room for an object, and one without room for the whole
def test_full_disk(least: int, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    copyfile, copied = shutil.copyfile, []

    def copy(source: Path, target: Path) -> Path:
        copied.append(source)
        if target.parent == cache and source.stat().st_size > least:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy)
    p = program(33)
    p.compile(migraphx.get_target("cpu"))
    answer(p)
    assert copied and "No space left on device" in caplog.text and not list(cache.glob("*.so"))


@pytest.mark.parametrize("what", ["{cache}/*.o", "-r {cache}"])
def test_the_cache_is_cleared_before_objects_are_linked(
    what: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another process: its objects are there still."""
    clearing = tmp_path / "clearing-c++"
    removes = f"rm {what.format(cache=cache)}; echo x >> {tmp_path}/links"
    clearing.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) {removes};; esac\nexec g++ "$@"\n')
    clearing.chmod(0o755)
    monkeypatch.setenv("CXX", str(clearing))
    p = program(37)
    p.compile(migraphx.get_target("cpu"))
    answer(p)
    assert (tmp_path / "links").read_text().count("x") <= 2


@pytest.mark.parametrize("code", few([False, True], True))
def test_a_program_is_saved_though_the_cache_was_cleared(code: bool, tmp_path: Path, cache: Path) -> None:
    p = program(39)
    p.compile(migraphx.get_target("cpu"))
    shutil.rmtree(cache)
    migraphx.save(p, tmp_path / "p.mxr", code=code)
    shutil.rmtree(cache)
    answer(migraphx.load(tmp_path / "p.mxr", trust_code=code))
    assert len(list(cache.glob("*.so"))) == 1


def test_a_full_temporary_folder_is_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The compiler's own temporary files lie there, and the cache is not to blame."""
    full = tmp_path / "full-c++"
    failing = 'case "$*" in *" -c "*) echo "$TMPDIR: no space left" >&2; exit 1;; esac'
    full.write_text(f'#!/bin/sh\n{failing}\nexec g++ "$@"\n')
    full.chmod(0o755)
    monkeypatch.setenv("CXX", str(full))
    usage, place = shutil.disk_usage, tempfile.gettempdir()

    def free(path: str | Path) -> SimpleNamespace:
        return SimpleNamespace(free=1000 if str(path).startswith(f"{place}/openmgx-") else usage(path).free)

    monkeypatch.setattr(shutil, "disk_usage", free)
    said = f"the temporary folder {place} is full; .*TMPDIR\n{place}/openmgx-.*no space"
    with pytest.raises(CompilerError, match=said):
        program(35).compile(migraphx.get_target("cpu"))
    monkeypatch.setattr("migraphx.targets.common.scratch.scratch", lambda: tmp_path / "not there")
    with pytest.raises(CompilerError, match=f"the temporary folder {place} cannot be used: .*not there"):
        program(35).compile(migraphx.get_target("cpu"))
    assert not caplog.records


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize("end", few([signal.SIGKILL, signal.SIGINT], signal.SIGKILL), ids=["killed", "interrupted"])
def test_a_compilation_that_is_ended(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    """What it leaves behind is never taken for an object."""
    slow = tmp_path / "slow-c++"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) touch {tmp_path}/linking; sleep 900;; esac\nexec g++ "$@"\n')
    slow.chmod(0o755)
    # jobs in the background ignore it
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", heard + SCRIPT.format(n=79)]
    environment = os.environ | {"PYTHONPATH": pythonpath(), "CXX": str(slow)}
    running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, start_new_session=True)
    while not (tmp_path / "linking").exists():
        assert running.poll() is None, running.stderr and running.stderr.read()
        time.sleep(0.05)
    os.killpg(running.pid, end)
    assert running.wait(HANG)
    assert not list(cache.glob("*.so"))
    slow.write_text('#!/bin/sh\nexec g++ "$@"\n')
    monkeypatch.setenv("CXX", str(slow))
    exec(SCRIPT.format(n=79), {})
    assert len(list(cache.glob("*.so"))) == 1


@pytest.mark.slow
def test_two_processes_compile_the_same_model(cache: Path) -> None:
    command = [sys.executable, "-c", SCRIPT.format(n=77)]
    environment = os.environ | {"PYTHONPATH": pythonpath()}
    running = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [p.wait(HANG) for p in running] == [0, 0]
    assert len(list(cache.glob("*.so"))) == 1
    assert not list(cache.glob("*.new"))


def test_many_threads_run_one_program() -> None:
    p = program(5000)
    p.compile(migraphx.get_target("cpu"))

    def one(seed: int) -> bool:
        x = np.random.default_rng(seed).standard_normal((2, 5000)).astype(np.float32)
        return all(relative_error(p.run({"x": x})[0], np.exp(x * x)) < tolerance(np.float32).rtol for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(8)))


def test_profile_times_every_step() -> None:
    p = program(300)
    p.compile(migraphx.get_target("cpu"))
    x = migraphx.generate_argument(migraphx.shape("float", [2, 300]))
    seconds = p.executable.profile([x], runs=3)
    assert len(seconds) == 1 and seconds[0] > 0


def test_clang_that_is_wrong_on_bf16_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    newer = tmp_path / "newer-clang"
    newer.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "clang version 20.1.0" && exit 0\nexec g++ "$@"\n')
    newer.chmod(0o755)
    monkeypatch.setenv("CXX", str(newer))
    p = program(41)
    p.compile(migraphx.get_target("cpu"))
    answer(p)
    low = program(41)
    migraphx.quantize_bf16(low)
    with pytest.raises(CompilerError, match=r"clang version 20\.1\.0 is known to compile bf16"):
        low.compile(migraphx.get_target("cpu"))
