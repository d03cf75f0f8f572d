"""The charts of the requests page: percentiles over time, and each request by its prompt's length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component
from numpy.typing import NDArray

from alerts.ledger import Standing
from collector.query import Reader, Selection
from dashboard.figures import Band, Figure, Frame, Line, Threshold, chart
from dashboard.measure import P50, P99, Curve, curve, step_s
from dashboard.parts import Cell, link, quiet, table
from dashboard.quantity import NOTHING, count, seconds, seconds_range
from dashboard.scatter import Cloud, cloud_figure
from dashboard.url import REQUEST, View
from dashboard.viewer import Viewer
from domain.indicator import GoodputIndicator, LatencyIndicator
from domain.labels import value_of
from domain.request import Outcome
from domain.request_columns import RequestColumns

__all__ = ["bands", "metric_word", "promised", "scatter"]

_P90 = Fraction(9, 10)
_MOST_STEPS = 12
_MOST_BANDS = 48
_WORDS = {
    "ttft": "TTFT",
    "e2e": "E2E",
    "tpot": "TPOT",
    "itl_max": "longest gap",
    "kv_transfer": "KV transfer",
}
_OK = list(Outcome).index(Outcome.OK)

Rows = NDArray[np.int64]


def metric_word(metric: str) -> str:
    """As people say it."""
    return _WORDS.get(metric, metric)


def promised(standings: Sequence[Standing], view: View) -> list[Threshold]:
    """The tightest promise about the metric, of the service that is looked at."""
    service = value_of(view.where, "service")
    found = [
        limit.threshold_s
        for each in standings
        if isinstance(each.objective.indicator, LatencyIndicator | GoodputIndicator)
        and value_of(each.objective.indicator.where, "service") in ("", service)
        for limit in each.objective.indicator.limits
        if limit.metric == view.sieve.metric
    ]
    if not found:
        return []
    value_s = float(min(found))
    return [Threshold(value=value_s, label=f"promise {seconds(value_s)}")]


def scatter(
    found: RequestColumns,
    rows: Rows,
    promises: Sequence[Threshold],
    view: View,
    viewer: Viewer,
) -> tuple[Figure, dict[str, Any]]:
    metric = view.sieve.metric
    cloud = Cloud(
        x=found.values["prompt_tokens"][rows],
        y=found.values[metric][rows],
        good=found.outcome[rows] == _OK,
        ids=_Ids(found, rows),
    )
    word = metric_word(metric)
    figure, drawn = cloud_figure(
        cloud,
        promises=promises,
        zoom=view.link(),
        one=viewer.href(View(alone=REQUEST, one="0")).removesuffix("0"),
        x_title="prompt tokens",
        y_title=word,
    )
    known = int((~np.isnan(cloud.x) & ~np.isnan(cloud.y)).sum())
    parts = [f"{count(drawn)} of {count(known)}, the highest of each place"]
    parts = [f"{count(known)} requests"] if drawn == known else parts
    untold = len(rows) - known
    parts += [f"{count(untold)} without one of the two"] if untold else []
    caption = [
        html.H3(f"{word[0].upper()}{word[1:]} by prompt length"),
        html.P([html.Span(each) for each in parts], className="quiet dots"),
    ]
    return figure, {"caption-cloud": caption, "table-cloud": _by_length(cloud, word)}


class _Ids(Sequence[str]):
    """Ids in hexadecimal, made where one is drawn."""

    def __init__(self, found: RequestColumns, rows: Rows) -> None:
        self._found, self._rows = found, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._found.trace_ids[self._rows[place]].hex()


def _by_length(cloud: Cloud, word: str) -> Component:
    """The cloud in words: by powers of two of the prompt's length."""
    known = ~np.isnan(cloud.x) & ~np.isnan(cloud.y)
    if not known.any():
        return html.P(quiet("no values"))
    power = np.floor(np.log2(np.maximum(cloud.x[known], 1))).astype(int)
    rows = []
    for each in np.unique(power).tolist():
        values = cloud.y[known][power == each]
        middle, highest = float(np.median(values)), float(values.max())
        rows.append(
            [
                Cell(f"{count(2**each)}–{count(2 ** (each + 1) - 1)}"),
                Cell(count(len(values)), number=True),
                Cell(seconds(middle), number=True),
                Cell(seconds(highest), number=True),
            ]
        )
    columns = ("Prompt tokens", "Requests", f"{word} middle", "Highest")
    return table(f"{word} by prompt length", columns, rows)


