"""Conditions of engines as their sidecars tell them, from a stall to readings that were lost.

Read from the finest tiles of the last quarter of an hour, so that a question every second is
cheap. Stalls and downs begin further back than that where nothing says otherwise: "at least".
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collector.gpu_signs import Progress, gpus_of, wedge_of
from collector.schema import TIERS_S
from collector.snapshot import Snapshot
from domain.condition import FRESH_S, Condition, ConditionKind
from domain.labels import Labels, labels_of, value_of
from domain.metric import METRICS
from domain.wedge import gpu_sentence

__all__ = ["LOOKBACK_S", "conditions", "newest"]

LOOKBACK_S = 900
_SILENT_S = 60
_NS = 1_000_000_000
_TIER_S = TIERS_S[0]
_PLACE = ("service", "replica", "role", "pool", "engine", "model", "region", "zone")
_MOVING = (
    "generation_tokens",
    "prompt_tokens",
    "engine_steps",
    "requests_started",
    "requests_finished",
)
_EVENTS = {
    ConditionKind.DRIFT: "schema_drift",
    ConditionKind.SUSPECT: "suspect_families",
    ConditionKind.LOST: "exports_dropped",
}

Places = Sequence[Sequence[int]]
"""The series of each place: of one replica of one service, as one source tells of it."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """Ten seconds of one gauge or counter of one series."""

    series_id: int
    at_s: int
    n: int
    total: float
    low: float
    high: float
    last: float
    last_at_s: int


def conditions(
    snapshot: Snapshot,
    *,
    at_s: int,
    where: Labels = (),
    kinds: Collection[ConditionKind],
    over_within_s: int,
) -> list[Condition]:
    """What holds at an instant, and what was over shortly before it; worst first."""
    places = snapshot.labels.grouping(where, ("service", "replica", "source")).members
    found: list[Condition] = []
    if ConditionKind.STALLED in kinds:
        found += _stalled(snapshot, places, at_s)
    if ConditionKind.DOWN in kinds or ConditionKind.SILENT in kinds:
        found += [each for each in _unanswered(snapshot, places, at_s) if each.kind in kinds]
    for kind, metric in _EVENTS.items():
        if kind in kinds:
            found += _events(snapshot, places, at_s, kind, metric)
    if ConditionKind.NOT_REPORTED in kinds:
        found += _not_reported(snapshot, places, at_s)
    order = list(ConditionKind)
    told = [
        each for each in found if each.over_at_s is None or at_s - each.over_at_s <= over_within_s
    ]
    return sorted(told, key=lambda each: (each.over, order.index(each.kind), each.since_s))


def _stalled(snapshot: Snapshot, places: Places, at_s: int) -> list[Condition]:
    marked = _ever(snapshot, "engine_stalled", at_s, "high >= 1")
    found = [
        condition
        for series in places
        if not marked.isdisjoint(series)
        and (condition := _stall(snapshot, series, at_s)) is not None
    ]
    return [_beside_its_gpus(snapshot, each, at_s) for each in found]


def _beside_its_gpus(snapshot: Snapshot, stall: Condition, at_s: int) -> Condition:
    """With what the engine's GPUs say, where one stands still and its GPUs are known."""
    if stall.over:
        return stall
    place = value_of(stall.labels, "service"), value_of(stall.labels, "replica")
    gpus = gpus_of(snapshot, at_s).get(place, ())
    if not gpus:
        return stall
    told = Progress(running=stall.running, flat_s=float(stall.seen_at_s - stall.since_s))
    verdict = wedge_of(snapshot, gpus, told, at_s=at_s)
    return replace(stall, gpus=gpu_sentence(verdict))


