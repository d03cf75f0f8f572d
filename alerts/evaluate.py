"""One evaluation of one rule: two windows of slices in, a verdict with its reason out.

A page needs the burn to be sure (`bad_low`) and to rest on enough requests; a ticket is enough when
the burn is possible (`bad_high`). Integers and fractions only, strict `>`: a tie does not burn.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from domain.objective import BurnRule, Objective, Severity
from domain.slice import Tally

__all__ = ["CLEAR_RATIO", "Limit", "Reason", "Verdict", "judge", "limit_of", "surely_above"]

CLEAR_RATIO = Fraction(9, 10)
"""Unless a definition says otherwise."""

_Z = Fraction(1645, 1000)
"""One-sided 95 %."""


class Reason(StrEnum):
    """Why a verdict came out as it did."""

    BURNING = "burning in both windows"
    TOO_FEW = "burning, but on too few requests for a page"
    CALM = "within the promise in at least one window"
    NO_TRAFFIC = "nobody asked"
    NOT_OBSERVED = "nobody was looking"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The reason, and the numbers it rests on.

    `holds`: still above the level at which an alert that fires clears. `observed`: somebody looked
    in the newest minute; a minute that nobody saw neither raises nor ends anything.
    """

    rule: BurnRule
    reason: Reason
    long: Tally
    short: Tally
    holds: bool
    observed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The share of bad ones above which one rule of a promise burns, and below which it clears."""

    rule: BurnRule
    burns: Fraction
    clears: Fraction
    min_events: int
    surely: bool

    def exceeded(self, bad: int, total: int) -> bool:
        """`domain.objective.burns` in integers: 4000 windows are judged per tick."""
        return bad * self.burns.denominator > self.burns.numerator * total

    def held(self, bad: int, total: int) -> bool:
        """Whether an alert that fires goes on."""
        return bad * self.clears.denominator > self.clears.numerator * total


def limit_of(objective: Objective, rule: BurnRule, clear: Fraction = CLEAR_RATIO) -> Limit:
    """`clear`: the share of the factor below which an alert that fires ends."""
    burns = rule.factor * objective.budget
    return Limit(
        rule=rule,
        burns=burns,
        clears=clear * burns,
        min_events=objective.min_events,
        surely=rule.severity is Severity.PAGE,
    )


def judge(limit: Limit, *, long: Tally, short: Tally, observed: bool) -> Verdict:
    """Burning in the long window (it matters) and in the short one (it still happens)."""
    windows = (long, short)
    reasons = [_reason(window, limit) for window in windows]
    reason = next((each for each in reasons if each is not Reason.BURNING), Reason.BURNING)
    if reason is Reason.BURNING and limit.surely and not _enough(long, limit):
        reason = Reason.TOO_FEW
    return Verdict(
        rule=limit.rule,
        reason=reason,
        long=long,
        short=short,
        holds=all(limit.held(_bad(window, limit), window.total) for window in windows),
        observed=observed,
    )


def surely_above(bad: int, total: int, limit: Fraction) -> bool:
    """Is the one-sided 95 % Wilson lower bound of bad/total above the limit? Exact.

    The bound is above the limit exactly where (bad - limit n)^2 > z^2 limit (1 - limit) n on the
    upper side: the score test that Wilson inverted, so no root is taken and nothing is rounded.
    """
    excess = bad - limit * total
    return excess > 0 and excess**2 > _Z**2 * limit * (1 - limit) * total


def _reason(window: Tally, limit: Limit) -> Reason:
    if not window.observed_minutes:
        return Reason.NOT_OBSERVED
    if not window.total:
        return Reason.NO_TRAFFIC
    return Reason.BURNING if limit.exceeded(_bad(window, limit), window.total) else Reason.CALM


def _bad(window: Tally, limit: Limit) -> int:
    return window.bad_low if limit.surely else window.bad_high


def _enough(long: Tally, limit: Limit) -> bool:
    """Many bad ones, or so large a share of few that chance is ruled out."""
    return long.bad_low >= limit.min_events or surely_above(long.bad_low, long.total, limit.burns)
