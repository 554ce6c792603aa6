"""Winners that come with the package: measured on a device of a chip or two, used on all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from migraphx.ir import dtype as dtypes
from migraphx.targets.gpu.choices import LIBRARIES, Config

WORDS = {*dtypes.NUMPY_TYPES, "rows", "none"}  # that problems have among their types
TABLES = Path(__file__).with_name("tables")


def shipped(chip: str, versions: Mapping[str, int]) -> Mapping[str, Config]:
    """The winners for a chip, by `Problem.key` and, those of libraries apart, by `Problem.bare`.

    `versions`: of the libraries, by the kernel of their configurations. These are numbered as a version ranks them, so
    of another one the best guess is taken.
    """
    return _shipped(chip, tuple(sorted(versions.items())))


@cache
def _shipped(chip: str, versions: tuple[tuple[str, int], ...]) -> Mapping[str, Config]:
    winners, about = read(chip), written(chip)
    others = LIBRARIES - {name for name, version in versions if version == about.get(name)}
    winners = {key: replace(c, group=0) if c.kernel in others else c for key, c in winners.items()}
    return {bare(key): c for key, c in winners.items() if c.kernel not in LIBRARIES} | winners


def read(chip: str) -> dict[str, Config]:
    """A chip's file, by `Problem.key`; none where it was never measured."""
    data = _data(chip)
    fields: list[str] = data.get("fields", [])
    return {k: Config(**dict(zip(fields, own, strict=True))) for k, own in data.get("winners", {}).items()}


def written(chip: str) -> dict[str, Any]:
    """What benchmarks.gpu.tune_table had measured with: the device, and the versions of Triton and the libraries."""
    return _data(chip).get("about", {})


def path_of(chip: str) -> Path:
    """Where a chip's winners lie."""
    return TABLES / f"{chip.replace(':', '_')}.json"


@cache
def _data(chip: str) -> dict[str, Any]:
    path = path_of(chip)
    return json.loads(path.read_text()) if path.is_file() else {}


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
