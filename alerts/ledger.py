"""How every promise stands: what alerts write down and everybody else reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

from alerts.blame import Blame
from alerts.budget import Budget, Forecast, forecast
from alerts.change import Change
from alerts.counting import Exclusion
from alerts.detail import BurnDown, EventCount, ObjectiveEvent
from alerts.diagnosed import Diagnosed
from alerts.evaluate import Verdict
from alerts.evidence import Evidence
from alerts.response import Response
from alerts.silence import Silence
from alerts.state import Alert
from domain.condition import Condition
from domain.labels import Labels
from domain.objective import Objective, Severity
from domain.slice import Slice, Tally

__all__ = [
    "AlertRecord",
    "Budget",
    "CompositeStanding",
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
    """One rule of a promise as last evaluated. `budget`: the share that may be bad."""

    verdict: Verdict
    alert: Alert
    budget: Fraction = Fraction(1)

    @property
    def long_burn(self) -> tuple[Fraction, Fraction] | None:
        """How many times too fast the long window burns, surely and possibly; None: no traffic."""
        return _burn(self.verdict.long, self.budget)

    @property
    def short_burn(self) -> tuple[Fraction, Fraction] | None:
        """The same of the short window."""
        return _burn(self.verdict.short, self.budget)


def _burn(counted: Tally, budget: Fraction) -> tuple[Fraction, Fraction] | None:
    if not counted.total:
        return None
    allowed = budget * counted.total
    return counted.bad_low / allowed, counted.bad_high / allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One promise as last evaluated. `slices` are its newest minutes, oldest first.

    `trouble`: why nothing was evaluated since `evaluated_at_s`; empty where all is well.
    `maintenance`: the agreed window that it is in, and until when.
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
    maintenance: Exclusion | None = None

    @property
    def burn_low(self) -> Fraction | None:
        """How many times too fast the budget surely burnt in the last hour; None: no traffic."""
        return self._burn(self.last_hour.bad_low)

    @property
    def burn_high(self) -> Fraction | None:
        """How many times too fast it possibly burnt."""
        return self._burn(self.last_hour.bad_high)

    @property
    def forecast(self) -> Forecast:
        """When the budget is gone at the burn of the last hour, from both ends of the doubt."""
        return forecast(self.budget, self.burn_low, self.burn_high)

    @property
    def exhausted_in_s(self) -> int | None:
        """At the last hour's burn; 0 when nothing is left, None when it lasts or does not burn."""
        return self.forecast.earliest_s

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
    author: str = ""


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
    response: Response = Response()  # noqa: RUF009 - frozen

    @property
    def open(self) -> bool:
        return self.resolved_at_s is None

    @property
    def stage(self) -> str | None:
        """What is at fault: a stage of requests, or the engine itself."""
        if self.kind == "condition":
            return "engine"
        return self.blame.stage if self.blame else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeStanding:
    """How a promise made of others stands; it is read only, and its parts page.

    `ratio` is the share that was good in all parts, `target` what was promised of it; `burn` is of
    the last hour. None where a part has no traffic.
    """

    id: str
    name: str
    description: str
    state: StandingState
    target: Fraction
    weights: Sequence[Fraction]
    parts: Sequence[Standing]
    missing: Sequence[str]
    ratio_low: Fraction | None
    ratio_high: Fraction | None
    remaining_low: Fraction | None
    remaining_high: Fraction | None
    burn_low: Fraction | None
    burn_high: Fraction | None


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

    def alerts_of(self, objective_id: str, *, limit: int = 100) -> Sequence[AlertRecord]:
        """The alerts of one promise, open ones first, then the newest."""
        ...

    def burn_down(self, objective_id: str, since_s: int, until_s: int, step_s: int) -> BurnDown:
        """What was left of the budget at every step (whole five minutes), and where it breaks."""
        ...

    def event_counts(
        self, objective_id: str, since_s: int, until_s: int, step_s: int
    ) -> Sequence[EventCount]:
        """What was counted in each step; `per_s` is the rate of events. Steps begin on multiples."""
        ...

    def history(self, objective_id: str, *, limit: int = 200) -> Sequence[ObjectiveEvent]:
        """Revisions, resets, maintenance and what its alerts did; the newest first."""
        ...

    def evidence(self, alert_id: str) -> Sequence[Evidence]:
        """The minutes on which an alert fired and ended, as they counted then."""
        ...

    def diagnosed(self, alert_id: str) -> Diagnosed | None:
        """Why it fired, as found then and last; None: nobody has looked."""
        ...

    def silences(self, *, at_s: float, limit: int = 200) -> Sequence[Silence]:
        """Those that are or will be in force first, then those that are over, newest first."""
        ...

    def told_changes(self, since_s: int, until_s: int, *, where: Labels = ()) -> Sequence[Change]:
        """What others reported as changed, oldest first."""
        ...

    def composites(self) -> Sequence[CompositeStanding]:
        """The promises made of others, worst first."""
        ...

    def composite(self, composite_id: str) -> CompositeStanding | None:
        """One of them, or None."""
        ...
