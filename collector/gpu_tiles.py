"""Tiles of GPU metrics over a window, added up where they lie: 128 GPUs are many rows.

A GPU's measurements share one series, so that its number stands for it in every metric.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.cover import TileRange, pieces, ranges
from collector.query import Window
from collector.snapshot import Snapshot
from domain.metric import METRICS

__all__ = [
    "Columns",
    "Level",
    "Tiles",
    "added_up",
    "grown",
    "heard",
    "newest",
    "telling",
    "tiles",
    "together",
    "uuids",
]

_NS = 1_000_000_000
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Level:
    """The newest reading of one series."""

    at_s: int
    value: float


@dataclass(frozen=True, slots=True)
class Tiles:
    """Of one metric, a row per tile and series; in `values` what was asked for, column by column."""

    series: Integers
    at_s: Integers
    tier_s: Integers
    values: Sequence[Floats]

    def take(self, rows: NDArray[np.bool_]) -> Tiles:
        """Some of the rows."""
        values = [each[rows] for each in self.values]
        return Tiles(self.series[rows], self.at_s[rows], self.tier_s[rows], values)


@dataclass(frozen=True, slots=True)
class Columns:
    """A window in steps at whole multiples of `step_s`, as strips draw it."""

    window: Window
    step_s: int

    @property
    def count(self) -> int:
        return -(-self.window.until_s // self.step_s) - self.window.since_s // self.step_s

    def of(self, found: Tiles) -> tuple[Integers, Integers]:
        """Row and column of each tile; one that is longer than a step fills several columns."""
        base = self.window.since_s // self.step_s
        first = np.clip(found.at_s // self.step_s - base, 0, self.count - 1)
        last = np.clip((found.at_s + found.tier_s - 1) // self.step_s - base, 0, self.count - 1)
        times = last - first + 1
        row = np.repeat(np.arange(len(times)), times)
        return row, first[row] + np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)


def uuids(snapshot: Snapshot) -> dict[int, str]:
    """The GPU of each series that has one."""
    grouping = snapshot.labels.grouping((), ("gpu_uuid",))
    return {
        number: own[0][1]
        for own, members in zip(grouping.names, grouping.members, strict=True)
        if own
        for number in members
    }


def newest(snapshot: Snapshot, names: Sequence[str], window: Window) -> dict[str, dict[int, Level]]:
    """By metric and series the newest reading of the window."""
    numbers = {METRICS[name].number: name for name in names}
    kept = snapshot.kept(0, window.since_s, window.until_s)
    tier_s = kept.finest_s(window.since_s)
    # why bare `last`: SQLite takes it from the row that has the maximum
    sql = (
        f"SELECT metric, series_id, max(last_at_ns), last FROM number_{tier_s}"  # noqa: S608 - ours
        " WHERE metric IN (SELECT value FROM json_each(?)) AND at_s >= ? AND at_s < ?"
        " GROUP BY metric, series_id"
    )
    since_s = window.since_s // tier_s * tier_s
    found: dict[str, dict[int, Level]] = {name: {} for name in names}
    for metric, series_id, at_ns, last in snapshot.rows(
        sql, (json.dumps(list(numbers)), since_s, window.until_s)
    ):
        found[numbers[metric]][series_id] = Level(at_ns // _NS, last)
    return found


def heard(snapshot: Snapshot, name: str, window: Window) -> dict[int, int]:
    """The series that were told in the window, and when last."""
    found: dict[int, int] = {}
    for run in _runs(snapshot, name, window):
        sql = (
            f"SELECT series_id, max(last_at_ns) / {_NS} FROM number_{run.tier_s}"  # noqa: S608
            " WHERE metric = ? AND at_s >= ? AND at_s < ? GROUP BY series_id"
        )
        for series_id, at_s in snapshot.rows(sql, _parameters(name, run)):
            found[series_id] = max(found.get(series_id, 0), at_s)
    return found


def telling(snapshot: Snapshot, name: str, window: Window) -> set[int]:
    """The series that said anything in the window, be it 0."""
    found: set[int] = set()
    for run in _runs(snapshot, name, window):
        sql = (
            f"SELECT DISTINCT series_id FROM number_{run.tier_s}"  # noqa: S608 - names of ours
            " WHERE metric = ? AND at_s >= ? AND at_s < ?"
        )
        found.update(number for (number,) in snapshot.rows(sql, _parameters(name, run)))
    return found


def grown(snapshot: Snapshot, name: str, window: Window) -> dict[int, float]:
    """What each series of a counter grew by; 0 where it was told and did not grow."""
    found: dict[int, float] = {}
    for run in _runs(snapshot, name, window):
        sql = (
            f"SELECT series_id, sum(sum) FROM number_{run.tier_s}"  # noqa: S608 - names of ours
            " WHERE metric = ? AND at_s >= ? AND at_s < ? GROUP BY series_id"
        )
        for series_id, total in snapshot.rows(sql, _parameters(name, run)):
            found[series_id] = found.get(series_id, 0.0) + total
    return found


def tiles(
    snapshot: Snapshot,
    name: str,
    window: Window,
    values: Sequence[str],
    *,
    step_s: int | None = None,
    only: str = "1",
) -> Tiles:
    """Every tile of which a claim is true; `values` and `only` are SQL of ours."""
    parts = []
    for run in _runs(snapshot, name, window, step_s=step_s):
        sql = (
            f"SELECT series_id, at_s, {', '.join(values)} FROM number_{run.tier_s}"  # noqa: S608
            f" WHERE metric = ? AND at_s >= ? AND at_s < ? AND {only}"
        )
        rows = snapshot.rows(sql, _parameters(name, run))
        if rows:
            parts.append((np.array(rows, np.float64), run.tier_s))
    empty = np.zeros((0, 2 + len(values)))
    found = np.concatenate([empty, *(part for part, _ in parts)])
    tier_s = np.repeat([tier_s for _, tier_s in parts] or [0], [len(p) for p, _ in parts] or [0])
    series, at_s = found[:, 0].astype(np.int64), found[:, 1].astype(np.int64)
    return Tiles(series, at_s, tier_s, list(found[:, 2:].T))


Sums = Mapping[tuple[int, int], tuple[int, float, float]]
"""By tier and instant: how many series told, their means and their totals added up."""


def added_up(snapshot: Snapshot, name: str, window: Window, series: Collection[int]) -> Sums:
    """Tile by tile, what these series said together."""
    if not series:
        return {}
    wanted = json.dumps(sorted(series))
    found: dict[tuple[int, int], tuple[int, float, float]] = {}
    for run in _runs(snapshot, name, window):
        sql = (
            f"SELECT at_s, count(*), sum(sum / n), sum(sum) FROM number_{run.tier_s}"  # noqa: S608
            " WHERE metric = ? AND at_s >= ? AND at_s < ?"
            " AND series_id IN (SELECT value FROM json_each(?)) GROUP BY at_s"
        )
        for at_s, count, means, totals in snapshot.rows(sql, (*_parameters(name, run), wanted)):
            found[run.tier_s, at_s] = count, means, totals
    return found


def together(*told: tuple[Sums, int]) -> list[tuple[int, int]]:
    """The tiles, by tier and instant, in which of each as many series told as they are."""
    whole = [{tile for tile, (count, _, _) in sums.items() if count == n} for sums, n in told]
    return sorted(set.intersection(*whole)) if whole else []


def _runs(
    snapshot: Snapshot, name: str, window: Window, *, step_s: int | None = None
) -> list[TileRange]:
    since_s, until_s = window.since_s, window.until_s
    kept = snapshot.kept(METRICS[name].number, since_s, until_s)
    parts = pieces(since_s, until_s, step_s, kept)
    # why minutes: hours would say too little about an hour
    wanted_s = _MINUTE_S if until_s - since_s <= _DAY_S else _HOUR_S
    return ranges(parts, kept, coarsest_s=max(wanted_s, kept.finest_s(since_s)))


def _parameters(name: str, run: TileRange) -> tuple[int, int, int]:
    return METRICS[name].number, run.since_s, run.until_s
