"""What people are told about: one incident per objective and tier, from its first word to its last.

Several rules of one tier make one incident, so that a burn that trips the quick and the slow rule
pages once. Tickets and notes are inhibited while the same objective pages; what was told is always
untold.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from alerts.budget import LEVELS, Level
from alerts.evaluate import Verdict
from alerts.promise import Definition
from alerts.state import QUIET, Alert
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
    "worth_telling",
]

NO_DATA = "no-data"
"""The name of the rule that watches whether anybody is looking."""


class Tier(StrEnum):
    """What an incident is about; with the objective its identity."""

    PAGE = "page"
    TICKET = "ticket"
    NO_DATA = "no-data"
    BUDGET_50 = "budget-50"
    BUDGET_25 = "budget-25"
    BUDGET_0 = "budget-0"
    CONDITION = "condition"  # of an engine, not of a promise


class Event(StrEnum):
    """What happened to an incident."""

    FIRING = "firing"
    RESOLVED = "resolved"
    NOTE = "note"  # it fires, and asks for nothing
    RESET = "reset"  # of a budget: what was told of it is over


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

    @property
    def level(self) -> Level | None:
        """How low the budget is that it is about, if it is about one."""
        return _LEVELS.get(self.tier)


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
    verdict_of: Callable[[Tier], Verdict | None],
    *,
    at_s: int,
) -> tuple[dict[Tier, Incident], list[Change]]:
    """The open incidents after a minute, and what changed, in the order to be told."""
    firing = _firing(definition, alerts)
    still_open: dict[Tier, Incident] = {}
    changes: list[Change] = []
    for tier in _ORDER:
        incident, because = open_before.get(tier), firing.get(tier)
        if because is None:
            if incident is not None:
                changes.append(_change(incident, Event.RESOLVED, at_s, verdict_of(tier)))
            continue
        stale = all(alert.stale for alert in because)
        inhibited = tier in _BEHIND_A_PAGE and Tier.PAGE in still_open
        if incident is None:
            incident = _opened(definition, tier, at_s)
        if (stale, inhibited) != (incident.stale, incident.inhibited):
            incident = replace(incident, stale=stale, inhibited=inhibited)
        if not incident.told and not inhibited:
            incident = replace(incident, told=True)
            event = Event.NOTE if incident.severity is Severity.INFO else Event.FIRING
            changes.append(_change(incident, event, at_s, verdict_of(tier)))
        still_open[tier] = incident
    return still_open, changes


_OLD_S = 3600


def worth_telling(changes: Sequence[Change], newest_s: float) -> list[Change]:
    """All, but nobody is told of what began and ended long ago, while we slept."""
    ended = {
        each.incident.id
        for each in changes
        if each.event is Event.RESOLVED and each.at_s < newest_s - _OLD_S
    }
    begun = {each.incident.id for each in changes if each.event is not Event.RESOLVED}
    return [
        replace(each, tell=False) if each.incident.id in ended & begun else each for each in changes
    ]


_ORDER = tuple(Tier)
_LEVELS = {Tier(each.name): each for each in LEVELS}
_BEHIND_A_PAGE = {Tier.TICKET, *_LEVELS}
_OF_SEVERITY = {Severity.PAGE: Tier.PAGE, Severity.TICKET: Tier.TICKET}
_ALONE = ((NO_DATA, Tier.NO_DATA), *((each.name, tier) for tier, each in _LEVELS.items()))


def _firing(definition: Definition, alerts: Mapping[str, Alert]) -> dict[Tier, list[Alert]]:
    """The alerts that are open, by what they are about."""
    found: dict[Tier, list[Alert]] = {}
    for rule in definition.rules:
        alert = alerts.get(rule.name)
        if alert is not None and alert.open:
            found.setdefault(_OF_SEVERITY[rule.severity], []).append(alert)
    for name, tier in _ALONE:
        alert = alerts.get(name)
        if alert is not None and alert.open:
            found[tier] = [alert]
    return found


def decisive(
    verdicts: Sequence[Verdict], alerts: Mapping[str, Alert], tier: Tier
) -> Verdict | None:
    """The verdict of the fastest rule that fires; of a tier that is quiet, of its fastest rule."""
    of_tier = [each for each in verdicts if each.rule.severity.value == tier.value]
    firing = [each for each in of_tier if alerts.get(each.rule.name, QUIET).open]
    return next(iter(firing or of_tier), None)


def _opened(definition: Definition, tier: Tier, at_s: int) -> Incident:
    severity = _severity(definition, tier)
    return Incident(
        objective_id=definition.id,
        tier=tier,
        severity=severity,
        key=dedup_key(definition, tier),
        started_at_s=at_s,
    )


def _severity(definition: Definition, tier: Tier) -> Severity:
    if tier in _LEVELS:
        return _LEVELS[tier].severity
    if tier is Tier.NO_DATA:
        return definition.no_data or Severity.TICKET
    return Severity(tier.value)


def _change(incident: Incident, event: Event, at_s: int, verdict: Verdict | None) -> Change:
    return Change(incident=incident, event=event, at_s=at_s, verdict=verdict, tell=incident.told)