def _stall(snapshot: Snapshot, series: Sequence[int], at_s: int) -> Condition | None:
    """The newest stall of one place. It is over when something moved, or nothing is left to do.

    why not as soon as the gauge says 0: a sidecar that has just started does not know yet.
    """
    tiles = _tiles(snapshot, "engine_stalled", series, at_s)
    ones = [tile for tile in tiles if tile.high >= 1]
    if not ones:
        return None
    # why one series: of several (ranks, models) the one that stood still last is told of
    tiles = [tile for tile in tiles if tile.series_id == ones[-1].series_id]
    latest, last_one = tiles[-1], ones[-1]
    seen_at_s = last_one.last_at_s if last_one.last >= 1 else _last_one_s(last_one, tiles)
    running, waiting = (_level(snapshot, name, series, at_s) for name in _LEVELS)
    moved = [tile for metric in _MOVING for tile in _tiles(snapshot, metric, series, at_s)]
    idle = running is not None and not running + (waiting or 0)
    since_s = _moved_before(moved, _begun_s(tiles, last_one))
    moves = _moved_after(moved, seen_at_s) or _moved_within(moved, last_one)
    over = latest.last < 1 and (idle or moves)
    return Condition(
        kind=ConditionKind.STALLED,
        labels=_labels(snapshot, series),
        since_s=min(since_s, seen_at_s),
        seen_at_s=seen_at_s,
        over_at_s=max(_over_s(tiles, last_one), seen_at_s) if over else None,
        running=running,
        waiting=waiting,
    )


_LEVELS = ("requests_running", "requests_waiting")


def _begun_s(tiles: Sequence[_Tile], last_one: _Tile) -> int:
    """The first reading of the run of ones that ends in this tile, to a scrape's interval."""
    begun_s = last_one.last_at_s
    for tile in reversed([each for each in tiles if each.at_s <= last_one.at_s]):
        if tile.high < 1:
            break
        ones = round(tile.total)
        if tile.low < 1:
            begun_s = tile.at_s if tile.last < 1 else _first_of(tile, ones)
            break
        begun_s = _first_of(tile, tile.n)
    return begun_s


def _first_of(tile: _Tile, last_readings: int) -> int:
    """When the first of the last so many readings of a tile was, evenly spaced as they are."""
    return tile.last_at_s - (max(last_readings, 1) - 1) * _apart_s(tile)


def _apart_s(tile: _Tile) -> int:
    """Whole seconds between two readings of a tile, rounded down: nothing is said to be older."""
    return (tile.last_at_s - tile.at_s) // max(tile.n - 1, 1)


def _last_one_s(tile: _Tile, tiles: Sequence[_Tile]) -> int:
    """The last reading of 1 in a tile that ends with 0."""
    begins = not any(each.at_s < tile.at_s and each.last >= 1 for each in tiles)
    if begins:  # began and ended within ten seconds
        return max(tile.last_at_s - _apart_s(tile), tile.at_s)
    return tile.at_s + (round(tile.total) - 1) * _apart_s(tile)


def _over_s(tiles: Sequence[_Tile], last_one: _Tile) -> int:
    """The first reading of 0 after the ones."""
    if last_one.last < 1:
        return min(_last_one_s(last_one, tiles) + _apart_s(last_one), last_one.last_at_s)
    later = [tile for tile in tiles if tile.at_s > last_one.at_s]
    return _first_of(later[0], later[0].n) if later else last_one.last_at_s


def _moved_before(moved: Iterable[_Tile], begun_s: int) -> int:
    """Nothing moved after this instant, as surely as tiles can tell; before the gauge said so."""
    ends_s = [
        min(tile.last_at_s if tile.last > 0 else tile.at_s + _TIER_S, begun_s)
        for tile in moved
        if tile.total > 0 and tile.at_s < begun_s
    ]
    return max(ends_s, default=begun_s)


def _moved_after(moved: Iterable[_Tile], seen_at_s: int) -> bool:
    return any(
        tile.total > 0 and (tile.at_s > seen_at_s or (tile.last > 0 and tile.last_at_s > seen_at_s))
        for tile in moved
    )


def _moved_within(moved: Iterable[_Tile], last_one: _Tile) -> bool:
    """What moved within the ten seconds in which the gauge fell is taken to have ended it."""
    return last_one.last < 1 and any(
        tile.total > 0 and tile.at_s == last_one.at_s for tile in moved
    )


