"""The tables of docs/options.md, written from the fields of the options: `python -m tools.options`."""

import re
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from migraphx import CompileOptions
from torch_migraphx.options import Options

PAGE = Path(__file__).parents[1] / "docs" / "options.md"


def row(option: Field[Any]) -> str:
    """One option, its default, and what it means."""
    help_ = option.metadata["help"].replace("<", "&lt;")
    if "choices" in option.metadata:
        help_ += f"; one of {', '.join(f'`{c}`' for c in option.metadata['choices'])}"
    least, most = option.metadata.get("least"), option.metadata.get("most")
    bounds = ", ".join([f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None))
    return f"| `{option.name}` | `{option.default!r}` | {help_}{f' ({bounds})' if bounds else ''} |"


def tables() -> dict[str, str]:
    """The table of each section, by the name that its markers have."""
    head = "| option | default | meaning |\n|---|---|---|\n"
    kinds = {"bridge": Options, "engine": CompileOptions}
    return {name: head + "\n".join(row(f) for f in fields(kind) if f.init) for name, kind in kinds.items()}


def written(text: str) -> str:
    """The page with its tables as the code has them."""
    for name, table in tables().items():
        between = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.S)
        text, count = between.subn(lambda m, table=table: f"{m[1]}\n{table}\n\n{m[2]}", text)
        assert count == 1, f"{PAGE.name} has no place for {name}"
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
