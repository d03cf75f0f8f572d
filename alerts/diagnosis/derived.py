"""What follows from several answers of the query door: arrivals, suspicion, cold replicas."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.diagnosis.facts import Arrived
from collector.query import Numbers, Stages, Window
from domain.labels import Labels, value_of
from domain.request import Stage

__all__ = [
    "arrivals",
    "arrived",
    "of_one_pool",
    "prefill_load",
    "suspicious",
    "typical",
]

_SUSPECT = 1.05


def suspicious(tokens: dict[Labels, float]) -> bool | None:
    """Whether a replica takes longer per token than the better half of its pool; None: not told."""
    pools: dict[str, list[float]] = {}
    for labels, mean_s in tokens.items():
        pools.setdefault(value_of(labels, "pool"), []).append(mean_s)
    compared = [sorted(each) for each in pools.values() if len(each) > 1]
    if not compared:
        return None
    return any(each[-1] > _SUSPECT * each[(len(each) - 1) // 2] for each in compared)


def typical(by: dict[str, float]) -> float:
    ordered = sorted(by.values())
    return ordered[len(ordered) // 2]


def of_one_pool(levels: Sequence[Numbers], waits: dict[str, float]) -> dict[str, float]:
    """The replicas of the pool where most wait: a prefill queue is no measure of a decode one."""
    pools: dict[str, dict[str, float]] = {}
    for each in levels:
        name = value_of(each.labels, "replica")
        if name in waits:
            pools.setdefault(value_of(each.labels, "pool"), {})[name] = waits[name]
    return max(pools.values(), key=lambda each: sum(each.values()), default={})


def arrivals(
    stages: Stages | None, running: Sequence[Numbers], waiting: Sequence[Numbers], window: Window
) -> float | None:
    """A second: what ended, and by how much what is inside grew. Completions alone saturate."""
    if stages is None or stages.flow.finished is None or not running:
        return None
    flow = stages.flow
    inside = sum(p.last for each in (*running, *waiting) for p in each.points[-1:])
    ended = flow.finished + (flow.failed or 0) + (flow.cancelled or 0) if flow.finished else 0
    grown = inside - (flow.in_flight_before or 0)
    return max(ended + grown, 0.0) / (window.until_s - window.since_s)


def arrived(ages: dict[str, float], waits: dict[str, float]) -> list[Arrived]:
    ordered = sorted(waits.values())
    middle_s = ordered[(len(ordered) - 1) // 2]
    return [
        Arrived(place=name, age_s=ages[name], ttft_s=wait_s, median_s=middle_s)
        for name, wait_s in waits.items()
        if name in ages
    ]


def prefill_load(replicas: Sequence[Stages]) -> float | None:
    """Busy seconds of the prefill pool over its wall time; None without such a pool."""
    pool = [each for each in replicas if value_of(each.labels, "role") == "prefill"]
    busy_s = [
        part.distribution.sum_s
        for each in pool
        for part in each.stages
        if part.stage is Stage.PREFILL
    ]
    if not busy_s or None in busy_s:
        return None
    wall_s = sum(each.window.until_s - each.window.since_s for each in pool)
    return min(sum(each for each in busy_s if each is not None) / wall_s, 1.0)
