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

__all__ = ["CLEAR_RATIO", "Reason", "Verdict", "judge", "surely_above"]

CLEAR_RATIO = Fraction(9, 10)
"""An alert that fires goes on until the burn is below this share of the rule's factor."""

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


def judge(
    objective: Objective, rule: BurnRule, *, long: Tally, short: Tally, observed: bool
) -> Verdict:
    """Burning in the long window (it matters) and in the short one (it still happens)."""
    limit = rule.factor * objective.budget
    surely = rule.severity is Severity.PAGE
    windows = (long, short)
    reasons = (_reason(window, limit, surely=surely) for window in windows)
    reason = next((each for each in reasons if each is not Reason.BURNING), Reason.BURNING)
    if reason is Reason.BURNING and surely and not _enough(long, objective, limit):
        reason = Reason.TOO_FEW
    clear = CLEAR_RATIO * limit
    return Verdict(
        rule=rule,
        reason=reason,
        long=long,
        short=short,
        holds=all(_above(window, clear, surely=surely) for window in windows),
        observed=observed,
    )


def surely_above(bad: int, total: int, limit: Fraction) -> bool:
    """Is the one-sided 95 % Wilson lower bound of bad/total above the limit? Exact.

    The bound is above the limit exactly where (bad - limit n)^2 > z^2 limit (1 - limit) n on the
    upper side: the score test that Wilson inverted, so no root is taken and nothing is rounded.
    """
    excess = bad - limit * total
    return excess > 0 and excess**2 > _Z**2 * limit * (1 - limit) * total


def _reason(window: Tally, limit: Fraction, *, surely: bool) -> Reason:
    if not window.observed_minutes:
        return Reason.NOT_OBSERVED
    if not window.total:
        return Reason.NO_TRAFFIC
    return Reason.BURNING if _above(window, limit, surely=surely) else Reason.CALM


def _above(window: Tally, limit: Fraction, *, surely: bool) -> bool:
    """`domain.objective.burns` in integers: 4000 windows are judged per tick."""
    bad = window.bad_low if surely else window.bad_high
    return bad * limit.denominator > limit.numerator * window.total


def _enough(long: Tally, objective: Objective, limit: Fraction) -> bool:
    """Many bad requests, or so large a share of few that chance is ruled out."""
    return long.bad_low >= objective.min_events or surely_above(long.bad_low, long.total, limit)
