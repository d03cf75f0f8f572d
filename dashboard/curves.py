"""The charts of the service page: each with its sentence and its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from alerts.ledger import Standing
from collector.query import Reader, Selection, Window
from dashboard.exemplars import exemplars, requests_of_step
from dashboard.figures import Band, Figure, Frame, Instant, Line, Mark, Threshold, chart
from dashboard.measure import (
    A_WEEK_AGO,
    LONG_DASHES,
    MOST_LINES,
    Curve,
    curves,
    drawn,
    stage_lines,
    week_ago,
)
from dashboard.parts import Cell, link, quiet, table
from dashboard.quantity import NOTHING, seconds, seconds_range
from dashboard.stages import StageRow, guilty_text, stage_word
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.indicator import GoodputIndicator, Indicator, LatencyIndicator, Limit
from domain.labels import Labels, value_of
from domain.request import Stage

__all__ = ["CHARTS", "chart_regions", "stack_regions"]

CHARTS = {
    "ttft": ("Time to first token", "TTFT"),
    "itl": ("Between tokens", "ITL"),
    "tpot": ("Per output token", "TPOT"),
    "e2e": ("To the last token", "E2E"),
}
RANGE_WORD = "range: the engine's buckets do not say more"
MOST_ROWS = 12


def chart_regions(
    reader: Reader,
    selection: Selection,
    standings: Sequence[Standing],
    *,
    names: Sequence[str],
    marks: Sequence[Mark],
    instants: Sequence[Instant] = (),
    view: View,
    viewer: Viewer,
) -> tuple[dict[str, Figure], dict[str, Any]]:
    """Four figures of the same groups, the worst of `names`, and what stands around them."""
    frame = _frame(selection.window, view, viewer)
    figures: dict[str, Figure] = {}
    regions: dict[str, Any] = {}
    for metric in CHARTS:
        found = dict(curves(reader, metric, selection, view.label, names))
        if view.a_week_ago:
            found |= week_ago(reader, metric, selection, view.label, names)
        threshold = _threshold(standings, metric, value_of(selection.where, "source"))
        lines, bands = _lines(found, viewer)
        figures[metric] = chart(
            lines, bands, frame=frame, threshold=threshold, marks=marks, instants=instants
        )
        meta = exemplars(metric, selection.where, found, viewer)
        figures[metric]["layout"] |= {"meta": meta}
        regions[f"caption-{metric}"] = _caption(metric, found, threshold, view)
        regions[f"table-{metric}"] = _table(metric, found, selection.where, viewer)
    return figures, regions


def stack_regions(
    reader: Reader,
    selection: Selection,
    rows: Sequence[StageRow],
    *,
    marks: Sequence[Mark],
    instants: Sequence[Instant] = (),
    view: View,
    viewer: Viewer,
) -> tuple[dict[str, Figure], dict[str, Any]]:
    """Mean seconds per stage over time."""
    lines = stage_lines(reader, selection, Stage, viewer)
    frame = _frame(selection.window, view, viewer)
    figure = chart(lines, [], frame=frame, marks=marks, instants=instants)
    told = guilty_text(rows)
    sentence = f"Mean time per stage; {told}." if rows else "No stage was measured."
    body = [[Cell(stage_word(row.stage)), Cell(seconds(row.now_s), number=True)] for row in rows]
    return {"stack": figure}, {
        "caption-stack": [html.H3("Stages over time"), html.P(sentence, className="quiet")],
        "table-stack": table("Mean per stage", ("Stage", "Mean"), body),
    }


def _frame(window: Window, view: View, viewer: Viewer) -> Frame:
    ends = viewer.axis_ms(np.array([window.since_s, window.until_s], np.float64))
    return Frame(
        since_ms=float(ends[0]),
        until_ms=float(ends[1]),
        zone=viewer.offset_word(),
        zoom=view.link(),
    )


def _lines(found: Mapping[str, Curve], viewer: Viewer) -> tuple[list[Line], list[Band]]:
    lines: list[Line] = []
    bands: list[Band] = []
    for rank, (name, each) in enumerate(found.items()):
        ago = name == A_WEEK_AGO
        more_lines, more_bands = drawn(each, viewer, name=name, rank=LONG_DASHES if ago else rank)
        lines += more_lines
        bands += more_bands
    return lines, bands


def _threshold(standings: Sequence[Standing], metric: str, source: str) -> Threshold | None:
    """The tightest promise about what the chart shows: not one about another source."""
    promised_s = [
        limit.threshold_s
        for each in standings
        if value_of(each.objective.indicator.where, "source") in ("", source)
        for limit in _limits(each.objective.indicator)
        if limit.metric == metric
    ]
    if not promised_s:
        return None
    value_s = float(min(promised_s))
    return Threshold(value=value_s, label=f"promise {seconds(value_s)}")


def _limits(indicator: Indicator) -> tuple[Limit, ...]:
    """What it promises of latencies of our own requests; an endpoint's are drawn elsewhere."""
    return indicator.limits if isinstance(indicator, LatencyIndicator | GoodputIndicator) else ()


