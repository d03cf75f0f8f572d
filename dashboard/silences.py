"""Stretches of a chart without values, and why: nobody asked, or nobody was looking."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby

import numpy as np

from collector.query import Reader, Selection, Window
from dashboard.figures import Mark
from dashboard.measure import step_s
from dashboard.minutes import stretches
from dashboard.viewer import Viewer
from domain.indicator import LatencyIndicator
from domain.objective import DAY_S
from domain.slice import MINUTE_S, SliceState

__all__ = ["silences"]

MOST_MARKS = 40
_UNSETTLED_S = 120
"""Minutes this young may still be observed: their sources have not all reported."""

Stretch = tuple[SliceState, int, int]


def silences(reader: Reader, selection: Selection, viewer: Viewer) -> list[Mark]:
    """The longest ones. Within a day to the minute, beyond to the step of the chart."""
    window = selection.window
    since_s = window.since_s // MINUTE_S * MINUTE_S
    until_s = min(window.until_s, viewer.now_s - _UNSETTLED_S) // MINUTE_S * MINUTE_S
    if until_s <= since_s:
        return []
    settled = Window(since_s=since_s, until_s=until_s)
    if until_s - since_s <= DAY_S:
        indicator = LatencyIndicator(metric="ttft", threshold_s=Fraction(1), where=selection.where)
        found = stretches(reader.slices(indicator, settled))
    else:
        found = _by_step(reader, Selection(window=settled, where=selection.where))
    longest = sorted(found, key=lambda each: each[1] - each[2])[:MOST_MARKS]
    return [_mark(stretch, viewer) for stretch in longest]


def _by_step(reader: Reader, selection: Selection) -> Iterator[Stretch]:
    """The rule of a minute, for a step: values or a source that was up make it observed."""
    window, step = selection.window, step_s(selection.window)
    asked = Selection(window=window, where=selection.where, step_s=step)
    valued = {point.since_s for each in reader.latency("ttft", asked) for point in each.points}
    up = {
        point.since_s
        for each in reader.numbers("up", asked)
        for point in each.points
        if point.high > 0
    }
    begins = range(window.since_s // step * step, window.until_s, step)
    silent = [at_s for at_s in begins if at_s not in valued]
    for state, run in groupby(enumerate(silent), key=lambda pair: _place(*pair, step=step, up=up)):
        steps = [at_s for _, at_s in run]
        yield state[0], steps[0], min(steps[-1] + step, window.until_s)


def _place(rank: int, at_s: int, *, step: int, up: set[int]) -> tuple[SliceState, int]:
    """Equal for neighbouring steps of one state."""
    state = SliceState.NO_TRAFFIC if at_s in up else SliceState.NOT_OBSERVED
    return state, at_s // step - rank


def _mark(stretch: Stretch, viewer: Viewer) -> Mark:
    state, since_s, until_s = stretch
    ends = viewer.axis_ms(np.array([since_s, until_s], np.float64))
    return Mark(
        since_ms=float(ends[0]),
        until_ms=float(ends[1]),
        label=state.value,
        hatched=state is SliceState.NOT_OBSERVED,
    )
