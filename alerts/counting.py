"""How a promise counts a minute: by requests or whole, from its start on, and never in maintenance."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from alerts.maintenance import Maintenance
from alerts.promise import Definition
from alerts.wording import unit
from domain.objective import Objective
from domain.slice import Slice, SlicePolicy, as_whole

__all__ = ["Exclusion", "budget_at", "counted", "maintenance_at", "same_unit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """The minutes [since, until) of one maintenance: they were not held against the promise."""

    name: str
    since_s: int
    until_s: int
    reason: str = ""

    def minutes_within(self, since_s: int, until_s: int) -> int:
        """How many of its minutes lie in [since, until)."""
        return max(min(self.until_s, until_s) - max(self.since_s, since_s), 0) // 60


def counted(definition: Definition, each: Slice, policy: SlicePolicy | None) -> Slice:
    """The minute as it enters windows and budget.

    What came before the start is as if nobody had looked. Of maintenance nothing is left to judge.
    """
    if definition.since_s is not None and each.minute_at_s < definition.since_s:
        return Slice(minute_at_s=each.minute_at_s, observed=False)
    if maintenance_at(definition, each.minute_at_s) is not None:
        return Slice(
            minute_at_s=each.minute_at_s,
            observed=each.observed,
            excluded=each.excluded + each.total,
        )
    return each if policy is None else as_whole(each, policy)


def maintenance_at(definition: Definition, minute_at_s: int) -> Maintenance | None:
    """The agreed window that this minute lies in, if any."""
    if not definition.maintenance:
        return None
    return next((each for each in definition.maintenance if each.covers(minute_at_s)), None)


def budget_at(definition: Definition, minute_at_s: int) -> Fraction:
    """The share that may be bad by the target that was in force."""
    if not definition.changes:
        return definition.objective.budget
    return definition.in_force(minute_at_s).objective.budget


def same_unit(one: Objective, other: Objective) -> bool:
    """Whether their counts may be added: requests to requests, minutes to minutes."""
    return unit(one) == unit(other)
