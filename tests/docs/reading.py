"""The documentation as its readers have it: pages, blocks, code within the text, headings, links."""

import re
from dataclasses import dataclass
from functools import cache

from tests.paths import ROOT

__all__ = ["BLOCKS", "INLINE", "PAGES", "Block", "anchors", "links", "prose"]

DOCS = ROOT / "docs"
PAGES = sorted(
    [*DOCS.glob("*.md"), *DOCS.glob("*/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
)
_FENCED = re.compile(r"^( *)```([a-z]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What stands between two fences, without its indentation."""

    page: str
    line: int
    kind: str
    text: str

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    @property
    def generated(self):
        return self.page.startswith("docs/reference/")


def _blocks():
    for path in PAGES:
        text = path.read_text()
        for found in _FENCED.finditer(text):
            indent, kind, body = found.groups()
            yield Block(
                page=path.relative_to(ROOT).as_posix(),
                line=text.count("\n", 0, found.start()) + 1,
                kind=kind,
                text="".join(line.removeprefix(indent) for line in body.splitlines(keepends=True)),
            )


@cache
def prose(path):
    """The page without its blocks."""
    return _FENCED.sub("", path.read_text())


def _inline():
    for path in PAGES:
        for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(path)):
            yield path.relative_to(ROOT).as_posix(), code


BLOCKS = tuple(_blocks())
INLINE = tuple(_inline())


def links(path):
    """Every link and picture of a page, as it is written."""
    return re.findall(r"\]\(([^)\s]+)\)", prose(path))


@cache
def anchors(path):
    """What a git host calls the headings of a page."""
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+?) *$", prose(path), re.MULTILINE)
    }
