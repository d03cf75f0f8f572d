"""A diagnosis as it is given out: stages first, then at most three causes, and what was not evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from alerts.diagnosis.rule import Confidence
from alerts.diagnosis.signals import Baseline
from domain.objective import Severity
from domain.request import Stage

__all__ = ["Cause", "Diagnosis", "NotEvaluated", "StageLine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLine:
    """One stage, its mean now and before. None: nobody measured it; `reason` says why."""

    stage: Stage
    mean_s: float | None
    before_s: float | None = None
    share_of_growth: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause: the rule, where, how sure, what speaks for and against it, and one next step.

    `missing` are signals without which it is less certain than it could be.
    """

    rule: str
    title: str
    cause: str
    stage: Stage | None
    place: str
    confidence: Confidence
    severity: Severity
    evidence: tuple[str, ...]
    contra: tuple[str, ...]
    missing: tuple[str, ...]
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEvaluated:
    """A rule that nobody could judge: by no means "fine"."""

    rule: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """`causes` best first, empty when all is well; what matched and is contradicted stands apart.

    `savings` are cost findings, told only while nothing is wrong. [since_s, until_s) is the window
    that was looked at, `baseline` what it was compared with. `trouble`: why nobody could look;
    `hurried`: there was no time for every question.
    `others`: where no service was named, the other ones and whether they are slow (None: not asked).
    """

    at_s: int
    service: str
    since_s: int
    until_s: int
    slow: bool
    baseline: Baseline = Baseline.NONE
    stages: tuple[StageLine, ...] = ()
    causes: tuple[Cause, ...] = ()
    contradicted: tuple[Cause, ...] = ()
    savings: tuple[Cause, ...] = ()
    not_evaluated: tuple[NotEvaluated, ...] = ()
    trouble: str = ""
    hurried: bool = False
    others: tuple[tuple[str, bool | None], ...] = ()
