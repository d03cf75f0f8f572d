"""Which series are due: each tier in its own rhythm on the clock's grid, slower while nothing comes."""

from __future__ import annotations

from collections.abc import Iterable

from domain.endpoint import EndpointKey
from domain.endpoint_metric import TIERS_S, Tier
from exporters.cloudwatch.asked import Asked

__all__ = ["Schedule", "interval_s"]


def interval_s(tier: Tier, *, active: bool) -> int:
    """Seconds from one call to the next."""
    busy, idle = TIERS_S[tier]
    return busy if active else idle


class Schedule:
    """Remembers in which slot of its grid each series was last asked for."""

    def __init__(self) -> None:
        self._asked_at_s: dict[EndpointKey, float] = {}

    def due(self, asked: Iterable[Asked], now_s: float, idle: frozenset[object]) -> list[Asked]:
        """Those whose slot has not been used, the soonest needed first."""
        return sorted(
            (each for each in asked if self._is_due(each, now_s, idle)),
            key=lambda each: list(Tier).index(each.metric.tier),
        )

    def done(self, asked: Iterable[Asked], now_s: float) -> None:
        """Whether it went well or not: the next slot's window covers what this one did not get."""
        self._asked_at_s.update((each.key, now_s) for each in asked)

    def _is_due(self, asked: Asked, now_s: float, idle: frozenset[object]) -> bool:
        last_s = self._asked_at_s.get(asked.key)
        every_s = interval_s(asked.metric.tier, active=asked.endpoint not in idle)
        # why not later: a clock that was set back must not wait until it has caught up
        return last_s is None or now_s // every_s != last_s // every_s
