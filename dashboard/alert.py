"""The page of one alert: what, why, where, what changed, what to do, how sure, and its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from dash import html
from dash.development.base_component import Component

from alerts import wording
from alerts.evidence import Evidence
from alerts.ledger import AlertRecord, Ledger, Standing
from alerts.silence import Silence
from collector.query import Reader
from dashboard import alert_words as words
from dashboard.acts import acting, acts, taken_text
from dashboard.alert_axis import AXIS, axis
from dashboard.alert_cause import found_causes, headline, likely
from dashboard.alert_places import stage_comparison, worst_places
from dashboard.alert_windows import windows_table
from dashboard.budget_words import budget_left, forecast_text
from dashboard.certainty import certainty
from dashboard.content import Content
from dashboard.frame import common_regions, frame, region
from dashboard.graphs import graph
from dashboard.minutes import strip
from dashboard.parts import (
    SPOKEN_WHEN_CHANGED,
    Cell,
    clock,
    empty,
    link,
    name_text,
    named_by,
    quiet,
    said,
    sentence,
    table,
)
from dashboard.quantity import span
from dashboard.theme import LOOKS
from dashboard.url import ALERTS, View
from dashboard.viewer import Viewer
from domain.objective import Severity

__all__ = ["content", "page"]

_MOST_EVENTS = 60


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant; what is asked of the store stands around the alert, not now."""
    record = ledger.alert(view.one)
    if record is None:
        return _nobody(view, viewer)
    standing = None if record.kind == "condition" else ledger.standing(record.objective_id)
    evidence = ledger.evidence(record.id)
    diagnosed = ledger.diagnosed(record.id)
    silences = {each.id: each for each in ledger.silences(at_s=viewer.now_s)}
    title = f"{LOOKS[words.state_of(record)].symbol} {record.objective_name[:60]}"
    regions = common_regions(view, viewer, newest_at_s=None, title=title) | {
        "time": None,
        "name": [_name(record, viewer), words.state_badge(record), *words.tags(record)],
        "state": html.P(sentence(headline(record, diagnosed))),
        "facts": _facts(record, standing, silences, viewer),
        "taken": _taken(record, viewer),
        "acts": acts(record, standing.objective.runbook if standing else "", viewer),
        "acting": acting(record, viewer) if viewer.may_act else None,
        "why": _why(record, evidence, standing, viewer),
        "likely": likely(record, diagnosed, viewer),
        "causes": found_causes(record, diagnosed, viewer),
        "stages": stage_comparison(reader, record, standing, viewer),
        "places": worst_places(reader, record, standing, viewer),
        "sure": certainty(reader, record, standing, evidence, viewer),
        "history": _history(record, viewer),
        "minutes": _minutes(record, evidence, viewer),
    }
    charts, changed = axis(reader, ledger, record, standing, viewer)
    return Content(title=title, regions=regions | changed, charts=charts)


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions in place."""
    if "why" not in shown.regions:
        return frame(view, shown, [region("state", shown, className="headline")])
    return frame(
        view,
        shown,
        [
            html.Div(html.H1(region("name", shown, tag=html.Span)), className="name"),
            region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
            region("likely", shown, className="likely"),
            html.Div([region("taken", shown), region("acts", shown)]),
            region("facts", shown),
            _section("Why it fired", "why", shown),
            html.Section(
                [
                    html.H2("Where and why", id="where"),
                    html.Div([region("stages", shown), region("places", shown)], className="pair"),
                    region("causes", shown, className="found"),
                ],
                **named_by("where"),
            ),
            html.Section(
                [
                    html.H2("What changed", id="changes-title"),
                    *([graph(AXIS, shown, height_px=220)] if AXIS in shown.charts else []),
                    region("changes", shown),
                ],
                **named_by("changes-title"),
            ),
            _section("How sure this is", "sure", shown),
            html.Section(
                [
                    html.H2("History", id="history"),
                    region("minutes", shown),
                    region("history", shown),
                ],
                **named_by("history"),
            ),
        ],
    )


def _section(title: str, name: str, shown: Content) -> Component:
    return html.Section(
        [html.H2(title, id=f"{name}-title"), region(name, shown)], **named_by(f"{name}-title")
    )


def _nobody(view: View, viewer: Viewer) -> Content:
    every = link("all alerts", viewer.href(View(alone=ALERTS)))
    told = empty(
        "There is no such alert",
        [
            html.P(["Nothing is called ", name_text(view.one), " here. See ", every, "."]),
            html.P(
                quiet(
                    "Did the link come from another Stagewatch? Alerts are kept in the state of the "
                    "one that told you."
                )
            ),
        ],
    )
    title = "? no such alert"
    regions = common_regions(view, viewer, newest_at_s=None, title=title)
    return Content(title=title, regions=regions | {"time": None, "state": told})


def _name(record: AlertRecord, viewer: Viewer) -> Component:
    return html.Span(words.objective_link(record, viewer))


def _taken(record: AlertRecord, viewer: Viewer) -> Component | None:
    taken = taken_text(record, viewer)
    return html.P(taken, className="taken") if taken else None


def _facts(
    record: AlertRecord,
    standing: Standing | None,
    silences: dict[str, Silence],
    viewer: Viewer,
) -> Component:
    facts: list[tuple[str, Any, Any]] = []
    if standing is not None:
        ends = forecast_text(standing)
        facts.append(("Budget left", budget_left(standing), ends))
    since, past = words.lasting(record, viewer)
    facts.append(("Since" if record.open else "Lasted", since, past))
    facts.append(("Acknowledged by", _first(words.acknowledged(record, viewer)), None))
    if record.response.silence_id is not None:
        facts.append(("Silenced", _first(words.silenced(record, silences, viewer)), None))
    flaps = f"{record.flaps}×" if record.flaps > 1 else "once"
    facts.append(("Fired in 24 h", flaps, None))
    told = record.response.told
    names = name_text(", ".join(told)) if told else "nobody"
    steps = record.response.escalated
    also = f"{steps} escalation{'s' if steps != 1 else ''}" if steps else ""
    facts.append(("Told", names, also))
    items = [
        html.Div([html.Dt(name), html.Dd([html.Span(value, className="value"), quiet(note or "")])])
        for name, value, note in facts
    ]
    return html.Dl(items, className="facts")


def _first(cell: Any) -> Any:
    """Of a cell with a second voice, the first."""
    return cell[0] if isinstance(cell, list) else cell


def _why(
    record: AlertRecord,
    evidence: Sequence[Evidence],
    standing: Standing | None,
    viewer: Viewer,
) -> list[Component]:
    """Both windows against the limit, as they counted when it fired and as they stand now."""
    fired = next((each for each in evidence if each.event == "firing"), None)
    rules = standing.rules if standing is not None else ()
    rule = next((each for each in rules if fired and each.verdict.rule.name == fired.rule), None)
    if fired is None or rule is None:
        lines = [html.Li(sentence(each)) for each in record.why]
        rests = _AT_ONCE if record.kind == "condition" else _NO_WINDOWS
        return [html.Ul(lines, className="why") if lines else html.P(quiet(rests))]
    limit = rule.verdict.rule.factor * rule.budget
    factor = float(rule.verdict.rule.factor)
    target = viewer.href(words.view_of_objective(record.objective_id))
    told = (
        f"Rule {fired.rule}: the budget burnt more than {factor:.3g} × too fast in both windows, "
        f"so more than {wording.percent(limit)} were bad. "
    )
    return [
        windows_table(fired, rule, limit, surely=record.severity is Severity.PAGE),
        html.P([quiet(told), link("The promise and its other rules", target)]),
    ]


_NO_WINDOWS = "It rests on no windows: the sentence above says all there is."
_AT_ONCE = (
    "An engine that stands still or does not answer is told at once: no budget has to burn first."
)


def _history(record: AlertRecord, viewer: Viewer) -> Component:
    if not record.history:
        return html.P(quiet("Nobody was told of it: it stands behind a page of its promise."))
    events = record.history[-_MOST_EVENTS:]
    body = [
        [
            Cell(clock(viewer, each.at_s, to_the_second=True)),
            Cell(each.event.replace("-", " "), number=True),
            Cell(name_text(each.author or "Stagewatch"), number=not each.author),
            Cell(quiet(sentence(each.text)), broad=True),
        ]
        for each in reversed(events)
    ]
    left_out = len(record.history) - len(events)
    more = [html.P(quiet(f"and {left_out} earlier"))] if left_out else []
    return html.Div([table("What happened", ("When", "What", "Who", "Words"), body), *more])


def _minutes(record: AlertRecord, evidence: Sequence[Evidence], viewer: Viewer) -> Component | None:
    """The slices on which it fired and ended, as they counted then."""
    if not evidence:
        return None
    lines = [
        html.Figure(
            [
                html.Figcaption(
                    [
                        html.Strong("Fired" if each.event == "firing" else "Ended"),
                        " at ",
                        clock(viewer, each.at_s),
                        quiet(f" on the {span(each.long_s)} before it ({each.rule})"),
                    ]
                ),
                strip(each.slices, columns=min(max(len(each.slices), 1), 120)),
            ],
            className=f"decided state-{'page' if record.severity == 'page' else 'ticket'}",
        )
        for each in evidence
    ]
    address = viewer.address(f"/api/v1/alerts/{quote(record.id, safe='')}/slices.csv")
    csv = html.A("These minutes as CSV", href=address, download="", className="button")
    return html.Div([*lines, html.P(csv)], className="evidence", **said("Minutes that decided"))
