"""What is wrong with engines themselves, worst first: a sentence each, and what to do next.

What pages is known from the ledger, also after the engine's page has vanished; what was never
alerted on, or is over, from the query door.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from alerts.ledger import AlertRecord, Ledger
from collector.query import Reader
from dashboard.parts import badge, link, name_text, quiet, said, sentence
from dashboard.theme import State, css_class
from dashboard.url import View
from dashboard.viewer import Viewer
from domain import condition as words
from domain.condition import Condition, ConditionKind, condition_id, next_step
from domain.labels import Labels, value_of
from domain.objective import Severity

__all__ = ["Told", "condition_list", "conditions_told", "short_name"]

MOST_ROWS = 8
DOWN_FOR_S = 30
"""An engine that missed a scrape or two is not called down."""

_KINDS = tuple(kind for kind in ConditionKind if kind is not ConditionKind.NOT_REPORTED)
_STATES = {
    ConditionKind.STALLED: State.PAGE,
    ConditionKind.DOWN: State.TICKET,
    ConditionKind.SILENT: State.NOT_OBSERVED,
    ConditionKind.DRIFT: State.NOT_OBSERVED,
    ConditionKind.SUSPECT: State.NOT_OBSERVED,
    ConditionKind.LOST: State.NOT_OBSERVED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One line: how bad, of whom, what and what next."""

    state: State
    word: str
    labels: Labels
    message: str
    next_step: str
    kind: ConditionKind
    over: bool = False

    @property
    def alarming(self) -> bool:
        return self.state is State.PAGE and not self.over


def conditions_told(
    reader: Reader, ledger: Ledger, view: View, viewer: Viewer, where: Labels = ()
) -> list[Told]:
    """Everything that is wrong at the end of the window, worst first."""
    at_s = view.window(viewer.now_s).until_s
    alerts = {each.objective_id: each for each in ledger.conditions()} if view.live else {}
    found = [
        _told(each, alerts.pop(condition_id(each.kind, each.labels), None), at_s)
        for each in reader.conditions(at_s, where=where, kinds=_KINDS)
        if _matters(each)
    ]
    found += [
        _of_alert(each)
        for each in alerts.values()
        if each.condition is not None and _is_of(each.condition.labels, where)
    ]
    order, kinds = list(State), list(ConditionKind)
    return sorted(
        _together(found), key=lambda e: (e.over, order.index(e.state), kinds.index(e.kind))
    )


def condition_list(
    told: Sequence[Told], view: View, viewer: Viewer, *, leaving_out: Told | None = None
) -> Component | None:
    """A line each; None where nothing is wrong. `leaving_out`: what the page says already."""
    rest = [each for each in told if each is not leaving_out]
    if not rest:
        return None
    rows = [_row(each, view, viewer) for each in rest[:MOST_ROWS]]
    more = len(rest) - len(rows)
    if more > 0:
        rows.append(html.Li(quiet(f"and {more} more: stagewatch query conditions")))
    return html.Ul(rows, className="conditions", **said("What is wrong with engines"))


def short_name(told: Told) -> str:
    """For the title of a tab."""
    place = value_of(told.labels, "replica") or value_of(told.labels, "service")
    return f"{place[:40]} {'stands still' if told.kind is ConditionKind.STALLED else told.word}"


def _row(told: Told, view: View, viewer: Viewer) -> Component:
    then = [html.Span(f" Next: {told.next_step}.", className="quiet")] if told.next_step else []
    return html.Li(
        [
            html.Div([badge(told.state, word=told.word), *_place(told.labels, view, viewer)]),
            html.P([sentence(told.message), *then]),
        ],
        className=css_class(told.state),
    )


def _place(labels: Labels, view: View, viewer: Viewer) -> list[Component]:
    """The way to the service, from elsewhere."""
    service = value_of(labels, "service")
    if not service or service == view.service:
        return []
    target = View(service=service, span_s=view.span_s, fixed=view.fixed)
    return [html.Div(link(name_text(service), viewer.href(target)))]


def _told(condition: Condition, alert: AlertRecord | None, at_s: int) -> Told:
    stale = condition.stale(at_s) and condition.kind in words.ALARMING
    return Told(
        state=State.HEALTHY if condition.over else _state(condition, alert),
        word=f"{condition.kind}, over" if condition.over else _word(condition.kind, stale=stale),
        labels=condition.labels,
        message=words.sentence(condition, at_s=at_s),
        next_step="" if condition.over else next_step(condition),
        kind=condition.kind,
        over=condition.over,
    )


def _of_alert(alert: AlertRecord) -> Told:
    """An alert of which nothing new is heard: its own words."""
    if alert.condition is None:
        raise ValueError(f"an alert of a condition has one: {alert.id}")
    kind = alert.condition.kind
    return Told(
        state=State.PAGE if alert.severity is Severity.PAGE else State.TICKET,
        word=_word(kind, stale=alert.stale),
        labels=alert.condition.labels,
        message=alert.message,
        next_step="",  # the message of an alert names it
        kind=kind,
    )


def _state(condition: Condition, alert: AlertRecord | None) -> State:
    if alert is not None:
        return State.PAGE if alert.severity is Severity.PAGE else State.TICKET
    return _STATES[condition.kind]


def _word(kind: ConditionKind, *, stale: bool) -> str:
    return f"{kind}, stale" if stale else str(kind)


def _matters(condition: Condition) -> bool:
    if condition.kind is ConditionKind.DOWN:
        return not condition.over and condition.seen_at_s - condition.since_s >= DOWN_FOR_S
    return condition.kind is ConditionKind.STALLED or not condition.over


def _is_of(labels: Labels, where: Labels) -> bool:
    """What is asked for and not told does not exclude: an alert may know less than a series."""
    told = dict(labels)
    return all(told.get(name, value) == value for name, value in where)


def _together(found: Sequence[Told]) -> list[Told]:
    """Many replicas of one service that fell silent are one line: a rollout, or a network."""
    silent: dict[str, list[Told]] = {}
    for each in found:
        if each.kind is ConditionKind.SILENT:
            silent.setdefault(value_of(each.labels, "service"), []).append(each)
    many = {service: lines for service, lines in silent.items() if len(lines) > 1}
    kept = [
        each
        for each in found
        if each.kind is not ConditionKind.SILENT or value_of(each.labels, "service") not in many
    ]
    return kept + [
        Told(
            state=State.NOT_OBSERVED,
            word=str(ConditionKind.SILENT),
            labels=(("service", service),) if service else (),
            message=(
                f"{len(lines)} replicas of {service or 'an unnamed service'} have fallen silent "
                "in the last 15 minutes: neither well nor down."
            ),
            next_step=lines[0].next_step,
            kind=ConditionKind.SILENT,
        )
        for service, lines in many.items()
    ]
