"""What polling costs before anything is asked: calls per hour, dollars per month, and a daily cap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from domain.endpoint_metric import Tier
from exporters.cloudwatch.asked import Asked
from exporters.cloudwatch.query import batches
from exporters.cloudwatch.schedule import interval_s

__all__ = ["USD_PER_METRIC", "Budget", "Plan", "planned"]

USD_PER_METRIC = 0.01 / 1000
_CYCLE_S = 900  # every tier's rhythm begins again
_TICK_S = 60
_DAY_S = 86_400
_HOURS = 30 * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """GetMetricData's calls and billed metrics in one hour."""

    calls_per_hour: float
    metrics_per_hour: float

    @property
    def usd_per_month(self) -> float:
        """Of 30 days."""
        return self.metrics_per_hour * _HOURS * USD_PER_METRIC


def planned(asked: Sequence[Asked], *, active_share: float) -> Plan:
    """While a share of the hours has traffic. The schedule itself is played through, call by call."""
    busy, idle = (_hour(asked, active=active) for active in (True, False))
    return Plan(
        calls_per_hour=active_share * busy[0] + (1 - active_share) * idle[0],
        metrics_per_hour=active_share * busy[1] + (1 - active_share) * idle[1],
    )


def _hour(asked: Sequence[Asked], *, active: bool) -> tuple[int, int]:
    calls = metrics = 0
    for at_s in range(0, _CYCLE_S, _TICK_S):
        due = [each for each in asked if at_s % interval_s(each.metric.tier, active=active) == 0]
        calls += len(batches(due))
        metrics += sum(each.billed_units for each in due)
    cycles = 3600 // _CYCLE_S
    return calls * cycles, metrics * cycles


class Budget:
    """Dollars of one account and day (UTC): a tier is asked while the hotter ones are provided for."""

    def __init__(self, usd_per_day: float | None) -> None:
        self._cap = usd_per_day
        self._day = -1
        self._spent_usd = 0.0
        self._said: set[Tier] = set()

    def spent_usd(self, now_s: float) -> float:
        self._turn(now_s)
        return self._spent_usd

    def spend(self, metrics: int, now_s: float) -> None:
        self._turn(now_s)
        self._spent_usd += metrics * USD_PER_METRIC

    def admitted(
        self, due: Sequence[Asked], every: Iterable[Asked], now_s: float
    ) -> tuple[list[Asked], list[Tier]]:
        """What may be asked now, and the tiers that stop here for the first time today."""
        if self._cap is None:
            return list(due), []
        self._turn(now_s)
        left_s = (self._day + 1) * _DAY_S - now_s
        room = self._cap - self._spent_usd
        taken: list[Asked] = []
        stopped: list[Tier] = []
        known = list(every)
        for tier in Tier:  # the hottest first
            wanted = [each for each in due if each.metric.tier is tier]
            cost = sum(each.billed_units for each in wanted) * USD_PER_METRIC
            if wanted and cost <= room:
                taken += wanted
            elif wanted and tier not in self._said:
                self._said.add(tier)
                stopped.append(tier)
            room -= max(cost, _rest_of_day(known, tier, left_s))
        return taken, stopped

    def _turn(self, now_s: float) -> None:
        day = int(now_s // _DAY_S)
        if day != self._day:
            self._day, self._spent_usd = day, 0.0
            self._said.clear()


def _rest_of_day(every: Sequence[Asked], tier: Tier, left_s: float) -> float:
    """What a tier will still cost today, as if there were traffic all the time."""
    units = sum(each.billed_units for each in every if each.metric.tier is tier)
    return units * USD_PER_METRIC * left_s / interval_s(tier, active=True)
