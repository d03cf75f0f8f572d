"""The keys that say how a promise is watched: timers, receivers, maintenance, changes of target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import yaml

from alerts import quantity
from alerts.maintenance import Maintenance
from alerts.promise import Change, Escalation
from alerts.reading import Nodes
from alerts.state import Timers
from domain.errors import ConfigError
from domain.labels import MAX_LABEL_LENGTH, Labels, labels_of
from domain.objective import Severity

__all__ = ["NO_DATA", "WATCHING", "watching"]

_Keys = Mapping[str, yaml.Node]

NO_DATA = ("page", "ticket", "off")
WATCHING = (
    "description",
    "runbook",
    "min_events",
    "for",
    "keep_firing",
    "clear",
    "no_data_after",
    "no_data",
    "receivers",
    "escalation",
    "maintenance",
    "since",
    "changes",
    "notes",
    "labels",
    "summary",
)
_MOST_LABELS = 20
_MAINTENANCE = ("name", "cron", "once", "duration", "zone", "reason")


def watching(nodes: Nodes, keys: _Keys) -> dict[str, Any]:
    """The fields of a `Definition` that these keys give; a key that is absent leaves its default."""
    found = {name: read(nodes, keys[name]) for name, read in _READ.items() if name in keys}
    fields: dict[str, Any] = {_FIELDS.get(name, name): value for name, value in found.items()}
    timers = Timers(for_s=fields.pop("for_s", 0), keep_firing_s=fields.pop("keep_firing_s", 0))
    return {**fields, "timers": timers}


def _wait_s(nodes: Nodes, node: yaml.Node) -> int:
    return quantity.seconds(nodes.text(node), at=nodes.at(node))


def _clear(nodes: Nodes, node: yaml.Node) -> Fraction:
    text = nodes.text(node)
    if text.strip() in ("100%", "1"):
        return Fraction(1)
    return quantity.target(text, at=nodes.at(node))


def _no_data(nodes: Nodes, node: yaml.Node) -> Severity | None:
    text = nodes.text(node)
    if text not in (*NO_DATA, "false"):  # why "false": YAML 1.1 takes a bare off for it
        nodes.refuse(node, f"{text!r} is no severity", f"Use {NO_DATA}.")
    return Severity(text) if text in ("page", "ticket") else None


def _receivers(nodes: Nodes, node: yaml.Node) -> tuple[str, ...]:
    names = tuple(name for name, _ in nodes.texts(node))
    if not names:
        nodes.refuse(node, "names no receiver", "Leave it out to tell all of them.")
    if len(set(names)) < len(names):
        nodes.refuse(node, "names a receiver twice", "Keep it once.")
    return names


def _escalation(nodes: Nodes, node: yaml.Node) -> tuple[Escalation, ...]:
    example = "escalation: [{after: 15min, receivers: [team-lead]}]"
    steps: list[Escalation] = []
    for each in nodes.sequence(node, example):
        keys = nodes.mapping(each, ("after", "receivers"), example)
        _complete(nodes, each, keys, ("after", "receivers"))
        after_s = _wait_s(nodes, keys["after"])
        if not after_s or (steps and after_s <= steps[-1].after_s):
            nodes.refuse(
                keys["after"], "is no later than the step before", "Let each step wait longer."
            )
        steps.append(Escalation(after_s=after_s, receivers=_receivers(nodes, keys["receivers"])))
    return tuple(steps)


def _maintenance(nodes: Nodes, node: yaml.Node) -> tuple[Maintenance, ...]:
    example = 'maintenance: [{name: deploys, cron: "0 2 * * SUN", duration: 1h}]'
    windows = [_window(nodes, each, example) for each in nodes.sequence(node, example)]
    names = [each.name for each in windows]
    if len(set(names)) < len(names):
        nodes.refuse(node, "has two windows of one name", "Rename one of them.")
    return tuple(windows)


def _window(nodes: Nodes, node: yaml.Node, example: str) -> Maintenance:
    keys = nodes.mapping(node, _MAINTENANCE, example)
    _complete(nodes, node, keys, ("name", "duration"))
    zone = "UTC"
    if "zone" in keys:
        zone = quantity.zone(nodes.text(keys["zone"]), at=nodes.at(keys["zone"]))
    once = keys.get("once")
    try:
        return Maintenance(
            name=nodes.word(keys["name"]),
            duration_s=_wait_s(nodes, keys["duration"]),
            cron=nodes.text(keys["cron"]) if "cron" in keys else "",
            once_at_s=None
            if once is None
            else quantity.instant_s(nodes.text(once), zone_name=zone, at=nodes.at(once)),
            zone=zone,
            reason=nodes.text(keys["reason"]) if "reason" in keys else "",
        )
    except ConfigError as error:
        if error.where.startswith(nodes.file):
            raise
        raise ConfigError(
            f"{error.where} {error.problem}", where=nodes.at(node), remedy=error.remedy
        ) from error


def _since(nodes: Nodes, node: yaml.Node) -> int:
    return quantity.instant_s(nodes.text(node), at=nodes.at(node))


def _changes(nodes: Nodes, node: yaml.Node) -> tuple[Change, ...]:
    example = "changes: [{since: 2026-03-01, target: 99.5%}]"
    found = []
    for each in nodes.sequence(node, example):
        keys = nodes.mapping(each, ("since", "target"), example)
        _complete(nodes, each, keys, ("since", "target"))
        target = quantity.target(nodes.text(keys["target"]), at=nodes.at(keys["target"]))
        found.append(Change(since_s=_since(nodes, keys["since"]), target=target))
    if any(later.since_s <= earlier.since_s for earlier, later in pairwise(found)):
        nodes.refuse(node, "is not in order of time", "Begin with the oldest change.")
    return tuple(found)


def _labels(nodes: Nodes, node: yaml.Node) -> Labels:
    said = nodes.mapping(node, None, "labels: {team: chat}")
    if len(said) > _MOST_LABELS:
        nodes.refuse(node, f"has {len(said)} labels", f"Keep it to {_MOST_LABELS}.")
    for name, value in said.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
            nodes.refuse(
                value, f"{name[:80]!r} is no name of a label", "Use letters, digits and _."
            )
        if not 0 < len(nodes.word(value)) <= MAX_LABEL_LENGTH:
            nodes.refuse(value, "is too short or too long", f"Keep it to {MAX_LABEL_LENGTH}.")
    return labels_of((name, nodes.word(value)) for name, value in said.items())


def _complete(nodes: Nodes, node: yaml.Node, keys: _Keys, needed: tuple[str, ...]) -> None:
    missing = [name for name in needed if name not in keys]
    if missing:
        nodes.refuse(node, f"{missing[0]!r} is missing", f"Add {missing[0]}.")


_FIELDS = {
    "for": "for_s",
    "keep_firing": "keep_firing_s",
    "no_data_after": "no_data_after_s",
    "since": "since_s",
}
_READ = {
    "description": Nodes.text,
    "for": _wait_s,
    "keep_firing": _wait_s,
    "clear": _clear,
    "no_data_after": _wait_s,
    "no_data": _no_data,
    "receivers": _receivers,
    "escalation": _escalation,
    "maintenance": _maintenance,
    "since": _since,
    "changes": _changes,
    "notes": Nodes.flag,
    "labels": _labels,
    "summary": Nodes.text,
}
