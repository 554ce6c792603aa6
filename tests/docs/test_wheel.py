"""The wheel holds the packages whole, and works from another folder."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.limits import HANG

PROJECT = Path(__file__).parents[2]
PACKAGES = ("migraphx", "torch_migraphx")
PIP = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check"]
RUN = """
import numpy as np
import migraphx
print(migraphx.__file__)
program = migraphx.program()
module = program.get_main_module()
x = module.add_parameter("x", migraphx.shape(type="float", lens=[4, 16]))
w = module.add_literal(np.ones((16, 10), np.float32))
module.add_return([module.add_instruction(migraphx.op("dot"), [x, w])])
program.compile(migraphx.get_target("cpu"))
print(np.asarray(program.run({"x": np.ones((4, 16), np.float32)})[0]).sum())
"""


def run(*command: str, **more: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `python -m build` does, by way of a source distribution, from a copy without earlier builds' files."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(PROJECT / "src", folder / "project" / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, folder / "project")
    run(
        *PIP,
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        str(folder),
        str(folder / "project"),
    )
    (made,) = folder.glob("*.whl")
    return made


def test_it_is_pure_and_holds_every_file_of_the_packages(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(PACKAGES)}
    sources = {
        str(path.relative_to(PROJECT / "src"))
        for package in PACKAGES
        for path in (PROJECT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == sources
    assert {Path(name).suffix for name in held} >= {".py", ".pyi", ".hpp", ".typed"}


def test_a_model_runs_from_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "installed"
    run(*PIP, "install", "-q", "--no-deps", "--no-index", "--no-compile", "--target", str(place), str(wheel))
    assert "migraphx-driver" in {path.name for path in (place / "bin").iterdir()}
    printed = run(sys.executable, "-c", RUN, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(place)})
    where, total = printed.split()
    assert Path(where).is_relative_to(place) and float(total) == 4 * 10 * 16
