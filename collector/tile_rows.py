"""Rows of tiles for a question: fetched by the fewest, sifted by source, and added up.

Blobs of one step and group are gathered and decoded together, by one count over their words.
Memory is bounded by the answer and `_ROOM_ROWS`, however long the window is.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from collector import words
from collector.cover import Kept, Piece, TileRange, pieces, ranges
from collector.precedence import NEAR_S, Precedence, Tile
from collector.query import Selection
from collector.schema import TIERS_S
from collector.snapshot import Snapshot
from domain.distribution import Distribution
from domain.grid import Cells
from domain.labels import Labels, value_of
from domain.metric import METRICS, Kind

__all__ = ["Gathered", "Plan", "Row", "gather", "held", "plan", "rows", "totals"]

_ROOM_ROWS = 32_768
_FEW_ROWS = 64  # so that decoding works in the processor's cache
_LONG_BYTES = 64 * 1024
_HISTOGRAM = "n, failed, sum_ns, exact, low, high"
_NUMBER = "n, sum, low, high, last, last_at_ns"
_NS = 1_000_000_000

_INSIDE = frozenset(("replica", "pool", "role"))
"""Asked for by these, what is behind a frontend does not give way to it."""

_AT, _SERIES = itemgetter(0), itemgetter(1)

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Which tiles and series answer a question."""

    metric: str
    steps: Sequence[Piece]
    tiles: Sequence[TileRange]
    kept: Kept
    series: Mapping[int, Labels]
    judge: Precedence | None

    def step_of(self) -> Callable[[int], int]:
        """The place of the step that a tile belongs to."""
        return _StepOf(self.steps)


class Gathered:
    """Tiles of one step and group. They wait as rows, and are added up column by column."""

    __slots__ = ("_blobs", "_counts", "_failed", "_n", "_sum_ns", "rows")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._n = 0
        self._failed = 0
        self._sum_ns: int | None = 0
        self._blobs: tuple[list[bytes], ...] = ([], [], [])
        self._counts: list[Cells | None] = [None, None, None]

    def settle(self) -> None:
        """Add up the rows that wait. What has grown long is decoded and kept as counts."""
        if not self.rows:
            return
        _, _, n, failed, sums_ns, *sides = zip(*self.rows, strict=True)
        self.rows.clear()
        self._n += sum(n)
        self._failed += sum(failed)
        known = self._sum_ns is not None and None not in sums_ns
        self._sum_ns = (self._sum_ns or 0) + sum(sums_ns) if known else None
        for place, (blobs, side) in enumerate(zip(self._blobs, sides, strict=True)):
            blobs.append(b"".join(side))
            if sum(map(len, blobs)) > _LONG_BYTES:
                self._counts[place] = self._cells(place)
                blobs.clear()

    @property
    def failed(self) -> int:
        self.settle()
        return self._failed

    def distribution(self) -> Distribution:
        self.settle()
        sum_s = None if self._sum_ns is None else self._sum_ns / _NS
        if not any(map(self._holds, (1, 2))):
            exact = self._cells(0)
            return Distribution(exact, exact, exact=True, sum_s=sum_s)
        low, high = self._cells(1), self._cells(2)
        if self._holds(0):
            exact = self._cells(0)
            low, high = low + exact, high + exact
        return Distribution(low, high, exact=False, sum_s=sum_s)

    def _holds(self, place: int) -> bool:
        return self._counts[place] is not None or any(self._blobs[place])

    def _cells(self, place: int) -> Cells:
        waiting, counts = words.decode(self._blobs[place]), self._counts[place]
        return waiting if counts is None else counts + waiting


def plan(
    snapshot: Snapshot,
    metric: str,
    asked: Selection,
    *,
    coarsest_s: int = TIERS_S[-1],
    sift: bool = True,
) -> Plan:
    """How to answer: which tiles to read, and (unless all are asked for) whom to believe."""
    number = METRICS[metric].number
    since_s, until_s = asked.window.since_s, asked.window.until_s
    kept = snapshot.kept(number, since_s, until_s)
    steps = pieces(since_s, until_s, asked.step_s, kept)
    tiles = ranges(steps, kept, coarsest_s=coarsest_s)
    labels = snapshot.labels
    series = {number: labels.by_id[number] for number in labels.matching(asked.where)}
    judge = None
    inside = not _INSIDE.isdisjoint(asked.by)
    if (
        sift
        and not value_of(asked.where, "source")
        and (places := labels.contested(asked.where, apart=inside))
    ):
        judge = Precedence(places, _held_by_better(snapshot, metric, tiles, kept, places))
    return Plan(metric, steps, tiles, kept, series, judge)


