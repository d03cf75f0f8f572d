"""A definition as JSON and back, also from what the first version wrote; fractions stay exact."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from alerts.maintenance import Maintenance
from alerts.promise import Change, Definition, Escalation
from alerts.state import Timers
from domain.condition import ConditionKind
from domain.indicator import (
    AvailabilityIndicator,
    ConditionIndicator,
    EndpointIndicator,
    GoodputIndicator,
    Indicator,
    LatencyIndicator,
    LevelIndicator,
    Limit,
    ThroughputIndicator,
)
from domain.labels import labels_of
from domain.objective import Objective, Severity
from domain.period import Calendar, CalendarUnit
from domain.slice import EmptySlice, SlicePolicy

__all__ = [
    "definition_from",
    "definition_text",
    "indicator_from",
    "indicator_json",
    "indicator_text",
]

_Json = Mapping[str, Any]


def indicator_text(indicator: Indicator) -> str:
    """What is counted; the same text means the same minutes."""
    if isinstance(indicator, LatencyIndicator):  # why: stored minutes know it by this text
        return json.dumps([indicator.metric, str(indicator.threshold_s), list(indicator.where)])
    return json.dumps(indicator_json(indicator), sort_keys=True)


def indicator_json(indicator: Indicator) -> dict[str, Any]:
    """The kind and its parts."""
    kind, parts = _parts(indicator)
    return {"kind": kind, **parts, "where": dict(indicator.where)}


def _parts(indicator: Indicator) -> tuple[str, dict[str, Any]]:
    kind, parts = "availability", dict[str, Any]()
    match indicator:
        case LatencyIndicator():
            kind, parts = "latency", _limit(indicator.limits[0])
        case GoodputIndicator():
            kind, parts = "goodput", {"limits": [_limit(limit) for limit in indicator.limits]}
        case ThroughputIndicator():
            floor = str(indicator.at_least_per_s)
            kind, parts = "throughput", {"metric": indicator.metric, "at_least_per_s": floor}
        case LevelIndicator():
            bounds = {"at_most": _text(indicator.at_most), "at_least": _text(indicator.at_least)}
            kind, parts = "level", {"metric": indicator.metric, **bounds}
        case ConditionIndicator():
            kind, parts = "condition", {"kinds": [kind.value for kind in indicator.kinds]}
        case EndpointIndicator():
            kind, parts = "endpoint", _endpoint(indicator)
    return kind, parts


def _endpoint(indicator: EndpointIndicator) -> dict[str, Any]:
    return {
        "service": indicator.service,
        "metric": indicator.metric,
        "threshold_s": _text(indicator.threshold_s),
        "dimensions": [list(pair) for pair in indicator.dimensions],
        "counts_failures": indicator.counts_failures,
    }


def indicator_from(said: _Json) -> Indicator:
    """The value of what `indicator_json` wrote; without a kind, a latency as the first wrote it."""
    return _KINDS[said.get("kind", "latency")](said)


_KINDS: Mapping[str, Callable[[_Json], Indicator]] = {
    "latency": lambda said: LatencyIndicator(
        metric=said["metric"],
        threshold_s=Fraction(said["threshold_s"]),
        where=labels_of(said["where"]),
    ),
    "availability": lambda said: AvailabilityIndicator(where=labels_of(said["where"])),
    "goodput": lambda said: GoodputIndicator(
        limits=tuple(
            Limit(metric=limit["metric"], threshold_s=Fraction(limit["threshold_s"]))
            for limit in said["limits"]
        ),
        where=labels_of(said["where"]),
    ),
    "throughput": lambda said: ThroughputIndicator(
        metric=said["metric"],
        at_least_per_s=Fraction(said["at_least_per_s"]),
        where=labels_of(said["where"]),
    ),
    "level": lambda said: LevelIndicator(
        metric=said["metric"],
        at_most=_fraction(said["at_most"]),
        at_least=_fraction(said["at_least"]),
        where=labels_of(said["where"]),
    ),
    "condition": lambda said: ConditionIndicator(
        kinds=tuple(ConditionKind(kind) for kind in said["kinds"]), where=labels_of(said["where"])
    ),
    "endpoint": lambda said: EndpointIndicator(
        service=said["service"],
        metric=said["metric"],
        threshold_s=_fraction(said["threshold_s"]),
        dimensions=tuple((name, value) for name, value in said["dimensions"]),
        counts_failures=said["counts_failures"],
        where=labels_of(said["where"]),
    ),
}


def definition_text(definition: Definition) -> str:
    objective = definition.objective
    policy, calendar = objective.slices, objective.calendar
    return json.dumps(
        {
            "name": objective.name,
            "indicator": indicator_json(objective.indicator),
            "target": str(objective.target),
            "period_s": objective.period_s,
            "min_events": objective.min_events,
            "runbook": objective.runbook,
            "slices": policy and {"target": str(policy.target), "empty": policy.empty.value},
            "calendar": calendar and {"unit": calendar.unit.value, "zone": calendar.zone},
            "description": definition.description,
            "for_s": definition.timers.for_s,
            "keep_firing_s": definition.timers.keep_firing_s,
            "no_data_after_s": definition.no_data_after_s,
            "no_data": definition.no_data and definition.no_data.value,
            **_further(definition),
        }
    )


def _further(definition: Definition) -> dict[str, Any]:
    return {
        "receivers": list(definition.receivers),
        "escalation": [
            {"after_s": each.after_s, "receivers": list(each.receivers)}
            for each in definition.escalation
        ],
        "maintenance": [_maintenance(each) for each in definition.maintenance],
        "changes": [[each.since_s, str(each.target)] for each in definition.changes],
        "clear": str(definition.clear),
        "since_s": definition.since_s,
        "notes": definition.notes,
        "labels": dict(definition.labels),
        "summary": definition.summary,
    }


def definition_from(text: str) -> Definition:
    said = json.loads(text)
    return Definition(
        objective=_objective(said),
        description=said["description"],
        timers=Timers(for_s=said["for_s"], keep_firing_s=said["keep_firing_s"]),
        no_data_after_s=said["no_data_after_s"],
        no_data=said["no_data"] and Severity(said["no_data"]),
        **(_further_from(said) if "clear" in said else {}),  # why: the first version had none
    )


def _objective(said: _Json) -> Objective:
    policy, calendar = said.get("slices"), said.get("calendar")
    return Objective(
        name=said["name"],
        indicator=indicator_from(said.get("indicator", said)),
        target=Fraction(said["target"]),
        period_s=said["period_s"],
        min_events=said["min_events"],
        runbook=said["runbook"],
        slices=policy
        and SlicePolicy(target=Fraction(policy["target"]), empty=EmptySlice(policy["empty"])),
        calendar=calendar and Calendar(unit=CalendarUnit(calendar["unit"]), zone=calendar["zone"]),
    )


def _further_from(said: _Json) -> dict[str, Any]:
    return {
        "receivers": tuple(said["receivers"]),
        "escalation": tuple(
            Escalation(after_s=each["after_s"], receivers=tuple(each["receivers"]))
            for each in said["escalation"]
        ),
        "maintenance": tuple(Maintenance(**each) for each in said["maintenance"]),
        "changes": tuple(
            Change(since_s=since_s, target=Fraction(target)) for since_s, target in said["changes"]
        ),
        "clear": Fraction(said["clear"]),
        "since_s": said["since_s"],
        "notes": said["notes"],
        "labels": labels_of(said["labels"]),
        "summary": said["summary"],
    }


def _maintenance(each: Maintenance) -> dict[str, Any]:
    return {
        "name": each.name,
        "duration_s": each.duration_s,
        "cron": each.cron,
        "once_at_s": each.once_at_s,
        "zone": each.zone,
        "reason": each.reason,
    }


def _limit(limit: Limit) -> dict[str, Any]:
    return {"metric": limit.metric, "threshold_s": str(limit.threshold_s)}


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def _fraction(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)
