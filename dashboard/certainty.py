"""How sure an alert is: who was looking, what nobody measured, and where the data only give bounds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dash import html
from dash.development.base_component import Component

from alerts import wording
from alerts.evidence import Evidence
from alerts.ledger import AlertRecord, Standing
from collector.query import Reader, Window
from dashboard.alert_places import span_of
from dashboard.parts import badge, sentence
from dashboard.quantity import age, percent_range, span
from dashboard.stages import how_to_measure
from dashboard.theme import State
from dashboard.viewer import Viewer
from domain.indicator import Indicator
from domain.labels import value_of
from domain.objective import HOUR_S
from domain.slice import Tally, tally

__all__ = ["certainty", "edges_text"]

_LATE_S = 180
_STALE_S = 120
_Doubt = tuple[bool, str]
"""Whether it is a reason to doubt, and the words."""


def certainty(
    reader: Reader,
    record: AlertRecord,
    standing: Standing | None,
    evidence: Sequence[Evidence],
    viewer: Viewer,
) -> Component:
    """One line each; what gives reason to doubt comes first."""
    found: list[_Doubt] = []
    if record.open and record.stale:
        found.append(
            (True, "Nobody is looking any more: what stands above is as it was last seen.")
        )
    if standing is not None:
        found += _data(standing, viewer)
        found += _replicas(reader, record, standing, viewer)
    fired = next((each for each in evidence if each.event == "firing"), None)
    if fired is not None:
        found += _bounds(tally(fired.slices), fired)
        found += _edges(reader, record, standing, fired, viewer)
    if record.blame is not None:
        found += [(True, f"Not measured: {how_to_measure(s)}.") for s in record.blame.missing]
    if not found:
        found.append((False, "It rests on no counts: it says what is so, not how often."))
    found.sort(key=lambda each: not each[0])
    return html.Ul([html.Li(_line(*each)) for each in found], className="sure")


def edges_text(reader: Reader, indicator: Indicator, window: Window) -> str:
    """Which limits the source would decide exactly; empty where it decides ours."""
    edges = reader.edges_around(indicator, window)
    if edges is None:
        return ""
    below, above = (wording.seconds(each) for each in edges)
    return (
        f"The limit lies between two edges of the source, {below} and {above}: what falls between "
        "them is possibly good and possibly bad. A limit on an edge, or spans, would make it exact."
    )


def _line(doubt: bool, words: str) -> list[Component]:  # noqa: FBT001 - a pair as it was collected
    state = State.NOT_OBSERVED if doubt else State.HEALTHY
    return [badge(state, word="doubt" if doubt else "sure"), sentence(words)]


def _data(standing: Standing, viewer: Viewer) -> list[_Doubt]:
    if standing.trouble:
        return [(True, f"It is not judged now: {standing.trouble.rstrip('.')}.")]
    old_s = standing.data_age_s(viewer.now_s)
    if old_s is None:
        return [(True, "Nobody has ever been looking.")]
    late = old_s > _LATE_S
    return [(late, f"The newest minute that somebody saw ended {age(old_s)} ago.")]


def _replicas(
    reader: Reader, record: AlertRecord, standing: Standing, viewer: Viewer
) -> list[_Doubt]:
    service = value_of(standing.objective.indicator.where, "service")
    at_s = viewer.now_s if record.resolved_at_s is None else record.resolved_at_s
    hour = Window(since_s=at_s - HOUR_S, until_s=at_s)
    fresh = next((e for e in reader.freshness(hour) if e.service == service), None)
    if fresh is None or not fresh.replicas:
        return []
    seen = sum(at_s - each.last_seen_at_s <= _STALE_S for each in fresh.replicas)
    total = len(fresh.replicas)
    at = "now" if record.open else "at its end"
    return [(seen < total, f"{seen} of {total} replicas of {service[:60]} were heard {at}.")]


def _bounds(counted: Tally, fired: Evidence) -> list[_Doubt]:
    unseen = counted.minutes - counted.observed_minutes
    found = [
        (
            bool(unseen),
            (
                f"{counted.observed_minutes} of {counted.minutes} minutes of the last "
                f"{span(fired.long_s)} were observed when it fired."
            ),
        )
    ]
    if not counted.total:
        return found
    low, high = Fraction(counted.bad_low, counted.total), Fraction(counted.bad_high, counted.total)
    if low == high:
        return [
            *found,
            (False, f"Every one of {counted.total} was counted as good or bad exactly."),
        ]
    return [
        *found,
        (True, f"{percent_range(low, high)} were bad when it fired: the source says no more."),
    ]


def _edges(
    reader: Reader,
    record: AlertRecord,
    standing: Standing | None,
    fired: Evidence,
    viewer: Viewer,
) -> list[_Doubt]:
    counted = tally(fired.slices)
    if standing is None or counted.bad_low == counted.bad_high:
        return []
    text = edges_text(reader, standing.objective.indicator, span_of(record, viewer))
    return [(True, text)] if text else []
