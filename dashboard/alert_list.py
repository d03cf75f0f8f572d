"""The alerts page: what is open, worst first, and what was lately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from alerts.ledger import AlertRecord, Ledger
from alerts.silence import Silence
from collector.query import Reader
from dashboard import alert_words as words
from dashboard.content import Content
from dashboard.frame import common_regions, frame, region, tab_title
from dashboard.parts import (
    SPOKEN_WHEN_CHANGED,
    Cell,
    badge,
    empty,
    link,
    name_text,
    named_by,
    quiet,
    said,
    sentence,
    table,
)
from dashboard.quantity import age
from dashboard.theme import State, css_class
from dashboard.url import FLEET, View
from dashboard.viewer import Viewer

__all__ = ["content", "page"]

_Behind = Mapping[str, Sequence[AlertRecord]]

_MOST_ASKED = 300
_MOST_OPEN = 100
_MOST_OVER = 40
_COUNTED = {
    State.PAGE: ("page", "pages"),
    State.TICKET: ("ticket", "tickets"),
    State.NO_TRAFFIC: ("note", "notes"),
}


def content(
    reader: Reader,  # noqa: ARG001 - every page is given one; this asks nothing of the store
    ledger: Ledger,
    view: View,
    viewer: Viewer,
) -> Content:
    """The page at one instant."""
    every = ledger.alerts(limit=_MOST_ASKED)
    shown = [each for each in every if _wanted(each, view)]
    behind = {} if view.kind else _behind(shown)
    folded = _folded(behind)
    open_ones = sorted(
        (each for each in shown if each.open and each.id not in folded), key=_worst_first
    )
    over = [each for each in shown if not each.open]
    silences = {each.id: each for each in ledger.silences(at_s=viewer.now_s)}
    states = {each.objective_name: words.state_of(each) for each in every if each.open}
    title = tab_title(states) if states else "● Alerts"
    return Content(
        title=title,
        regions=common_regions(view, viewer, newest_at_s=None, title=title)
        | {
            "time": None,
            "state": _headline([each for each in every if each.open], every, viewer),
            "kinds": _kinds(every, view, viewer),
            "open": _open(open_ones, behind, silences, view, viewer, any_known=bool(every)),
            "over": _over(over, view, viewer),
        },
    )


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions in place."""
    find = dcc.Input(
        id="find",
        type="search",
        placeholder="Find a promise or replica  /",
        value=view.find,
        maxLength=100,
        autoComplete="off",
    )
    heading = [
        html.H2("Open", id="open-title"),
        html.Div(
            [
                region("kinds", shown),
                html.Div(
                    [html.Label("Find", htmlFor="find", className="unseen"), find],
                    className="find",
                ),
            ],
            className="choices",
        ),
    ]
    return frame(
        view,
        shown,
        [
            html.H1("Alerts", className="unseen"),
            region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
            html.Section(
                [html.Div(heading, className="heading"), region("open", shown)],
                **named_by("open-title"),
            ),
            html.Section(
                [html.H2("Over", id="over-title"), region("over", shown)], **named_by("over-title")
            ),
        ],
    )


def _wanted(alert: AlertRecord, view: View) -> bool:
    told = " ".join(
        (alert.objective_name, words.stage_text(alert), words.place_text(alert), alert.message)
    )
    found = view.find.strip().casefold() in told.casefold()
    return found and view.kind in ("", words.kind_of(alert))


def _short(alert: AlertRecord) -> str:
    kind = words.kind_of(alert)
    return f"{kind} on the budget" if words.of_budget(alert) else kind


def _behind(shown: Sequence[AlertRecord]) -> _Behind:
    """By the loudest alert of each promise what says no more: held back, or only of the budget."""
    of_promise: dict[str, list[AlertRecord]] = {}
    for each in sorted((each for each in shown if each.open), key=_worst_first):
        of_promise.setdefault(each.objective_id, []).append(each)
    return {
        loudest.id: [each for each in rest if each.inhibited or words.of_budget(each)]
        for loudest, *rest in of_promise.values()
    }


def _folded(behind: _Behind) -> set[str]:
    """Those that have no row of their own."""
    return {each.id for rest in behind.values() for each in rest}


def _worst_first(alert: AlertRecord) -> tuple[int, bool, bool, int]:
    """Pages before tickets, burns before budgets, untaken before taken, the newest first."""
    taken = alert.response.acknowledgement is not None
    severity = list(State).index(words.state_of(alert))
    return (severity, words.of_budget(alert), taken, -alert.started_at_s)


