"""Gauges and counters: levels add over replicas, ratios average, extremes stay, increases sum.

A gauge's mean is over time: tile by tile what the replicas said together, so that a replica that
was replaced within a step is not counted beside its successor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collector.query import NumberPoint, Numbers, Selection
from collector.snapshot import Snapshot
from collector.tile_rows import Plan, plan, rows
from domain.labels import Labels, project
from domain.metric import METRICS, Kind

__all__ = ["groups", "numbers"]

_STILL_THERE_NS = 60_000_000_000
"""A replica that said nothing for longer is not part of the last reading."""


@dataclass(slots=True)
class _Tile:
    mean: float = 0.0
    low: float = 0.0
    high: float = 0.0
    replicas: int = 0


@dataclass(slots=True)
class _Step:
    increase: float = 0.0
    tiles: defaultdict[tuple[int, int], _Tile] = field(default_factory=lambda: defaultdict(_Tile))
    last: dict[int, tuple[int, float]] = field(default_factory=dict)  # by series: instant, value


def groups(series: Mapping[int, Labels], by: Sequence[str]) -> tuple[list[Labels], dict[int, int]]:
    """The groups in order of their labels, and the group of each series."""
    projected = {number: project(own, by) for number, own in series.items()}
    found = sorted(set(projected.values()))
    place = {labels: index for index, labels in enumerate(found)}
    return found, {number: place[own] for number, own in projected.items()}


def numbers(snapshot: Snapshot, metric: str, selection: Selection) -> list[Numbers]:
    """A gauge or a counter, one per group that has readings."""
    asked = plan(snapshot, metric, selection)
    found, group_of = groups(asked.series, selection.by)
    steps = _steps(snapshot, asked, group_of)
    points: dict[int, list[NumberPoint]] = defaultdict(list)
    for (group, place), step in sorted(steps.items(), key=lambda item: item[0]):
        since_s, until_s = asked.steps[place].since_s, asked.steps[place].until_s
        points[group].append(_point(METRICS[metric].kind, since_s, until_s, step))
    return [Numbers(labels=found[group], points=points[group]) for group in sorted(points)]


def _steps(
    snapshot: Snapshot, asked: Plan, group_of: Mapping[int, int]
) -> dict[tuple[int, int], _Step]:
    steps: defaultdict[tuple[int, int], _Step] = defaultdict(_Step)
    kind = METRICS[asked.metric].kind
    step_of = asked.step_of()
    for tier_s, (at_s, series_id, n, total, low, high, last, last_at_ns) in rows(snapshot, asked):
        step = steps[group_of[series_id], step_of(at_s)]
        if kind is Kind.COUNTER:
            step.increase += total
            continue
        _add(kind, step.tiles[tier_s, at_s], total / n, low, high)
        if last_at_ns >= step.last.get(series_id, (0, 0.0))[0]:
            step.last[series_id] = last_at_ns, last
    return steps


def _add(kind: Kind, tile: _Tile, mean: float, low: float, high: float) -> None:
    """One more replica's tile. Of extremes, each bound is the extreme of the bounds."""
    tile.replicas += 1
    if tile.replicas == 1:
        tile.mean, tile.low, tile.high = mean, low, high
        return
    match kind:
        case Kind.MAXIMUM | Kind.MINIMUM:
            of = max if kind is Kind.MAXIMUM else min
            tile.mean = of(tile.mean, mean)
            tile.low, tile.high = of(tile.low, low), of(tile.high, high)
        case Kind.RATIO:
            tile.mean += mean
            tile.low, tile.high = min(tile.low, low), max(tile.high, high)
        case _:
            tile.mean += mean
            tile.low, tile.high = tile.low + low, tile.high + high


def _last(kind: Kind, values: Sequence[float]) -> float:
    match kind:
        case Kind.MAXIMUM:
            return max(values)
        case Kind.MINIMUM:
            return min(values)
        case Kind.RATIO:
            return sum(values) / len(values)
        case _:
            return sum(values)


def _point(kind: Kind, since_s: int, until_s: int, step: _Step) -> NumberPoint:
    if kind is Kind.COUNTER:
        value = low = high = last = step.increase
    else:
        lasting_s = sum(tier_s for tier_s, _ in step.tiles)
        value = sum(tier_s * _mean(kind, tile) for (tier_s, _), tile in step.tiles.items())
        value /= lasting_s
        low = min(tile.low for tile in step.tiles.values())
        high = max(tile.high for tile in step.tiles.values())
        newest_at_ns = max(at_ns for at_ns, _ in step.last.values())
        still = [v for at_ns, v in step.last.values() if newest_at_ns - at_ns <= _STILL_THERE_NS]
        last = _last(kind, still)
    return NumberPoint(since_s=since_s, until_s=until_s, value=value, low=low, high=high, last=last)


def _mean(kind: Kind, tile: _Tile) -> float:
    return tile.mean / tile.replicas if kind is Kind.RATIO else tile.mean
