"""Objectives written as the YAML that `alerts.definition` reads back as the same objectives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from alerts.maintenance import Maintenance
from alerts.promise import Composite, Definition
from alerts.quantity import decimal_text, instant_text, seconds_text, share_text
from alerts.sentence import sentence
from domain.objective import Objective, usual_min_events

__all__ = ["entry", "written"]

_PLAIN = Definition.__dataclass_fields__


def written(promises: Iterable[Definition | Composite]) -> str:
    """A file of objectives."""
    entries = [
        entry(each) if isinstance(each, Definition) else _composite(each) for each in promises
    ]
    return yaml.safe_dump(
        entries, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None
    )


def entry(definition: Definition) -> dict[str, Any]:
    """One objective; what is as usual is left out."""
    objective, timers = definition.objective, definition.timers
    said: dict[str, Any] = {
        "name": objective.name,
        "phrase": sentence(objective),
        "description": definition.description,
        "runbook": objective.runbook,
        "min_events": _min_events(objective),
        "for": seconds_text(timers.for_s) if timers.for_s else "",
        "keep_firing": seconds_text(timers.keep_firing_s) if timers.keep_firing_s else "",
        "clear": _unusual(definition, "clear", share_text(definition.clear)),
        "no_data_after": _unusual(
            definition, "no_data_after_s", seconds_text(definition.no_data_after_s)
        ),
        "no_data": _unusual(
            definition, "no_data", definition.no_data.value if definition.no_data else "off"
        ),
        "receivers": list(definition.receivers),
        "escalation": [
            {"after": seconds_text(step.after_s), "receivers": list(step.receivers)}
            for step in definition.escalation
        ],
        "maintenance": [_maintenance(window) for window in definition.maintenance],
        "since": "" if definition.since_s is None else instant_text(definition.since_s),
        "changes": [
            {"since": instant_text(change.since_s), "target": share_text(change.target)}
            for change in definition.changes
        ],
        "notes": _unusual(definition, "notes", definition.notes),
        "labels": dict(definition.labels),
        "summary": definition.summary,
    }
    return {key: value for key, value in said.items() if value not in ("", [], {}, None)}


def _min_events(objective: Objective) -> int | None:
    usual = usual_min_events(objective.indicator, objective.slices)
    return None if objective.min_events == usual else objective.min_events


def _unusual(definition: Definition, field: str, text: str | bool) -> str | bool | None:  # noqa: FBT001
    return None if getattr(definition, field) == _PLAIN[field].default else text


def _maintenance(window: Maintenance) -> dict[str, Any]:
    said = {
        "name": window.name,
        "cron": window.cron,
        "once": "" if window.once_at_s is None else instant_text(window.once_at_s),
        "duration": seconds_text(window.duration_s),
        "zone": "" if window.zone == "UTC" else window.zone,
        "reason": window.reason,
    }
    return {key: value for key, value in said.items() if value}


def _composite(composite: Composite) -> dict[str, Any]:
    weights = zip(composite.of, composite.weights, strict=False)
    said = {
        "name": composite.name,
        "all_of": list(composite.of),
        "weights": {name: decimal_text(weight) for name, weight in weights},
        "target": "" if composite.target is None else share_text(composite.target),
        "description": composite.description,
    }
    return {key: value for key, value in said.items() if value}
