"""Objectives written as OpenSLO v1, and what OpenSLO has no words for."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import yaml

from alerts.loss import Loss
from alerts.openslo import ANNOTATIONS, SOURCE, UNITS
from alerts.promise import Composite, Definition
from alerts.quantity import decimal_text
from alerts.sentence import sentence
from alerts.writing import entry
from domain.labels import value_of
from domain.objective import DAY_S
from domain.period import Calendar
from domain.slice import EmptySlice

__all__ = ["losses", "written"]

_LETTERS = {unit: letter for letter, unit in UNITS.items()}
_ALIGNED = "2024-01-01 00:00:00"
"""A Monday, and the first of a month, a quarter and a year: every period of ours begins there."""

_STRUCTURED = ("receivers", "escalation", "maintenance", "changes")


def written(definitions: Iterable[Definition]) -> str:
    """One document per objective."""
    return yaml.safe_dump_all(
        [_slo(each) for each in definitions], sort_keys=False, allow_unicode=True, width=100
    )


def losses(definitions: Iterable[Definition], composites: Iterable[Composite] = ()) -> list[Loss]:
    """What a reader of the export will not know."""
    found = []
    for each in definitions:
        said = entry(each)
        found += [
            Loss(
                where=each.id, what=f"OpenSLO has no words for {key}", way_out="Keep our file too."
            )
            for key in _STRUCTURED
            if key in said
        ]
        slices = each.objective.slices
        if slices is not None and slices.empty is not EmptySlice.EXCLUDED:
            what = f"OpenSLO does not say that an empty minute is {slices.empty}"
            found.append(Loss(where=each.id, what=what, way_out="Keep our file too."))
    return found + [
        Loss(
            where=each.id,
            what="OpenSLO v1 has no composites",
            way_out="Keep our file too.",
            dropped=True,
        )
        for each in composites
    ]


def _slo(definition: Definition) -> dict[str, Any]:
    objective, said = definition.objective, entry(definition)
    annotations = {name: str(said[key]) for name, key in ANNOTATIONS.items() if key in said}
    metadata = {
        "name": definition.id[:63].strip("-"),
        "displayName": definition.name,
        "labels": dict(definition.labels),
        "annotations": annotations,
    }
    goal: dict[str, Any] = {"target": _number(objective.target)}
    if objective.slices is not None:
        goal["timeSliceTarget"] = _number(objective.slices.target)
        goal["timeSliceWindow"] = "1m"
    spec = {
        "description": definition.description,
        "service": value_of(objective.indicator.where, "service") or "inference",
        "indicator": _indicator(definition),
        "timeWindow": [_window(objective.period_s, objective.calendar)],
        "budgetingMethod": "Occurrences" if objective.slices is None else "Timeslices",
        "objectives": [goal],
    }
    return {
        "apiVersion": "openslo/v1",
        "kind": "SLO",
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": {key: value for key, value in spec.items() if value},
    }


def _indicator(definition: Definition) -> dict[str, Any]:
    query = sentence(definition.objective)
    good, total = ({"metricSource": {"type": SOURCE, "spec": {"query": query}}} for _ in range(2))
    ratio = {"counter": True, "good": good, "total": total}
    name = f"{definition.id[:59].strip('-')}-sli"
    return {"metadata": {"name": name}, "spec": {"ratioMetric": ratio}}


def _window(period_s: int, calendar: Calendar | None) -> dict[str, Any]:
    if calendar is None:
        days = f"{period_s // DAY_S}d" if period_s % DAY_S == 0 else f"{period_s // 3600}h"
        return {"duration": days, "isRolling": True}
    return {
        "duration": f"1{_LETTERS[calendar.unit]}",
        "isRolling": False,
        "calendar": {"startTime": _ALIGNED, "timeZone": calendar.zone},
    }


def _number(share: Fraction) -> float:
    """The number that YAML writes as exactly these digits."""
    return float(decimal_text(share))
