"""Where each stage is worst: the replica that stands out, else its pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.query import Stages
from domain.labels import Labels, project, value_of
from domain.request import Stage

__all__ = ["Worst", "token_seconds", "worst_places"]

_STANDS_OUT = 1.5
_QUEUE_STANDS_OUT = 3.0
"""Waits grow as load / (1 - load): near full, a tenth more load doubles them, and blames nobody."""


@dataclass(frozen=True, slots=True)
class Worst:
    """Where a stage is longest. `alone`: one replica that stands out among others of its like.

    `name` is empty where all replicas are alike and nobody says what pool they are.
    """

    name: str
    alone: bool = False


def worst_places(replicas: Sequence[Stages]) -> dict[Stage, Worst]:
    """A replica that takes half as long again as the better half of its like; else the pool.

    Of the queue it must be three times as long.
    """
    limits = {Stage.QUEUE: _QUEUE_STANDS_OUT}
    found = {
        stage: _worst(_means_s(replicas, stage), limits.get(stage, _STANDS_OUT)) for stage in Stage
    }
    return {stage: place for stage, place in found.items() if place is not None}


def token_seconds(means_s: Mapping[Labels, float]) -> Worst | None:
    """The same of seconds per token."""
    return _worst(means_s, _STANDS_OUT)


def _means_s(replicas: Sequence[Stages], stage: Stage) -> dict[Labels, float]:
    return {
        each.labels: part.mean_s
        for each in replicas
        for part in each.stages
        if part.stage is stage and part.mean_s is not None and value_of(each.labels, "replica")
    }


def _worst(means_s: Mapping[Labels, float], stands_out: float) -> Worst | None:
    if not means_s:
        return None
    worst = max(means_s, key=lambda each: (means_s[each], each))
    like = project(worst, ("pool", "role"))
    peers = sorted(s for labels, s in means_s.items() if project(labels, ("pool", "role")) == like)
    replica = value_of(worst, "replica")
    if len(peers) == 1:
        return Worst(value_of(worst, "pool") or replica)
    middle_s = peers[(len(peers) - 1) // 2]
    if means_s[worst] > stands_out * middle_s:
        return Worst(replica, alone=True)
    return Worst(value_of(worst, "pool"))
