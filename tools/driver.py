"""Write docs/driver.md, the verbs and options of `migraphx-driver` beside upstream's: `python -m tools.driver`."""

from __future__ import annotations

from pathlib import Path

from migraphx.driver.main import Parser, build_parser
from migraphx.driver.result import MEANINGS
from migraphx.driver.upstream import FLAGS, READING, VERBS
from tools.support import table

PAGE = Path(__file__).parents[1] / "docs" / "driver.md"
HEAD = """# The command line

Written by `python -m tools.driver` from the parser itself; a test holds it to that.

`migraphx-driver VERB --help` says all of a verb's options; `migraphx-driver completion bash` (zsh, fish) completes
them.
Every verb takes `--json`, `--output FILE`, `--log-level LEVEL` and `--log-file FILE`; standard output holds the
answer alone.
"""
BESIDE = """
What the documentation of
[MIGraphX's driver](https://rocm.docs.amd.com/projects/AMDMIGraphX/en/latest/reference/driver-options.html) lists, and
what becomes of it here. An option of another verb, or one that does not exist here, is an error that says where it is
or what does the same.
"""


def verbs(parsers: dict[str, Parser]) -> str:
    rows = [[f"`{name}`", parser.description or ""] for name, parser in parsers.items()]
    rows += [[f"`{name}` (upstream's)", f"not here: {note}"] for name, note in VERBS.items()]
    return table(("verb", "what it does"), rows)


def upstream() -> str:
    """Every option of upstream's documentation, once."""
    rows = []
    for flag in FLAGS:
        where = ", ".join(flag.verbs) if flag.verbs != READING else "all that read a model"
        names = ", ".join(f"`{name}`" for name in flag.names)
        rows.append([names, where if flag.verbs else "not here", flag.note])
    return table(("upstream's option", "verbs", "here"), rows)


def beyond(parsers: dict[str, Parser]) -> str:
    """The options that upstream's documentation does not list."""
    known = {name for flag in FLAGS for name in flag.names} | {"-h", "--help", "--python", "--log-level", "--log-file"}
    found: dict[tuple[str, str], list[str]] = {}
    for verb, parser in parsers.items():
        for action in parser._actions:
            names = [f"`{name}`" for name in action.option_strings if name not in known]
            if names and action.help and action.help != "==SUPPRESS==":
                choices = f" ({', '.join(map(str, action.choices))})" if action.choices else ""
                found.setdefault((", ".join(names), action.help + choices), []).append(verb)
    return table(("option", "meaning", "verbs"), [[names, help, ", ".join(v)] for (names, help), v in found.items()])


def document() -> str:
    """The whole page."""
    _, parsers = build_parser()
    codes = table(("exit code", "meaning"), [[str(int(code)), meaning] for code, meaning in MEANINGS.items()])
    parts = [HEAD, "## Verbs\n", verbs(parsers), "## Exit codes\n", codes, "## Beside upstream's", BESIDE, upstream()]
    return "\n".join([*parts, "## Beyond upstream's\n", beyond(parsers)])


if __name__ == "__main__":
    PAGE.write_text(document())
