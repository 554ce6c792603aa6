"""SUPPORT.md says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from tools.support import RELEASE, document

CORE = re.compile(r"^Of the .* core ATen operators of torch .*$", re.MULTILINE)


def test_support_tables_are_up_to_date() -> None:
    written, now = Path(__file__).parents[2].joinpath("SUPPORT.md").read_text(), document()
    if f"core ATen operators of torch {RELEASE}" not in written:  # another torch may call others core
        written, now = (CORE.sub("", text) for text in (written, now))
    assert written == now, "run `python -m tools.support`"
