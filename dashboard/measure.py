"""Series of the reader as lines, bands and tables: what is known as a value, the rest as a range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from collector.query import Point, Reader, Selection, Series, Window
from dashboard.figures import Band, Line
from dashboard.viewer import Viewer
from domain.distribution import Distribution, add_all
from domain.labels import Labels
from domain.request import Stage
from domain.slice import MINUTE_S

__all__ = [
    "A_WEEK_AGO",
    "LONG_DASHES",
    "P50",
    "P99",
    "WEEK_S",
    "Curve",
    "before",
    "curve",
    "curves",
    "drawn",
    "last_week",
    "quantile_word",
    "stage_lines",
    "step_s",
    "together",
    "week_ago",
    "whole_minutes",
]

P50 = Fraction(1, 2)
P99 = Fraction(99, 100)
A_WEEK_AGO = "a week ago"
WEEK_S = 604_800
LONG_DASHES = 4
"""The rank of what is compared with: no line of the present has it."""

MOST_LINES = 4
"""Groups drawn as lines of their own; the rest are in the table."""

_STEPS_S = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_MOST_STEPS = 96
_HOUR_S = 3600
_STRIDES_S = (43_200, 3600, 300)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Curve:
    """One quantile, step by step; a step without values is NaN, an open range infinite."""

    since_s: Floats
    until_s: Floats
    low_s: Floats
    high_s: Floats
    value_s: Floats


def before(window: Window) -> Window:
    """As long a time before. It moves in strides, so that it is asked for once and not each second."""
    stride_s = _stride_s(window)
    until_s = window.since_s // stride_s * stride_s
    length_s = -((window.since_s - window.until_s) // MINUTE_S * MINUTE_S)
    return Window(since_s=until_s - length_s, until_s=until_s)


def last_week(window: Window) -> Window:
    """The same hours, in the same strides."""
    stride_s = _stride_s(window)
    since_s = window.since_s // stride_s * stride_s - WEEK_S
    length_s = -((window.since_s - window.until_s) // MINUTE_S * MINUTE_S)
    return Window(since_s=since_s, until_s=since_s + length_s)


def whole_minutes(window: Window) -> Window:
    """Widened to minutes, where it is an hour or more: seconds at its ends would not be seen."""
    if window.until_s - window.since_s < _HOUR_S:
        return window
    since_s = window.since_s // MINUTE_S * MINUTE_S
    return Window(since_s=since_s, until_s=-(-window.until_s // MINUTE_S) * MINUTE_S)


def _stride_s(window: Window) -> int:
    """A twelfth of an hour, of a day an hour."""
    length_s = window.until_s - window.since_s
    return next((each for each in _STRIDES_S if length_s >= 12 * each), MINUTE_S)


def step_s(window: Window, *, most: int = _MOST_STEPS) -> int:
    """The finest step that leaves a chart readable."""
    length_s = window.until_s - window.since_s
    return next((s for s in _STEPS_S if length_s <= s * most), _STEPS_S[-1])


def quantile_word(q: Fraction) -> str:
    """As in "P99", "P99.9"."""
    return f"P{float(q) * 100:.6g}"


def together(series: Iterable[Series]) -> Distribution | None:
    """Everything of a query in one distribution; None where nothing was measured."""
    points = [point.distribution for each in series for point in each.points]
    if len(points) == 1:
        return points[0]
    return add_all(points) if points else None


def curve(points: Sequence[Point], q: Fraction, window: Window, step: int) -> Curve:
    """A quantile on the window's grid of steps, with NaN where there was nothing."""
    first_s = window.since_s // step * step
    since_s = np.arange(first_s, window.until_s, step, dtype=np.float64)
    low_s, high_s, value_s = (np.full(len(since_s), np.nan) for _ in range(3))
    for point in points:
        place = (point.since_s - first_s) // step
        found = point.distribution.quantile(q)
        if found is None or not 0 <= place < len(since_s):
            continue
        low_s[place], high_s[place] = found.low_s, found.high_s
        known = found.value_s is not None and np.isfinite(found.value_s)
        value_s[place] = found.value_s if known else np.nan
    until_s = np.minimum(since_s + step, window.until_s)
    return Curve(since_s=since_s, until_s=until_s, low_s=low_s, high_s=high_s, value_s=value_s)