def bands(
    reader: Reader, promises: Sequence[Threshold], view: View, viewer: Viewer
) -> tuple[Figure, dict[str, Any]]:
    """Half, nine in ten and 99 in 100 of all that match, step by step."""
    window, metric = view.window(viewer.now_s), view.sieve.metric
    step = step_s(window, most=_MOST_BANDS)
    series = reader.latency(metric, Selection(window=window, where=view.where, step_s=step))
    points = [point for each in series for point in each.points]
    every = [curve(points, q, window, step) for q in (P50, _P90, P99)]
    figure = _banded(every, promises, view, viewer)
    # why not its window: whoever presses on a step asks for that one
    figure["layout"]["meta"] = {"open": viewer.href(replace(view, fixed=None)), "step_s": step}
    word = metric_word(metric)
    known = not np.isnan(every[0].low_s).all()
    words = "P50, P90, P99 of all that match, whatever their status; press on a step to see its own"
    return figure, {
        "caption-bands": [
            html.H3(f"{word[0].upper()}{word[1:]} over time"),
            html.P(quiet(words if known else "no values")),
        ],
        "table-bands": _over_time(every, word, view, viewer),
    }


def _banded(
    every: Sequence[Curve], promises: Sequence[Threshold], view: View, viewer: Viewer
) -> Figure:
    p50, p90, p99 = every
    window = view.window(viewer.now_s)
    ends = viewer.axis_ms(np.array([window.since_s, window.until_s], np.float64))
    since_ms, until_ms = viewer.axis_ms(p99.since_s), viewer.axis_ms(p99.until_s)
    inner = Band(
        name="P90", since_ms=since_ms, until_ms=until_ms, low=p50.low_s, high=p90.high_s, rank=0
    )
    outer = Band(
        name="P99", since_ms=since_ms, until_ms=until_ms, low=p90.low_s, high=p99.high_s, rank=1
    )
    return chart(
        _lines(every, (since_ms + until_ms) / 2),
        [outer, inner],
        frame=Frame(
            since_ms=float(ends[0]),
            until_ms=float(ends[1]),
            zone=viewer.offset_word(),
            zoom=view.link(),
        ),
        threshold=next(iter(promises), None),
    )


def _lines(every: Sequence[Curve], at_ms: NDArray[np.float64]) -> list[Line]:
    """P99 and P50 where a value is known."""
    p50, _, p99 = every
    named = (("P99", p99, 0), ("P50", p50, 1))
    return [
        Line(name=name, at_ms=at_ms, value=each.value_s, rank=rank)
        for name, each, rank in named
        if not np.isnan(each.value_s).all()
    ]


def _over_time(every: Sequence[Curve], word: str, view: View, viewer: Viewer) -> Component:
    whole = every[0]
    known = np.flatnonzero(~np.isnan(whole.low_s))[::-1][:_MOST_STEPS].tolist()
    if not known:
        return html.P(quiet("no values"))
    rows = []
    for at in known:
        since_s, until_s = int(whole.since_s[at]), int(whole.until_s[at])
        there = viewer.href(view.between(since_s, until_s))
        first = Cell(link(viewer.clock(since_s, seconds=True), there))
        rows.append([first, *(Cell(_text(each, at), number=True) for each in every)])
    caption = f"{word} over time, the newest {len(rows)} steps"
    return table(caption, ("From", "P50", "P90", "P99"), rows, hidden_caption=False)


def _text(found: Curve, at: int) -> str:
    if np.isnan(found.low_s[at]):
        return NOTHING
    value_s = float(found.value_s[at])
    return (
        seconds_range(float(found.low_s[at]), float(found.high_s[at]))
        if np.isnan(value_s)
        else seconds(value_s)
    )
