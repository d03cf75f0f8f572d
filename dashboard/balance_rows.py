"""The tables of the balance page: those of the report, and earlier reviews with what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dash import html
from dash.development.base_component import Component

from dashboard.parts import Cell, badge, clock, name_text, quiet, sentence, table
from dashboard.theme import State
from dashboard.viewer import Viewer
from review.document import Grid
from review.shelf import Kept
from review.verdict import VerdictKind
from review.wording import goodput, share

__all__ = ["VERDICT_STATES", "earlier_table", "grid_table"]

_MOST_ROWS = 10
VERDICT_STATES = {
    VerdictKind.DO_NOTHING: State.HEALTHY,
    VerdictKind.MOVE: State.TICKET,
    VerdictKind.INFEASIBLE: State.PAGE,
    VerdictKind.NO_RECOMMENDATION: State.NOT_OBSERVED,
}


def grid_table(grid: Grid) -> Component:
    """A table of the report, as pages have tables; what is too long ends in the whole report."""
    more = len(grid.rows) - _MOST_ROWS
    rows = [
        [Cell(sentence(cell), number=place in grid.numbers) for place, cell in enumerate(row)]
        for row in grid.rows[:_MOST_ROWS]
    ]
    marks = ["advised" if place == grid.strong else "" for place in range(len(rows))]
    shown = table(grid.caption, grid.columns, rows, marks=marks)
    rest = [html.P(quiet(f"and {more} more in the whole report"))] if more > 0 else []
    return html.Div([shown, *rest])


def earlier_table(found: Sequence[Kept], viewer: Viewer) -> Component | None:
    """All but the latest: what was foretold, and what the review after it saw."""
    if len(found) < 2:
        return None
    columns = ("Week until", "Verdict", "Foretold", "Came", "Decision", "Report")
    rows = []
    for newer, each in pairwise(found):
        rows.append(
            [
                Cell(clock(viewer, int(each.review.until_s))),
                Cell(
                    [
                        badge(
                            VERDICT_STATES[each.review.verdict.kind], word=each.review.verdict.kind
                        ),
                        quiet(sentence(each.review.verdict.says)),
                    ],
                    broad=True,
                ),
                Cell(_foretold(each), number=True),
                Cell(_came(newer, each), number=True),
                Cell(_decided(each)),
                Cell(_whole(each, viewer)),
            ]
        )
    return table("Earlier reviews", columns, rows)


def _foretold(each: Kept) -> str:
    advice = each.review.advice
    return "nothing" if advice is None else goodput(advice.goodput, advice.interval)


def _came(newer: Kept, each: Kept) -> list[Component | str]:
    """Only where the next review compared itself with this one."""
    record = newer.review.track_record
    if record is None or record.advice != each.review.advice:
        return ["not compared"]
    if not record.comparable:
        return [share(record.goodput), quiet("not comparable")]
    return [share(record.goodput), quiet("inside" if record.inside else "outside")]


def _decided(each: Kept) -> list[Component | str]:
    decision = each.decision
    if decision is None:
        return [quiet("nobody said")]
    word = "done" if decision.done else "not done"
    return [word, quiet([name_text(decision.author), ": ", name_text(decision.why)])]


def _whole(each: Kept, viewer: Viewer) -> Component:
    return html.A("Open", href=viewer.address(f"/api/v1/reviews/{each.id}/report.html"))