def drawn(found: Curve, viewer: Viewer, *, name: str, rank: int) -> tuple[list[Line], list[Band]]:
    """A line where values are known, boxes where only ranges are."""
    coarse = np.isnan(found.value_s) & ~np.isnan(found.low_s)
    lines, bands = [], []
    if not coarse.all() and (~np.isnan(found.value_s)).any():
        middle_s = (found.since_s + found.until_s) / 2
        at_ms = viewer.axis_ms(middle_s)
        lines.append(Line(name=name, at_ms=at_ms, value=found.value_s, rank=rank))
    if coarse.any():
        bands.append(
            Band(
                name=name,
                since_ms=viewer.axis_ms(found.since_s[coarse]),
                until_ms=viewer.axis_ms(found.until_s[coarse]),
                low=found.low_s[coarse],
                high=found.high_s[coarse],
                rank=rank,
            )
        )
    return lines, bands


def curves(
    reader: Reader, metric: str, selection: Selection, group: str, names: Sequence[str]
) -> dict[str, Curve]:
    """P99 and P50 of everything, or P99 of the named groups, by the name on the chart."""
    window = selection.window
    if not group:
        step = step_s(window)
        points = _points(reader, metric, selection, (), step)
        return {quantile_word(q): curve(points, q, window, step) for q in (P99, P50)}
    step = step_s(window, most=_MOST_STEPS // 2)
    return {
        name: curve(_points(reader, metric, selection, ((group, name),), step), P99, window, step)
        for name in names[:MOST_LINES]
    }


def week_ago(
    reader: Reader, metric: str, selection: Selection, group: str, names: Sequence[str]
) -> dict[str, Curve]:
    """P99 of the same hours last week, moved to now: of everything, or of the worst group."""
    window = selection.window
    then = Window(since_s=window.since_s - WEEK_S, until_s=window.until_s - WEEK_S)
    asked = Selection(window=then, where=selection.where)
    found = curves(reader, metric, asked, group, names[:1])
    first = next(iter(found.values()), None)
    if first is None:
        return {}
    return {
        A_WEEK_AGO: replace(first, since_s=first.since_s + WEEK_S, until_s=first.until_s + WEEK_S)
    }


def stage_lines(
    reader: Reader, selection: Selection, stages: Iterable[Stage], viewer: Viewer
) -> list[Line]:
    """The mean of each stage, step by step; nothing for a stage that nobody measured."""
    window, step = selection.window, step_s(selection.window)
    stepped = Selection(window=window, where=selection.where, step_s=step)
    first_s = window.since_s // step * step
    since_s = np.arange(first_s, window.until_s, step, dtype=np.float64)
    at_ms = viewer.axis_ms(since_s + step / 2)
    lines = []
    for stage in stages:
        mean_s = np.full(len(since_s), np.nan)
        for at, value in _means(reader.latency(str(stage), stepped)).items():
            place = (at - first_s) // step
            if 0 <= place < len(since_s):
                mean_s[place] = value
        if not np.isnan(mean_s).all():
            lines.append(Line(name=str(stage), at_ms=at_ms, value=mean_s, stack=str(stage)))
    return _without_empty_ends(lines)


def _without_empty_ends(lines: Sequence[Line]) -> list[Line]:
    """From the first to the last step that has any value: a stack falls to zero where it has none."""
    if not lines:
        return []
    known = np.flatnonzero(np.logical_or.reduce([~np.isnan(line.value) for line in lines]))
    held = slice(known[0], known[-1] + 1)
    return [replace(line, at_ms=line.at_ms[held], value=line.value[held]) for line in lines]


def _means(series: Iterable[Series]) -> Mapping[int, float]:
    """Mean seconds by the start of the step; a sum that cannot be believed gives none."""
    means = {}
    for each in series:
        for point in each.points:
            mean_s = point.distribution.mean_s
            if mean_s is not None:
                means[point.since_s] = mean_s
    return means


def _points(
    reader: Reader, metric: str, selection: Selection, labels: Labels, step: int
) -> Sequence[Point]:
    where = tuple(sorted((dict(selection.where) | dict(labels)).items()))
    window = selection.window
    asked = Selection(window=window, where=where, step_s=step)
    return [point for each in reader.latency(metric, asked) for point in each.points]