def rows(snapshot: Snapshot, asked: Plan) -> Iterator[tuple[int, Row]]:
    """Tier and row (at_s, series_id, and the columns of its kind) of each tile that is believed."""
    for tier_s, chunk in _believed(snapshot, asked):
        for row in chunk:
            yield tier_s, row


def totals(snapshot: Snapshot, asked: Plan) -> dict[int, float]:
    """What each series of a counter grew by in all; added up by SQLite where nobody is sifted out."""
    found: dict[int, float] = {}
    if asked.judge is None and not _few(snapshot, asked.series):
        number, wanted = METRICS[asked.metric].number, asked.series
        for run in asked.tiles:
            sql = (
                f"SELECT series_id, sum(sum) FROM number_{run.tier_s}"  # noqa: S608 - names of ours
                " WHERE metric = ? AND at_s >= ? AND at_s < ? GROUP BY series_id"
            )
            for series_id, grown in snapshot.rows(sql, (number, run.since_s, run.until_s)):
                if series_id in wanted:
                    found[series_id] = found.get(series_id, 0.0) + grown
        return found
    for _, (_, series_id, _, grown, *_) in rows(snapshot, asked):
        found[series_id] = found.get(series_id, 0.0) + grown
    return found


def held(snapshot: Snapshot, asked: Plan) -> Iterator[Tile]:
    """Which tiles of these series hold anything: tier, at_s, series_id."""
    yield from _held(snapshot, asked.metric, asked.tiles, asked.series.keys())


def gather(
    snapshot: Snapshot, asked: Plan, group_of: Mapping[int, int]
) -> tuple[dict[tuple[int, int], Gathered], set[int]]:
    """Histograms by (group, step), and the series that they came from."""
    steps: defaultdict[int, _Groups] = defaultdict(lambda: _Groups(group_of))
    seen: set[int] = set()
    step_of = asked.step_of()
    single = len(set(group_of.values())) == 1
    waiting = 0
    for _, chunk in _believed(snapshot, asked):
        seen.update(map(_SERIES, chunk))
        for at_s, tiles in groupby(chunk, _AT):
            groups = steps[step_of(at_s)]
            if single:
                only = groups[chunk[0][1]]
                only.rows.extend(tiles)
                if len(only.rows) > _FEW_ROWS:
                    only.settle()
                continue
            for row in tiles:
                groups[row[1]].rows.append(row)
        waiting += len(chunk)
        if waiting > _ROOM_ROWS:
            waiting = 0
            for groups in steps.values():
                groups.settle()
    for groups in steps.values():
        groups.settle()
    return {
        (group, step): tiles
        for step, groups in steps.items()
        for group, tiles in groups.by_group.items()
    }, seen


class _Groups(dict[int, Gathered]):
    """The tiles of one step by series; series of one group share theirs."""

    def __init__(self, group_of: Mapping[int, int]) -> None:
        super().__init__()
        self._group_of = group_of
        self.by_group: dict[int, Gathered] = {}

    def __missing__(self, series_id: int) -> Gathered:
        group = self._group_of[series_id]
        found = self[series_id] = self.by_group.setdefault(group, Gathered())
        return found

    def settle(self) -> None:
        for tiles in self.by_group.values():
            tiles.settle()


def _believed(snapshot: Snapshot, asked: Plan) -> Iterator[tuple[int, list[Row]]]:
    """Rows by tier, those of other series and of sources that give way left out."""
    columns = _HISTOGRAM if METRICS[asked.metric].kind is Kind.LATENCY else _NUMBER
    series, judge = asked.series, asked.judge
    every = len(series) == len(snapshot.labels.by_id)
    for tier_s, chunk in _fetch(snapshot, asked.metric, asked.tiles, series.keys(), columns):
        if judge is not None:
            believes = judge.believes
            kept = [r for r in chunk if r[1] in series and believes(tier_s, r[0], r[1])]
        else:
            kept = chunk if every else [row for row in chunk if row[1] in series]
        if kept:
            yield tier_s, kept


