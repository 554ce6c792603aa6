"""CONTRIBUTING's walk-throughs, followed in a copy of the project: what is to be added is, what must succeed does."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANG

PROJECT = Path(__file__).parents[2]
TEXT = (PROJECT / "CONTRIBUTING.md").read_text()
SECTIONS = {s.partition("\n")[0]: s for s in re.split(r"^## ", TEXT, flags=re.M)[1:]}
FOLLOWED = ["An operator", "A pass", "An ONNX converter", "A torch converter"]
RUN_EACH = """
import gc, os, runpy, shlex, sys
import pytest, torch_migraphx.dynamo

gc.freeze()
gc.set_threshold(20_000)
for command in sys.argv[1:]:
    program, option, name, *words = shlex.split(command)
    assert (program, option) == ("python", "-m"), command
    if not os.fork():
        sys.argv = [name, *words]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        sys.exit()
    if os.wait()[1]:
        sys.exit(command)
"""
RANDOM = "tests/passes/test_random_graphs.py"  # make test-all runs all of it, here some must succeed
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.M | re.S)


def add(path: Path, text: str) -> None:
    """Put the text at the end of a file, or into a new one."""
    old = path.read_text() + "\n\n" if path.exists() else ""
    path.write_text(old + text)


def patch(path: Path, diff: str) -> None:
    """Apply lines that begin with a blank, + or -; what stands there already must stand there once."""
    lines = diff.splitlines()
    old = "".join(f"{line[1:]}\n" for line in lines if line[0] != "+")
    new = "".join(f"{line[1:]}\n" for line in lines if line[0] != "-")
    text = path.read_text()
    assert text.count(old) == 1, f"{path.name} does not have these lines once:\n{old}"
    path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as it is when all walk-throughs were followed, with its byte code, but what others write just now."""
    root = tmp_path_factory.mktemp("project")
    for name in ("src", "tests", "tools", "benchmarks", "examples"):
        shutil.copytree(PROJECT / name, root / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    for name in ("pyproject.toml", "SUPPORT.md"):
        shutil.copy(PROJECT / name, root)
    for section in FOLLOWED:
        for kind, name, text in BLOCK.findall(SECTIONS[section]):
            if name:
                (patch if kind == "diff" else add)(root / name, text)
    return root


@pytest.mark.slow
def test_commands_succeed(copy: Path) -> None:
    """Each is a fork of one process that has imported torch, which costs more than most of them."""
    env = os.environ | {"PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}"}
    commands: list[str] = []
    for section in FOLLOWED:
        blocks = [text for kind, _, text in BLOCK.findall(SECTIONS[section]) if kind == "sh"]
        assert blocks, section
        commands += [line for text in blocks for line in text.splitlines()]
    commands = [f"{c} -k [1" if c.endswith(RANDOM) else c for c in commands]
    done = subprocess.run(
        [sys.executable, "-c", RUN_EACH, *commands], cwd=copy, env=env, capture_output=True, text=True, timeout=HANG,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_added_code_is_in_the_house_style(copy: Path) -> None:
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([sys.executable, "-m", "ruff", *command, "."], cwd=copy, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
