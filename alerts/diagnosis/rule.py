"""A rule as data: what it looks at, when it speaks, what it says and what to do; and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum

from alerts.diagnosis.signals import Signal, Signals
from domain.objective import Severity
from domain.request import Stage

__all__ = ["Confidence", "Depth", "Finding", "Predicate", "Rule", "Scope", "When"]


class Scope(StrEnum):
    """What a rule judges."""

    REQUEST = "request"
    WORKER = "worker"
    POOL = "pool"
    SERVICE = "service"


class When(StrEnum):
    """When a finding counts."""

    SLOW = "while something is slow"  # else the numbers are a fact, and no cause of anything
    ALWAYS = "always"  # it does harm by itself
    CALM = "while nothing is wrong"  # cost waits for quiet


class Depth(Enum):
    """How near to a cause: what ranks before what."""

    ROOT = 1.0  # one thing in one place that can be repaired
    RESOURCE = 0.8  # something that ran out
    SYMPTOM = 0.5  # where the time goes
    COST = 0.2


class Confidence(StrEnum):
    """How sure a finding is; words, because no number was calibrated."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that matched. `contradicted`: what speaks against it outweighs it.

    `variant` is the letter of a case of the rule, such as A3's "b". `next_step` stands in for the
    rule's own action; `stage` for its stage.
    """

    cause: str
    evidence: tuple[str, ...]
    place: str = ""
    contra: tuple[str, ...] = ()
    contradicted: bool = False
    confidence: Confidence = Confidence.MEDIUM
    next_step: str = ""
    variant: str = ""
    stage: Stage | None = None


Predicate = Callable[[Signals], Finding | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`needs` must be there, `compares` also before; without `helps` less is certain.

    `either`: at least one of these. `at_least` is the number of requests it rests on.
    `yields_to`: rules whose finding comes first and makes this one a consequence of it.
    """

    id: str
    title: str
    condition: str
    scope: Scope
    needs: tuple[Signal, ...]
    of: Predicate
    action: str
    source: str
    stage: Stage | None = None
    compares: tuple[Signal, ...] = ()
    either: tuple[Signal, ...] = ()
    helps: tuple[Signal, ...] = ()
    at_least: int = 0
    when: When = When.SLOW
    depth: Depth = Depth.RESOURCE
    severity: Severity = Severity.TICKET
    yields_to: tuple[str, ...] = ()
    against: str = ""