def _unanswered(snapshot: Snapshot, places: Places, at_s: int) -> list[Condition]:
    """Places that say they are down, and places that say nothing any more."""
    heard = newest(snapshot, *_window("up", at_s))
    troubled = _ever(snapshot, "up", at_s, "low < 1")
    found: list[Condition] = []
    for series in places:
        told = [heard[number] for number in series if number in heard]
        if not told:
            continue
        newest_s = max(instant_s for instant_s, _ in told)
        down = min(last for instant_s, last in told if instant_s == newest_s) < 1
        silent = at_s - newest_s > _SILENT_S
        if down or not troubled.isdisjoint(series):
            condition = _down(snapshot, series, at_s, newest_s, down=down)
            if condition is not None:
                found.append(condition)
        if silent and not down:
            found.append(
                Condition(
                    kind=ConditionKind.SILENT,
                    labels=_labels(snapshot, series),
                    since_s=newest_s,
                    seen_at_s=at_s,
                )
            )
    return found


def _down(
    snapshot: Snapshot, series: Sequence[int], at_s: int, newest_s: int, *, down: bool
) -> Condition | None:
    tiles = _tiles(snapshot, "up", series, at_s)
    zeros = [tile for tile in tiles if tile.low < 1]
    if not zeros:
        return None
    last_zero = max(zeros, key=lambda tile: tile.last_at_s)
    seen_at_s = newest_s if down else last_zero.last_at_s
    answered = [
        tile.last_at_s for tile in tiles if tile.last >= 1 and tile.last_at_s < last_zero.last_at_s
    ]
    since_s = max(answered, default=min(tile.at_s for tile in zeros))
    again = [tile for tile in tiles if tile.high >= 1 and tile.last_at_s > seen_at_s]
    over_at_s = max(min((_after(tile, seen_at_s) for tile in again), default=at_s), seen_at_s)
    return Condition(
        kind=ConditionKind.DOWN,
        labels=_labels(snapshot, series),
        since_s=min(since_s, seen_at_s),
        seen_at_s=seen_at_s,
        over_at_s=None if down else over_at_s,
        reason=value_of(snapshot.labels.by_id[last_zero.series_id], "reason"),
    )


def _after(tile: _Tile, instant_s: int) -> int:
    """The first reading of a tile after an instant."""
    return max(_first_of(tile, tile.n), instant_s + 1)


