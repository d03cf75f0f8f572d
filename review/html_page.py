"""A report as one HTML page that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

import unicodedata
from html import escape
from typing import Final

from review.document import Document, Grid, Section
from review.page_style import STYLE

__all__ = ["html_page"]

_SHAPES: Final = {
    "do nothing": "●",
    "move": "◆",
    "infeasible": "▲",
    "no recommendation": "?",
}
_TURNING: Final = frozenset({"R", "AL", "AN", "LRE", "RLE", "LRO", "RLO", "LRI", "RLI", "FSI"})


def html_page(document: Document) -> str:
    """The whole page."""
    title = _text(document.title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{_head(document)}{''.join(map(_section, document.sections))}"
        "</main>\n</body>\n</html>\n"
    )


def _head(document: Document) -> str:
    kind = document.kind
    reasons = "".join(f"<li>{_text(reason)}</li>" for reason in document.reasons)
    facts = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>"
        for name, value in document.facts
    )
    return (
        f'<header class="{kind.replace(" ", "-")}">\n<p class="title">{_text(document.title)}</p>\n'
        f'<p class="kind"><span aria-hidden="true">{_SHAPES[kind]}</span> {_text(kind)}</p>\n'
        f"<h1>{_text(document.says)}</h1>\n"
        + (f"<ul>{reasons}</ul>\n" if reasons else "")
        + f"<dl>{facts}</dl>\n</header>\n"
    )


def _section(section: Section) -> str:
    tag = "ol" if section.ordered else "ul"
    points = "".join(f"<li>{_text(point)}</li>" for point in section.points)
    parts = [
        f"<h2>{_text(section.title)}</h2>\n",
        *(f"<p>{_text(said)}</p>\n" for said in section.sentences),
        f"<{tag}>{points}</{tag}>\n" if points else "",
        *map(_grid, section.grids),
        f"<figure>{section.picture}</figure>\n" if section.picture else "",
        *(f'<p class="small">{_text(said)}</p>\n' for said in section.small),
    ]
    return f"<section>\n{''.join(parts)}</section>\n"


def _grid(grid: Grid) -> str:
    head = "".join(
        f'<th scope="col"{_kind(place, grid)}>{_text(name)}</th>'
        for place, name in enumerate(grid.columns)
    )
    marks = [' class="strong"' if place == grid.strong else "" for place in range(len(grid.rows))]
    body = "".join(
        f"<tr{mark}>{_cells(row, grid)}</tr>\n" for mark, row in zip(marks, grid.rows, strict=True)
    )
    return (
        f"<table>\n<caption>{_text(grid.caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"
    )


def _cells(row: tuple[str, ...], grid: Grid) -> str:
    first, *rest = row
    cells = [f'<th scope="row">{_text(first)}</th>']
    cells += [
        f'<td data-label="{_text(grid.columns[place])}"{_kind(place, grid)}>{_text(cell)}</td>'
        for place, cell in enumerate(rest, 1)
    ]
    return "".join(cells)


def _kind(place: int, grid: Grid) -> str:
    return ' class="number"' if place in grid.numbers else ""


def _text(told: str) -> str:
    """Text in its own direction: a name must not turn what stands beside it around."""
    shown = escape(told)
    return shown if shown.isascii() or not _turns(told) else f"<bdi>{shown}</bdi>"


def _turns(told: str) -> bool:
    return any(unicodedata.bidirectional(letter) in _TURNING for letter in told)
