"""Promises as rows: state, budget, burn, quantile, minutes, age, and the sentence of the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dash import html
from dash.development.base_component import Component

from alerts import wording
from alerts.ledger import Standing
from collector.query import Reader, Selection, Stages, Window
from dashboard.alert_words import view_of, view_of_objective
from dashboard.budget_words import burn_text
from dashboard.measure import together
from dashboard.minutes import strip
from dashboard.parts import Cell, badge, link, meter, name_text, quiet, sentence, table
from dashboard.quantity import NOTHING, age, percent_range, quantile_text
from dashboard.theme import State, css_class
from dashboard.url import ALERTS, View
from dashboard.viewer import Viewer
from domain.distribution import Distribution
from domain.indicator import LatencyIndicator
from domain.labels import Labels, value_of
from domain.slice import Tally

__all__ = ["promise_table", "state_of", "summary", "worst_first"]

MOST_ROWS = 40
_WORTH_LEAVING_OUT = 60
WORST_FIRST = list(State)
_COUNTED = {
    State.PAGE: "paging",
    State.TICKET: "with a ticket",
    State.NOT_OBSERVED: "not observed",
    State.NO_TRAFFIC: "without traffic",
    State.HEALTHY: "kept",
}


def state_of(standing: Standing) -> State:
    """The ledger's word; a page never judges for itself."""
    return standing.state


def worst_first(standings: Sequence[Standing]) -> list[Standing]:
    """The worst state on top; among equals the one that has least left."""
    return sorted(standings, key=lambda each: (WORST_FIRST.index(each.state), _left(each)))


def summary(standings: Sequence[Standing]) -> Component:
    """All promises in one line: how many are in which state, worst first."""
    total = len(standings)
    if all(each.state is State.HEALTHY for each in standings):
        kept = f"Every promise is kept: {total} of {total}."
        return html.P([badge(State.HEALTHY, word=kept)])
    counts = {state: sum(each.state is state for each in standings) for state in State}
    told = [badge(s, word=f"{n} {_COUNTED[s]}") for s, n in counts.items() if n]
    of_all = f"of {total} promise{'s' if total != 1 else ''}"
    return html.P([*told, html.Span(of_all, className="of")], className="tally")


def promise_table(
    standings: Sequence[Standing],
    reader: Reader,
    view: View,
    viewer: Viewer,
    *,
    said: str = "",
    services: Sequence[Stages] = (),
) -> Component:
    """The worst promises, one row each. `said`: a message that the page shows already.

    `services`: what is known of every service in this window, so that it is not read again.
    """
    shown = worst_first(standings)[:MOST_ROWS]
    columns = ("Promise", "Budget left", "Burn, last hour", "Measured", "Minutes", "Data")
    told = _without_repetition(shown, said)
    latencies = _Latencies(reader, view.window(viewer.now_s), shown, services)
    rows = [
        _row(each, latencies, viewer=viewer, view=view, message=told[each.id]) for each in shown
    ]
    marks = [f"promise {css_class(each.state)}" for each in shown]
    parts: list[Component] = [table("Promises, worst first", columns, rows, marks=marks)]
    if len(standings) > len(shown):
        parts.append(html.P(quiet(f"and {len(standings) - len(shown)} more; press / to find one")))
    return html.Div(parts)


def _without_repetition(standings: Sequence[Standing], said: str) -> dict[str, str]:
    """What each row says: nothing that the page, its badge or a row above says already."""
    found: dict[str, str] = {}
    above: list[tuple[str, str]] = []
    for each in standings:
        name = each.objective.name
        message = "" if each.message in (said, f"{name} is not observed.") else each.message
        for other, told in above:
            repeated = _same_end(message, told)
            if repeated:
                whose = f"The rest as for {other}, above."
                message = f"{message.removesuffix(repeated).rstrip()} {whose}"
                break
        above.append((name, each.message))
        found[each.id] = message
    return found


def _same_end(message: str, other: str) -> str:
    """The longest run of whole sentences that ends both; nothing where it is short."""
    at = 0
    while (at := message.find(". ", at)) >= 0:
        at += 2
        end = message[at:]
        if len(end) >= _WORTH_LEAVING_OUT and other.endswith(f". {end}"):
            return end
    return ""


