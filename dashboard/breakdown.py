"""A service by replica, model, role or region: one row each, the worst first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from collector.query import NumberPoint, Reader, Replica, Selection, Stages, Window
from dashboard.flows import per_s, since_text, unfinished_text, watched
from dashboard.measure import P50, P99
from dashboard.measure import before as before_it
from dashboard.parts import Cell, badge, link, name_text, quiet, stage_bar, table
from dashboard.quantity import NOTHING, age, count, percent, quantile_text, rate, rate_unit
from dashboard.stages import compare, guilty_text
from dashboard.theme import State
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.labels import value_of

__all__ = ["Group", "breakdown", "named_twice", "worst_first"]

MOST_ROWS = 20
MOST_COMPARED = 100
"""Of more groups than this, the time before is not asked for: it would double the wait."""

STALE_S = 120
_RECENT_S = 300  # what was last said longer ago is no reading of now
_GAUGES = ("requests_running", "requests_waiting", "kv_cache_usage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One row: what is known of one value of a label."""

    name: str
    now: Stages | None
    before: Stages | None
    replica: Replica | None
    gauges: Mapping[str, NumberPoint]

    @property
    def badness(self) -> tuple[bool, float, int]:
        """Down first, then slow, then with much unfinished."""
        found = self.now.ttft.quantile(P99) if self.now is not None else None
        unfinished = self.now.flow.unfinished_low if self.now is not None else None
        down = self.replica is not None and self.replica.up is False
        return (down, found.high_s if found is not None else 0.0, unfinished or 0)


def worst_first(reader: Reader, selection: Selection, view: View) -> list[Group]:
    """Every value of the label that the page is split by, or every replica."""
    by = view.label or "replica"
    window = selection.window
    now = _stages(reader, Selection(window=window, where=selection.where, by=(by,)), by)
    asked = Selection(window=before_it(window), where=selection.where, by=(by,), counted=False)
    before = _stages(reader, asked, by) if len(now) <= MOST_COMPARED else {}
    gauges = {name: _last(reader, name, selection, by) for name in _GAUGES}
    replicas = _replicas(reader, view, window) if by == "replica" else {}
    names = {*now, *replicas, *(name for each in gauges.values() for name in each)} - {""}
    groups = [
        Group(
            name=name,
            now=now.get(name),
            before=before.get(name),
            replica=replicas.get(name),
            gauges={gauge: each[name] for gauge, each in gauges.items() if name in each},
        )
        for name in sorted(names)
    ]
    return sorted(groups, key=lambda group: group.badness, reverse=True)


def breakdown(
    worst: Sequence[Group], window: Window, view: View, viewer: Viewer
) -> list[Component]:
    """The table, and how many rows it leaves out."""
    by = view.label or "replica"
    heading = html.H2(f"By {by}")
    if not worst:
        return [heading, html.P(quiet(f"No {by} was heard in this window."))]
    columns = (
        by.capitalize(),
        *(("Up",) if by == "replica" else ()),
        "Requests",
        "TTFT P50",
        "TTFT P99",
        "E2E P99",
        "Where the time goes",
        "Running",
        "Waiting",
        "KV cache",
        "Started − finished",
    )
    shown = worst[:MOST_ROWS]
    unit = rate_unit(_per_s(group, window) for group in shown)
    rows = [_row(group, window, unit, view, viewer) for group in shown]
    parts: list[Component] = [heading, table(f"By {by}, worst first", columns, rows)]
    twice = named_twice([group.replica for group in worst if group.replica is not None])
    if twice is not None:
        parts.append(_named_twice(*twice))
    if len(worst) > MOST_ROWS:
        parts.append(html.P(quiet(f"and {len(worst) - MOST_ROWS} more that do better")))
    return parts


def named_twice(replicas: Sequence[Replica]) -> tuple[str, str] | None:
    """One name of each kind, where spans and sidecar call all replicas by different names."""
    by_span, by_page = (
        {value_of(each.labels, "replica") for each in replicas if source in each.sources} - {""}
        for source in ("span", "page")
    )
    if not by_span or not by_page or by_span & by_page:
        return None
    return min(by_span), min(by_page)


