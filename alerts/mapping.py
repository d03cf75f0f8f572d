"""A promise written as a mapping: which of the seven kinds, how often, over how long, and of whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import yaml

from alerts import kinds, phrase, quantity
from alerts.phrase import CALENDAR_S, Phrase
from alerts.reading import Nodes
from domain.indicator import AvailabilityIndicator, Indicator, counts_minutes
from domain.labels import Labels
from domain.objective import DAY_S
from domain.period import Calendar
from domain.slice import SlicePolicy

__all__ = ["KINDS", "PARTS", "over", "promised", "selector"]

_Keys = Mapping[str, yaml.Node]

KINDS = ("metric", "available", "goodput", "throughput", "level", "condition", "endpoint")
"""Each of these keys begins another kind of promise."""

PARTS = (*KINDS, "threshold", "target", "slices", "period", "calendar", "where")
"""What a sentence says too."""

_ENDPOINT = ("service", "metric", "threshold", "dimensions", "counts_failures")


def promised(nodes: Nodes, node: yaml.Node, keys: _Keys) -> Phrase:
    """What a mapping promises, whether by a phrase or by keys."""
    if "phrase" in keys:
        twice = [key for key in PARTS if key in keys]
        if twice:
            nodes.refuse(
                keys[twice[0]], f"{twice[0]!r} is in the phrase already", "Keep one of the two."
            )
        return phrase.parse(nodes.text(keys["phrase"]), at=nodes.at(keys["phrase"]))
    said = [key for key in KINDS if key in keys]
    if len(said) != 1:
        nodes.refuse(
            keys[said[1]] if said else node,
            f"promises both {said[0]} and {said[1]}" if said else "does not say what is promised",
            f"Give a phrase, or one of {', '.join(KINDS)}.",
        )
    indicator = _READ[said[0]](nodes, node, keys)
    indicator = replace(indicator, where=selector(nodes, keys))
    period_s, calendar = over(nodes, keys)
    return Phrase(
        target=_target(nodes, node, keys),
        indicator=indicator,
        period_s=period_s,
        calendar=calendar,
        slices=_slices(nodes, keys, indicator),
    )


def selector(nodes: Nodes, keys: _Keys) -> Labels:
    """`where: {use_case: chat}`."""
    node = keys.get("where")
    if node is None:
        return ()
    if not isinstance(node, yaml.MappingNode):
        nodes.refuse(node, "is no selector", "Write where: {use_case: chat}.")
    pairs = nodes.mapping(node, None, "where: {use_case: chat}").items()
    return phrase.where_labels(
        ((name, nodes.word(value)) for name, value in pairs), at=nodes.at(node)
    )


def over(nodes: Nodes, keys: _Keys) -> tuple[int, Calendar | None]:
    """`period: 30d`, or `calendar: {unit: month, zone: Europe/Berlin}`."""
    if "calendar" not in keys:
        node = keys.get("period")
        if node is None:
            return 30 * DAY_S, None
        return quantity.period_s(nodes.text(node), at=nodes.at(node)), None
    node = keys["calendar"]
    if "period" in keys:
        nodes.refuse(keys["period"], "has two periods", "Keep period or calendar.")
    if isinstance(node, yaml.ScalarNode):
        by = phrase.calendar(nodes.text(node), "", at=nodes.at(node))
        return CALENDAR_S[by.unit], by
    parts = nodes.mapping(node, ("unit", "zone"), "calendar: {unit: month, zone: Europe/Berlin}")
    unit = _needed(nodes, node, parts, "unit")
    zone = nodes.text(parts["zone"]) if "zone" in parts else ""
    by = phrase.calendar(nodes.text(unit), zone, at=nodes.at(node))
    return CALENDAR_S[by.unit], by


def _target(nodes: Nodes, node: yaml.Node, keys: _Keys) -> Fraction:
    said = _needed(nodes, node, keys, "target")
    return quantity.target(nodes.text(said), at=nodes.at(said))


def _slices(nodes: Nodes, keys: _Keys, indicator: Indicator) -> SlicePolicy | None:
    node = keys.get("slices")
    if node is None:
        return None
    if counts_minutes(indicator):
        nodes.refuse(node, "counts minutes as it is", "Leave slices out.")
    parts = nodes.mapping(node, ("target", "empty"), "slices: {target: 99%, empty: excluded}")
    empty = nodes.text(parts["empty"]) if "empty" in parts else ""
    return SlicePolicy(
        target=_target(nodes, node, parts), empty=phrase.empty(empty, at=nodes.at(node))
    )


def _latency(nodes: Nodes, node: yaml.Node, keys: _Keys) -> Indicator:
    threshold = _needed(nodes, node, keys, "threshold")
    metric = keys["metric"]
    return kinds.latency(
        nodes.text(metric), nodes.text(threshold), at=nodes.at(metric), limit_at=nodes.at(threshold)
    )


def _available(nodes: Nodes, _: yaml.Node, keys: _Keys) -> Indicator:
    if not nodes.flag(keys["available"]):
        nodes.refuse(keys["available"], "promises nothing", "Write available: true.")
    return AvailabilityIndicator()


def _goodput(nodes: Nodes, _: yaml.Node, keys: _Keys) -> Indicator:
    node = keys["goodput"]
    limits = nodes.mapping(node, None, "goodput: {ttft: 1s, tpot: 50ms}")
    said = [(name, nodes.text(limit), nodes.at(limit)) for name, limit in limits.items()]
    return kinds.goodput(said, at=nodes.at(node))


def _throughput(nodes: Nodes, _: yaml.Node, keys: _Keys) -> Indicator:
    node = keys["throughput"]
    example = "throughput: {metric: generation_tokens, at_least: 500/s}"
    parts = nodes.mapping(node, ("metric", "at_least"), example)
    metric = nodes.text(_needed(nodes, node, parts, "metric"))
    floor = nodes.text(_needed(nodes, node, parts, "at_least"))
    return kinds.throughput(metric, floor, at=nodes.at(node))


def _level(nodes: Nodes, _: yaml.Node, keys: _Keys) -> Indicator:
    node = keys["level"]
    example = "level: {metric: kv_cache_usage, at_most: 90%}"
    parts = nodes.mapping(node, ("metric", "at_most", "at_least"), example)
    metric = nodes.text(_needed(nodes, node, parts, "metric"))
    most, least = (
        nodes.text(parts[side]) if side in parts else None for side in ("at_most", "at_least")
    )
    return kinds.level(metric, most, least, at=nodes.at(node))


def _condition(nodes: Nodes, _: yaml.Node, keys: _Keys) -> Indicator:
    node = keys["condition"]
    return kinds.condition((name for name, _ in nodes.texts(node)), at=nodes.at(node))


def _endpoint(nodes: Nodes, _: yaml.Node, keys: _Keys) -> Indicator:
    node = keys["endpoint"]
    example = "endpoint: {service: sagemaker, dimensions: {EndpointName: chat}}"
    parts = nodes.mapping(node, _ENDPOINT, example)
    service = nodes.text(_needed(nodes, node, parts, "service"))
    said = parts.get("dimensions")
    dimensions = {} if said is None else nodes.mapping(said, None, example)
    return kinds.endpoint(
        service,
        nodes.text(parts["metric"]) if "metric" in parts else "",
        nodes.text(parts["threshold"]) if "threshold" in parts else None,
        [(name, nodes.word(value)) for name, value in dimensions.items()],
        counts_failures="counts_failures" in parts and nodes.flag(parts["counts_failures"]),
        at=nodes.at(node),
    )


def _needed(nodes: Nodes, node: yaml.Node, keys: _Keys, name: str) -> yaml.Node:
    if name not in keys:
        nodes.refuse(node, f"{name!r} is missing", f"Add {name}.")
    return keys[name]


_READ: Mapping[str, Callable[[Nodes, yaml.Node, _Keys], Indicator]] = {
    "metric": _latency,
    "available": _available,
    "goodput": _goodput,
    "throughput": _throughput,
    "level": _level,
    "condition": _condition,
    "endpoint": _endpoint,
}
