"""What one promise's page shows beyond its standing: the burn-down, counts over time, its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["BudgetPoint", "BurnDown", "EventCount", "ObjectiveEvent", "Seam"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPoint:
    """The share of the budget left at an instant, surely and possibly; None without traffic."""

    at_s: int
    remaining_low: float | None
    remaining_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seam:
    """Where a line does not go on as it was: `start`, `revision`, `target`, `reset` or `period`."""

    at_s: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnDown:
    """What was left of the budget, step by step, and where the line breaks and why."""

    points: Sequence[BudgetPoint]
    seams: Sequence[Seam]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCount:
    """What was counted in [since, until). `excluded` are in no total.

    `maintenance_minutes` were set aside, with all that happened in them.
    """

    since_s: int
    until_s: int
    bad_low: int
    bad_high: int
    total: int
    excluded: int
    observed_minutes: int
    maintenance_minutes: int = 0

    @property
    def per_s(self) -> float | None:
        """How many a second, while somebody looked; None where nobody did."""
        watched_s = 60 * (self.observed_minutes - self.maintenance_minutes)
        return self.total / watched_s if watched_s > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveEvent:
    """One thing that happened to a promise or to its alerts. Without author: we did it."""

    at_s: int
    event: str
    text: str
    author: str = ""
    alert_id: str | None = None
