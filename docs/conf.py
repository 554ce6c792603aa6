"""The site: `make docs` builds it into `docs/_build/html`; every warning is an error."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ALONE = re.compile(r"^\[[^\]]*\]\(\.\./(\w+\.md)(?:#(\w+))?\)$", re.M)
"""A link alone on its line: the page shows that document, or that section's text, instead."""
PAGES = {match[1]: page.name for page in DOCS.glob("*.md") if (match := ALONE.fullmatch(page.read_text().strip()))}
"""The page of each document of the project's root."""

project = "OpenMGX"
author = copyright = "OpenMGX contributors"
release = PROJECT["version"]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 4
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"OpenMGX {release}"
html_copy_source = html_show_sourcelink = False


def shown(name: str, text: str) -> str:
    """What the site shows of a page: notebooks as Markdown, a document of the root in place of the link to it."""
    if name.endswith(".ipynb"):
        return notebook(text)
    return ALONE.sub(lambda match: moved(section((ROOT / match[1]).read_text(), match[2])), text)


def section(text: str, name: str | None) -> str:
    """What stands under a heading of the second level; all of the document without a name."""
    if name is None:
        return text
    parts = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    return {heading.lower(): body for heading, body in parts.items()}[name].strip()


def notebook(text: str) -> str:
    """A notebook's cells, and what they printed."""
    made = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            printed = "".join(line for o in cell["outputs"] for line in o["text"]).rstrip("\n")
            source = f"```python\n{source}\n```" + (f"\n\n```output\n{printed}\n```" if printed else "")
        made.append(source)
    return "\n\n".join(made)


def moved(text: str) -> str:
    """A document of the root with its links as they are from this folder."""

    def link(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        here = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}")
        return f"]({here}{anchor})"

    return re.sub(r"\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)", link, text)


def read(app: Any, name: str, source: list[str]) -> None:
    """Sphinx shows each source before it parses it."""
    source[0] = shown(app.env.doc2path(name).name, source[0])


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", read)
