"""Winners that come with the package: measured on one device of a chip, used on all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from migraphx.ir import dtype as dtypes
from migraphx.targets.gpu.choices import LIBRARIES, Config

WORDS = {*dtypes.NUMPY_TYPES, "rows", "none"}  # that problems have among their types
TABLES = Path(__file__).with_name("tables")


@cache
def shipped(chip: str) -> Mapping[str, Config]:
    """The winners for a chip, by `Problem.key` and, those of libraries apart, by `Problem.bare`."""
    winners = read(chip)
    return {bare(key): c for key, c in winners.items() if c.kernel not in LIBRARIES} | winners


def read(chip: str) -> dict[str, Config]:
    """A chip's file, by `Problem.key`; none where it was never measured."""
    path = TABLES / f"{chip.replace(':', '_')}.json"
    if not path.is_file():
        return {}
    data = json.loads(path.read_text())
    return {key: Config(**dict(zip(data["fields"], values, strict=True))) for key, values in data["winners"].items()}


def bare(key: str) -> str:
    """`Problem.bare` of a `Problem.key` whose epilogue begins with the name of an operator: what stands before it."""
    words = key.split()
    return " ".join(words[:2] + [w for w in words[2:6] if w in WORDS])


def table_text(about: Mapping[str, Any], winners: Mapping[str, Config]) -> str:
    """The file that `shipped` reads, a problem a line."""
    fields = list(Config("", 0, 0, 0).as_dict())
    lines = [f" {json.dumps(key)}: {json.dumps(list(c.as_dict().values()))}" for key, c in sorted(winners.items())]
    head = f'"about": {json.dumps(dict(about))},\n"fields": {json.dumps(fields)},'
    return "{" + head + '\n"winners": {\n' + ",\n".join(lines) + "\n}}\n"
