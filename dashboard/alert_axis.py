"""What changed around an alert, on one time axis with the latency that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import html

from alerts.blame import stage_metric
from alerts.change import Change
from alerts.changes import changes
from alerts.ledger import AlertRecord, Ledger, Standing
from collector.query import Reader, Selection, Window
from dashboard.change_list import change_table, instants
from dashboard.figures import Band, Figure, Frame, Instant, Line, Mark, chart
from dashboard.measure import P99, curves, drawn, quantile_word
from dashboard.parts import Cell, quiet, table
from dashboard.quantity import NOTHING, seconds, seconds_range
from dashboard.viewer import Viewer
from domain.objective import DAY_S, HOUR_S

__all__ = ["AXIS", "axis"]

AXIS = "axis"
_BEFORE_S = 6 * HOUR_S
_AFTER_S = 1800
_MOST_ROWS = 12

_Parts = tuple[dict[str, Figure], dict[str, Any]]


def axis(
    reader: Reader, ledger: Ledger, record: AlertRecord, standing: Standing | None, viewer: Viewer
) -> _Parts:
    """From six hours before it to half an hour after its end, a day at most."""
    window = _window(record, viewer)
    where = standing.objective.indicator.where if standing is not None else ()
    found = changes(reader, ledger, window, where=where, now_s=viewer.now_s)
    others = [each for each in found if each.id != record.id]
    regions: dict[str, Any] = {
        "changes": change_table(others, viewer, past="the 6 h before it and while it lasted")
    }
    metric = stage_metric(standing.objective.indicator) if standing is not None else None
    if metric is None or not record.objective_id:
        return {}, regions
    asked = Selection(window=window, where=where)
    figure, parts = _drawn(reader, metric, asked, found, record=record, viewer=viewer)
    return {AXIS: figure}, regions | parts


def _window(record: AlertRecord, viewer: Viewer) -> Window:
    ends_s = viewer.now_s if record.resolved_at_s is None else record.resolved_at_s + _AFTER_S
    since_s = record.started_at_s - _BEFORE_S
    return Window(
        since_s=since_s, until_s=max(min(ends_s, viewer.now_s, since_s + DAY_S), since_s + HOUR_S)
    )


def _drawn(
    reader: Reader,
    metric: str,
    selection: Selection,
    found: Sequence[Change],
    *,
    record: AlertRecord,
    viewer: Viewer,
) -> _Parts:
    window = selection.window
    name = quantile_word(P99)
    curve = curves(reader, metric, selection, "", ())[name]
    lines, bands = drawn(curve, viewer, name=name, rank=0)
    marked = instants(found, viewer, width_s=window.until_s - window.since_s)
    told = "; ".join(f"{viewer.clock(each.at_s)} {each.title}" for each in found[-5:])
    known = np.flatnonzero(~np.isnan(curve.low_s))[::-1][:_MOST_ROWS]
    rows = [
        [
            Cell(viewer.clock(int(curve.since_s[place]))),
            Cell(_text(curve.low_s[place], curve.high_s[place], curve.value_s[place]), number=True),
        ]
        for place in known
    ]
    figure = _figure(lines, bands, marked, window, record=record, viewer=viewer)
    return figure, {
        f"caption-{AXIS}": [
            html.H3(f"{name} {metric.upper()} and what changed"),
            html.P(quiet(told or "nothing changed that we know of")),
        ],
        f"table-{AXIS}": table(f"{name} {metric.upper()}, newest first", ("From", name), rows),
    }


def _figure(
    lines: Sequence[Line],
    bands: Sequence[Band],
    marked: Sequence[Instant],
    window: Window,
    *,
    record: AlertRecord,
    viewer: Viewer,
) -> Figure:
    """The stretch while it was firing is set apart."""
    until_s = viewer.now_s if record.resolved_at_s is None else record.resolved_at_s
    stretch = [window.since_s, window.until_s, record.started_at_s, until_s]
    ends = [float(each) for each in viewer.axis_ms(np.array(stretch, np.float64))]
    firing = Mark(since_ms=ends[2], until_ms=ends[3], label="firing", hatched=False, shaded=True)
    frame = Frame(
        since_ms=ends[0], until_ms=ends[1], zone=viewer.offset_word(), zoom=f"axis {record.id}"
    )
    return chart(lines, bands, frame=frame, marks=[firing], instants=marked)


def _text(low_s: float, high_s: float, value_s: float) -> str:
    if not np.isnan(value_s):
        return seconds(float(value_s))
    return NOTHING if np.isnan(low_s) else seconds_range(float(low_s), float(high_s))
