"""The pages about GPUs print on one what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANG
from tools import pages

PROJECT = Path(__file__).parents[3]
PAGES = [p for p in pages.documents() if p.suffix == ".md" and any(b.mark == "gpu" for b in pages.blocks(p))]


def test_there_are_pages() -> None:
    assert PROJECT / "docs/gpu.md" in PAGES


@pytest.mark.device
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page_runs(page: Path) -> None:
    """In a process of its own, which forks before it has a context."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.device_count():
        pytest.skip("torch finds no GPU")
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT / 'src'}{os.pathsep}{PROJECT}"}
    command = [sys.executable, "-m", "tools.pages", str(page)]
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0, done.stderr
