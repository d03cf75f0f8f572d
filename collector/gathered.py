"""Tiles of one step and group, and of all: added up as rows, so that their words are decoded once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from collector import words
from domain.distribution import Distribution
from domain.grid import Cells

__all__ = ["Gathered", "Row", "Sums"]

_LONG_BYTES = 64 * 1024
_NS = 1_000_000_000

Row = tuple[Any, ...]


@dataclass(slots=True, eq=False)
class Gathered:
    """Tiles wait as rows, and are added up column by column; long words are kept as counts.

    `blobs` and `counts` are of three sides: exact, low and high.
    """

    rows: list[Row] = field(default_factory=list)
    n: int = 0
    failures: int = 0
    sum_ns: int | None = 0
    blobs: tuple[list[bytes], list[bytes], list[bytes]] = field(
        default_factory=lambda: ([], [], [])
    )
    counts: list[Cells | None] = field(default_factory=lambda: [None, None, None])

    def settle(self) -> None:
        """Add up the rows that wait."""
        if not self.rows:
            return
        _, _, n, failed, sums_ns, *sides = zip(*self.rows, strict=True)
        self.rows.clear()
        known = None not in sums_ns
        self._add(sum(n), sum(failed), sum(sums_ns) if known else None)
        for place, side in enumerate(sides):
            self.blobs[place].append(b"".join(side))
            self._shorten(place)

    def plus(self, other: Gathered) -> Gathered:
        """Both together; each stays as it is."""
        whole = Gathered()
        for part in (self, other):
            part.settle()
            whole._add(part.n, part.failures, part.sum_ns)
            for place, counts in enumerate(part.counts):
                whole.blobs[place].extend(part.blobs[place])
                mine = whole.counts[place]
                if counts is not None:
                    whole.counts[place] = counts if mine is None else mine + counts
                whole._shorten(place)
        return whole

    @property
    def failed(self) -> int:
        self.settle()
        return self.failures

    def distribution(self) -> Distribution:
        self.settle()
        sum_s = None if self.sum_ns is None else self.sum_ns / _NS
        if not any(map(self._holds, (1, 2))):
            exact = self._cells(0)
            return Distribution(exact, exact, exact=True, sum_s=sum_s)
        low, high = self._cells(1), self._cells(2)
        if self._holds(0):
            exact = self._cells(0)
            low, high = low + exact, high + exact
        return Distribution(low, high, exact=False, sum_s=sum_s)

    def _add(self, n: int, failed: int, sum_ns: int | None) -> None:
        self.n += n
        self.failures += failed
        self.sum_ns = None if self.sum_ns is None or sum_ns is None else self.sum_ns + sum_ns

    def _shorten(self, place: int) -> None:
        if sum(map(len, self.blobs[place])) > _LONG_BYTES:
            self.counts[place] = self._cells(place)
            self.blobs[place].clear()

    def _holds(self, place: int) -> bool:
        return self.counts[place] is not None or any(self.blobs[place])

    def _cells(self, place: int) -> Cells:
        waiting, counts = words.decode(self.blobs[place]), self.counts[place]
        return waiting if counts is None else counts + waiting


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """What was gathered by (group, step), and the series that told it."""

    tiles: Mapping[tuple[int, int], Gathered]
    seen: frozenset[int]

    def __len__(self) -> int:
        return len(self.tiles)

    def plus(self, other: Sums) -> Sums:
        """Both together."""
        both = {
            key: self.tiles[key].plus(tiles) if key in self.tiles else tiles
            for key, tiles in other.tiles.items()
        }
        return Sums({**self.tiles, **both}, self.seen | other.seen)