def _named_twice(by_span: str, by_page: str) -> Component:
    return html.P(
        quiet(
            [
                "Are these the same replicas under two names? Spans say ",
                name_text(by_span),
                ", the sidecar says ",
                name_text(by_page),
                ". Give each target the ",
                html.Code("replica"),
                " that its spans call ",
                html.Code("service.instance.id"),
                ", and they become one.",
            ]
        )
    )


def _stages(reader: Reader, selection: Selection, by: str) -> Mapping[str, Stages]:
    return {value_of(each.labels, by): each for each in reader.stages(selection)}


def _last(reader: Reader, gauge: str, selection: Selection, by: str) -> dict[str, NumberPoint]:
    until_s = selection.window.until_s
    recent = Window(since_s=max(selection.window.since_s, until_s - _RECENT_S), until_s=until_s)
    found = reader.numbers(gauge, Selection(window=recent, where=selection.where, by=(by,)))
    return {value_of(each.labels, by): each.points[-1] for each in found if each.points}


def _replicas(reader: Reader, view: View, window: Window) -> dict[str, Replica]:
    wanted = dict(view.where)
    return {
        value_of(replica.labels, "replica"): replica
        for each in reader.freshness(window, service=view.service)
        for replica in each.replicas
        if all(
            value_of(replica.labels, name) == value
            for name, value in wanted.items()
            if name != "service" and value_of(replica.labels, name)
        )
    }


def _row(group: Group, window: Window, unit: str, view: View, viewer: Viewer) -> list[Cell]:
    by = view.label or "replica"
    now = group.now
    rows = compare(now, group.before) if now is not None else []
    bar = html.Div([stage_bar(rows), quiet(guilty_text(rows))], className="stages")
    ttft = now.ttft if now is not None else None
    return [
        Cell(link(name_text(group.name), viewer.href(view.only(by, group.name)))),
        *([Cell(_up(group.replica, viewer))] if by == "replica" else []),
        Cell(_requests(group, window, unit, viewer), number=True),
        Cell(quantile_text(ttft, P50), number=True),
        Cell(quantile_text(ttft, P99), number=True),
        Cell(quantile_text(now.e2e if now is not None else None, P99), number=True),
        Cell(bar if rows else quiet(NOTHING), broad=True),
        *(Cell(_gauge(group, name, viewer), number=True) for name in _GAUGES),
        Cell(unfinished_text(now.flow if now is not None else None), number=True),
    ]


def _over(group: Group, window: Window) -> Window:
    return watched(window, group.replica.since_s if group.replica is not None else None)


def _per_s(group: Group, window: Window) -> float | None:
    return per_s(group.now, _over(group, window))


def _requests(
    group: Group, window: Window, unit: str, viewer: Viewer
) -> str | list[Component | str]:
    text = rate(_per_s(group, window), unit=unit)
    since = since_text(window, _over(group, window), viewer)
    return [text, quiet(since)] if since and group.now is not None else text


def _gauge(group: Group, name: str, viewer: Viewer) -> str:
    """The last reading; a replica that is down or silent has none that is worth showing."""
    point, replica = group.gauges.get(name), group.replica
    gone = replica is not None and (
        replica.up is False or viewer.now_s - replica.last_seen_at_s > STALE_S
    )
    if point is None or gone:
        return NOTHING
    return percent(point.last) if name == "kv_cache_usage" else count(point.last)


def _up(replica: Replica | None, viewer: Viewer) -> Component | Sequence[Component]:
    if replica is None or replica.up is None:
        return quiet("nobody asks")
    silent_s = viewer.now_s - replica.last_seen_at_s
    if silent_s > STALE_S:
        return [badge(State.NOT_OBSERVED, word=f"silent {age(silent_s)}")]
    return [badge(State.HEALTHY if replica.up else State.PAGE, word="up" if replica.up else "down")]