class _Latencies:
    """What promises speak of, over one window: each read once, and those of many services together."""

    def __init__(
        self,
        reader: Reader,
        window: Window,
        standings: Sequence[Standing],
        services: Sequence[Stages] = (),
    ) -> None:
        self._reader, self._window = reader, window
        self._known: dict[tuple[str, Labels], Distribution | None] = {
            (metric, each.labels): found
            for each in services
            for metric, found in (("ttft", each.ttft), ("e2e", each.e2e))
            if found.n
        }
        asked = {
            (indicator.metric, indicator.where)
            for each in standings
            if isinstance(indicator := each.objective.indicator, LatencyIndicator)
        }
        asked -= self._known.keys()
        plain = Counter(metric for metric, where in asked if _is_of_a_service(where))
        for metric, number in plain.items():
            if number > 1:
                self._read_every_service(metric)

    def of(self, indicator: LatencyIndicator) -> Distribution | None:
        """None where nothing was measured."""
        key = (indicator.metric, indicator.where)
        if key not in self._known:
            asked = Selection(window=self._window, where=indicator.where)
            self._known[key] = together(self._reader.latency(indicator.metric, asked))
        return self._known[key]

    def _read_every_service(self, metric: str) -> None:
        # why by no other label: whom to believe is decided service by service
        asked = Selection(window=self._window, by=("service",))
        for each in self._reader.latency(metric, asked):
            self._known.setdefault((metric, each.labels), together([each]))


def _is_of_a_service(where: Labels) -> bool:
    return len(where) == 1 and where[0][0] == "service"


def _row(
    standing: Standing, latencies: _Latencies, *, view: View, viewer: Viewer, message: str
) -> list[Cell]:
    seen_s = standing.data_age_s(viewer.now_s)
    data = "never seen" if seen_s is None else f"{age(seen_s)} old"
    return [
        Cell(
            [
                html.Div([_name(standing, viewer), _state(standing)], className="title"),
                html.P(sentence(message) if message else None, className="message"),
                html.P(_ways(standing, view, viewer), className="ways dots"),
            ]
        ),
        Cell(_budget(standing), number=True),
        Cell(_burn(standing), number=True),
        Cell(_measured(standing, latencies), number=True),
        Cell(strip(standing.slices), broad=True),
        Cell(quiet(data), number=True),
    ]


def _name(standing: Standing, viewer: Viewer) -> Component:
    name = html.Strong(name_text(standing.objective.name))
    return link(name, viewer.href(view_of_objective(standing.id)))


def _ways(standing: Standing, view: View, viewer: Viewer) -> list[Component]:
    """To its open alerts, and to its service from elsewhere."""
    ways = [link("the alert", viewer.href(view_of(each))) for each in standing.alert_ids[:1]]
    if len(standing.alert_ids) > 1:
        every = View(alone=ALERTS, find=standing.objective.name)
        ways.append(link(f"and {len(standing.alert_ids) - 1} more", viewer.href(every)))
    service = value_of(standing.objective.indicator.where, "service")
    if service and service != view.service:
        there = View(service=service, span_s=view.span_s, fixed=view.fixed)
        ways.append(link(name_text(service), viewer.href(there)))
    return [html.Span(each) for each in ways]


def _state(standing: Standing) -> Component:
    stale = [html.Span("stale", className="tag")] if standing.stale else []
    return html.Span([badge(standing.state), *stale], className="at")


def _budget(standing: Standing) -> list[Component | str]:
    low, high = standing.budget.remaining_low, standing.budget.remaining_high
    if low is None or high is None:
        return [quiet("no traffic yet")]
    text = percent_range(low, high)
    bar = meter(float(low), label=f"{text} of the budget left", state=standing.state)
    return [html.Span(text), bar, *_exhausted(standing, low)]


def _exhausted(standing: Standing, low: Fraction) -> list[Component]:
    """When the budget ends at the burn of the last hour, if that is soon enough to matter."""
    ends_s = standing.exhausted_in_s
    if low <= 0:
        return [quiet("spent")]
    if ends_s is None or ends_s >= standing.objective.period_s:
        return []
    return [quiet(f"gone in {age(ends_s)}")]


def _burn(standing: Standing) -> Any:
    low, high = standing.burn_low, standing.burn_high
    if low is None or high is None:
        observed = standing.last_hour.observed_minutes
        return quiet("no traffic" if observed else "not observed")
    return html.Span(burn_text((low, high)))


def _measured(standing: Standing, latencies: _Latencies) -> list[Component]:
    """A quantile of latencies; of the other kinds the share that was good in the last hour."""
    objective = standing.objective
    indicator = objective.indicator
    if isinstance(indicator, LatencyIndicator) and objective.slices is None:
        found = quantile_text(latencies.of(indicator), objective.target)
        value = "no values" if found == NOTHING else found
    else:
        value = _good(standing.last_hour)
    return [html.Span(value), quiet(wording.promised(objective))]


def _good(counted: Tally) -> str:
    """The share that was good, from what surely was to what possibly was."""
    if not counted.total:
        return "no traffic" if counted.observed_minutes else "not observed"
    total = counted.total
    return percent_range(Fraction(counted.good_low, total), Fraction(counted.good_high, total))


def _left(standing: Standing) -> float:
    low = standing.budget.remaining_low
    return float("inf") if low is None else float(low)
