"""Minutes of a latency: counted in minute tiles, and settled by single requests where those matter.

Only minutes with exact values in the cell that the threshold cuts are looked up among the kept
requests; the answer is used if it accounts for every value of the cell, otherwise (older than
retention) good is a range.

A minute whose minute tile is retired cannot be told from its neighbours: it is not observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collector.minute_tiles import MinuteTiles
from collector.minute_values import MinuteValues
from collector.snapshot import Snapshot
from collector.threshold_cut import Cut, cut_at
from collector.tile_table import TileTable
from domain.grid import cells_of
from domain.indicator import LatencyIndicator
from domain.slice import Slice

__all__ = ["minutes"]

_EXCLUDED = ("requests_cancelled", "requests_rejected")


@dataclass(slots=True)
class _Minute:
    """One minute counted; `series` are those with exact values in the cell that is cut."""

    total: int = 0
    good_low: int = 0
    good_high: int = 0
    cut: int = 0
    series: set[int] = field(default_factory=set)


def minutes(tiles: MinuteTiles, values: MinuteValues, indicator: LatencyIndicator) -> list[Slice]:
    """One slice per minute."""
    cut = cut_at(float(indicator.threshold_s))
    counted: dict[int, _Minute] = {}
    for table in tiles.tables(indicator.metric, indicator.where):
        _count(table, cut, counted)
    _settle(tiles.snapshot, values, indicator, cut, counted)
    excluded = _excluded(tiles, indicator)
    asked = tiles.window.minutes
    silent = [at_s for at_s in asked if at_s not in counted or not counted[at_s].total]
    observed = tiles.observed(indicator.where, silent)
    return [
        _slice(at_s, counted.get(at_s, _Minute()), excluded.get(at_s, 0), observed)
        for at_s in asked
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


def _count(table: TileTable, cut: Cut, counted: dict[int, _Minute]) -> None:
    """Add what these tiles say to the minutes that have anything."""
    if not len(table):
        return
    splits = table.split(cut)
    minutes_s, place = np.unique(table.minute_at_s, return_inverse=True)
    columns = (table.count + table.total, splits.good_low, splits.good_high, splits.cut)
    sums = zip(
        minutes_s.tolist(),
        *(np.bincount(place, column).astype(np.int64).tolist() for column in columns),
        strict=True,
    )
    for at_s, total, good_low, good_high, inside in sums:
        minute = counted.setdefault(at_s, _Minute())
        minute.total += total
        minute.good_low += good_low
        minute.good_high += good_high
        minute.cut += inside
    for row in splits.cut.nonzero()[0].tolist():
        counted[int(minutes_s[place[row]])].series.add(int(table.series_id[row]))


def _settle(
    snapshot: Snapshot,
    values: MinuteValues,
    indicator: LatencyIndicator,
    cut: Cut,
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


def _excluded(tiles: MinuteTiles, indicator: LatencyIndicator) -> dict[int, int]:
    """Requests that were given up or wrong in themselves, by minute."""
    found: dict[int, int] = {}
    for metric in _EXCLUDED:
        for table in tiles.tables(metric, indicator.where):
            for at_s, grown in zip(table.minute_at_s.tolist(), table.total.tolist(), strict=True):
                found[at_s] = found.get(at_s, 0) + round(grown)
    return found