def _events(
    snapshot: Snapshot, places: Places, at_s: int, kind: ConditionKind, metric: str
) -> list[Condition]:
    """What a counter says happened, place by place; its `reason` is the metric concerned."""
    grown = {
        series_id: (first_s, last_ns // _NS)
        for series_id, first_s, last_ns in snapshot.rows(
            f"SELECT series_id, min(at_s), max(last_at_ns) FROM number_{_TIER_S}"  # noqa: S608 - ours
            " WHERE metric = ? AND at_s >= ? AND at_s < ? AND sum > 0 GROUP BY series_id",
            _parameters(metric, at_s),
        )
    }
    found: list[Condition] = []
    for series in places:
        own = [number for number in series if number in grown]
        if own:
            first_s = min(grown[number][0] for number in own)
            last_s = max(grown[number][1] for number in own)
            found.append(_named(snapshot, kind, own, since_s=first_s, seen_at_s=last_s))
    return found


def _not_reported(snapshot: Snapshot, places: Places, at_s: int) -> list[Condition]:
    """What pages leave out; replicas of one service that leave out the same are one condition."""
    told = newest(snapshot, *_window("not_reported", at_s))
    by_id = snapshot.labels.by_id
    alike: defaultdict[tuple[str, frozenset[str]], list[int]] = defaultdict(list)
    for series in places:
        own = [number for number in series if number in told and told[number][1] >= 1]
        if own:
            metrics = frozenset(value_of(by_id[number], "reason") for number in own)
            alike[value_of(by_id[own[0]], "service"), metrics].extend(own)
    found: list[Condition] = []
    for series in alike.values():
        seen_at_s = max(told[number][0] for number in series)
        kind = ConditionKind.NOT_REPORTED
        found.append(_named(snapshot, kind, series, since_s=seen_at_s, seen_at_s=seen_at_s))
    return found


def _named(
    snapshot: Snapshot, kind: ConditionKind, series: Sequence[int], *, since_s: int, seen_at_s: int
) -> Condition:
    by_id = snapshot.labels.by_id
    metrics = sorted({value_of(by_id[number], "reason") for number in series} - {""})
    return Condition(
        kind=kind,
        labels=_labels(snapshot, series),
        since_s=min(since_s, seen_at_s),
        seen_at_s=seen_at_s,
        metrics=tuple(metrics),
    )


def newest(
    snapshot: Snapshot, metric: str, since_s: int, until_s: int
) -> dict[int, tuple[int, float]]:
    """By series the instant and the value of the newest reading that the finest tiles have."""
    # why bare `last`: SQLite takes it from the row that has the maximum
    sql = (
        f"SELECT series_id, max(last_at_ns), last FROM number_{_TIER_S}"  # noqa: S608 - ours
        " WHERE metric = ? AND at_s >= ? AND at_s < ? GROUP BY series_id"
    )
    rows = snapshot.rows(sql, (METRICS[metric].number, since_s, until_s))
    return {series_id: (last_ns // _NS, last) for series_id, last_ns, last in rows}


def _ever(snapshot: Snapshot, metric: str, at_s: int, claim: str) -> frozenset[int]:
    """The series of which a claim was true at any time."""
    sql = (
        f"SELECT DISTINCT series_id FROM number_{_TIER_S}"  # noqa: S608 - claims of ours
        f" WHERE metric = ? AND at_s >= ? AND at_s < ? AND {claim}"
    )
    return frozenset(number for (number,) in snapshot.rows(sql, _parameters(metric, at_s)))


def _window(metric: str, at_s: int) -> tuple[str, int, int]:
    return metric, at_s - LOOKBACK_S, at_s + _TIER_S


def _parameters(metric: str, at_s: int) -> tuple[int, int, int]:
    return METRICS[metric].number, at_s - LOOKBACK_S, at_s + _TIER_S


def _tiles(snapshot: Snapshot, metric: str, series: Sequence[int], at_s: int) -> list[_Tile]:
    """The tiles of these series, in order of time."""
    rows: list[tuple[Any, ...]] = snapshot.rows(
        "SELECT series_id, at_s, n, sum, low, high, last, last_at_ns"  # noqa: S608 - names of ours
        f" FROM number_{_TIER_S} WHERE metric = ? AND at_s >= ? AND at_s < ?"
        " AND series_id IN (SELECT value FROM json_each(?)) ORDER BY at_s, last_at_ns",
        (*_parameters(metric, at_s), json.dumps(list(series))),
    )
    return [
        _Tile(series_id, start_s, n, total, low, high, last, last_ns // _NS)
        for series_id, start_s, n, total, low, high, last, last_ns in rows
    ]


def _level(snapshot: Snapshot, metric: str, series: Sequence[int], at_s: int) -> int | None:
    """The newest readings of a gauge, added over the models of a place; None where none is fresh."""
    latest: dict[int, _Tile] = {
        tile.series_id: tile for tile in _tiles(snapshot, metric, series, at_s)
    }
    fresh = [tile.last for tile in latest.values() if at_s - tile.last_at_s <= FRESH_S]
    return round(sum(fresh)) if fresh else None


def _labels(snapshot: Snapshot, series: Iterable[int]) -> Labels:
    """Of labels with several values (two models of one engine) none is the place's."""
    by_id = snapshot.labels.by_id
    told: dict[str, set[str]] = {}
    for number in series:
        for name in (*_PLACE, "source"):
            if value := value_of(by_id[number], name):
                told.setdefault(name, set()).add(value)
    return labels_of({name: next(iter(v)) for name, v in told.items() if len(v) == 1})
