"""Answers about who is there and what is wrong with them, as JSON says them: freshness and conditions."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import TypedDict  # why: pydantic asks for it before Python 3.12

from collector.query import Freshness
from collector.times import rfc3339
from domain.condition import Condition, next_step, sentence

__all__ = ["ConditionsAnswer", "FreshnessAnswer", "conditions_answer", "freshness_answer"]


class _Replica(TypedDict):
    labels: dict[str, str]
    last_seen: str
    up: bool | None


class FreshnessService(TypedDict):
    """One service."""

    service: str
    newest: str | None
    replicas: list[_Replica]


class FreshnessAnswer(TypedDict):
    """`/api/v1/freshness`."""

    watermark: str | None
    services: list[FreshnessService]


class ConditionAnswer(TypedDict):
    """One condition. `over` is null while it holds; `stale`: nobody confirms it any more."""

    kind: str
    labels: dict[str, str]
    since: str
    seen: str
    over: str | None
    stale: bool
    running: int | None
    waiting: int | None
    metrics: list[str]
    reason: str
    sentence: str
    next: str


class ConditionsAnswer(TypedDict):
    """`/api/v1/conditions`."""

    at: str
    conditions: list[ConditionAnswer]


def freshness_answer(watermark_s: int | None, services: Iterable[Freshness]) -> FreshnessAnswer:
    """How old the newest data are."""
    return {
        "watermark": None if watermark_s is None else rfc3339(watermark_s),
        "services": [
            {
                "service": each.service,
                "newest": None if each.newest_at_s is None else rfc3339(each.newest_at_s),
                "replicas": [
                    {
                        "labels": dict(replica.labels),
                        "last_seen": rfc3339(replica.last_seen_at_s),
                        "up": replica.up,
                    }
                    for replica in each.replicas
                ],
            }
            for each in services
        ],
    }


def conditions_answer(at_s: int, conditions: Iterable[Condition]) -> ConditionsAnswer:
    """What is wrong with the engines themselves, worst first."""
    return {
        "at": rfc3339(at_s),
        "conditions": [
            {
                "kind": str(each.kind),
                "labels": dict(each.labels),
                "since": rfc3339(each.since_s),
                "seen": rfc3339(each.seen_at_s),
                "over": None if each.over_at_s is None else rfc3339(each.over_at_s),
                "stale": each.stale(at_s),
                "running": each.running,
                "waiting": each.waiting,
                "metrics": list(each.metrics),
                "reason": each.reason,
                "sentence": sentence(each, at_s=at_s),
                "next": next_step(each),
            }
            for each in conditions
        ],
    }
