"""What changed, on the time axis of the charts, and in words beneath them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from alerts.change import Change
from dashboard.figures import Instant
from dashboard.parts import Cell, clock, link, name_text, quiet, table
from dashboard.url import ALERT, View
from dashboard.viewer import Viewer
from domain.labels import value_of

__all__ = ["change_table", "instants"]

_MOST_INSTANTS = 24
_MOST_ROWS = 20
_MERGED = 0.02
"""Of the width: what is nearer than this is drawn as one line that names how many it is."""


def instants(changes: Sequence[Change], viewer: Viewer, *, width_s: int) -> list[Instant]:
    """A line each, those that would overlap as one. The alert's own begin is among them."""
    groups: list[list[Change]] = []
    for each in sorted(changes, key=lambda change: change.at_s):
        if groups and each.at_s - groups[-1][0].at_s <= _MERGED * width_s:
            groups[-1].append(each)
        else:
            groups.append([each])
    newest = groups[-_MOST_INSTANTS:]
    at_ms = viewer.axis_ms(np.array([group[0].at_s for group in newest], np.float64))
    return [
        Instant(at_ms=float(at), label=_label(group))
        for at, group in zip(at_ms, newest, strict=True)
    ]


def change_table(changes: Sequence[Change], viewer: Viewer, *, past: str) -> Component:
    """All of them in words, the newest first; where there are none, how they would get here."""
    if not changes:
        return _nothing(past)
    folded = _folded(changes)
    body = [_row(each, viewer) for each in folded[:_MOST_ROWS]]
    shown = table("What changed, the newest first", ("When", "Kind", "What", "Of", "By"), body)
    left_out = sum(len(each) for each in folded[_MOST_ROWS:])
    return html.Div([shown, html.P(quiet(f"and {left_out} earlier"))]) if left_out else shown


def _folded(changes: Sequence[Change]) -> list[list[Change]]:
    """The newest first; what happened again and again is one row, where it happened last."""
    alike: dict[object, list[Change]] = {}
    for each in reversed(changes):
        told = (each.kind, each.title, each.labels, each.author, each.link, each.until_s)
        alike.setdefault(told, []).append(each)
    return list(alike.values())


def _row(group: Sequence[Change], viewer: Viewer) -> list[Cell]:
    newest, oldest = group[0], group[-1]
    again: list[Component] = []
    if len(group) > 1:
        first = clock(viewer, oldest.at_s)
        again = [html.Span([quiet([f"{len(group)} times since ", first])], className="under")]
    return [
        Cell([clock(viewer, newest.at_s, to_the_second=True), *again]),
        Cell(newest.kind),
        Cell(_what(newest, viewer), broad=True),
        Cell(_whose(newest)),
        Cell(name_text(newest.author) if newest.author else quiet("seen by Stagewatch")),
    ]


def _label(group: Sequence[Change]) -> str:
    kinds = {each.kind for each in group}
    return group[0].kind if len(kinds) == 1 else f"{len(group)} changes"


def _what(change: Change, viewer: Viewer) -> list[Any]:
    text = name_text(change.title)
    if change.link:
        marks: dict[str, Any] = {"rel": "noreferrer noopener", "target": "_blank"}
        return [html.A(text, href=change.link, **marks)]
    if change.kind == "incident" and change.id:
        return [link(text, viewer.href(View(alone=ALERT, one=change.id)))]
    if change.until_s is None:
        return [text]
    return [text, quiet([" until ", clock(viewer, change.until_s)])]


def _whose(change: Change) -> Component:
    named = [value_of(change.labels, name) for name in ("service", "model", "replica")]
    shown = " / ".join(each for each in named if each)
    return name_text(shown) if shown else quiet("all")


def _nothing(past: str) -> Component:
    command = (
        "curl -H 'Authorization: Bearer TOKEN' -H 'Content-Type: application/json' "
        '-d \'{"title": "v42 rolls out", "kind": "deploy", "labels": {"service": "chat"}}\' '
        "…/api/v1/events"
    )
    return html.Div(
        [
            html.P(
                quiet(
                    f"Nothing that Stagewatch saw or was told of changed in {past}: no version, "
                    "replica, promise, silence, throttled GPU or incident."
                )
            ),
            html.Details(
                [html.Summary("Let your pipeline report its deploys"), html.Pre(command)],
                className="as-table",
            ),
        ]
    )
