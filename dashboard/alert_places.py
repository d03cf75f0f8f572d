"""Where an alert's time went: its stages against the same hours last week, and its worst replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from alerts.blame import stage_metric
from alerts.ledger import AlertRecord, Standing
from collector.query import Reader, Selection, Stages, Window
from dashboard.alert_words import of_budget
from dashboard.measure import P99
from dashboard.parts import Cell, link, name_text, quiet, stage_bar, table
from dashboard.quantity import NOTHING, count, quantile_text, seconds
from dashboard.stages import StageRow, compare, guilty, stage_word
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.labels import Labels, project, value_of
from domain.objective import DAY_S, HOUR_S

__all__ = ["span_of", "stage_comparison", "worst_places"]

_BEFORE_S = 300
_LEAST_S = 900
_MOST_S = 6 * HOUR_S
_WEEK_S = 7 * DAY_S
_MOST_ROWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """The stages then, and in the same hours of an earlier time."""

    rows: Sequence[StageRow]
    against: str


def span_of(record: AlertRecord, viewer: Viewer) -> Window:
    """While it burnt: from just before it fired to its end, six hours at most, never beyond now."""
    end_s = viewer.now_s if record.resolved_at_s is None else record.resolved_at_s
    since_s = record.started_at_s - _BEFORE_S
    until_s = min(end_s, since_s + _MOST_S)
    return Window(since_s=min(since_s, until_s - _LEAST_S), until_s=until_s)


def stage_comparison(
    reader: Reader, record: AlertRecord, standing: Standing | None, viewer: Viewer
) -> Component | None:
    """Now against the same hours last week; against the time before where nobody looked then."""
    where = _where(record, standing)
    if where is None:
        return _no_stage(record, viewer)
    window = span_of(record, viewer)
    now = _stages(reader, window, where)
    if now is None:
        return html.P(quiet("No stage was measured while it burnt."))
    compared = _compared(reader, window, where, now)
    worst = guilty(compared.rows)
    body = [
        [
            Cell([html.Span(className=f"key stage-{row.stage}"), stage_word(row.stage)]),
            Cell(seconds(row.now_s), number=True),
            Cell(seconds(row.before_s), number=True),
            Cell(quantile_text(row.distribution, P99), number=True),
        ]
        for row in compared.rows
    ]
    marks = ["guilty" if row is worst else "" for row in compared.rows]
    columns = ("Stage", "While it burnt", compared.against, "P99")
    caption = f"Mean of each stage while it burnt, against: {compared.against}"
    return html.Div([stage_bar(compared.rows), table(caption, columns, body, marks=marks)])


def _no_stage(record: AlertRecord, viewer: Viewer) -> Component:
    """Where to look of an alert that no stage of a request explains."""
    labels = () if record.condition is None else record.condition.labels
    service, replica = value_of(labels, "service"), value_of(labels, "replica")
    if not service or not replica:
        return html.P(quiet("No stage of a request explains it: it is not about latency."))
    view = View(service=service, fixed=span_of(record, viewer)).only("replica", replica)
    place = link(name_text(replica), viewer.href(view))
    return html.P([place, quiet(" while it lasted: its requests and its stages")])


def worst_places(
    reader: Reader, record: AlertRecord, standing: Standing | None, viewer: Viewer
) -> Component | None:
    """The replicas where the blamed stage was longest, beside the median one."""
    where = _where(record, standing)
    stage = record.blame.stage if record.blame is not None else None
    if where is None or stage is None:
        return None
    window = span_of(record, viewer)
    by = ("service", "replica", "pool", "role")
    found = reader.stages(Selection(window=window, where=where, by=by))
    means = [
        (share.mean_s, each)
        for each in found
        for share in each.stages
        if share.stage is stage and share.mean_s is not None and value_of(each.labels, "replica")
    ]
    if not means:
        return None
    means.sort(key=lambda pair: -pair[0])
    like = _work(means[0][1].labels)
    means = [each for each in means if _work(each[1].labels) == like]
    values = sorted(mean_s for mean_s, _ in means)
    median_s = values[(len(values) - 1) // 2]
    body = [
        [
            Cell(_replica(each, window, viewer)),
            Cell(seconds(mean_s), number=True),
            Cell(f"{mean_s / median_s:.2g} ×" if median_s else NOTHING, number=True),
            Cell(count(each.e2e.n), number=True),
        ]
        for mean_s, each in means[:_MOST_ROWS]
    ]
    columns = ("Replica", f"Mean {stage_word(stage)}", "The median times", "Requests")
    caption = f"Replicas by mean {stage_word(stage)}, the worst first"
    more = len(means) - _MOST_ROWS
    median = (
        f"{'and ' + str(more) + ' that do better; ' if more > 0 else ''}median {seconds(median_s)}"
    )
    return html.Div([table(caption, columns, body), html.P(quiet(median))])


def _work(labels: Labels) -> Labels:
    """A prefill replica's queue says nothing of a decode replica's."""
    return project(labels, ("service", "pool", "role"))


def _replica(each: Stages, window: Window, viewer: Viewer) -> Component:
    service, replica = value_of(each.labels, "service"), value_of(each.labels, "replica")
    if not service:
        return name_text(replica)
    view = View(service=service, fixed=window).only("replica", replica)
    return link(name_text(replica), viewer.href(view))


def _where(record: AlertRecord, standing: Standing | None) -> Labels | None:
    """Whose stages they are; None where no stage of a request explains it."""
    if standing is None or record.kind != "burn" or of_budget(record):
        return None
    indicator = standing.objective.indicator
    return indicator.where if stage_metric(indicator) is not None else None


def _stages(reader: Reader, window: Window, where: Labels) -> Stages | None:
    return next(iter(reader.stages(Selection(window=window, where=where))), None)


def _compared(reader: Reader, window: Window, where: Labels, now: Stages) -> _Compared:
    week = Window(since_s=window.since_s - _WEEK_S, until_s=window.until_s - _WEEK_S)
    before = _stages(reader, week, where)
    if before is not None and before.stages:
        return _Compared(rows=compare(now, before), against="A week before")
    earlier = Window(since_s=window.since_s - HOUR_S, until_s=window.since_s)
    return _Compared(rows=compare(now, _stages(reader, earlier, where)), against="The hour before")
