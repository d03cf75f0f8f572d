"""The JSON Schema of objective files, made from the keys that are read; editors complete by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from alerts.entry import COMPOSITE_KEYS, OBJECTIVE_KEYS, PRESET_KEYS
from alerts.phrase import CALENDAR_S
from alerts.presets import PRESETS
from alerts.watching import NO_DATA
from domain.condition import ConditionKind
from domain.endpoint_catalogue import KINDS
from domain.indicator import PER_REQUEST
from domain.labels import LABEL_NAMES
from domain.metric import COUNTERS, GAUGES, LATENCIES
from domain.slice import EmptySlice

__all__ = ["schema", "schema_text"]

_Schema = dict[str, Any]

_NUMBERS = ("number", "string")


def schema_text() -> str:
    """As it is kept in `docs/reference/objectives.schema.json`."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> _Schema:
    """A list of entries, or a mapping that holds it under `objectives`."""
    listed = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/entry"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Objectives of Stagewatch",
        "description": "What is promised, and how it is watched: docs/write-an-objective.md.",
        "oneOf": [
            listed,
            {
                "type": "object",
                "properties": {"objectives": listed},
                "required": ["objectives"],
                "additionalProperties": False,
            },
        ],
        "$defs": {
            "entry": {
                "anyOf": [
                    _phrase(),
                    _entry(OBJECTIVE_KEYS, ()),
                    _entry(PRESET_KEYS, ("preset",)),
                    _entry(COMPOSITE_KEYS, ("name", "all_of")),
                ]
            }
        },
    }


def _entry(keys: tuple[str, ...], required: tuple[str, ...]) -> _Schema:
    known = _properties()
    said: _Schema = {
        "type": "object",
        "properties": {key: known[key] for key in keys},
        "additionalProperties": False,
    }
    return {**said, "required": list(required)} if required else said


def _properties() -> Mapping[str, _Schema]:
    """Every key that some entry may have."""
    return {**_promised(), **_counted(), **_watched(), **_made_of_others()}


def _promised() -> Mapping[str, _Schema]:
    return {
        "name": _text("What it is called; links and dedup keys are made of it.", maxLength=100),
        "phrase": _phrase(),
        "metric": _one_of(LATENCIES, "The latency of which threshold is the limit."),
        "threshold": _duration("At most so slow: 1.5s, 300ms, 50us or 2min."),
        "available": {"const": True, "description": "Requests that are answered are good."},
        "goodput": {
            "type": "object",
            "description": "Requests that keep every one of these limits are good.",
            "propertyNames": {"enum": list(PER_REQUEST)},
            "additionalProperties": _duration("At most so slow."),
            "minProperties": 1,
        },
        "throughput": _object(
            "Minutes in which a counter grows at least so fast are good.",
            {
                "metric": _one_of(COUNTERS, "The counter."),
                "at_least": _rate(),
            },
            ("metric", "at_least"),
        ),
        "level": _object(
            "Minutes in which a gauge stays within bounds, at every place, are good.",
            {
                "metric": _one_of(GAUGES, "The gauge."),
                "at_most": _number("0.9, 90% or 25."),
                "at_least": _number("0.9, 90% or 25."),
            },
            ("metric",),
        ),
        "condition": _some_of(
            tuple(kind.value for kind in ConditionKind),
            "Minutes in which none of these held, at no place, are good.",
        ),
        "endpoint": _endpoint(),
    }


def _endpoint() -> _Schema:
    return _object(
        "Requests of a managed endpoint, as CloudWatch counts them.",
        {
            "service": _one_of(KINDS, "The kind of endpoint."),
            "metric": _text("A latency, by our name or AWS's; without it availability is meant."),
            "threshold": _duration("At most so slow."),
            "dimensions": {
                "type": "object",
                "description": "As AWS writes them, such as EndpointName.",
                "additionalProperties": {"type": list(_NUMBERS)},
            },
            "counts_failures": {
                "type": "boolean",
                "description": "Whether Invocations hold the failed ones; AWS's pages say both.",
            },
        },
        ("service",),
    )


def _counted() -> Mapping[str, _Schema]:
    return {
        "target": _number("The share that has to be good: 99%, 99.9 or 0.999."),
        "slices": _object(
            "Minutes are promised, each good or bad as a whole, and not requests.",
            {
                "target": _number("A minute is good when so many of its requests are."),
                "empty": _one_of(tuple(EmptySlice), "What a minute without requests counts as."),
            },
            ("target",),
        ),
        "period": _text("Over the last so long: 30d, 4w or 12h; 30d where nothing is said."),
        "calendar": {
            "description": "Each day, week, month, quarter or year anew, by the clock of a zone.",
            "oneOf": [
                {"enum": [unit.value for unit in CALENDAR_S]},
                _object(
                    "The unit and an IANA zone.",
                    {
                        "unit": _one_of(tuple(CALENDAR_S), "The unit."),
                        "zone": _text("Such as Europe/Berlin; UTC where nothing is said."),
                    },
                    ("unit",),
                ),
            ],
        },
        "where": {
            "type": "object",
            "description": "Whom it concerns.",
            "propertyNames": {"enum": list(LABEL_NAMES)},
            "additionalProperties": {"type": list(_NUMBERS)},
        },
    }


