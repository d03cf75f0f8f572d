"""Minutes of an objective: counted in minute tiles, and settled by single requests where those matter.

A tile counts a threshold exactly but for the one cell that the threshold cuts, 1.1 % wide. Only
minutes with exact values in that cell are looked up among the kept requests; the answer is used if
it accounts for every value of the cell, otherwise (older than retention) good is a range. A value
is good if it is at most the double nearest to the threshold, so that 0.1 is at most 0.1.

A minute whose minute tile is retired cannot be told from its neighbours: it is not observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collector.minute_values import MinuteValues
from collector.observed import observed_minutes
from collector.query import Selection, Window
from collector.snapshot import Snapshot
from collector.tile_rows import plan, rows
from domain.grid import EDGES_S, OVER, cells_of
from domain.indicator import LatencyIndicator
from domain.slice import MINUTE_S, Slice

__all__ = ["minutes"]

_ROOM_BYTES = 4 * 1024 * 1024
_EXCLUDED = ("requests_cancelled", "requests_rejected")


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where a threshold lies on the grid: cells up to `below` are good; `cell` is cut, if any."""

    threshold_s: float
    below: int
    cell: int | None


@dataclass(slots=True)
class _Minute:
    """One minute counted. Sides of tiles wait, and are split together: there may be hundreds."""

    total: int = 0
    good_low: int = 0
    good_high: int = 0
    cut: int = 0  # exact values in the cell that the threshold cuts
    series: set[int] = field(default_factory=set)  # of those
    exact: list[tuple[int, bytes]] = field(default_factory=list)
    low: list[bytes] = field(default_factory=list)
    high: list[bytes] = field(default_factory=list)

    def settle(self, cut: _Cut) -> None:
        """Split what waits."""
        good, undecided = _split(b"".join(side for _, side in self.exact), cut)
        self.good_low += good + _split(b"".join(self.high), cut)[0]
        self.good_high += good + undecided + sum(_split(b"".join(self.low), cut))
        self.cut += undecided
        if undecided:
            self.series |= {number for number, side in self.exact if _split(side, cut)[1]}
        for waiting in (self.exact, self.low, self.high):
            waiting.clear()


def minutes(
    snapshot: Snapshot, values: MinuteValues, indicator: LatencyIndicator, window: Window
) -> list[Slice]:
    """One slice per whole minute of the window."""
    first_s = -(-window.since_s // MINUTE_S) * MINUTE_S
    last_s = window.until_s // MINUTE_S * MINUTE_S
    if last_s <= first_s:
        return []
    whole = Window(since_s=first_s, until_s=last_s)
    cut = _cut(float(indicator.threshold_s))
    counted = _counted(snapshot, indicator, whole, cut)
    _settle(snapshot, values, indicator, cut, counted)
    excluded = _excluded(snapshot, indicator, whole)
    silent = [
        at_s
        for at_s in range(first_s, last_s, MINUTE_S)
        if at_s not in counted or not counted[at_s].total
    ]
    observed = observed_minutes(snapshot, indicator.where, silent) if silent else frozenset()
    return [
        _slice(at_s, counted.get(at_s, _Minute()), excluded.get(at_s, 0), observed)
        for at_s in range(first_s, last_s, MINUTE_S)
    ]


def _slice(at_s: int, minute: _Minute, excluded: int, observed: frozenset[int]) -> Slice:
    # why bounded: a pair of which one side is missing or belies the other leaves doubt, no error
    possibly = min(max(minute.good_low, minute.good_high), minute.total)
    return Slice(
        minute_at_s=at_s,
        good_low=min(minute.good_low, minute.good_high, possibly),
        good_high=possibly,
        total=minute.total,
        observed=minute.total > 0 or excluded > 0 or at_s in observed,
        excluded=excluded,
    )


def _cut(threshold_s: float) -> _Cut:
    below = int(np.searchsorted(EDGES_S, threshold_s, side="right")) - 1
    on_edge = below >= 0 and EDGES_S[below] == threshold_s
    return _Cut(threshold_s, below, None if on_edge else min(below + 1, OVER))


def _counted(
    snapshot: Snapshot, indicator: LatencyIndicator, window: Window, cut: _Cut
) -> dict[int, _Minute]:
    """What the tiles say of each minute that has anything."""
    asked = plan(
        snapshot,
        indicator.metric,
        Selection(window=window, where=indicator.where, step_s=MINUTE_S),
        coarsest_s=MINUTE_S,
    )
    found: dict[int, _Minute] = {}
    waiting = 0
    for tier_s, (at_s, series_id, n, failed, _, exact, low, high) in rows(snapshot, asked):
        if tier_s > MINUTE_S:
            continue
        minute = found.setdefault(at_s // MINUTE_S * MINUTE_S, _Minute())
        minute.total += n + failed
        if exact:
            minute.exact.append((series_id, exact))
        minute.low.append(low)
        minute.high.append(high)
        waiting += len(exact) + len(low) + len(high)
        if waiting > _ROOM_BYTES:
            waiting = 0
            for each in found.values():
                each.settle(cut)
    for each in found.values():
        each.settle(cut)
    return found


def _split(side: bytes, cut: _Cut) -> tuple[int, int]:
    """How many values of one side are surely good, and how many lie in the cell that is cut."""
    if not side:
        return 0, 0
    word = np.frombuffer(side, "<u4")
    cell, count = word >> 20, word & ((1 << 20) - 1)
    good = int(count[cell <= cut.below].sum()) if cut.below >= 0 else 0
    return good, 0 if cut.cell is None else int(count[cell == cut.cell].sum())


def _settle(
    snapshot: Snapshot,
    values: MinuteValues,
    indicator: LatencyIndicator,
    cut: _Cut,
    counted: Mapping[int, _Minute],
) -> None:
    """Decide the values in the cell that is cut by the requests they came from."""
    for at_s, minute in counted.items():
        if not minute.cut:
            continue
        series_id, value_s = values.of(snapshot, indicator.metric, at_s)
        inside = np.isin(series_id, list(minute.series)) & _in_cell(value_s, cut.cell)
        if int(inside.sum()) == minute.cut:
            good = int((value_s[inside] <= cut.threshold_s).sum())
            minute.good_low += good
            minute.good_high -= minute.cut - good


def _in_cell(value_s: NDArray[np.float64], cell: int | None) -> NDArray[np.bool_]:
    if cell is None:
        return np.zeros(len(value_s), bool)
    return np.equal(cells_of(value_s), cell)


def _excluded(snapshot: Snapshot, indicator: LatencyIndicator, window: Window) -> dict[int, int]:
    """Requests that were given up or wrong in themselves, by minute."""
    found: dict[int, int] = {}
    for metric in _EXCLUDED:
        asked = plan(
            snapshot,
            metric,
            Selection(window=window, where=indicator.where, step_s=MINUTE_S),
            coarsest_s=MINUTE_S,
        )
        for tier_s, (at_s, _, _, increase, *_) in rows(snapshot, asked):
            if tier_s <= MINUTE_S:
                minute_at_s = at_s // MINUTE_S * MINUTE_S
                found[minute_at_s] = found.get(minute_at_s, 0) + round(increase)
    return found
