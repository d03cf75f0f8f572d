"""Rows of tiles for a question: fetched by the fewest, sifted by source, and added up.

Memory is bounded by the answer and `_ROOM_ROWS`, however long the window is.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter

from collector.cover import Kept, Piece, TileRange, pieces, ranges
from collector.crowds import names_a_place
from collector.gathered import Gathered, Row, Sums
from collector.precedence import NEAR_S, Precedence, Tile
from collector.query import Selection, Window
from collector.schema import TIERS_S
from collector.snapshot import Snapshot
from domain.labels import Labels, value_of
from domain.metric import METRICS, Kind

__all__ = ["Plan", "Row", "gather", "held", "plan", "rows", "sources", "split", "totals"]

_ROOM_ROWS = 32_768
_ADDED_ROWS = 8192  # as many, SQLite may hold to add them up
_FEW_ROWS = 64  # so that decoding works in the processor's cache
_HISTOGRAM = "n, failed, sum_ns, exact, low, high"
_NUMBER = "n, sum, low, high, last, last_at_ns"
_ADDED = (
    "sum(n), sum(failed), iif(count(sum_ns) = count(*), sum(sum_ns), NULL),"
    " CAST(group_concat(exact, '') AS BLOB), CAST(group_concat(low, '') AS BLOB),"
    " CAST(group_concat(high, '') AS BLOB)"
)
_FOREVER_S = 1 << 62
_PAST = Window(since_s=0, until_s=1)  # stands for any: tiles say which

_INSIDE = frozenset(("replica", "pool", "role"))
"""Asked for by these, what is behind a frontend does not give way to it."""

_AT, _SERIES = itemgetter(0), itemgetter(1)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which tiles and series answer a question. `places`: of the series of which some give way."""

    metric: str
    selection: Selection
    steps: Sequence[Piece]
    tiles: Sequence[TileRange]
    kept: Kept
    series: Mapping[int, Labels]
    places: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    crowded: bool = False
    sifted_as_crowds: bool = False

    def step_of(self) -> Callable[[int], int]:
        """The place of the step that a tile belongs to."""
        return _StepOf(self.steps)


def plan(
    snapshot: Snapshot,
    metric: str,
    asked: Selection,
    *,
    coarsest_s: int = TIERS_S[-1],
    sift: bool = True,
    crowded: bool = False,
) -> Plan:
    """How to answer: which tiles to read, and (unless all are asked for) whom to believe.

    `crowded`: whoever asks looks at no replica but those that the question names.
    """
    number = METRICS[metric].number
    since_s, until_s = asked.window.since_s, asked.window.until_s
    kept = snapshot.kept(number, since_s, until_s)
    steps = pieces(since_s, until_s, asked.step_s, kept)
    tiles = ranges(steps, kept, coarsest_s=coarsest_s)
    labels = snapshot.labels
    series = {number: labels.by_id[number] for number in labels.matching(asked.where)}
    inside = not _INSIDE.isdisjoint(asked.by)
    whole = not names_a_place(name for name, _ in asked.where)
    crowds = crowded and whole and not names_a_place(asked.by)
    found = Plan(metric, asked, steps, tiles, kept, series, crowded=crowds)
    if (
        sift
        and not value_of(asked.where, "source")
        and (places := labels.contested(asked.where, apart=inside))
    ):
        # why as crowds: all series of one are of one service and source
        return replace(found, places=places, sifted_as_crowds=whole)
    return found


def rows(snapshot: Snapshot, asked: Plan) -> Iterator[tuple[int, Row]]:
    """Tier and row (at_s, series_id, and the columns of its kind) of each tile that is believed."""
    for tier_s, chunk in _believed(snapshot, asked):
        for row in chunk:
            yield tier_s, row


def totals(snapshot: Snapshot, asked: Plan) -> dict[int, float]:
    """What each series of a counter grew by in all; added up by SQLite where nobody is sifted out."""
    over, open_ = split(asked.tiles, snapshot.over_s)
    key = ("totals", *_key(asked, over))
    before = snapshot.of_the_past(key, lambda: _totals(snapshot, replace(asked, tiles=over)))
    lately = _totals(snapshot, replace(asked, tiles=open_))
    return {each: before.get(each, 0.0) + lately.get(each, 0.0) for each in {**before, **lately}}


