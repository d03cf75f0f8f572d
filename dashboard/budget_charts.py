"""The charts of a promise: its budget as it burns down, and what was counted beneath it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from dash import html
from numpy.typing import NDArray

from alerts import wording
from alerts.detail import BurnDown, EventCount, Seam
from alerts.ledger import Ledger, Standing
from collector.query import Window
from dashboard.figures import Band, Figure, Frame, Instant, Line, Mark, Scale, Threshold, chart
from dashboard.parts import Cell, clock, table
from dashboard.quantity import NOTHING, count, percent_range, rate, rate_unit, span
from dashboard.url import View
from dashboard.viewer import Viewer

__all__ = ["BUDGET", "EVENTS", "budget_window", "charts_of"]

BUDGET = "budget"
EVENTS = "events"

_GRAIN_S = 300
_MOST_STEPS = 360
_MOST_ROWS = 24
_MOST_MARKS = 40
_SEEN = 0.004
_LEAST_S = 3600
_SEAMS = {
    "start": "counts since",
    "revision": "revision",
    "target": "new target",
    "reset": "reset",
    "period": "a new period",
}
_Floats = NDArray[np.float64]
_Parts = tuple[dict[str, Figure], dict[str, Any]]


def budget_window(ledger: Ledger, standing: Standing, view: View, viewer: Viewer) -> Window:
    """A whole period, or since somebody looks; unless the reader chose a stretch."""
    if view.fixed is not None:
        return view.fixed
    until_s = min(standing.evaluated_at_s, viewer.now_s) or viewer.now_s
    period = Window(
        since_s=until_s - max(standing.objective.period_s, view.span_s), until_s=until_s
    )
    steps = ledger.event_counts(standing.id, period.since_s, until_s, _step_s(period))
    seen_s = next((each.since_s for each in steps if each.observed_minutes), period.since_s)
    latest_s = until_s - max(view.span_s, _LEAST_S)
    return Window(since_s=max(min(seen_s, latest_s), period.since_s), until_s=until_s)


def charts_of(ledger: Ledger, standing: Standing, view: View, viewer: Viewer) -> _Parts:
    """Figures by name, and the regions beside them."""
    period = budget_window(ledger, standing, view, viewer)
    budget, budget_parts = _budget(ledger, standing, period, viewer)
    events, event_parts = _events(ledger, standing, view.window(viewer.now_s), viewer)
    return {BUDGET: budget, EVENTS: events}, budget_parts | event_parts


def _budget(
    ledger: Ledger, standing: Standing, window: Window, viewer: Viewer
) -> tuple[Figure, dict[str, Any]]:
    step_s = _step_s(window)
    found = ledger.burn_down(standing.id, window.since_s, window.until_s, step_s)
    counts = ledger.event_counts(standing.id, window.since_s, window.until_s, step_s)
    line, bands = _remaining(found, step_s, viewer)
    lowest = float(np.nanmin(line.value[~np.isnan(line.value)], initial=0.0))
    figure = chart(
        [line],
        bands,
        frame=_frame(window, viewer),
        threshold=Threshold(value=0.0, label="spent") if lowest < 0 else None,
        marks=_marks(counts, viewer),
        instants=[_instant(each, viewer) for each in found.seams],
        axis=Scale(unit="%", floor=min(lowest * 1.08, 0.0)),
    )
    caption = [
        html.H3("Budget left"),
        html.P(_budget_words(found, window, bounded=bool(bands)), className="quiet dots"),
    ]
    return figure, {
        f"caption-{BUDGET}": caption,
        f"table-{BUDGET}": _budget_table(found, viewer),
    }


def _remaining(found: BurnDown, step_s: int, viewer: Viewer) -> tuple[Line, list[Band]]:
    """What is surely left as a line that breaks at seams, and boxes up to what possibly is."""
    at_s = np.array([each.at_s for each in found.points], np.float64)
    low = np.array([_percent(each.remaining_low) for each in found.points], np.float64)
    high = np.array([_percent(each.remaining_high) for each in found.points], np.float64)
    breaks = np.array(sorted({float(seam.at_s) for seam in found.seams}), np.float64)
    places = np.searchsorted(at_s, breaks)
    bounded = _apart(low, high)
    line = Line(
        name="surely left" if bounded else "left",
        at_ms=viewer.axis_ms(np.insert(at_s, places, breaks)),
        value=np.insert(low, places, np.nan),
    )
    if not bounded:
        return line, []
    ends_ms = viewer.axis_ms(at_s), viewer.axis_ms(at_s + step_s)
    box = Band(name="possibly", since_ms=ends_ms[0], until_ms=ends_ms[1], low=low, high=high)
    return line, [box]


def _percent(share: float | None) -> float:
    return np.nan if share is None else share * 100


def _apart(low: _Floats, high: _Floats) -> bool:
    """Whether anybody could see that the bounds differ."""
    known = ~np.isnan(low)
    if not known.any():
        return False
    reach = max(float(np.max(high[known])), 0.0) - min(float(np.min(low[known])), 0.0)
    return bool(np.max(high[known] - low[known]) > _SEEN * reach)


def _events(
    ledger: Ledger, standing: Standing, window: Window, viewer: Viewer
) -> tuple[Figure, dict[str, Any]]:
    counts = ledger.event_counts(standing.id, window.since_s, window.until_s, _step_s(window))
    whole = standing.objective.counts_minutes
    lines, bands, unit = _shares(counts, viewer) if whole else _rates(counts, viewer)
    figure = chart(
        lines,
        bands,
        frame=_frame(window, viewer),
        marks=_marks(counts, viewer),
        axis=Scale(unit=unit),
    )
    unit_word = wording.unit(standing.objective)
    title = "Bad minutes" if whole else f"{unit_word.capitalize()}, and the bad ones"
    total = sum(each.total for each in counts)
    low, high = (sum(each.bad_low for each in counts), sum(each.bad_high for each in counts))
    bad = count(low) if low == high else f"{count(low)}–{count(high)}"
    words = f"{bad} of {count(total)} {unit_word} bad in this window"
    excluded = sum(each.excluded for each in counts)
    also = [html.Span(f"{count(excluded)} left out")] if excluded else []
    caption = [html.H3(title), html.P([html.Span(words), *also], className="quiet dots")]
    return figure, {
        f"caption-{EVENTS}": caption,
        f"table-{EVENTS}": _events_table(counts, viewer),
    }


def _rates(counts: Sequence[EventCount], viewer: Viewer) -> tuple[list[Line], list[Band], str]:
    """All and bad ones in a second or a minute; a box where the bad ones are only bounded."""
    unit = rate_unit(each.per_s for each in counts)
    scale = 1.0 if unit == "/s" else 60.0
    watched_s = np.array([each.total / each.per_s if each.per_s else np.nan for each in counts])
    seen = np.array([each.per_s is not None for each in counts], bool)
    zero = np.where(seen, 0.0, np.nan)

    def per(values: Sequence[int]) -> _Floats:
        found = np.array(values, np.float64) / watched_s * scale
        return np.where(np.isnan(found), zero, found)

    at_ms = _middles_ms(counts, viewer)
    low = per([each.bad_low for each in counts])
    high = per([each.bad_high for each in counts])
    lines = [Line(name="all", at_ms=at_ms, value=per([e.total for e in counts]), rank=1)]
    more, bands = _bad(counts, low, high, viewer)
    return [*more, *lines], bands, unit


def _shares(counts: Sequence[EventCount], viewer: Viewer) -> tuple[list[Line], list[Band], str]:
    totals = np.array([each.total or np.nan for each in counts], np.float64)
    low = np.array([each.bad_low for each in counts], np.float64) / totals * 100
    high = np.array([each.bad_high for each in counts], np.float64) / totals * 100
    lines, bands = _bad(counts, low, high, viewer)
    return lines, bands, "%"


def _bad(
    counts: Sequence[EventCount], low: _Floats, high: _Floats, viewer: Viewer
) -> tuple[list[Line], list[Band]]:
    bounded = _apart(low, high)
    name = "surely bad" if bounded else "bad"
    lines = [Line(name=name, at_ms=_middles_ms(counts, viewer), value=low)]
    if not bounded:
        return lines, []
    since = viewer.axis_ms(np.array([each.since_s for each in counts], np.float64))
    until = viewer.axis_ms(np.array([each.until_s for each in counts], np.float64))
    return lines, [Band(name="possibly", since_ms=since, until_ms=until, low=low, high=high)]


def _middles_ms(counts: Sequence[EventCount], viewer: Viewer) -> _Floats:
    return viewer.axis_ms(
        np.array([(each.since_s + each.until_s) / 2 for each in counts], np.float64)
    )


def _marks(counts: Sequence[EventCount], viewer: Viewer) -> list[Mark]:
    """Maintenance shaded, and hatched where nobody looked; the longest ones."""
    found = sorted(_stretches(counts), key=lambda each: each[1] - each[2])[:_MOST_MARKS]
    marks = []
    for word, since_s, until_s in found:
        ends = viewer.axis_ms(np.array([since_s, until_s], np.float64))
        marks.append(
            Mark(
                since_ms=float(ends[0]),
                until_ms=float(ends[1]),
                label=word,
                hatched=word == "not observed",
                shaded=word == "maintenance",
            )
        )
    return marks


def _stretches(counts: Sequence[EventCount]) -> Iterator[tuple[str, int, int]]:
    for word, run in groupby(counts, key=_word):
        steps = list(run)
        if word:
            yield word, steps[0].since_s, steps[-1].until_s


def _word(step: EventCount) -> str:
    if step.maintenance_minutes:
        return "maintenance"
    return "" if step.observed_minutes else "not observed"


def _instant(seam: Seam, viewer: Viewer) -> Instant:
    at_ms = viewer.axis_ms(np.array([seam.at_s], np.float64))
    return Instant(at_ms=float(at_ms[0]), label=_SEAMS.get(seam.kind, seam.kind))


def _frame(window: Window, viewer: Viewer) -> Frame:
    ends = viewer.axis_ms(np.array([window.since_s, window.until_s], np.float64))
    return Frame(
        since_ms=float(ends[0]),
        until_ms=float(ends[1]),
        zone=viewer.offset_word(),
        zoom=f"{window.since_s}-{window.until_s}",
    )


def _step_s(window: Window) -> int:
    """Whole five minutes, and no more steps than a chart has room for."""
    length_s = window.until_s - window.since_s
    return max(-(-length_s // _MOST_STEPS // _GRAIN_S) * _GRAIN_S, _GRAIN_S)


def _budget_words(found: BurnDown, window: Window, *, bounded: bool) -> list[html.Span]:
    words = [f"over {span((window.until_s - window.since_s) // 3600 * 3600)}"]
    if bounded:
        words.append("the line is what is surely left, boxes reach to what possibly is")
    kinds = sorted({_SEAMS.get(each.kind, each.kind) for each in found.seams})
    words += [f"dotted: {', '.join(kinds)}"] if kinds else []
    return [html.Span(each) for each in words]


def _budget_table(found: BurnDown, viewer: Viewer) -> Any:
    rows = [
        [
            Cell(clock(viewer, point.at_s)),
            Cell(
                NOTHING
                if point.remaining_low is None or point.remaining_high is None
                else percent_range(point.remaining_low, point.remaining_high),
                number=True,
            ),
        ]
        for point in _few(found.points)
    ]
    return table("Budget left", ("At", "Left"), rows)


def _events_table(counts: Sequence[EventCount], viewer: Viewer) -> Any:
    unit = rate_unit(each.per_s for each in counts)
    rows = [
        [
            Cell(clock(viewer, each.since_s)),
            Cell(count(each.total), number=True),
            Cell(rate(each.per_s, unit=unit), number=True),
            Cell(_bad_text(each), number=True),
        ]
        for each in _few(counts)
    ]
    return table("What was counted", ("From", "Counted", "Rate", "Bad"), rows)


def _bad_text(each: EventCount) -> str:
    if not each.observed_minutes:
        return "not observed"
    if not each.total:
        return "no traffic"
    return percent_range(each.bad_low / each.total, each.bad_high / each.total)


def _few(every: Sequence[Any]) -> Sequence[Any]:
    """Evenly spread, the newest among them."""
    size = max(-(-len(every) // _MOST_ROWS), 1)
    return every[::-1][::size]
