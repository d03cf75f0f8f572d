"""A report as Markdown: what names say is text, whatever letters they are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Final

from review.document import Document, Grid, Section

__all__ = ["markdown"]

_MARKS: Final = re.compile(r"([\\`*_\[\]|#~])")
_TURNS: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")


def markdown(document: Document) -> str:
    """The whole report."""
    lines = [f"# {_text(document.title)}", "", f"**{_text(document.says)}**", ""]
    lines += [f"- {_text(reason)}" for reason in document.reasons]
    lines += ["", *_grid_lines(("", ""), document.facts, numbers=frozenset())]
    for section in document.sections:
        lines += ["", *_section(section)]
    return "\n".join(lines) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {_text(section.title)}"
    for said in section.sentences:
        yield _text(said)
        yield ""
    for place, point in enumerate(section.points, 1):
        yield f"{f'{place}.' if section.ordered else '-'} {_text(point)}"
    for grid in section.grids:
        yield from ("", *_grid(grid))
    for said in section.small:
        yield from ("", f"*{_text(said)}*")


def _grid(grid: Grid) -> list[str]:
    rows = tuple(
        (f"**{_text(row[0])}**", *map(_text, row[1:]))
        if place == grid.strong
        else tuple(map(_text, row))
        for place, row in enumerate(grid.rows)
    )
    head = tuple(map(_text, grid.columns))
    return [f"{_text(grid.caption)}:", "", *_table(head, rows, grid.numbers)]


def _grid_lines(
    head: tuple[str, ...], rows: tuple[tuple[str, ...], ...], *, numbers: frozenset[int]
) -> list[str]:
    return _table(head, tuple(tuple(map(_text, row)) for row in rows), numbers)


def _table(
    head: tuple[str, ...], rows: tuple[tuple[str, ...], ...], numbers: frozenset[int]
) -> list[str]:
    rule = ["---:" if place in numbers else "---" for place in range(len(head))]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def _text(told: str) -> str:
    """One line, and no mark of Markdown or HTML in it."""
    shown = escape(_TURNS.sub("", " ".join(told.split())), quote=False)
    return _MARKS.sub(r"\\\1", shown)