def _totals(snapshot: Snapshot, asked: Plan) -> dict[int, float]:
    found: dict[int, float] = {}
    if not asked.places:
        series = sorted(asked.series)
        for run in asked.tiles if series else ():
            for where, parameters in sources(snapshot, asked.metric, [run], series):
                sql = f"SELECT series_id, sum(sum) {where} GROUP BY series_id"
                for series_id, grown in snapshot.rows(sql, parameters):
                    if series_id in asked.series:
                        found[series_id] = found.get(series_id, 0.0) + grown
        return found
    for _, (_, series_id, _, grown, *_) in rows(snapshot, asked):
        found[series_id] = found.get(series_id, 0.0) + grown
    return found


def held(snapshot: Snapshot, asked: Plan) -> Iterator[Tile]:
    """Which tiles of these series hold anything: tier, at_s, series_id."""
    for tier_s, chunk in _fetch(snapshot, asked, sorted(asked.series), ""):
        for at_s, series_id in chunk:
            if series_id in asked.series:
                yield tier_s, at_s, series_id


def gather(snapshot: Snapshot, asked: Plan, group_of: Mapping[int, int]) -> Sums:
    """Histograms by (group, step), and the series that they came from.

    Of what is over only the sums are asked for.
    """
    over, open_ = split(asked.tiles, snapshot.over_s)
    if not over:
        return _gather(snapshot, asked, group_of)
    key = (asked.crowded, asked.steps[0].since_s, *_key(asked, over))
    before = snapshot.of_the_past(
        key, lambda: _gather(snapshot, replace(asked, tiles=over), group_of)
    )
    if not open_:
        return before
    return before.plus(_gather(snapshot, replace(asked, tiles=open_), group_of))


def _key(asked: Plan, over: Sequence[TileRange]) -> tuple[Hashable, ...]:
    """All that makes these tiles' sum another one; which window they are cut from does not."""
    about = replace(asked.selection, window=_PAST)
    return asked.metric, about, len(asked.series), bool(asked.places), tuple(over)


def split(tiles: Sequence[TileRange], over_s: int) -> tuple[list[TileRange], list[TileRange]]:
    """Runs of tiles that end until then, and the rest."""
    over: list[TileRange] = []
    rest: list[TileRange] = []
    for run in tiles:
        cut_s = run.since_s + max(over_s - run.since_s, 0) // run.tier_s * run.tier_s
        if cut_s >= run.until_s:
            over.append(run)
        elif cut_s > run.since_s:
            over.append(replace(run, until_s=cut_s))
            rest.append(replace(run, since_s=cut_s))
        else:
            rest.append(run)
    return over, rest


def _gather(snapshot: Snapshot, asked: Plan, group_of: Mapping[int, int]) -> Sums:
    steps: defaultdict[int, _Groups] = defaultdict(lambda: _Groups(group_of))
    seen: set[int] = set()
    step_of = asked.step_of()
    single = len(set(group_of.values())) == 1
    waiting = 0
    for _, chunk in _believed(snapshot, asked, added=True):
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
    return Sums(
        {
            (group, step): tiles
            for step, groups in steps.items()
            for group, tiles in groups.by_group.items()
        },
        frozenset(seen),
    )


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


