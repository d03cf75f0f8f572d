"""Gauges and counters: levels add over replicas, extremes stay, increases sum; ratios average.

Ratios average by capacity: two caches, 0.2 of 1000 blocks and 0.8 of 3000, are 0.65 full together.
Where a replica does not say how large its cache is, or engines count in different units, it is the
plain mean; the answer says which. A gauge's mean is over time: tile by tile what the replicas said together, so that a replica that
was replaced within a step is not counted beside its successor.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from collector.cover import Piece
from collector.query import NumberPoint, Numbers, Selection
from collector.snapshot import Snapshot
from collector.tile_rows import Plan, plan, rows
from domain.labels import Labels, value_of
from domain.metric import METRICS, Kind

__all__ = ["numbers"]

_STILL_THERE_NS = 60_000_000_000
"""A replica that said nothing for longer is not part of the last reading."""


_CAPACITY = {"kv_cache_usage": "kv_cache_capacity"}

Weights = Mapping[int, tuple[str, float]]
"""By series: its engine, whose units these are, and how much it holds."""


@dataclass(slots=True)
class _Tile:
    mean: float = 0.0
    weighted: float = 0.0
    weight: float = 0.0
    low: float = 0.0
    high: float = 0.0
    replicas: int = 0

    def add(self, kind: Kind, mean: float, low: float, high: float, weight: float) -> None:
        """One more replica. Of extremes, each bound is the extreme of the bounds."""
        self.replicas += 1
        self.weighted += weight * mean
        self.weight += weight
        if self.replicas == 1:
            self.mean, self.low, self.high = mean, low, high
            return
        match kind:
            case Kind.MAXIMUM | Kind.MINIMUM:
                of = max if kind is Kind.MAXIMUM else min
                self.mean = of(self.mean, mean)
                self.low, self.high = of(self.low, low), of(self.high, high)
            case Kind.RATIO:
                self.mean += mean
                self.low, self.high = min(self.low, low), max(self.high, high)
            case _:
                self.mean += mean
                self.low, self.high = self.low + low, self.high + high


@dataclass(slots=True)
class _Step:
    increase: float = 0.0
    tiles: defaultdict[tuple[int, int], _Tile] = field(default_factory=lambda: defaultdict(_Tile))
    last: dict[int, tuple[int, float]] = field(default_factory=dict)  # by series: instant, value


def numbers(snapshot: Snapshot, metric: str, selection: Selection) -> list[Numbers]:
    """A gauge or a counter, one per group that has readings."""
    asked = plan(snapshot, metric, selection)
    grouping = snapshot.labels.grouping(selection.where, selection.by)
    found, group_of = grouping.names, grouping.group_of
    weights = _weights(snapshot, asked, selection)
    steps, seen = _steps(snapshot, asked, group_of, weights)
    weighted = {group for group, series in seen.items() if _comparable(series, weights)}
    points: dict[int, list[NumberPoint]] = defaultdict(list)
    for (group, place), step in sorted(steps.items(), key=lambda item: item[0]):
        kind = METRICS[metric].kind
        by = weights if group in weighted else {}
        points[group].append(_point(kind, asked.steps[place], step, by))
    return [
        Numbers(
            labels=found[group],
            points=points[group],
            weighted_by=_CAPACITY[metric] if group in weighted else "",
        )
        for group in sorted(points)
    ]


def _weights(snapshot: Snapshot, asked: Plan, selection: Selection) -> Weights:
    """What each series of a ratio is a share of, as last told in the window."""
    capacity = _CAPACITY.get(asked.metric)
    if capacity is None:
        return {}
    of_place: dict[tuple[str, ...], float] = {}
    whole = plan(snapshot, capacity, replace(selection, step_s=None))
    newest: dict[int, tuple[int, float]] = {}
    for _, (_, series_id, _, _, _, _, last, last_at_ns) in rows(snapshot, whole):
        newest[series_id] = max(newest.get(series_id, (0, 0.0)), (last_at_ns, last))
    for number, (_, value) in newest.items():
        place = _place(whole.series[number])
        of_place[place] = of_place.get(place, 0.0) + value
    found: dict[int, tuple[str, float]] = {}
    for number, own in asked.series.items():
        value = newest[number][1] if number in newest else of_place.get(_place(own), 0.0)
        if 0 < value < math.inf:
            found[number] = value_of(own, "engine"), value
    return found


def _place(labels: Labels) -> tuple[str, ...]:
    return tuple(value_of(labels, name) for name in ("service", "replica", "source"))


def _comparable(series: Collection[int], weights: Weights) -> bool:
    """Whether all of a group say how much they hold, in the units of one engine."""
    units = {weights[number][0] if number in weights else None for number in series}
    return len(series) > 1 and len(units) == 1 and None not in units


def _steps(
    snapshot: Snapshot, asked: Plan, group_of: Mapping[int, int], weights: Weights
) -> tuple[dict[tuple[int, int], _Step], dict[int, set[int]]]:
    """Each step of each group, and the series it was made of."""
    steps: defaultdict[tuple[int, int], _Step] = defaultdict(_Step)
    seen: defaultdict[int, set[int]] = defaultdict(set)
    kind = METRICS[asked.metric].kind
    step_of = asked.step_of()
    for tier_s, (at_s, series_id, n, total, low, high, last, last_at_ns) in rows(snapshot, asked):
        group = group_of[series_id]
        step = steps[group, step_of(at_s)]
        if kind is Kind.COUNTER:
            step.increase += total
            continue
        seen[group].add(series_id)
        weight = weights[series_id][1] if series_id in weights else 0.0
        step.tiles[tier_s, at_s].add(kind, total / n, low, high, weight)
        if last_at_ns >= step.last.get(series_id, (0, 0.0))[0]:
            step.last[series_id] = last_at_ns, last
    return steps, seen


def _point(kind: Kind, piece: Piece, step: _Step, weights: Weights) -> NumberPoint:
    if kind is Kind.COUNTER:
        value = low = high = last = step.increase
    else:
        lasting_s = sum(tier_s for tier_s, _ in step.tiles)
        value = sum(
            tier_s * _mean(kind, tile, weighted=bool(weights))
            for (tier_s, _), tile in step.tiles.items()
        )
        value /= lasting_s
        low = min(tile.low for tile in step.tiles.values())
        high = max(tile.high for tile in step.tiles.values())
        last = _last(kind, step, weights)
    return NumberPoint(
        since_s=piece.since_s, until_s=piece.until_s, value=value, low=low, high=high, last=last
    )


def _mean(kind: Kind, tile: _Tile, *, weighted: bool) -> float:
    if kind is not Kind.RATIO:
        return tile.mean
    return tile.weighted / tile.weight if weighted else tile.mean / tile.replicas


def _last(kind: Kind, step: _Step, weights: Weights) -> float:
    """The last readings of the replicas that are still there, together."""
    newest_at_ns = max(at_ns for at_ns, _ in step.last.values())
    still = {
        number: value
        for number, (at_ns, value) in step.last.items()
        if newest_at_ns - at_ns <= _STILL_THERE_NS
    }
    if kind is not Kind.RATIO:
        of = {Kind.MAXIMUM: max, Kind.MINIMUM: min}.get(kind, sum)
        return of(still.values())
    share = {number: weights[number][1] if weights else 1.0 for number in still}
    return sum(share[number] * value for number, value in still.items()) / sum(share.values())
