"""pyright has nothing to say about the rooms that it checks strictly."""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.limits import HANG

PROJECT = Path(__file__).parents[2]
STRICT = ["ir", "ops", "passes", "runtime", "targets/common"]


def test_strict_rooms() -> None:
    """What `make lint` says of everything is said here of these rooms, in about 10 seconds."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["pyright"]
    assert settings["strict"] == [f"src/migraphx/{room}" for room in STRICT]
    pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *settings["strict"]]
    done = subprocess.run(pyright, cwd=PROJECT, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
