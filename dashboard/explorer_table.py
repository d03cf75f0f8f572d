"""The table of requests: a line each, a link to what became of it."""

from __future__ import annotations

import numpy as np
from dash import html
from dash.development.base_component import Component
from numpy.typing import NDArray

from dashboard.parts import Cell, badge, clock, link, name_text, quiet, table
from dashboard.quantity import NOTHING, count, seconds
from dashboard.sieve import SLOWEST
from dashboard.theme import State
from dashboard.url import REQUEST, View
from dashboard.viewer import Viewer
from domain.labels import Labels, value_of
from domain.request import Outcome
from domain.request_columns import RequestColumns

__all__ = ["MOST_ROWS", "SHORT_ID", "outcome_badge", "request_table"]

MOST_ROWS = 50
SHORT_ID = 8  # of an id's 32 digits: enough to tell fifty apart

_COLUMNS = ("tpot", "queue", "prefill", "decode")
_HEADS = (
    "Request",
    "Served by",
    "Status",
    "TTFT",
    "E2E",
    "TPOT",
    "Queue",
    "Prefill",
    "Decode",
    "Tokens in",
    "out",
)
_STATES = {Outcome.OK: State.HEALTHY, Outcome.FAILED: State.TICKET}


def outcome_badge(outcome: Outcome) -> Component:
    """How it ended; what was given up or refused is nobody's fault here."""
    return badge(_STATES.get(outcome, State.NO_TRAFFIC), word=str(outcome))


def request_table(
    found: RequestColumns, rows: NDArray[np.int64], view: View, viewer: Viewer, *, whole: int
) -> Component:
    """The first of them, each with the way to its page."""
    shown = rows.tolist()
    body = [_row(found, row, view, viewer) for row in shown]
    slow = view.sieve.order == SLOWEST
    caption = "Slowest first" if slow else "Newest first"
    rest = f"{count(len(shown))} of {count(whole)} are shown." if whole > len(shown) else ""
    heading = html.Div([html.H2(caption), quiet(rest)], className="heading")
    return html.Div([heading, table(caption, _HEADS, body)])


def _row(found: RequestColumns, row: int, view: View, viewer: Viewer) -> list[Cell]:
    trace_id = found.trace_ids[row].hex()
    there = viewer.href(View(alone=REQUEST, one=trace_id))
    at_s = int(found.end_at_s[row])
    first: list[Component | str] = [
        link(html.Code(trace_id[:SHORT_ID]), there, title=trace_id),
        html.Span(quiet(clock(viewer, at_s, to_the_second=True)), className="under"),
    ]
    if not found.complete[row]:
        first.append(html.Span("a span is missing", className="tag"))
    told = [Cell(seconds(_known(found, name, row)), number=True) for name in ("ttft", "e2e")]
    told += [Cell(seconds(_known(found, name, row)), number=True) for name in _COLUMNS]
    tokens = [
        Cell(_whole(_known(found, name, row)), number=True)
        for name in ("prompt_tokens", "output_tokens")
    ]
    status = outcome_badge(list(Outcome)[int(found.outcome[row])])
    return [
        Cell(first),
        Cell(_served(found.labels[row], view, viewer)),
        Cell([status]),
        *told,
        *tokens,
    ]


def _served(labels: Labels, view: View, viewer: Viewer) -> list[Component | str]:
    """Service and replica, each a way to see only those."""
    parts: list[Component | str] = []
    for name, under in (("service", False), ("replica", True)):
        value = value_of(labels, name)
        if value and value_of(view.where, name) != value:
            shown = link(name_text(value), viewer.href(view.only(name, value)))
        else:
            shown = html.Span(name_text(value or NOTHING))
        parts.append(html.Span(shown, className="under quiet" if under else ""))
    return parts


def _known(found: RequestColumns, name: str, row: int) -> float | None:
    value = float(found.values[name][row])
    return None if np.isnan(value) else value


def _whole(number: float | None) -> str:
    return count(number)
