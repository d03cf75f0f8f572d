"""The pieces that pages are made of: states, times, tables that turn into cards, bars of stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from dashboard.legible import legible
from dashboard.quantity import percent, seconds
from dashboard.stages import StageRow, stage_word
from dashboard.theme import LOOKS, State, css_class
from dashboard.viewer import Viewer

__all__ = [
    "SILENT",
    "SPOKEN_WHEN_CHANGED",
    "Cell",
    "Children",
    "badge",
    "clock",
    "empty",
    "link",
    "meter",
    "name_text",
    "named_by",
    "quiet",
    "said",
    "sentence",
    "stage_bar",
    "table",
]

Children = Component | str | Sequence[Component | str]

# why a dict: `aria-` and `data-` names are no Python names, and Dash types no wildcard properties
SILENT: dict[str, Any] = {"aria-hidden": "true"}
SPOKEN_WHEN_CHANGED: dict[str, Any] = {"aria-live": "polite"}
_LONGEST = 60
_LONGEST_MESSAGE = 600


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell, and whether it is a number."""

    content: Any
    number: bool = False
    broad: bool = False  # on a narrow screen: a line of its own


def said(label: str) -> dict[str, Any]:
    """The name of a thing that has no text of its own."""
    return {"aria-label": label}


def named_by(element_id: str) -> dict[str, Any]:
    """The name of a thing that another element spells out."""
    return {"aria-labelledby": element_id}


def badge(state: State, *, word: str = "") -> Component:
    """Shape, colour and word; the shape is not read aloud, the word is."""
    shape = html.Span(LOOKS[state].symbol, className="shape", **SILENT)
    return html.Span([shape, html.Span(word or str(state))], className=f"state {css_class(state)}")


def clock(viewer: Viewer, at_s: int, *, to_the_second: bool = False) -> Component:
    """An instant in the reader's zone, in UTC on hover."""
    utc = viewer.utc(at_s)
    return html.Time(viewer.clock(at_s, seconds=to_the_second), dateTime=utc, title=utc)


def name_text(name: str) -> Component:
    """What somebody called a thing: any text of any length, in its own direction."""
    whole = legible(name[:1000])
    shown = whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}…"
    return html.Bdi(shown, title=whole if shown != whole else "")


def sentence(words: str) -> Component:
    """A message in our language, whatever names stand in it."""
    most = _LONGEST_MESSAGE
    shown = words if len(words) <= most else f"{words[:most]}…"
    return html.Span(legible(shown), dir="ltr")


def link(content: Children, href: str, *, current: bool = False, **more: Any) -> Component:
    """A link that changes the page without loading it anew."""
    marks: dict[str, Any] = {"data-nav": "1"} | ({"aria-current": "page"} if current else {})
    return html.A(content, href=href, **marks, **more)


def quiet(text: Children) -> Component:
    """The second voice."""
    return html.Span(legible(text) if isinstance(text, str) else text, className="quiet")


def empty(title: str, then: Sequence[Component | str]) -> Component:
    """Nothing is here: what that means, and what to do next."""
    return html.Div([html.H3(title), *then], className="empty")


def meter(share: float | None, *, label: str, state: State) -> Component:
    """A bar from nothing to all; beyond either end it stays at the end."""
    width = 0.0 if share is None else min(max(share, 0.0), 1.0)
    fill = html.Span(style={"width": f"{width * 100:.1f}%"}, className="fill")
    return html.Span(fill, className=f"meter {css_class(state)}", role="img", **said(label))


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    marks: Sequence[str] = (),
    hidden_caption: bool = True,
) -> Component:
    """A table; on a narrow screen each row becomes a card whose cells name their column.

    `marks` are classes of the rows. The first cell of a row names it.
    """
    # why roles: a browser forgets that a table is one as soon as CSS lays it out as blocks
    head = html.Tr(
        [html.Th(name, scope="col", role="columnheader") for name in columns], role="row"
    )
    body = [
        html.Tr(_cells(columns, row), role="row", className=mark)
        for row, mark in zip(rows, marks or [""] * len(rows), strict=True)
    ]
    return html.Div(
        html.Table(
            [
                html.Caption(caption, className="unseen" if hidden_caption else ""),
                html.Thead(head, role="rowgroup"),
                html.Tbody(body, role="rowgroup"),
            ],
            role="table",
        ),
        className="table",
    )


def _cells(columns: Sequence[str], row: Sequence[Cell]) -> list[Component]:
    first, *rest = row
    cells: list[Component] = [html.Th(first.content, scope="row", role="rowheader")]
    for name, cell in zip(columns[1:], rest, strict=True):
        label: dict[str, Any] = {"data-label": name}
        plain = isinstance(cell.content, str)
        inside = legible(cell.content) if plain else html.Div(cell.content, className="cell")
        kind = "number" if cell.number else "broad" if cell.broad else ""
        cells.append(html.Td(inside, role="cell", className=kind, **label))
    return cells


def stage_bar(rows: Sequence[StageRow]) -> Component | None:
    """Where the mean time goes, in order; the widths are shares of what is known, if anything is."""
    known = [(row, row.now_s) for row in rows if row.now_s]
    whole_s = sum(now_s for _, now_s in known)
    if not known:
        return None
    words = [f"{stage_word(row.stage)} {seconds(now_s)}" for row, now_s in known]
    label = said("mean time by stage: " + ", ".join(words))
    pieces = [
        html.Span(
            className=f"piece stage-{row.stage}",
            style={"flexGrow": round(now_s / whole_s, 5)},
            title=f"{stage_word(row.stage)}: {seconds(now_s)}, {percent(now_s / whole_s)}",
        )
        for row, now_s in known
    ]
    return html.Span(pieces, className="stage-bar", role="img", **label)
