"""How every promise stands: what alerts write down and everybody else reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

from alerts.blame import Blame
from alerts.evaluate import Verdict
from alerts.state import Alert
from domain.condition import Condition
from domain.objective import Objective, Severity
from domain.slice import Slice, Tally

__all__ = [
    "AlertRecord",
    "Budget",
    "HistoryEntry",
    "Ledger",
    "RuleStanding",
    "Standing",
    "StandingState",
]

_HOUR_S = 3600


class StandingState(StrEnum):
    """What a promise asks of its reader, worst first; the words of the pages."""

    PAGE = "page"
    TICKET = "ticket"
    NOT_OBSERVED = "not observed"
    NO_TRAFFIC = "no traffic"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStanding:
    """One rule of a promise as last evaluated."""

    verdict: Verdict
    alert: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the period allows and what of it is spent.

    `allowed` bad requests are granted by the traffic of the period so far, each minute at the
    target that was in force. `spent_low` are surely bad, `spent_high` possibly.
    """

    allowed: Fraction
    spent_low: int
    spent_high: int
    total: int
    period_s: int
    counted_since_s: int | None

    @property
    def remaining_low(self) -> Fraction | None:
        """The share surely left, below 0 when overspent; None without traffic."""
        return 1 - self.spent_high / self.allowed if self.allowed else None

    @property
    def remaining_high(self) -> Fraction | None:
        """The share possibly left."""
        return 1 - self.spent_low / self.allowed if self.allowed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One promise as last evaluated. `slices` are its newest minutes, oldest first.

    `trouble`: why nothing was evaluated since `evaluated_at_s`; empty where all is well.
    """

    id: str
    objective: Objective
    description: str
    state: StandingState
    stale: bool
    rules: Sequence[RuleStanding]
    budget: Budget
    last_hour: Tally
    slices: Sequence[Slice]
    evaluated_at_s: int
    observed_at_s: int | None
    message: str
    alert_ids: Sequence[str]
    trouble: str = ""

    @property
    def burn_low(self) -> Fraction | None:
        """How many times too fast the budget surely burnt in the last hour; None: no traffic."""
        return self._burn(self.last_hour.bad_low)

    @property
    def burn_high(self) -> Fraction | None:
        """How many times too fast it possibly burnt."""
        return self._burn(self.last_hour.bad_high)

    @property
    def exhausted_in_s(self) -> int | None:
        """At the last hour's burn; 0 when nothing is left, None when it does not burn."""
        remaining, burn = self.budget.remaining_low, self.burn_high
        if remaining is None or not burn:
            return None
        return int(max(remaining, Fraction(0)) * self.objective.period_s / burn)

    def data_age_s(self, now_s: float) -> float | None:
        """Seconds since the end of the newest minute that somebody saw."""
        return None if self.observed_at_s is None else max(now_s - self.observed_at_s, 0.0)

    def _burn(self, bad: int) -> Fraction | None:
        total = self.last_hour.total
        return bad / (self.objective.budget * total) if total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One thing that happened to an alert, in the words of that moment."""

    at_s: int
    event: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecord:
    """One alert from its first page to its end. `kind` is `burn`, `no-data` or `condition`.

    `condition`: what an alert on an engine is about, as last told; None for promises.
    """

    id: str
    objective_id: str
    objective_name: str
    severity: Severity
    kind: str
    dedup_key: str
    started_at_s: int
    resolved_at_s: int | None
    stale: bool
    inhibited: bool
    flaps: int
    message: str
    why: Sequence[str]
    blame: Blame | None
    history: Sequence[HistoryEntry] = ()
    condition: Condition | None = None

    @property
    def open(self) -> bool:
        return self.resolved_at_s is None

    @property
    def stage(self) -> str | None:
        """What is at fault: a stage of requests, or the engine itself."""
        if self.kind == "condition":
            return "engine"
        return self.blame.stage if self.blame else None


class Ledger(Protocol):
    """The one door through which the dashboard reads alerts; it never judges for itself."""

    def standings(self, *, spark_s: int = 3 * _HOUR_S) -> Sequence[Standing]:
        """Every promise, worst first."""
        ...

    def standing(self, objective_id: str, *, spark_s: int = 3 * _HOUR_S) -> Standing | None:
        """One promise, or None."""
        ...

    def slices(self, objective_id: str, since_s: int, until_s: int) -> Sequence[Slice]:
        """The minutes of a promise, none left out; those that nobody kept are not observed."""
        ...

    def alerts(self, *, limit: int = 100) -> Sequence[AlertRecord]:
        """Open ones first, then the newest."""
        ...

    def alert(self, alert_id: str) -> AlertRecord | None:
        """One alert with its history, or None."""
        ...

    def conditions(self) -> Sequence[AlertRecord]:
        """The open alerts on engines themselves, the longest first."""
        ...
