"""The Python blocks of the documents run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANG

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["README.md", "docs/engine.md"])
def test_blocks_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a document are one script, in a process of its own: they declare operators."""
    blocks = re.findall(r"^```python\n(.*?)^```", (PROJECT / name).read_text(), re.M | re.S)
    assert blocks
    monkeypatch.setenv("PYTHONPATH", str(PROJECT / "src"))
    done = subprocess.run([sys.executable, "-c", "".join(blocks)], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
