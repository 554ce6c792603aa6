"""A page read back by Python's own parser, strictly: every element is closed, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "input", "img", "link"}


@dataclass
class Element:
    """An element with what it holds; texts are among the children."""

    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def every(self, name: str = "", **wanted: str) -> list[Element]:
        """Those inside, in order, of this name and with these attributes (`class_`: one of the classes)."""
        return [e for e in self._inside() if (not name or e.name == name) and all(e.has(*w) for w in wanted.items())]

    def has(self, key: str, value: str) -> bool:
        if key == "class_":
            return value in self.attributes.get("class", "").split()
        return self.attributes.get(key) == value

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)

    def _inside(self) -> Iterator[Element]:
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child._inside()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert len(self.open) > 1 and self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def read_page(text: str) -> Element:
    """The document; AssertionError where it is not well-formed, or needs anything else than itself."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert [e.name for e in reader.open] == [""], "elements stay open"
    page = reader.root
    ids = [e.attributes["id"] for e in page.every() if "id" in e.attributes]
    assert len(ids) == len(set(ids)), "an id is there twice"
    for e in page.every():
        assert not {"src", "srcset", "action", "onclick", "onerror", "onload"} & e.attributes.keys(), e.attributes
        if "href" in e.attributes:
            assert e.name == "a" and e.attributes["href"][0] == "#" and e.attributes["href"][1:] in ids, e.attributes
    assert {e.name for e in page.every()}.isdisjoint({"link", "img", "iframe", "object", "embed", "base"})
    for style in page.every("style"):
        assert "url(" not in style.text and "@import" not in style.text
    return page
