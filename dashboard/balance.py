"""The balance page: what the weekly review says, what it rests on, and what became of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from alerts.ledger import Ledger
from collector.query import Reader
from dashboard.acts import field, form, send
from dashboard.balance_rows import VERDICT_STATES, earlier_table, grid_table
from dashboard.content import Content
from dashboard.frame import common_regions, frame, region
from dashboard.parts import (
    SPOKEN_WHEN_CHANGED,
    badge,
    clock,
    empty,
    name_text,
    named_by,
    quiet,
    sentence,
)
from dashboard.theme import LOOKS
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.errors import StagewatchError
from review.document import Section
from review.report import report
from review.shelf import Kept, Shelf

__all__ = ["BalancePage"]

_MOST_EARLIER = 20
_TITLES = {
    "alternatives": "Alternatives",
    "plan": "Plan, in safe order",
    "decision": "Decision",
    "gates": "May it be believed?",
    "earlier": "Earlier reviews",
}


class BalancePage:
    """The page over a shelf of reviews; None: this process was given none."""

    def __init__(self, shelf: Shelf | None = None) -> None:
        self._shelf = shelf

    def _beside(self, viewer: Viewer) -> Component | None:
        """What the schedule does, and files that cannot be read; None where all is quiet."""
        if self._shelf is None:
            return None
        said: list[Component | str] = [sentence(each) for each in self._shelf.damaged()]
        try:
            standing = self._shelf.timetable.read()
        except StagewatchError as error:
            said.append(sentence(str(error)))
            standing = None
        if standing is not None and standing.says():
            said.append(sentence(standing.says()))
        if standing is not None and standing.next_s is not None and not standing.running:
            said.append(html.Span(["The next review is due ", clock(viewer, int(standing.next_s))]))
        return html.Ul([html.Li(each) for each in said], className="quiet") if said else None

    def content(self, reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
        """The page at one instant; of a fixed window, what was known then."""
        del reader, ledger  # everything is in the reviews themselves
        found = [] if self._shelf is None else self._shelf.all(limit=_MOST_EARLIER + 1)
        if not found:
            regions = common_regions(view, viewer, newest_at_s=None, title="Balance")
            regions |= {"time": None, "state": _nothing(), "schedule": self._beside(viewer)}
            return Content(title="Balance", regions=regions)
        latest, told = found[0], report(found[0])
        state = VERDICT_STATES[latest.review.verdict.kind]
        title = f"{LOOKS[state].symbol} Balance"
        sections = {section.title: section for section in told.sections}
        regions = common_regions(view, viewer, newest_at_s=None, title=title)
        return Content(
            title=title,
            regions=regions
            | {
                "time": None,
                "state": _verdict(latest, told.facts, viewer),
                "schedule": self._beside(viewer),
                "alternatives": _section(sections.get(_TITLES["alternatives"])),
                "plan": _section(sections.get(_TITLES["plan"])),
                "gates": _section(sections.get(_TITLES["gates"])),
                "decision": _decision(latest, viewer),
                "earlier": earlier_table(found, viewer),
            },
        )

    def page(self, view: View, shown: Content) -> list[Component]:
        """The page with its content; a refresh fills its regions in place."""
        sections = [
            html.Section(
                [html.H2(title, id=f"{name}-title"), region(name, shown)],
                **named_by(f"{name}-title"),
            )
            for name, title in _TITLES.items()
            if shown.regions.get(name) is not None
        ]
        return frame(
            view,
            shown,
            [
                html.H1("Balance", className="unseen"),
                region("state", shown, className="said", **SPOKEN_WHEN_CHANGED),
                region("schedule", shown),
                *sections,
            ],
        )


def _nothing() -> Component:
    return empty(
        "No week was reviewed yet",
        [
            html.P(
                "Once a week the review asks whether workers should move between prefill and decode."
                " It needs five whole days of requests."
            ),
            html.Pre("stagewatch review --from now-7d --to now --gpu-price 2.10"),
        ],
    )


def _verdict(kept: Kept, facts: Sequence[tuple[str, str]], viewer: Viewer) -> Component:
    """The decision line, its reasons, and the whole report."""
    review = kept.review
    whole = html.A(
        "The whole report",
        href=viewer.address(f"/api/v1/reviews/{kept.id}/report.html"),
        className="button",
    )
    of_what: list[Component | str] = [name_text(review.service), ", "] if review.service else []
    period = [
        *of_what,
        clock(viewer, int(review.since_s)),
        " to ",
        clock(viewer, int(review.until_s)),
    ]
    told = [html.Div([html.Dt(name), html.Dd(name_text(value))]) for name, value in facts]
    return html.Div(
        [
            html.P([badge(VERDICT_STATES[review.verdict.kind], word=str(review.verdict.kind)), " ",
                    quiet(period)]),
            html.P(sentence(review.verdict.says), className="verdict"),
            html.Ul([html.Li(sentence(reason)) for reason in review.verdict.reasons]),
            html.Dl(told, className="facts"),
            html.P(whole),
        ],
        className="balance",
    )  # fmt: skip


def _section(section: Section | None) -> Component | None:
    """The same sentences and tables as in the report."""
    if section is None:
        return None
    points = [html.Li(sentence(point)) for point in section.points]
    kind = html.Ol if section.ordered else html.Ul
    return html.Div(
        [
            *(html.P(sentence(said)) for said in section.sentences),
            *([kind(points)] if points else []),
            *(grid_table(grid) for grid in section.grids),
            *(html.P(quiet(said)) for said in section.small),
        ]
    )


def _decision(kept: Kept, viewer: Viewer) -> Component:
    """What was decided, and a form for the last word."""
    decision = kept.decision
    said: list[Component] = [html.P(quiet("Nobody has said yet whether it was done."))]
    if decision is not None:
        word = "Done" if decision.done else "Not done"
        by = name_text(decision.author)
        at = clock(viewer, int(decision.at_s))
        said = [html.P([html.Strong(word), ", ", by, ", ", at, ": ", name_text(decision.why)])]
    if not viewer.may_act:
        return html.Div([*said, html.P(quiet("Only responders decide; you may look."))])
    address = viewer.address(f"/api/v1/reviews/{kept.id}/decision")
    fields = [
        field("author", "Your name", most=128, kept=True),
        field("reason", "Why", most=1000),
    ]
    buttons = [
        send("Done", address, body={"done": True}, fields={"reason": "why"}, main=True),
        send("Not done", address, body={"done": False}, fields={"reason": "why"}),
    ]
    asked = [html.Div(fields, className="fields"), html.Div(buttons, className="acts")]
    return html.Div([*said, form(asked)])
