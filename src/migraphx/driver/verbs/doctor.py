"""Check the environment: versions, processor, compiler, threads, cache, GPU, and a small program on each target."""

import os
import platform
import shutil
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

import numpy as np

import migraphx
from migraphx.driver.environment import VARIABLES
from migraphx.driver.result import Exit, Result
from migraphx.driver.terminal import coloured, progress, quantity
from migraphx.ir.operation import Unsupported
from migraphx.targets.common import cache
from migraphx.targets.registry import TARGETS

PACKAGES = ("openmgx", "numpy", "ml_dtypes", "onnx", "torch")
SECONDS = 10  # for what other programs are asked


@dataclass(frozen=True)
class Finding:
    """What one check saw; `fault` where it must be put right."""

    what: str
    found: str
    fault: bool = False


def add_arguments(parser: ArgumentParser) -> None:
    """None but the common ones."""


def run(args: Namespace) -> Result:
    findings = []
    asked = checks()
    with progress("checking", len(asked)) as bar:
        for what, check in asked.items():
            findings.append(_checked(what, check))
            bar.advance()
    faults = [f for f in findings if f.fault]
    lines = []
    for f in findings:
        mark = coloured("FAULT", "bad") if f.fault else coloured("ok", "good")
        lines.append(f"{f.what}: {f.found} [{mark}]")
    lines.append(f"{len(faults)} faults" if faults else "no fault")
    data = {"findings": [vars(f) for f in findings], "faults": len(faults)}
    return Result("\n".join(lines), data, Exit.NO if faults else Exit.DONE)


def _checked(what: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(what, check())
    except Exception as error:
        return Finding(what, f"{type(error).__name__}: {error}", fault=True)


def _versions() -> str:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} not installed")
    return f"Python {platform.python_version()} ({sys.executable}), {', '.join(found)}"


def _cache() -> str:
    home = cache.usable_folder()
    with tempfile.TemporaryFile(dir=home) as file:
        file.write(b"doctor")
    held = cache.entries()
    damaged = sum(not e.whole for e in held)
    free = shutil.disk_usage(home).free
    size = quantity(sum(e.bytes for e in held), "B")
    if free < cache.SPACE:
        raise OSError(f"the disk of {home} is full: {quantity(free, 'B')} free, {size} in the cache")
    return f"{home}, {len(held)} entries ({damaged} damaged), {size}; {quantity(free, 'B')} free"


def _temporary() -> str:
    folder = tempfile.gettempdir()
    free, wanted = shutil.disk_usage(folder).free, os.environ.get("TMPDIR")
    if free < cache.SPACE:
        raise OSError(f"{folder} is full: {quantity(free, 'B')} free; make room, or name another folder in TMPDIR")
    if wanted and not os.path.samefile(wanted, folder):
        raise OSError(f"TMPDIR={wanted} cannot be written to, and {folder} is used instead")
    return f"{folder}, {quantity(free, 'B')} free"


def _target(name: str) -> Callable[[], str]:
    def check() -> str:
        made = migraphx.program()
        main = made.get_main_module()
        x = main.add_parameter("x", migraphx.shape(type="float", lens=[4, 8]))
        main.add_return([main.add_instruction(migraphx.op("relu"), [x])])
        made.compile(migraphx.get_target(name))
        value = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
        if not np.array_equal(np.asarray(made.run({"x": value})[0]), np.maximum(value, 0)):
            raise RuntimeError("a small program gave a wrong answer")
        return "a small program compiles and gives the right answer"

    return check


def _environment() -> str:
    given = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    return ", ".join(given) or "none of the variables that are read is set"


def checks() -> dict[str, Callable[[], str]]:
    """By name, in order: the system's, then what each target asks for and a program on it."""
    found: dict[str, Callable[[], str]] = {
        "versions": _versions,
        "system": platform.platform,
        "cache": _cache,
        "temporary folder": _temporary,
        "environment": _environment,
    }
    for name in TARGETS:
        try:
            found |= {**migraphx.get_target(name).diagnose(), f"target {name}": _target(name)}
        except Unsupported as error:  # no fault of this machine's: it has none of the target's devices
            found[f"target {name}"] = lambda why=str(error): f"does not run here: {why}"
    return found
