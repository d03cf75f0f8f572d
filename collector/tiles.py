"""What a transaction adds to the tiles: values, failures, pairs and readings, gathered and upserted.

Rows merge in SQL (`blob || excluded.blob`), so nothing is read to add; a blob that grew far beyond
what its cells need is made compact. Values enter the finest tier still kept at their instant, and
the coarser tiles around them are named dirty in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from sqlalchemy import Connection

from collector import words
from collector.legs import Floats, Integers
from collector.schema import TIERS_S
from domain.grid import cells_of

__all__ = ["DirtyWindows", "Growth", "Pair", "Tiles", "Window"]

Window = tuple[int, int, int]  # tier, metric, at_s
_SECOND_NS = 1_000_000_000
_CELL_BITS = 12
_SERIES_BITS = 24
_LONG_BYTES = 49_152  # twice what both sides of a pair need with every cell held: 8 * CELLS
_MOST_TRACKED = 200_000
_KEY = "metric = ? AND at_s = ? AND series_id = ?"
_Row = tuple[int, int, int, int, int, int | None, bytes, bytes, bytes]

_ADD_HISTOGRAM = (
    "INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (metric, at_s, series_id) DO UPDATE SET n = n + excluded.n,"
    " failed = failed + excluded.failed, sum_ns = sum_ns + excluded.sum_ns,"
    " exact = CAST(exact || excluded.exact AS BLOB), low = CAST(low || excluded.low AS BLOB),"
    " high = CAST(high || excluded.high AS BLOB)"
)
_ADD_NUMBER = (
    "INSERT INTO number_{tier} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (metric, at_s, series_id) DO UPDATE SET n = n + excluded.n,"
    " sum = sum + excluded.sum, low = min(low, excluded.low), high = max(high, excluded.high),"
    " last = iif(excluded.last_at_ns >= last_at_ns, excluded.last, last),"
    " last_at_ns = max(last_at_ns, excluded.last_at_ns)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One side, or both, of a latency point. `exact` values have one side only."""

    n: int = 0
    sum_ns: int | None = 0
    exact: bytes = b""
    low: bytes = b""
    high: bytes = b""


class DirtyWindows:
    """Which coarse tiles are out of date, as the store has it, and since when untouched."""

    def __init__(self) -> None:
        self.touched_at_s: dict[Window, float] = {}
        self._loaded = False

    def load(self, connection: Connection) -> None:
        if not self._loaded:
            rows = connection.exec_driver_sql("SELECT tier, metric, at_s FROM dirty")
            self.touched_at_s.update(((tier, metric, at_s), 0.0) for tier, metric, at_s in rows)
            self._loaded = True

    def forget(self) -> None:
        self.touched_at_s.clear()
        self._loaded = False

    def mark(self, connection: Connection, windows: set[Window], *, at_s: float) -> None:
        new = [window for window in windows if window not in self.touched_at_s]
        if new:
            connection.exec_driver_sql("INSERT OR IGNORE INTO dirty VALUES (?, ?, ?)", sorted(new))
        self.touched_at_s.update(dict.fromkeys(windows, at_s))

    def clear(self, connection: Connection, windows: Sequence[Window]) -> None:
        if windows:
            connection.exec_driver_sql(
                "DELETE FROM dirty WHERE tier = ? AND metric = ? AND at_s = ?", list(windows)
            )
        for window in windows:
            self.touched_at_s.pop(window, None)


