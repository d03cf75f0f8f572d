"""A budget: what a period allows, what of it is spent, and when it will be gone at today's burn."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from alerts.state import Alert, Timers, after_condition
from domain.objective import Severity

__all__ = ["LEVELS", "Budget", "Forecast", "Level", "after_level", "forecast"]

CLEAR_ABOVE = Fraction(5, 100)
"""A note that was told is over so much above where it was told, so that it is told once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the period allows and what of it is spent.

    `allowed` bad ones are granted by the traffic of the period so far, each minute at the target
    that was in force. `spent_low` are surely bad, `spent_high` possibly. `period_s` is the length
    of the present period, `begin_s` when this budget began (by period, start or reset), `at_s` up
    to when it is counted. `excluded_minutes` were maintenance.
    """

    allowed: Fraction
    spent_low: int
    spent_high: int
    total: int
    period_s: int
    counted_since_s: int | None
    begin_s: int = 0
    at_s: int = 0
    end_s: int | None = None
    excluded_minutes: int = 0

    @property
    def remaining_low(self) -> Fraction | None:
        """The share surely left, below 0 when overspent; None without traffic."""
        return 1 - self.spent_high / self.allowed if self.allowed else None

    @property
    def remaining_high(self) -> Fraction | None:
        """The share possibly left."""
        return 1 - self.spent_low / self.allowed if self.allowed else None

    @property
    def of_period_low(self) -> Fraction | None:
        """What is left of the whole period's budget, if its traffic goes on as it was so far.

        An hour into a month an outage of a minute has spent little of the month. Where as much was
        counted as the period is long, the same as `remaining_low`.
        """
        return self._of_period(self.spent_high)

    @property
    def of_period_high(self) -> Fraction | None:
        return self._of_period(self.spent_low)

    def _of_period(self, spent: int) -> Fraction | None:
        since_s = max(self.begin_s, self.counted_since_s or self.begin_s)
        counted_s = self.at_s - since_s
        if not self.allowed or counted_s <= 0:
            return None
        whole = self.allowed * max(Fraction(self.period_s, counted_s), Fraction(1))
        return 1 - spent / whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """In how many seconds the budget is gone at the burn of the last hour.

    Between `earliest_s` and `latest_s`; None: never, or not before `ends_in_s`, when it begins anew.
    """

    earliest_s: int | None
    latest_s: int | None
    ends_in_s: int | None = None


def forecast(budget: Budget, burn_low: Fraction | None, burn_high: Fraction | None) -> Forecast:
    """Remaining * period / burn, from both ends of the doubt; a calendar ends it before."""
    ends_in_s = None if budget.end_s is None else budget.end_s - budget.at_s
    if ends_in_s is None:
        left = (budget.remaining_low, budget.remaining_high)
    else:
        left = (budget.of_period_low, budget.of_period_high)
    return Forecast(
        earliest_s=_gone_in_s(left[0], burn_high, budget.period_s, ends_in_s),
        latest_s=_gone_in_s(left[1], burn_low, budget.period_s, ends_in_s),
        ends_in_s=ends_in_s,
    )


def _gone_in_s(
    remaining: Fraction | None, burn: Fraction | None, period_s: int, ends_in_s: int | None
) -> int | None:
    if remaining is None or not burn:
        return None
    gone_s = int(max(remaining, Fraction(0)) * period_s / burn)
    return gone_s if ends_in_s is None or gone_s < ends_in_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A share of the budget at which somebody is told that no more is left. Never a page.

    What was told is over when more than `clears` is left.
    """

    name: str
    share: Fraction
    clears: Fraction
    severity: Severity

    def low(self, left: int, whole: int, *, told: bool) -> bool:
        """Whether `left` of `whole` is as little as that; in integers, as it is asked each minute."""
        share = self.clears if told else self.share
        return left * share.denominator <= share.numerator * whole


LEVELS = tuple(
    Level(name=name, share=share, clears=share + CLEAR_ABOVE, severity=severity)
    for name, share, severity in (
        ("budget-50", Fraction(1, 2), Severity.INFO),
        ("budget-25", Fraction(1, 4), Severity.TICKET),
        ("budget-0", Fraction(0), Severity.INFO),
    )
)
"""Half: a note. A quarter: a ticket. Nothing: freeze."""


def after_level(alert: Alert, level: Level, left: int, whole: int, *, at_s: int) -> Alert:
    """The note after a minute: told at its level, over five points above it."""
    low = level.low(left, whole, told=alert.open)
    if low == alert.open:
        return alert
    return after_condition(alert, _AT_ONCE, holds=low, at_s=at_s)


_AT_ONCE = Timers()