def _headline(
    open_ones: Sequence[AlertRecord], every: Sequence[AlertRecord], viewer: Viewer
) -> Component:
    folded = _folded(_behind(open_ones))
    open_ones = [each for each in open_ones if each.id not in folded]
    if not open_ones:
        ends = [each.resolved_at_s for each in every if each.resolved_at_s is not None]
        past = f" The last one ended {age(viewer.now_s - max(ends))} ago." if ends else ""
        return html.P([badge(State.HEALTHY, word="Nothing is open."), html.Span(past)])
    told: list[Component] = []
    for state, (one, many) in _COUNTED.items():
        number = sum(words.state_of(each) is state for each in open_ones)
        if number:
            told.append(badge(state, word=f"{number} {one if number == 1 else many}"))
    untaken = sum(
        each.response.acknowledgement is None and words.state_of(each) is State.PAGE
        for each in open_ones
    )
    if untaken:
        told.append(html.Span(f"{untaken} not acknowledged", className="of"))
    return html.P(told, className="tally")


def _kinds(every: Sequence[AlertRecord], view: View, viewer: Viewer) -> Component:
    """Links that narrow the list, each with how many there are."""
    counts = {kind: sum(words.kind_of(each) == kind for each in every) for kind in words.KINDS}
    choices = [link("all", viewer.href(replace(view, kind="")), current=not view.kind)]
    choices += [
        link(
            [kind.replace("-", " "), quiet(f" {number}")],
            viewer.href(replace(view, kind=kind)),
            current=view.kind == kind,
        )
        for kind, number in counts.items()
        if number or view.kind == kind
    ]
    return html.Nav(choices, className="spans", **said("Only alerts of one kind"))


def _open(
    shown: Sequence[AlertRecord],
    behind: _Behind,
    silences: Mapping[str, Silence],
    view: View,
    viewer: Viewer,
    *,
    any_known: bool,
) -> Component:
    if not shown and (view.find or view.kind):
        every = viewer.href(replace(view, find="", kind=""))
        return html.P([quiet("No open alert is like this. "), link("Show all", every)])
    if not shown:
        return _nothing_open(viewer, any_known=any_known)
    columns = ("Alert", "Since", "At fault", "Where", "Acknowledged by", "Silenced", "In 24 h")
    rows = [
        [
            _title(each, behind.get(each.id, ()), viewer),
            Cell(words.lasting(each, viewer), number=True),
            Cell(words.stage_text(each)),
            Cell(name_text(words.place_text(each))),
            Cell(words.acknowledged(each, viewer)),
            Cell(words.silenced(each, silences, viewer)),
            Cell(f"{each.flaps}×" if each.flaps > 1 else "once", number=True),
        ]
        for each in shown[:_MOST_OPEN]
    ]
    marks = [f"promise {css_class(words.state_of(each))}" for each in shown[:_MOST_OPEN]]
    parts: list[Component] = [table("Open alerts, worst first", columns, rows, marks=marks)]
    if len(shown) > _MOST_OPEN:
        parts.append(html.P(quiet(f"and {len(shown) - _MOST_OPEN} more; press / to find one")))
    return html.Div(parts)


def _title(alert: AlertRecord, behind: Sequence[AlertRecord], viewer: Viewer) -> Cell:
    name = link(html.Strong(name_text(alert.objective_name)), viewer.href(words.view_of(alert.id)))
    state = html.Span([words.state_badge(alert), *words.tags(alert)], className="at")
    return Cell(
        [
            html.Div([name, state], className="title"),
            html.P(sentence(alert.message), className="message"),
            _also(behind, viewer),
        ]
    )


def _also(behind: Sequence[AlertRecord], viewer: Viewer) -> Component | None:
    """What else is open of its promise, and says no more."""
    if not behind:
        return None
    ways = [html.Span(link(_short(each), viewer.href(words.view_of(each.id)))) for each in behind]
    return html.P([html.Span("Also:"), *ways], className="ways quiet behind")


def _nothing_open(viewer: Viewer, *, any_known: bool) -> Component:
    fleet = link("the fleet page", viewer.href(View(alone=FLEET)))
    then: list[Any] = [html.P(["How far each promise is from its limit stands on ", fleet, "."])]
    if not any_known:
        then += [
            html.P("Has nobody ever been told? Send a test to every receiver:"),
            html.Pre("stagewatch alerts test-receiver --config stagewatch.yaml"),
        ]
    return empty("Nobody needs to get up", then)


def _over(shown: Sequence[AlertRecord], view: View, viewer: Viewer) -> Component:
    if not shown:
        return html.P(quiet("None has ended yet." if not view.find + view.kind else "None."))
    columns = ("Alert", "When", "At fault", "Where", "Told last")
    rows = [
        [
            Cell(
                html.Div(
                    [
                        link(name_text(each.objective_name), viewer.href(words.view_of(each.id))),
                        html.Span([quiet(words.kind_of(each).replace("-", " "))], className="at"),
                    ],
                    className="title",
                )
            ),
            Cell(words.lasting(each, viewer), number=True),
            Cell(words.stage_text(each)),
            Cell(name_text(words.place_text(each))),
            Cell(quiet(sentence(each.message)), broad=True),
        ]
        for each in shown[:_MOST_OVER]
    ]
    more = len(shown) - _MOST_OVER
    rest = [html.P(quiet(f"and {more} more: stagewatch alerts"))] if more > 0 else []
    return html.Div([table("Alerts that are over, the newest first", columns, rows), *rest])