class Tiles:
    """Additions of one transaction. `oldest_s`: where the oldest tile that they changed begins."""

    def __init__(self) -> None:
        self._values: list[tuple[Integers, Floats]] = []  # keys, seconds
        self._pairs: list[tuple[int, int, int, int, Pair]] = []  # metric, at_s, series, failed
        self._numbers: list[tuple[int, int, int, float, int]] = []
        self.oldest_s: int | None = None

    def add_values(
        self, metric: int, at_ns: Integers, series_id: Integers, values_s: Floats
    ) -> None:
        """Exact values, one by one."""
        if len(values_s):
            tile = at_ns // (_SECOND_NS * TIERS_S[0])
            key = (((metric << 28) + tile) << _SERIES_BITS) + series_id
            self._values.append((key, values_s))

    def add_failed(self, metric: int, at_ns: int, series_id: int) -> None:
        """A request that has no value and belongs in the denominator."""
        self._pairs.append((metric, _tile(at_ns), series_id, 1, Pair()))

    def add_pair(self, metric: int, at_ns: int, series_id: int, pair: Pair) -> None:
        """Values of which a histogram is known."""
        self._pairs.append((metric, _tile(at_ns), series_id, 0, pair))

    def add_number(self, metric: int, at_ns: int, series_id: int, value: float) -> None:
        """A reading of a gauge, or an increase of a counter."""
        self._numbers.append((metric, at_ns, series_id, value, _tile(at_ns)))

    def flush(
        self,
        connection: Connection,
        cutoff_s: Mapping[int, int],
        growth: Growth,
        crowd_of: Mapping[int, int],
    ) -> set[Window]:
        """Write it all; the coarse windows that are now out of date."""
        dirty: set[Window] = set()
        histograms: dict[int, list[_Row]] = {}
        for row in [*self._exact_rows(), *self._pair_rows()]:
            tier, start_s = self._placed(row[1], cutoff_s)
            histograms.setdefault(tier, []).append((row[0], start_s, *row[2:]))
            dirty.update(_around(tier, row[0], start_s))
        for tier, rows in histograms.items():
            rows.sort(key=lambda row: row[:3])
            _add(connection, growth, f"histogram_{tier}", rows)
            if tier > TIERS_S[0]:
                crowded = [(*row[:2], crowd_of[row[2]], *row[3:]) for row in rows]
                _add(connection, growth, f"crowd_{tier}", crowded)
        return dirty | self._flush_numbers(connection, cutoff_s)

    def _placed(self, at_s: int, cutoff_s: Mapping[int, int]) -> tuple[int, int]:
        tier, start_s = _place(at_s, cutoff_s)
        self.oldest_s = start_s if self.oldest_s is None else min(self.oldest_s, start_s)
        return tier, start_s

    def _flush_numbers(self, connection: Connection, cutoff_s: Mapping[int, int]) -> set[Window]:
        dirty: set[Window] = set()
        numbers: dict[int, list[tuple[object, ...]]] = {}
        for metric, at_ns, series_id, value, at_s in self._numbers:
            tier, start_s = self._placed(at_s, cutoff_s)
            row = (metric, start_s, series_id, 1, value, value, value, value, at_ns)
            numbers.setdefault(tier, []).append(row)
            dirty.update(_around(tier, metric, start_s))
        for tier, rows in numbers.items():
            connection.exec_driver_sql(_ADD_NUMBER.format(tier=tier), rows)
        return dirty

    def _exact_rows(self) -> list[_Row]:
        if not self._values:
            return []
        key = np.concatenate([keys for keys, _ in self._values])
        value_s = np.concatenate([values for _, values in self._values])
        groups, group = np.unique(key, return_inverse=True)
        n = np.bincount(group).tolist()
        sum_ns = np.zeros(len(groups), np.int64)
        np.add.at(sum_ns, group, np.rint(value_s * _SECOND_NS).astype(np.int64))
        held, counts = np.unique(
            (group.astype(np.int64) << _CELL_BITS) + cells_of(value_s), return_counts=True
        )
        ends = np.searchsorted(held, (np.arange(len(groups) + 1)) << _CELL_BITS).tolist()
        cells = held & ((1 << _CELL_BITS) - 1)
        series_id = (groups & ((1 << _SERIES_BITS) - 1)).tolist()
        at_s = ((groups >> _SERIES_BITS & ((1 << 28) - 1)) * TIERS_S[0]).tolist()
        metric = (groups >> (_SERIES_BITS + 28)).tolist()
        blobs = _blobs(cells, counts, ends)
        empty = [b""] * len(groups)
        sums: list[int | None] = list(sum_ns.tolist())
        none = [0] * len(groups)
        return list(zip(metric, at_s, series_id, n, none, sums, blobs, empty, empty, strict=True))

    def _pair_rows(self) -> list[_Row]:
        return [
            (metric, at_s, series_id, pair.n, failed, pair.sum_ns, pair.exact, pair.low, pair.high)
            for metric, at_s, series_id, failed, pair in self._pairs
        ]


def _add(connection: Connection, growth: Growth, table: str, rows: Sequence[_Row]) -> None:
    connection.exec_driver_sql(_ADD_HISTOGRAM.format(table=table), rows)
    growth.shorten(connection, table, rows)


def _blobs(cells: Integers, counts: Integers, ends: list[int]) -> list[bytes]:
    """`collector.words` of each group of cells."""
    if counts.max() <= words.COUNT_MAX:
        joined = (cells << 20 | counts).astype("<u4").tobytes()
        return [joined[4 * a : 4 * b] for a, b in pairwise(ends)]
    return [
        words.encode(np.bincount(cells[a:b], weights=counts[a:b]).astype(np.int64))
        for a, b in pairwise(ends)
    ]


def _tile(at_ns: int) -> int:
    return at_ns // _SECOND_NS // TIERS_S[0] * TIERS_S[0]


def _place(at_s: int, cutoff_s: Mapping[int, int]) -> tuple[int, int]:
    """The finest tier that still holds this instant, and its tile there."""
    for tier in TIERS_S[:-1]:
        start_s = at_s // tier * tier
        if start_s >= cutoff_s.get(tier, 0):
            return tier, start_s
    return TIERS_S[-1], at_s // TIERS_S[-1] * TIERS_S[-1]


def _around(tier: int, metric: int, at_s: int) -> list[Window]:
    return [(coarse, metric, at_s // coarse * coarse) for coarse in TIERS_S if coarse > tier]


class Growth:
    """How many bytes were added to which tile, so that a long one is found without looking."""

    def __init__(self) -> None:
        self._added: dict[tuple[str, int, int, int], int] = {}

    def forget(self) -> None:
        self._added.clear()

    def shorten(self, connection: Connection, table: str, rows: Sequence[_Row]) -> None:
        """Make those of the tiles just written compact that grew far beyond their cells."""
        if len(self._added) > _MOST_TRACKED:
            self._added.clear()
        long = []
        for metric, at_s, series_id, *_, exact, low, high in rows:
            key = (table, metric, at_s, series_id)
            added = self._added.get(key, 0) + len(exact) + len(low) + len(high)
            self._added[key] = added if added <= _LONG_BYTES else 0
            if added > _LONG_BYTES:
                long.append((metric, at_s, series_id))
        for place in long:
            sides = connection.exec_driver_sql(
                f"SELECT exact, low, high FROM {table} WHERE {_KEY}",  # noqa: S608 - ours
                place,
            ).one()
            connection.exec_driver_sql(
                f"UPDATE {table} SET exact = ?, low = ?, high = ? WHERE {_KEY}",  # noqa: S608 - ours
                (*(words.compact(side) for side in sides), *place),
            )
