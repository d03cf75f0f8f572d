"""What people are told about: one incident per objective and tier, from its first word to its last.

Several rules of one tier make one incident, so that a burn that trips the quick and the slow rule
pages once. A ticket is inhibited while the same objective pages; what was told is always untold.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from alerts.definition import Definition
from alerts.evaluate import Verdict
from alerts.state import Alert
from domain.objective import Severity

__all__ = [
    "NO_DATA",
    "Change",
    "Event",
    "Incident",
    "Tier",
    "decisive",
    "dedup_key",
    "incidents_after",
]

NO_DATA = "no-data"
"""The name of the rule that watches whether anybody is looking."""


class Tier(StrEnum):
    """What an incident is about; with the objective its identity."""

    PAGE = "page"
    TICKET = "ticket"
    NO_DATA = "no-data"
    CONDITION = "condition"  # of an engine, not of a promise


class Event(StrEnum):
    """What happened to an incident."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One open incident. `told`: receivers know of it, so they must hear of its end."""

    objective_id: str
    tier: Tier
    severity: Severity
    key: str
    started_at_s: int
    told: bool = False
    inhibited: bool = False
    stale: bool = False

    @property
    def id(self) -> str:
        """The same after every restart."""
        return f"{self.objective_id}-{self.tier}-{self.started_at_s}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An event, when, and the verdict that decided it. `tell`: receivers are to hear of it."""

    incident: Incident
    event: Event
    at_s: int
    verdict: Verdict | None
    tell: bool = True


def dedup_key(definition: Definition, tier: Tier) -> str:
    """Of identity alone: never of value, window, target, route or text."""
    identity = [definition.id, tier.value, sorted(definition.objective.indicator.where)]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def incidents_after(
    definition: Definition,
    open_before: Mapping[Tier, Incident],
    alerts: Mapping[str, Alert],
    verdicts: Sequence[Verdict],
    *,
    at_s: int,
) -> tuple[dict[Tier, Incident], list[Change]]:
    """The open incidents after a minute, and what changed, in the order to be told."""
    still_open: dict[Tier, Incident] = {}
    changes: list[Change] = []
    for tier in Tier:
        rules = [alerts[name] for name in _rules(definition, tier) if name in alerts]
        firing = [alert for alert in rules if alert.open]
        verdict = decisive(verdicts, alerts, tier)
        incident = open_before.get(tier)
        if not firing:
            if incident is not None:
                changes.append(_change(incident, Event.RESOLVED, at_s, verdict))
            continue
        incident = replace(
            incident or _opened(definition, tier, at_s),
            stale=all(alert.stale for alert in firing),
            inhibited=tier is Tier.TICKET and Tier.PAGE in still_open,
        )
        if not incident.told and not incident.inhibited:
            incident = replace(incident, told=True)
            changes.append(_change(incident, Event.FIRING, at_s, verdict))
        still_open[tier] = incident
    return still_open, changes


def _rules(definition: Definition, tier: Tier) -> list[str]:
    if tier is Tier.NO_DATA:
        return [NO_DATA]
    return [rule.name for rule in definition.rules if rule.severity.value == tier.value]


def decisive(
    verdicts: Sequence[Verdict], alerts: Mapping[str, Alert], tier: Tier
) -> Verdict | None:
    """The verdict of the fastest rule that fires; of a tier that is quiet, of its fastest rule."""
    of_tier = [each for each in verdicts if each.rule.severity.value == tier.value]
    firing = [each for each in of_tier if alerts[each.rule.name].open]
    return next(iter(firing or of_tier), None)


def _opened(definition: Definition, tier: Tier, at_s: int) -> Incident:
    severity = Severity(tier.value) if tier is not Tier.NO_DATA else definition.no_data
    return Incident(
        objective_id=definition.id,
        tier=tier,
        severity=severity or Severity.TICKET,
        key=dedup_key(definition, tier),
        started_at_s=at_s,
    )


def _change(incident: Incident, event: Event, at_s: int, verdict: Verdict | None) -> Change:
    return Change(incident=incident, event=event, at_s=at_s, verdict=verdict, tell=incident.told)
