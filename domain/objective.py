"""Promises: what share of requests must be good, over how long, and when to worry.

`p99 ttft <= 1.5s over 30d` *is* "at least 99 % of requests have TTFT <= 1.5 s": a ratio of counts,
compared in rationals, so that a tie is a tie.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from domain.errors import ConfigError
from domain.indicator import Indicator, counts_minutes
from domain.period import Calendar
from domain.slice import SlicePolicy, Tally

__all__ = [
    "DAY_S",
    "FEW_MINUTES",
    "FEW_REQUESTS",
    "BurnRule",
    "Objective",
    "Severity",
    "burn_rules",
    "burns",
    "usual_min_events",
]

HOUR_S = 3600
DAY_S = 86_400
FEW_REQUESTS = 10
"""A page rests on so many bad requests, unless its definition says otherwise."""
FEW_MINUTES = 3
"""The same where minutes are counted: one is little, but not the chance of one request."""


class Severity(StrEnum):
    """What an alert asks of a person: get up, look tomorrow, or nothing at all."""

    PAGE = "page"
    TICKET = "ticket"
    INFO = "info"  # never of a burn: a note on the budget


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnRule:
    """Fire when the budget burns more than `factor` times too fast in both windows."""

    name: str
    severity: Severity
    factor: Fraction
    long_s: int
    short_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A promise, its name, and how few requests a page may rest on.

    `slices`: minutes are promised, each good or bad as a whole, and not requests. `calendar`: the
    budget begins anew with each month or the like; `period_s` is then its usual length, for rules.
    """

    name: str
    indicator: Indicator
    target: Fraction
    period_s: int = 30 * DAY_S
    min_events: int = 10
    runbook: str = ""
    slices: SlicePolicy | None = None
    calendar: Calendar | None = None

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ConfigError(
                f"a target of {float(self.target) * 100:g} % leaves nothing to measure against",
                where=f"objective {self.name!r}",
                remedy="Use a target above 0 and below 100 %, such as p99.",
            )
        if self.min_events < 0:
            raise ConfigError(
                f"min_events is {self.min_events}",
                where=f"objective {self.name!r}",
                remedy="Use 0 or more; 0 lets one bad request page.",
            )

    @property
    def budget(self) -> Fraction:
        """The share of requests that may be bad."""
        return 1 - self.target

    @property
    def counts_minutes(self) -> bool:
        """Whether what is good or bad is a minute, and not a request."""
        return self.slices is not None or counts_minutes(self.indicator)

    def period_begin_s(self, at_s: int) -> int:
        """When the period began whose budget an instant spends."""
        return at_s - self.period_s if self.calendar is None else self.calendar.begin_s(at_s)

    def period_end_s(self, at_s: int) -> int | None:
        """When the budget begins anew; None where it does so every minute."""
        return None if self.calendar is None else self.calendar.end_s(at_s)

    def period_length_s(self, at_s: int) -> int:
        """How long the period is that an instant lies in: a March of Berlin is an hour short."""
        if self.calendar is None:
            return self.period_s
        return self.calendar.end_s(at_s) - self.calendar.begin_s(at_s)


def usual_min_events(indicator: Indicator, slices: SlicePolicy | None) -> int:
    """On how many bad ones a page rests where nobody says."""
    whole = slices is not None or counts_minutes(indicator)
    return FEW_MINUTES if whole else FEW_REQUESTS


_TABLE = (
    ("page-quick", Severity.PAGE, Fraction(2, 100), HOUR_S, 300),
    ("page-slow", Severity.PAGE, Fraction(5, 100), 6 * HOUR_S, 1800),
    ("ticket-quick", Severity.TICKET, Fraction(10, 100), DAY_S, 2 * HOUR_S),
    ("ticket-slow", Severity.TICKET, Fraction(10, 100), 3 * DAY_S, 6 * HOUR_S),
)


@functools.lru_cache
def burn_rules(period_s: int) -> tuple[BurnRule, ...]:
    """The multi-window table: factor = budget share * period / long window, never below 1.

    For 30 days 14.4, 6, 3, 1 (Google SRE Workbook, ch. 5). A factor below 1 would page a service
    that keeps its promise. Windows longer than the period say nothing and are left out.
    """
    return tuple(
        BurnRule(
            name=name,
            severity=severity,
            factor=max(share * period_s / long_s, Fraction(1)),
            long_s=long_s,
            short_s=short_s,
        )
        for name, severity, share, long_s, short_s in _TABLE
        if long_s <= period_s
    )


def burns(counted: Tally, objective: Objective, rule: BurnRule, *, surely: bool) -> bool:
    """Does this window burn faster than the rule allows? Exact, strict; no traffic never burns."""
    bad = counted.bad_low if surely else counted.bad_high
    return bad > rule.factor * objective.budget * counted.total
