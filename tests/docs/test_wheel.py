"""The wheel holds the packages whole, and works from another folder; the image is built of what is there."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest

from tests.limits import HANG

PROJECT = Path(__file__).parents[2]
PACKAGES = ("migraphx", "torch_migraphx")
PIP = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check"]
RUN = """
from importlib.metadata import entry_points
import numpy as np
import migraphx
print(migraphx.__file__)
print(*sorted(e.name for e in entry_points(group="torch_dynamo_backends") if e.dist.name == "openmgx"))
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


def copied(stage: str) -> list[str]:
    """What a stage of the Dockerfile takes from the project."""
    lines = [line.split() for line in stage.splitlines() if line.startswith("COPY ")]
    return [name for _, *names, _ in lines for name in names if not names[0].startswith("--from")]


STAGES = re.split(r"^FROM .*$", (PROJECT / "Dockerfile").read_text(), flags=re.M)[1:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `python -m build` does, by way of a source distribution, from the files that the image's build takes."""
    folder = tmp_path_factory.mktemp("wheel")
    project = folder / "project"
    project.mkdir()
    for name in copied(STAGES[0]):
        path = PROJECT / name
        if path.is_dir():
            shutil.copytree(path, project / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(path, project)
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    run(sys.executable, "-c", build, cwd=project)
    (source,) = folder.glob("*.tar.gz")
    options = ("-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder))
    run(*PIP, "wheel", *options, str(source))
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_model_runs_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    """It finds what the wheel needs in this environment's folder, but not the project that is installed here."""
    place = tmp_path / "fresh"
    run(sys.executable, "-m", "venv", "--without-pip", str(place))
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(str(Path(numpy.__file__).parents[1]))
    python, alone = str(place / "bin" / "python"), os.environ | {"PYTHONPATH": ""}
    run(*PIP, "--python", python, "install", "-q", "--no-deps", "--no-index", "--no-compile", str(wheel))
    where, backends, total = run(python, "-c", RUN, cwd=tmp_path, env=alone).splitlines()
    assert Path(where).is_relative_to(place) and backends == "migraphx migraphx_aot migraphx_pretraced"
    assert float(total) == 4 * 10 * 16
    assert "max(x, 0)" in run(str(place / "bin" / "migraphx-driver"), "op", "relu", cwd=tmp_path, env=alone)


def test_the_image_is_built_of_files_that_reach_the_builder() -> None:
    admitted = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    names = [name for stage in STAGES for name in copied(stage)]
    assert len(names) > 4 and set(names) == admitted
    assert all((PROJECT / name).exists() for name in names)
