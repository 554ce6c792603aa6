"""SUPPORT.md says what the code says."""

from __future__ import annotations

from pathlib import Path

from tools.support import document


def test_support_tables_are_up_to_date() -> None:
    written = Path(__file__).parents[2].joinpath("SUPPORT.md").read_text()
    assert written == document(), "run `python -m tools.support`"
