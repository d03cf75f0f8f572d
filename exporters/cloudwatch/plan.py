"""What polling costs before anything is asked: calls per hour, dollars per month, and a daily cap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from domain.endpoint_metric import Tier
from exporters.cloudwatch.asked import Asked
from exporters.cloudwatch.query import batches
from exporters.cloudwatch.schedule import interval_s
from exporters.cloudwatch.spending import Spending

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

    def __init__(self, usd_per_day: float | None, spending: Spending | None = None) -> None:
        self.usd_per_day = usd_per_day
        self.stopped: set[Tier] = set()
        self._spending = Spending(None) if spending is None else spending
        self._day = -1
        self._said: set[Tier] = set()

    def spent_usd(self, now_s: float) -> float:
        return self._spending.today(now_s) * USD_PER_METRIC

    @property
    def assumed_usd(self) -> float:
        """What of it nobody remembers, and is counted at its most."""
        return self._spending.assumed * USD_PER_METRIC

    def spend(self, metrics: int, now_s: float) -> None:
        """Before they are asked for; a number below zero where nothing came of it."""
        self._spending.add(metrics, now_s)

    def admitted(
        self, due: Sequence[Asked], every: Iterable[Asked], now_s: float
    ) -> tuple[list[Asked], list[Tier]]:
        """What may be asked now, and the tiers that stop here for the first time today."""
        known = list(every)
        spent_usd = self._spent_at_most_usd(known, now_s)
        if self.usd_per_day is None:
            return list(due), []
        self._turn(now_s)
        left_s = (self._day + 1) * _DAY_S - now_s
        room = self.usd_per_day - spent_usd
        taken: list[Asked] = []
        for tier in Tier:  # the hottest first
            wanted = [each for each in due if each.metric.tier is tier]
            cost = sum(each.billed_units for each in wanted) * USD_PER_METRIC
            if wanted and cost <= room:
                taken += wanted
                self.stopped.discard(tier)
            elif wanted:
                self.stopped.add(tier)
            room -= max(cost, _units_in(known, tier, left_s) * USD_PER_METRIC)
        fresh = [tier for tier in Tier if tier in self.stopped - self._said]
        self._said |= self.stopped
        return taken, fresh

    def _spent_at_most_usd(self, known: Sequence[Asked], now_s: float) -> float:
        """Where nobody remembers: as if everything had been asked at its fastest since midnight."""
        spent_usd = self.spent_usd(now_s)
        if not self._spending.is_doubtful:
            return spent_usd
        most = math.ceil(sum(_units_in(known, tier, now_s % _DAY_S) for tier in Tier))
        if self.usd_per_day is not None:  # why: more was never let through
            most = min(most, math.ceil(self.usd_per_day / USD_PER_METRIC))
        self._spending.assume(most, now_s)
        return self.spent_usd(now_s)

    def _turn(self, now_s: float) -> None:
        day = int(now_s // _DAY_S)
        if day != self._day:
            self._day = day
            self._said.clear()
            self.stopped.clear()


def _units_in(every: Sequence[Asked], tier: Tier, span_s: float) -> float:
    """What a tier asks for in so many seconds, as if there were traffic all the time."""
    units = sum(each.billed_units for each in every if each.metric.tier is tier)
    return units * span_s / interval_s(tier, active=True)
