"""One alert in the words of the pages: how bad, of which kind, where, since when, and who has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from alerts.ledger import AlertRecord
from alerts.silence import Silence
from dashboard.parts import badge, clock, link, name_text, quiet
from dashboard.quantity import NOTHING, age
from dashboard.theme import State
from dashboard.url import ALERT, OBJECTIVE, SILENCES, View
from dashboard.viewer import Viewer
from domain.labels import value_of
from domain.objective import Severity

__all__ = [
    "KINDS",
    "acknowledged",
    "kind_of",
    "lasting",
    "objective_link",
    "of_budget",
    "place_text",
    "silenced",
    "stage_text",
    "state_badge",
    "state_of",
    "tags",
    "view_of",
    "view_of_objective",
]

KINDS = ("page", "ticket", "no-data", "condition", "note")
"""What the list of alerts can be narrowed to."""

_STATES = {
    Severity.PAGE: State.PAGE,
    Severity.TICKET: State.TICKET,
    Severity.INFO: State.NO_TRAFFIC,
}
_KIND_WORDS = {"no-data": "no data", "condition": "engine"}


def view_of(alert_id: str) -> View:
    """The page of an alert."""
    return View(alone=ALERT, one=alert_id)


def view_of_objective(objective_id: str, *, span_s: int = 3600) -> View:
    """The page of a promise."""
    return View(alone=OBJECTIVE, one=objective_id, span_s=span_s)


def kind_of(alert: AlertRecord) -> str:
    """One of `KINDS`."""
    if alert.kind != "burn":
        return alert.kind
    return "note" if alert.severity is Severity.INFO else alert.severity.value


def of_budget(alert: AlertRecord) -> bool:
    """Whether it says how low the budget is, and not how fast it burns: then no windows are told."""
    return alert.kind == "burn" and not alert.why


def state_of(alert: AlertRecord) -> State:
    """How bad it is now: what is over is well."""
    return _STATES[alert.severity] if alert.open else State.HEALTHY


def state_badge(alert: AlertRecord) -> Component:
    """Shape, colour and word."""
    if not alert.open:
        return badge(State.HEALTHY, word="over")
    word = "note" if alert.severity is Severity.INFO else alert.severity.value
    return badge(state_of(alert), word=word)


def tags(alert: AlertRecord) -> list[Component]:
    """What else is to be known of it at a glance."""
    words = ["budget" if of_budget(alert) else _KIND_WORDS.get(alert.kind, "")]
    if alert.open:
        words += ["stale"] * alert.stale + ["behind a page"] * alert.inhibited
    return [html.Span(word, className="tag") for word in words if word]


def objective_link(alert: AlertRecord, viewer: Viewer) -> Component:
    """The promise that it is about; an engine has none."""
    name = name_text(alert.objective_name)
    if alert.kind == "condition":
        return html.Span(name)
    return link(name, viewer.href(view_of_objective(alert.objective_id)))


def stage_text(alert: AlertRecord) -> str:
    return (alert.stage or NOTHING).replace("kv_transfer", "KV transfer")


def place_text(alert: AlertRecord) -> str:
    """The replica that stands out; else that none does."""
    if alert.condition is not None:
        labels = alert.condition.labels
        return value_of(labels, "replica") or value_of(labels, "service") or NOTHING
    place = alert.blame.place if alert.blame is not None else None
    if place is None:
        return NOTHING
    if place.stands_out or place.replicas == 1:
        return place.name
    return f"all {place.replicas} {place.of}s alike"


def lasting(alert: AlertRecord, viewer: Viewer) -> list[Component | str]:
    """Since when; of what is over from when to when."""
    since = clock(viewer, alert.started_at_s)
    if alert.resolved_at_s is None:
        return [html.Span(since), quiet(age(viewer.now_s - alert.started_at_s))]
    until = clock(viewer, alert.resolved_at_s)
    took_s = alert.resolved_at_s - alert.started_at_s
    return [html.Span([since, "–", until]), quiet(f"{age(took_s)} long")]


def acknowledged(alert: AlertRecord, viewer: Viewer) -> list[Component | str] | str:
    """Who has it, and until when."""
    taken = alert.response.acknowledgement
    if taken is None:
        return "nobody" if alert.open else NOTHING
    until: list[Component | str] = (
        [] if taken.until_s is None else [quiet(["until ", clock(viewer, taken.until_s)])]
    )
    return [name_text(taken.by), *until]


def silenced(
    alert: AlertRecord, silences: Mapping[str, Silence], viewer: Viewer
) -> Sequence[Component | str] | str:
    """Until when nobody is told of it."""
    if alert.response.silence_id is None:
        return NOTHING
    there = viewer.href(View(alone=SILENCES))
    found = silences.get(alert.response.silence_id)
    if found is None:
        return [link("silenced", there)]
    return [link(["until ", clock(viewer, found.ends_at_s)], there)]