def _believed(
    snapshot: Snapshot, asked: Plan, *, added: bool = False
) -> Iterator[tuple[int, list[Row]]]:
    """Rows by tier, those of other series and of sources that give way left out.

    `added`: those of one series and step may come as one.
    """
    columns = _HISTOGRAM if METRICS[asked.metric].kind is Kind.LATENCY else _NUMBER
    series = asked.series
    gives_way = snapshot.labels.giving_way(asked.places) if asked.places else frozenset()
    if doubtful := gives_way & series.keys():
        sifted = replace(asked, crowded=asked.sifted_as_crowds)
        judge = Precedence(asked.places, _held_by_better(snapshot, sifted, asked.places))
        for tier_s, chunk in _fetch(snapshot, asked, sorted(doubtful), columns):
            kept = [
                row
                for row in chunk
                if row[1] in doubtful and judge.believes(tier_s, row[0], row[1])
            ]
            if kept:
                yield tier_s, kept
        series = {number: own for number, own in series.items() if number not in doubtful}
    every = len(series) == len(snapshot.labels.by_id)
    for tier_s, chunk in _fetch(snapshot, asked, sorted(series), columns, added=added):
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
    snapshot: Snapshot, asked: Plan, places: Mapping[int, tuple[str, int]]
) -> Iterator[Tile]:
    """Tiles of series that are not their service's last resort, a minute beyond the fine tiles too."""
    worst: dict[str, int] = {}
    for service, rank in places.values():
        worst[service] = max(rank, worst.get(service, 0))
    better = {
        number: asked.series[number]
        for number, (service, rank) in places.items()
        if rank < worst[service]
    }
    yield from held(snapshot, replace(asked, series=better))
    near = [
        piece
        for run in asked.tiles
        if run.tier_s <= NEAR_S
        for piece in (
            Piece(run.since_s - NEAR_S, run.since_s),
            Piece(run.until_s, run.until_s + NEAR_S),
        )
    ]
    around = ranges(near, asked.kept, coarsest_s=NEAR_S)
    yield from held(snapshot, replace(asked, series=better, tiles=around))


def _fetch(
    snapshot: Snapshot, asked: Plan, series: Sequence[int], columns: str, *, added: bool = False
) -> Iterator[tuple[int, list[Row]]]:
    """Rows by tier; where they are few and may be `added`, SQLite does it: its words join too."""
    by_tier: dict[int, list[TileRange]] = {}
    for run in asked.tiles if series else ():
        by_tier.setdefault(run.tier_s, []).append(run)
    crowd_of = snapshot.labels.crowds.of
    crowded = asked.crowded and _table(asked.metric) == "histogram"
    crowds = sorted({crowd_of[number] for number in series}) if crowded else []
    each = f"at_s, series_id{', ' if columns else ''}{columns}"
    for tier_s, runs in by_tier.items():
        some = crowds if crowded and tier_s > TIERS_S[0] else series
        tiles = sum(run.until_s - run.since_s for run in runs) // tier_s
        step_s = asked.selection.step_s or _FOREVER_S
        few = added and tiles * len(some) <= _ADDED_ROWS and step_s > tier_s
        for where, parameters in sources(
            snapshot, asked.metric, runs, some, crowded=some is crowds
        ):
            sql = f"SELECT {each} {where}"
            if few:
                sql = f"SELECT min(at_s), series_id, {_ADDED} {where} GROUP BY series_id, at_s / {step_s}"
            for chunk in snapshot.stream(sql, parameters):
                yield tier_s, chunk


def sources(
    snapshot: Snapshot,
    metric: str,
    runs: Sequence[TileRange],
    series: Sequence[int],
    *,
    crowded: bool = False,
) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Where runs of one tier lie: a seek per tile and series where those are few, else their ranges.

    A range holds the tiles of other series too.
    """
    labels, number = snapshot.labels, METRICS[metric].number
    table = f"{'crowd' if crowded else _table(metric)}_{runs[0].tier_s}"
    # why eight: a seek costs more than the next row, and of many metrics no series tells
    if 8 * len(series) > len(labels.crowds if crowded else labels.by_id):
        for run in runs:
            where = f"FROM {table} WHERE metric = ? AND at_s >= ? AND at_s < ?"
            yield where, (number, run.since_s, run.until_s)
        return
    starts_s = [at for run in runs for at in range(run.since_s, run.until_s, run.tier_s)]
    where = (
        f"FROM json_each(?) AS t CROSS JOIN json_each(?) AS s CROSS JOIN {table}"
        " WHERE metric = ? AND at_s = t.value AND series_id = s.value"
    )
    yield where, (json.dumps(starts_s), json.dumps(series), number)