class _StepOf:
    """The step that a tile belongs to; tiles come nearly in order, so the last one is tried first."""

    def __init__(self, steps: Sequence[Piece]) -> None:
        self._steps = steps
        self._index = 0

    def __call__(self, at_s: int) -> int:
        step = self._steps[self._index]
        if not step.since_s <= at_s < step.until_s:
            self._index = self._find(at_s)
        return self._index

    def _find(self, at_s: int) -> int:
        low, high = 0, len(self._steps) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._steps[middle].since_s <= at_s:
                low = middle
            else:
                high = middle - 1
        return low


def _table(metric: str) -> str:
    return "histogram" if METRICS[metric].kind is Kind.LATENCY else "number"


def _held_by_better(
    snapshot: Snapshot,
    metric: str,
    tiles: Sequence[TileRange],
    kept: Kept,
    places: Mapping[int, tuple[str, int]],
) -> Iterator[Tile]:
    """Tiles of series that are not their service's last resort, a minute beyond the fine tiles too."""
    worst: dict[str, int] = {}
    for service, rank in places.values():
        worst[service] = max(rank, worst.get(service, 0))
    better = {number for number, (service, rank) in places.items() if rank < worst[service]}
    yield from _held(snapshot, metric, tiles, better)
    near = [
        piece
        for run in tiles
        if run.tier_s <= NEAR_S
        for piece in (
            Piece(run.since_s - NEAR_S, run.since_s),
            Piece(run.until_s, run.until_s + NEAR_S),
        )
    ]
    yield from _held(snapshot, metric, ranges(near, kept, coarsest_s=NEAR_S), better)


def _held(
    snapshot: Snapshot, metric: str, tiles: Sequence[TileRange], series: Iterable[int]
) -> Iterator[Tile]:
    wanted = frozenset(series)
    for tier_s, chunk in _fetch(snapshot, metric, tiles, wanted, ""):
        for at_s, series_id in chunk:
            if series_id in wanted:
                yield tier_s, at_s, series_id


def _few(snapshot: Snapshot, series: Sized) -> bool:
    """Whether a seek per tile and series is cheaper than a scan of all series."""
    return 2 * len(series) <= len(snapshot.labels.by_id)


def _fetch(
    snapshot: Snapshot,
    metric: str,
    tiles: Sequence[TileRange],
    series: Iterable[int],
    columns: str,
) -> Iterator[tuple[int, list[Row]]]:
    """Rows by tier: one seek per tile and series where those are few, else a scan of the range."""
    wanted = sorted(series)
    if not wanted:
        return
    number, name = METRICS[metric].number, _table(metric)
    asked = f"at_s, series_id{', ' if columns else ''}{columns}"
    seek = _few(snapshot, wanted)
    by_tier: dict[int, list[int]] = {}
    for run in tiles:
        if seek:
            starts = range(run.since_s, run.until_s, run.tier_s)
            by_tier.setdefault(run.tier_s, []).extend(starts)
        else:
            sql = f"SELECT {asked} FROM {name}_{run.tier_s} WHERE metric = ? AND at_s >= ? AND at_s < ?"  # noqa: S608 - names of ours
            for chunk in snapshot.stream(sql, (number, run.since_s, run.until_s)):
                yield run.tier_s, chunk
    for tier_s, starts_s in by_tier.items():
        sql = (
            f"SELECT {asked} FROM json_each(?) AS t CROSS JOIN json_each(?) AS s"  # noqa: S608 - names of ours
            f" CROSS JOIN {name}_{tier_s}"
            " WHERE metric = ? AND at_s = t.value AND series_id = s.value"
        )
        parameters = (json.dumps(starts_s), json.dumps(wanted), number)
        for chunk in snapshot.stream(sql, parameters):
            yield tier_s, chunk