def _watched() -> Mapping[str, _Schema]:
    return {
        "description": _text("For people."),
        "runbook": _text("A link that notifications carry."),
        "min_events": {
            "type": "integer",
            "minimum": 0,
            "description": "So many bad ones a page rests on; 10 requests or 3 minutes by default.",
        },
        "for": _wait("It has to burn so long before it fires; 0s by default."),
        "keep_firing": _wait("It fires on for so long after the burn; 0s by default."),
        "clear": _number("A firing alert ends below this share of its factor; 90% by default."),
        "no_data_after": _wait("Nobody was looking for so long: an alert of its own; 10min."),
        "no_data": {
            "enum": [*NO_DATA, False],
            "description": "What not being observed is; page by default.",
        },
        "receivers": _texts("Who is told, by name; everybody where nothing is said."),
        "escalation": _list(
            "Who is told too when nobody acknowledges.",
            {"after": _wait("After so long."), "receivers": _texts("Who.")},
            ("after", "receivers"),
        ),
        "maintenance": _list(
            "Windows whose minutes cost no budget and raise no alert.",
            {
                "name": _text("What it is called."),
                "cron": _text("When it begins, again and again: 0 2 * * SUN."),
                "once": _text("When it begins, once: 2026-03-01 02:00."),
                "duration": _wait("How long it lasts, up to 7d."),
                "zone": _text("Whose clock is meant: Europe/Berlin; UTC by default."),
                "reason": _text("Why; shown wherever it shows."),
            },
            ("name", "duration"),
        ),
        "since": _text("Counts from then on: 2026-03-01."),
        "changes": _list(
            "Other targets from an instant on; what came before is kept to the one before.",
            {"since": _text("From when on."), "target": _number("The target.")},
            ("since", "target"),
        ),
        "notes": {"type": "boolean", "description": "Whether a budget that runs low is told."},
        "labels": {
            "type": "object",
            "description": "Labels of your own that receivers get.",
            "additionalProperties": {"type": list(_NUMBERS)},
            "maxProperties": 20,
        },
        "summary": _text("A template for the text of notifications."),
    }


def _made_of_others() -> Mapping[str, _Schema]:
    return {
        "preset": {
            "description": "Objectives from practice.",
            "oneOf": [{"const": each.name, "description": each.text} for each in PRESETS.values()],
        },
        "thresholds": {
            "type": "object",
            "description": "Limits that replace those of the preset.",
            "additionalProperties": _duration("At most so slow."),
        },
        "at_least": _rate(),
        "all_of": {
            "type": "array",
            "minItems": 2,
            "items": {"type": "string"},
            "description": "The objectives it is made of, by name.",
        },
        "weights": {
            "type": "object",
            "description": "What the burn of a part is multiplied by; 1 where nothing is said.",
            "additionalProperties": {"type": list(_NUMBERS)},
        },
    }


def _phrase() -> _Schema:
    return {
        "type": "string",
        "description": "The promise as a sentence.",
        "examples": [
            "p99 ttft <= 1.5s over 30d where use_case=chat",
            "99.9% available over 30d",
            "goodput ttft <= 1s and tpot <= 50ms 99% over 30d",
            "generation_tokens >= 500/s in 99% of minutes",
            "kv_cache_usage <= 90% in 95% of minutes",
            "no engine stalled in 99.9% of minutes",
        ],
    }


def _text(description: str, **further: Any) -> _Schema:
    return {"type": list(_NUMBERS), "description": description, **further}


def _number(description: str) -> _Schema:
    return {"type": list(_NUMBERS), "description": description}


def _duration(description: str) -> _Schema:
    return {
        "type": "string",
        "pattern": r"^\d+(\.\d+)?\s*(us|µs|ms|s|min)$",
        "description": description,
    }


def _wait(description: str) -> _Schema:
    return {
        "type": "string",
        "pattern": r"^\d+(\.\d+)?\s*(s|min|h|d|w)$",
        "description": description,
    }


def _rate() -> _Schema:
    pattern = r"^\d+(\.\d+)?\s*/\s*(s|min|h)$"
    return {"type": "string", "pattern": pattern, "description": "500/s or 30000/min."}


def _one_of(words: tuple[str, ...], description: str) -> _Schema:
    return {"enum": [str(word) for word in words], "description": description}


def _some_of(words: tuple[str, ...], description: str) -> _Schema:
    one = {"enum": list(words)}
    return {"description": description, "oneOf": [one, {"type": "array", "items": one}]}


def _texts(description: str) -> _Schema:
    names = {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}
    return {"description": description, "oneOf": [{"type": "string"}, names]}


def _object(description: str, properties: _Schema, required: tuple[str, ...]) -> _Schema:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _list(description: str, properties: _Schema, required: tuple[str, ...]) -> _Schema:
    items = _object("One of them.", properties, required)
    return {"type": "array", "description": description, "items": items}