def _caption(
    metric: str, found: Mapping[str, Curve], threshold: Threshold | None, view: View
) -> list[Component]:
    title, short = CHARTS[metric]
    told = _told(found)
    coarse = any(np.isnan(each.value_s[~np.isnan(each.low_s)]).any() for each in found.values())
    parts = [", ".join(told)] if any(_known(each) for each in found.values()) else ["no values"]
    if view.label and len(found.keys() - {A_WEEK_AGO}) >= MOST_LINES:
        parts.append(f"P99 of the {MOST_LINES} worst by {view.label}")
    elif view.label:
        parts.append(f"P99 by {view.label}")
    if view.a_week_ago and not (A_WEEK_AGO in found and _known(found[A_WEEK_AGO])):
        parts.append("nothing is kept of a week ago")
    if threshold is not None:
        parts.append(threshold.label)
    if coarse:
        parts.append(RANGE_WORD)
    return [
        html.H3([title, " ", html.Abbr(short)]),
        html.P([html.Span(part) for part in parts], className="quiet dots"),
    ]


def _told(found: Mapping[str, Curve]) -> list[str]:
    """The first three, and beside them what the first was a week ago."""
    lately = [name for name in found if name != A_WEEK_AGO]
    told = [f"{name} {_newest(found[name])}" for name in lately[:3]]
    if A_WEEK_AGO in found and _known(found[A_WEEK_AGO]):
        told.append(f"{lately[0]} {_newest(found[A_WEEK_AGO])} {A_WEEK_AGO}")
    return told


def _known(found: Curve) -> bool:
    return bool((~np.isnan(found.low_s)).any())


def _newest(found: Curve) -> str:
    known = np.flatnonzero(~np.isnan(found.low_s))
    return _text(found, int(known[-1])) if len(known) else NOTHING


def _text(found: Curve, place: int) -> str:
    if not np.isnan(found.value_s[place]):
        return seconds(float(found.value_s[place]))
    if np.isnan(found.low_s[place]):
        return NOTHING
    return seconds_range(float(found.low_s[place]), float(found.high_s[place]))


def _table(metric: str, found: Mapping[str, Curve], where: Labels, viewer: Viewer) -> Component:
    """The newest steps that have values, newest first; each a way to its requests."""
    if not found:
        return html.P(quiet("no values"))
    any_curve = next(iter(found.values()))
    known = np.logical_or.reduce([~np.isnan(each.low_s) for each in found.values()])
    places = np.flatnonzero(known)[::-1][:MOST_ROWS]
    rows = [
        [
            Cell(_step(metric, where, any_curve, int(place), viewer)),
            *(Cell(_text(each, int(place)), number=True) for each in found.values()),
        ]
        for place in places
    ]
    caption = f"{CHARTS[metric][1]}, the newest {len(rows)} of {int(known.sum())} steps"
    return table(caption, ("From", *found), rows, hidden_caption=False)


def _step(metric: str, where: Labels, found: Curve, place: int, viewer: Viewer) -> Component | str:
    at = viewer.clock(int(found.since_s[place]), seconds=True)
    there = requests_of_step(metric, where, found, place, viewer)
    return at if there is None else link(at, there)
