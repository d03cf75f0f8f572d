"""Tiles of one metric as columns, so that hundreds of rows are counted in one step.

The words of all blobs of one side lie behind each other, with the row that each belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.legs import Floats, Integers
from collector.threshold_cut import Cut
from collector.tile_rows import Row
from domain.slice import MINUTE_S

__all__ = ["Sides", "Splits", "TileTable", "table_of"]

_Words = NDArray[np.uint32]
_COUNT_BITS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Words of one side of many tiles; row `r` has those from `ends[r]` to `ends[r + 1]`."""

    words: _Words
    ends: Integers

    def take(self, rows: Integers) -> Sides:
        """The words of these rows."""
        if not len(self.words):
            return _without_words(len(rows))
        starts = self.ends[rows]
        lengths = self.ends[rows + 1] - starts
        ends = np.zeros(len(rows) + 1, np.int64)
        lengths.cumsum(out=ends[1:])
        if not ends[-1]:
            return _without_words(len(rows))
        places = np.arange(ends[-1]) + (starts - ends[:-1]).repeat(lengths)
        return Sides(self.words[places], ends)

    def split(self, cut: Cut) -> tuple[Integers, Integers]:
        """By row how many values are surely good, and how many lie in the cell that is cut."""
        rows = len(self.ends) - 1
        if not len(self.words):
            return np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        cell = self.words >> _COUNT_BITS
        count = (self.words & ((1 << _COUNT_BITS) - 1)).astype(np.int64)
        good = np.where(cell.astype(np.int64) <= cut.below, count, 0)
        inside = np.zeros_like(count) if cut.cell is None else np.where(cell == cut.cell, count, 0)
        return self._sums(good), self._sums(inside)

    def _sums(self, count: Integers) -> Integers:
        sums = np.concatenate(([0], count.cumsum()))
        found: Integers = sums[self.ends[1:]] - sums[self.ends[:-1]]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """By row: surely and possibly good, and how many exact values lie in the cell that is cut."""

    good_low: Integers
    good_high: Integers
    cut: Integers


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TileTable:
    """One row per tile. `count`: values of a latency, readings of a number.

    `total`: failures of a latency, the sum of a number's readings.
    """

    tier_s: Integers
    at_s: Integers
    series_id: Integers
    count: Integers
    total: Floats
    exact: Sides
    low: Sides
    high: Sides

    def __len__(self) -> int:
        return len(self.at_s)

    @property
    def minute_at_s(self) -> Integers:
        found: Integers = self.at_s // MINUTE_S * MINUTE_S
        return found

    def take(self, rows: Integers, *, counts_only: bool = False) -> TileTable:
        """These rows, in this order; `counts_only`: without their histograms."""
        exact, low, high = (
            _without_words(len(rows)) if counts_only else side.take(rows)
            for side in (self.exact, self.low, self.high)
        )
        return TileTable(
            tier_s=self.tier_s[rows],
            at_s=self.at_s[rows],
            series_id=self.series_id[rows],
            count=self.count[rows],
            total=self.total[rows],
            exact=exact,
            low=low,
            high=high,
        )

    def split(self, cut: Cut) -> Splits:
        """Of a coarse source the best and the worst histogram are split each for itself."""
        good, inside = self.exact.split(cut)
        surely, _ = self.high.split(cut)
        possibly, doubtful = self.low.split(cut)
        return Splits(good + surely, good + inside + possibly + doubtful, inside)


def table_of(tiles: Sequence[tuple[int, Row]], *, latency: bool) -> TileTable:
    """Tiers and rows as `collector.tile_rows` gives them."""
    rows = [row for _, row in tiles]
    exact, low, high = (
        _sides([row[column] for row in rows] if latency else [b""] * len(rows))
        for column in (5, 6, 7)
    )
    return TileTable(
        tier_s=np.array([tier_s for tier_s, _ in tiles], np.int64),
        at_s=np.array([row[0] for row in rows], np.int64),
        series_id=np.array([row[1] for row in rows], np.int64),
        count=np.array([row[2] for row in rows], np.int64),
        total=np.array([row[3] for row in rows], np.float64),
        exact=exact,
        low=low,
        high=high,
    )


def _sides(blobs: Sequence[bytes]) -> Sides:
    words = np.frombuffer(b"".join(blobs), "<u4")
    return Sides(words, np.array([0, *map(len, blobs)], np.int64).cumsum() // words.itemsize)


def _without_words(rows: int) -> Sides:
    return Sides(np.zeros(0, np.uint32), np.zeros(rows + 1, np.int64))
