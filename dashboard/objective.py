"""The page of one promise: what it says, how its budget burns, on which rules, and what happened to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from alerts import wording
from alerts.detail import ObjectiveEvent
from alerts.ledger import AlertRecord, CompositeStanding, Ledger, RuleStanding, Standing
from alerts.sentence import sentence as phrase
from alerts.state import Status
from collector.query import Reader, Window
from dashboard import alert_words as words
from dashboard.acts import outside
from dashboard.budget_charts import BUDGET, EVENTS, charts_of
from dashboard.budget_words import budget_left, burn_text, forecast_text, times
from dashboard.certainty import edges_text
from dashboard.content import Content
from dashboard.frame import common_regions, frame, region
from dashboard.graphs import graph
from dashboard.minutes import strip, tell
from dashboard.parts import (
    SPOKEN_WHEN_CHANGED,
    Cell,
    badge,
    clock,
    empty,
    link,
    name_text,
    named_by,
    quiet,
    sentence,
    table,
)
from dashboard.promises import promise_table
from dashboard.quantity import NOTHING, age, count, percent, percent_range, span
from dashboard.theme import LOOKS, State, css_class
from dashboard.url import SILENCES, View
from dashboard.viewer import Viewer
from domain.labels import value_of
from domain.objective import DAY_S, Severity
from domain.slice import MINUTE_S

__all__ = ["content", "page"]

_MOST_STRIP_S = DAY_S
_MOST_EVENTS = 40
_MOST_ALERTS = 10
_STATUS = {
    Status.QUIET: "quiet",
    Status.PENDING: "about to fire",
    Status.FIRING: "fires",
    Status.RECOVERING: "recovers",
    Status.RESOLVED: "quiet again",
}


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant."""
    standing = ledger.standing(view.one, spark_s=0)
    if standing is None:
        return _other(reader, ledger, view, viewer)
    window = view.window(viewer.now_s)
    title = f"{LOOKS[standing.state].symbol} {standing.objective.name[:60]}"
    charts, captions = charts_of(ledger, standing, view, viewer)
    stale = [html.Span("stale", className="tag")] if standing.stale else []
    regions = common_regions(view, viewer, newest_at_s=standing.observed_at_s, title=title) | {
        "name": [html.Span(name_text(standing.objective.name)), badge(standing.state), *stale],
        "state": html.P(sentence(standing.message)),
        "promise": _promise(reader, standing, window, viewer),
        "facts": _facts(standing, viewer),
        "rules": _rules(standing, viewer),
        "minutes": _minutes(ledger, standing, window, viewer),
        "alerts": _alerts(ledger.alerts_of(standing.id, limit=_MOST_ALERTS), viewer),
        "history": _history(ledger, standing, viewer),
    }
    return Content(title=title, regions=regions | captions, charts=charts)


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions and charts in place."""
    heading = html.Div(html.H1(region("name", shown, tag=html.Span)), className="name")
    state = region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED)
    if "rules" not in shown.regions:
        return frame(view, shown, [heading, state, region("promises", shown)])
    charts = html.Div(
        [graph(BUDGET, shown, height_px=264), graph(EVENTS, shown, height_px=264)],
        className="charts",
    )
    return frame(
        view,
        shown,
        [
            heading,
            state,
            region("promise", shown),
            region("facts", shown),
            html.Section(
                [html.H2("Over time", id="over-time-title", className="unseen"), charts],
                **named_by("over-time-title"),
            ),
            _section("Burn by window", "rules", shown),
            _section("Minutes", "minutes", shown),
            _section("Alerts", "alerts", shown),
            _section("History", "history", shown),
        ],
    )


def _section(title: str, name: str, shown: Content) -> Component:
    return html.Section(
        [html.H2(title, id=f"{name}-title"), region(name, shown)], **named_by(f"{name}-title")
    )


def _promise(reader: Reader, standing: Standing, window: Window, viewer: Viewer) -> list[Component]:
    """In words, as it is written, and which limits the source would decide exactly."""
    objective = standing.objective
    lines = [html.P(html.Code(sentence(phrase(objective))))]
    if standing.description:
        lines.insert(0, html.P(sentence(standing.description)))
    if objective.slices is not None:
        lines.append(html.P(quiet(wording.policy(objective.slices))))
    edges = edges_text(reader, objective.indicator, window)
    if edges:
        lines.append(html.P(quiet(edges)))
    return [html.Div(lines, className="promised"), _ways(standing, viewer)]


def _ways(standing: Standing, viewer: Viewer) -> Component:
    matcher = (f"objective={standing.id}",)
    silence = viewer.href(View(alone=SILENCES, matchers=matcher))
    ways = [link("Silence it", silence, className="button")] if viewer.may_act else []
    service = value_of(standing.objective.indicator.where, "service")
    if service:
        there = viewer.href(View(service=service))
        ways.append(link(html.Span(["Service ", name_text(service)]), there, className="button"))
    if standing.objective.runbook:
        ways.append(outside("Open the runbook", standing.objective.runbook))
    return html.Div(ways, className="acts")


def _facts(standing: Standing, viewer: Viewer) -> Component:
    budget = standing.budget
    spent = count(budget.spent_low)
    if budget.spent_low != budget.spent_high:
        spent = f"{spent}–{count(budget.spent_high)}"
    facts: list[tuple[str, Any, Any]] = [
        ("Budget left", budget_left(standing), forecast_text(standing)),
        ("Burn, last hour", _burn(standing), f"at 1 × it lasts {span(budget.period_s)}"),
        (
            "Bad so far",
            spent,
            f"of {count(float(budget.allowed))} allowed in {count(budget.total)}",
        ),
        _counting(standing, viewer),
    ]
    if budget.end_s is not None:
        facts.append(("Begins anew", clock(viewer, budget.end_s), _of_period(standing)))
    if budget.excluded_minutes:
        facts.append(("Maintenance", f"{count(budget.excluded_minutes)} min", "do not count"))
    seen_s = standing.data_age_s(viewer.now_s)
    facts.append(("Data", "never seen" if seen_s is None else f"{age(seen_s)} old", ""))
    items = [
        html.Div([html.Dt(name), html.Dd([html.Span(value, className="value"), quiet(note)])])
        for name, value, note in facts
    ]
    return html.Dl(items, className="facts")


def _burn(standing: Standing) -> str:
    low, high = standing.burn_low, standing.burn_high
    if low is None or high is None:
        return "no traffic" if standing.last_hour.observed_minutes else "not observed"
    return burn_text((low, high))


def _counting(standing: Standing, viewer: Viewer) -> tuple[str, Any, Any]:
    """Since when is counted: the period, or less where we know of less."""
    budget = standing.budget
    since_s = budget.counted_since_s
    if since_s is None:
        return "Counts since", NOTHING, "nothing was counted yet"
    begin_s = max(since_s, budget.begin_s)
    short = budget.at_s - begin_s < budget.period_s - DAY_S and budget.end_s is None
    note = f"{age(budget.at_s - begin_s)} of {span(budget.period_s)}" if short else "a whole period"
    return "Counts since", clock(viewer, begin_s), note if budget.end_s is None else ""


def _of_period(standing: Standing) -> str:
    low, high = standing.budget.of_period_low, standing.budget.of_period_high
    if low is None or high is None:
        return ""
    return f"{percent_range(low, high)} of the whole period's budget left"


def _rules(standing: Standing, viewer: Viewer) -> Component:
    if not standing.rules:
        return html.P(quiet("No rule was judged yet; the first minute is still to come."))
    columns = ("Rule", "Fires above", "Long window", "Short window", "Now", "Why")
    rows = [
        [
            Cell(_severity(each)),
            Cell(times(each.verdict.rule.factor), number=True),
            Cell(_window(each.verdict.rule.long_s, each, long=True), number=True),
            Cell(_window(each.verdict.rule.short_s, each, long=False), number=True),
            Cell(_status(each, viewer)),
            Cell(quiet(each.verdict.reason.value), broad=True),
        ]
        for each in standing.rules
    ]
    marks = ["guilty" if each.alert.open else "" for each in standing.rules]
    return table("How fast the budget burns, by rule", columns, rows, marks=marks)


def _severity(rule: RuleStanding) -> list[Component]:
    severity = rule.verdict.rule.severity
    state = State.PAGE if severity is Severity.PAGE else State.TICKET
    if not rule.alert.open:
        return [html.Span(rule.verdict.rule.name)]
    return [badge(state, word=rule.verdict.rule.name)]


def _window(span_s: int, rule: RuleStanding, *, long: bool) -> list[Component]:
    counted = rule.verdict.long if long else rule.verdict.short
    burn = rule.long_burn if long else rule.short_burn
    value = burn_text(burn) if burn is not None or counted.observed_minutes else "not observed"
    low, high = counted.bad_low, counted.bad_high
    bad = count(low) if low == high else f"{count(low)}–{count(high)}"
    return [html.Span(value), quiet(f"{span(span_s)}: {bad} of {count(counted.total)} bad")]


def _status(rule: RuleStanding, viewer: Viewer) -> list[Component | str]:
    alert = rule.alert
    word = _STATUS[alert.status]
    tags = [html.Span("stale", className="tag")] if alert.stale else []
    if alert.since_s is None or alert.status is Status.QUIET:
        return [html.Span(word), *tags]
    return [html.Span(word), quiet(["since ", clock(viewer, alert.since_s)]), *tags]


def _minutes(ledger: Ledger, standing: Standing, window: Window, viewer: Viewer) -> list[Component]:
    """The newest of the window, a day at most, each in its state."""
    until_s = min(window.until_s, standing.evaluated_at_s) // MINUTE_S * MINUTE_S
    since_s = max(window.since_s, until_s - _MOST_STRIP_S)
    slices = ledger.slices(standing.id, since_s, until_s) if until_s > since_s else ()
    if not slices:
        return [html.P(quiet("No minute of this window was judged."))]
    return [
        html.Div(
            strip(slices, columns=min(len(slices), 120)),
            className=f"long-strip {css_class(standing.state)}",
        ),
        html.P([clock(viewer, since_s), clock(viewer, until_s)], className="ends quiet"),
        html.P(quiet(tell(slices).replace("last ", "Of ", 1))),
    ]


def _alerts(records: Sequence[AlertRecord], viewer: Viewer) -> Component:
    if not records:
        return html.P(quiet("It has never alerted."))
    rows = [
        [
            Cell(link(words.state_badge(each), viewer.href(words.view_of(each.id)))),
            Cell(quiet([words.kind_of(each).replace("-", " "), *words.tags(each)])),
            Cell(words.lasting(each, viewer), number=True),
            Cell(words.stage_text(each)),
            Cell(name_text(words.place_text(each))),
            Cell(words.acknowledged(each, viewer)),
        ]
        for each in records
    ]
    columns = ("Alert", "Kind", "When", "At fault", "Where", "Acknowledged by")
    return table("Its alerts, open ones first", columns, rows)


def _history(ledger: Ledger, standing: Standing, viewer: Viewer) -> Component:
    events = ledger.history(standing.id, limit=_MOST_EVENTS)
    if not events:
        return html.P(quiet("Nothing has happened to it yet: no revision, no reset, no alert."))
    rows = [
        [
            Cell(clock(viewer, each.at_s)),
            Cell(_event(each, viewer), number=True),
            Cell(name_text(each.author or "Stagewatch"), number=not each.author),
            Cell(quiet(sentence(each.text)), broad=True),
        ]
        for each in events
    ]
    return table("What happened to it, the newest first", ("When", "What", "Who", "Words"), rows)


def _event(event: ObjectiveEvent, viewer: Viewer) -> Component | str:
    word = event.event.replace("-", " ")
    if event.alert_id is None:
        return word
    return link(word, viewer.href(words.view_of(event.alert_id)))


def _other(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """A promise made of others, or none at all."""
    composite = ledger.composite(view.one)
    if composite is not None:
        return _composite(reader, composite, view, viewer)
    fleet = link("all promises", viewer.href(View()))
    told = empty(
        "There is no such promise",
        [
            html.P(
                ["Nothing that is promised is called ", name_text(view.one), ". See ", fleet, "."]
            ),
            html.P(quiet("Was it renamed? Its name makes its address.")),
        ],
    )
    title = "? no such promise"
    regions = common_regions(view, viewer, newest_at_s=None, title=title)
    return Content(title=title, regions=regions | {"state": told})


def _composite(reader: Reader, composite: CompositeStanding, view: View, viewer: Viewer) -> Content:
    low, high = composite.ratio_low, composite.ratio_high
    ratio = "not known" if low is None or high is None else percent_range(low, high)
    missing = f" Not known: {', '.join(composite.missing)}." if composite.missing else ""
    told = (
        f"Good in all {len(composite.parts)} parts: {ratio}; promised {percent(composite.target)}."
        f"{missing}"
    )
    title = f"{LOOKS[composite.state].symbol} {composite.name[:60]}"
    regions = common_regions(view, viewer, newest_at_s=None, title=title) | {
        "name": [html.Span(name_text(composite.name)), badge(composite.state)],
        "state": html.P(sentence(told)),
        "promises": promise_table(composite.parts, reader, view, viewer),
    }
    return Content(title=title, regions=regions)
