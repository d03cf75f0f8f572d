"""The minute tiles of one window: read for one objective, or once for hundreds.

A tile that is longer than a minute cannot be told apart by minute and is left out: where minute
tiles are retired there are none. Read once, the tiles of all series lie in memory as columns, and
each objective picks its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collector.legs import Integers
from collector.observed import observed_minutes, told_before, watching, watching_minutes
from collector.precedence import NEAR_S, Precedence
from collector.query import Selection, Window
from collector.snapshot import Snapshot
from collector.tile_rows import Row, plan, rows
from collector.tile_table import TileTable, table_of
from domain.labels import Labels, value_of
from domain.metric import METRICS, Kind
from domain.slice import MINUTE_S

__all__ = ["MinuteTiles"]

_ROOM_ROWS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class _Whole:
    """Every tile of a metric, and the rows of each series: those from `ends[id]` on."""

    table: TileTable
    ends: Integers

    def of(self, series: Sequence[int]) -> Integers:
        """The rows of some series."""
        known = [number for number in series if number + 1 < len(self.ends)]
        parts = [np.arange(self.ends[each], self.ends[each + 1]) for each in known]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)


@dataclass(slots=True)
class MinuteTiles:
    """The whole minutes of a window. `shared`: many will ask, so everything is read at once."""

    snapshot: Snapshot
    window: Window
    shared: bool = False
    _wholes: dict[str, _Whole] = field(default_factory=dict)
    _picked: dict[tuple[str, Labels], TileTable] = field(default_factory=dict)
    _near: dict[tuple[str, Labels, bool], TileTable] = field(default_factory=dict)
    _told: dict[tuple[str, Labels], bool] = field(default_factory=dict)
    _watched: Mapping[int, frozenset[int]] | None = None

    def tables(self, metric: str, where: Labels) -> Iterator[TileTable]:
        """The tiles of the series that match, of sources that are believed; some at a time."""
        if self.shared:
            if len(self._all(metric).table):
                yield self._believed(metric, where)
            return
        waiting: list[tuple[int, Row]] = []
        for found in self._tiles(metric, where, self.window, sift=True):
            waiting.append(found)
            if len(waiting) == _ROOM_ROWS:
                yield _table(metric, waiting)
                waiting.clear()
        yield _table(metric, waiting)

    def near(self, metric: str, where: Labels, *, counts_only: bool = False) -> TileTable:
        """The same of every source, and of a minute around the window too."""
        if self.shared:
            key = (metric, where, counts_only)
            if key not in self._near:
                whole = self._all(metric)
                series = self.snapshot.labels.matching(where) if len(whole.table) else ()
                self._near[key] = whole.table.take(whole.of(series), counts_only=counts_only)
            return self._near[key]
        return _table(metric, list(self._tiles(metric, where, self._around, sift=False)))

    def rows(self, metric: str, where: Labels) -> Iterator[tuple[int, Row]]:
        """Minute and row of each tile, of sources that are believed."""
        for _, row in self._tiles(metric, where, self.window, sift=True):
            yield row[0] // MINUTE_S * MINUTE_S, row

    def told_before(self, metric: str, where: Labels) -> bool:
        """Whether the series that match told a counter on the day that ends with the window."""
        found = self._told.get((metric, where))
        if found is None:
            series = self.snapshot.labels.matching(where)
            found = told_before(self.snapshot, metric, series, self.window)
            self._told[metric, where] = found
        return found

    def observed(self, where: Labels, minutes_s: Sequence[int]) -> frozenset[int]:
        """Those of these minutes in which somebody watched what is asked for."""
        if not minutes_s:
            return frozenset()
        if not self.shared:
            return observed_minutes(self.snapshot, where, minutes_s)
        if self._watched is None:
            self._watched = watching_minutes(self.snapshot, self.window)
        wanted, found = frozenset(minutes_s), set[int]()
        for number in watching(self.snapshot, where):
            found |= self._watched.get(number, frozenset())
            if wanted <= found:
                break
        return wanted & found

    @property
    def _around(self) -> Window:
        return Window(since_s=self.window.since_s - NEAR_S, until_s=self.window.until_s + NEAR_S)

    def _tiles(
        self, metric: str, where: Labels, window: Window, *, sift: bool
    ) -> Iterator[tuple[int, Row]]:
        asked = plan(
            self.snapshot,
            metric,
            Selection(window=window, where=where),
            coarsest_s=MINUTE_S,
            sift=sift,
        )
        return (found for found in rows(self.snapshot, asked) if found[0] <= MINUTE_S)

    def _believed(self, metric: str, where: Labels) -> TileTable:
        found = self._picked.get((metric, where))
        if found is None:
            near = self.near(metric, where)
            inside = (near.at_s >= self.window.since_s) & (near.at_s < self.window.until_s)
            inside &= self._is_believed(near, where)
            found = near if inside.all() else near.take(inside.nonzero()[0])
            self._picked[metric, where] = found
        return found

    def _is_believed(self, near: TileTable, where: Labels) -> NDArray[np.bool_]:
        labels = self.snapshot.labels
        places = labels.contested(where, apart=False)
        if value_of(where, "source") or not places:
            return np.ones(len(near), bool)
        tiles = list(
            zip(near.tier_s.tolist(), near.at_s.tolist(), near.series_id.tolist(), strict=True)
        )
        judge = Precedence(places, tiles)
        return np.array([judge.believes(*tile) for tile in tiles], bool)

    def _all(self, metric: str) -> _Whole:
        whole = self._wholes.get(metric)
        if whole is None:
            found = list(self._tiles(metric, (), self._around, sift=False))
            found.sort(key=lambda tile: (tile[1][1], tile[1][0]))
            table = _table(metric, found)
            last = int(table.series_id[-1]) if len(table) else 0
            ends = np.searchsorted(table.series_id, np.arange(last + 2))
            whole = self._wholes[metric] = _Whole(table, ends)
        return whole


def _table(metric: str, tiles: Sequence[tuple[int, Row]]) -> TileTable:
    return table_of(tiles, latency=METRICS[metric].kind is Kind.LATENCY)
