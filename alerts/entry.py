"""One entry of a list of objectives: a sentence or mapping, a preset, or a composite of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import yaml

from alerts import phrase, quantity
from alerts.mapping import PARTS, over, promised, selector
from alerts.phrase import Phrase
from alerts.presets import PRESETS, Preset
from alerts.promise import Composite, Definition, slug
from alerts.reading import Nodes
from alerts.watching import WATCHING, watching
from domain.indicator import (
    AvailabilityIndicator,
    ConditionIndicator,
    EndpointIndicator,
    GoodputIndicator,
    Indicator,
    LatencyIndicator,
)
from domain.objective import Objective, usual_min_events

__all__ = [
    "COMPOSITE_KEYS",
    "HOPELESS",
    "OBJECTIVE_KEYS",
    "PRESET_KEYS",
    "composite",
    "expanded",
    "name_of",
    "objective",
]

_Keys = Mapping[str, yaml.Node]

OBJECTIVE_KEYS = ("name", "phrase", *PARTS, *WATCHING)
PRESET_KEYS = (
    "preset",
    "name",
    "thresholds",
    "at_least",
    "target",
    "period",
    "calendar",
    "where",
    *WATCHING,
)
HOPELESS = "Use a tighter target or another period."
COMPOSITE_KEYS = ("name", "all_of", "weights", "target", "description")


def objective(nodes: Nodes, node: yaml.Node) -> Definition:
    """One objective, written as a sentence or as a mapping."""
    if isinstance(node, yaml.ScalarNode):
        return _built(nodes, node, {}, phrase.parse(nodes.text(node), at=nodes.at(node)), "")
    if not isinstance(node, yaml.MappingNode):
        nodes.refuse(node, "is no objective", "Write a sentence or a mapping with a phrase.")
    keys = nodes.mapping(node, OBJECTIVE_KEYS, "a sentence")
    name = nodes.word(keys["name"]).strip() if "name" in keys else ""
    return _built(nodes, node, keys, promised(nodes, node, keys), name)


def expanded(nodes: Nodes, node: yaml.Node) -> list[Definition]:
    """The objectives of a preset, with what the entry says differently."""
    keys = nodes.mapping(node, PRESET_KEYS, "preset: chat")
    said = nodes.text(keys["preset"])
    if said not in PRESETS:
        nodes.refuse(keys["preset"], f"{said!r} is no preset", quantity.suggestion(said, PRESETS))
    preset = PRESETS[said]
    name = nodes.word(keys["name"]).strip() if "name" in keys else preset.name
    where = selector(nodes, keys) if "where" in keys else preset.where
    period_s, calendar = over(nodes, keys)
    found = []
    for word, parts in preset.promises(
        _limits_s(nodes, keys, preset), _floor(nodes, node, keys, preset), where
    ):
        target = parts.target
        if "target" in keys:
            target = quantity.target(nodes.text(keys["target"]), at=nodes.at(keys["target"]))
        ours = replace(parts, target=target, period_s=period_s, calendar=calendar)
        found.append(_built(nodes, node, keys, ours, f"{name}-{word}"))
    return found


def composite(nodes: Nodes, node: yaml.Node) -> Composite:
    """A promise made of others of the same list."""
    keys = nodes.mapping(node, COMPOSITE_KEYS, "all_of: [chat-ttft, chat-availability]")
    if "name" not in keys:
        nodes.refuse(node, "'name' is missing", "Add name.")
    of = tuple(slug(name) for name, _ in nodes.texts(keys["all_of"]))
    if len(set(of)) < max(len(of), 2):
        nodes.refuse(keys["all_of"], "is made of too few", "Name two or more, each once.")
    said = keys.get("target")
    return Composite(
        name=name_of(nodes, keys["name"], nodes.word(keys["name"]).strip()),
        of=of,
        weights=_weights(nodes, keys, of),
        target=None if said is None else quantity.target(nodes.text(said), at=nodes.at(said)),
        description=nodes.text(keys["description"]) if "description" in keys else "",
    )


def _weights(nodes: Nodes, keys: _Keys, of: tuple[str, ...]) -> tuple[Fraction, ...]:
    node = keys.get("weights")
    if node is None:
        return ()
    said = nodes.mapping(node, None, "weights: {chat-ttft: 2, chat-itl: 1}")
    given = {slug(name): value for name, value in said.items()}
    for name, value in given.items():
        if name not in of:
            nodes.refuse(value, f"{name!r} is no part of it", quantity.suggestion(name, of))
    weights = tuple(
        quantity.level(nodes.text(given[name]), at=nodes.at(given[name]))
        if name in given
        else Fraction(1)
        for name in of
    )
    if not all(weights):
        nodes.refuse(node, "a weight of 0 promises nothing", "Leave that part out of all_of.")
    return weights


def _limits_s(nodes: Nodes, keys: _Keys, preset: Preset) -> dict[str, Fraction]:
    node = keys.get("thresholds")
    if node is None:
        return {}
    said = nodes.mapping(node, tuple(preset.limits_s), "thresholds: {ttft: 800ms}")
    return {
        metric: quantity.duration_s(nodes.text(value), at=nodes.at(value))
        for metric, value in said.items()
    }


def _floor(nodes: Nodes, node: yaml.Node, keys: _Keys, preset: Preset) -> Fraction | None:
    said = keys.get("at_least")
    if preset.counter and said is None:
        nodes.refuse(
            node,
            f"{preset.name} does not know how much you need",
            f"Add at_least: 500/s ({preset.counter}).",
        )
    if said is None:
        return None
    if not preset.counter:
        nodes.refuse(said, f"{preset.name} has no floor", "Leave at_least out.")
    return quantity.rate_per_s(nodes.text(said), at=nodes.at(said))


def _built(nodes: Nodes, node: yaml.Node, keys: _Keys, parts: Phrase, name: str) -> Definition:
    place = keys.get("name", node)
    least = usual_min_events(parts.indicator, parts.slices)
    definition = Definition(
        objective=Objective(
            name=name_of(nodes, place, name or _named(parts)),
            indicator=parts.indicator,
            target=parts.target,
            period_s=parts.period_s,
            min_events=nodes.count(keys["min_events"]) if "min_events" in keys else least,
            runbook=nodes.text(keys["runbook"]) if "runbook" in keys else "",
            slices=parts.slices,
            calendar=parts.calendar,
        ),
        **watching(nodes, keys),
    )
    if definition.hopeless:
        nodes.refuse(node, definition.hopeless, HOPELESS)
    return definition


def name_of(nodes: Nodes, node: yaml.Node, name: str) -> str:
    """A name that makes an id, and that a page can show."""
    if not slug(name):
        nodes.refuse(node, f"{name!r} is no name", "Use letters and digits.")
    if len(name) > 100:
        nodes.refuse(node, "has a name of more than 100 characters", "Write a shorter one.")
    return name


def _named(parts: Phrase) -> str:
    """`chat-ttft`: whom it concerns, what is measured, and the target unless it is p99."""
    whom = [value for _, value in parts.indicator.where]
    share = f"p{float(parts.target * 100):g}"
    words = _subject(parts.indicator)
    plain = parts.target == Fraction(99, 100) or not isinstance(parts.indicator, LatencyIndicator)
    return "-".join(part for part in (*whom, *words, "" if plain else share) if part)


def _subject(indicator: Indicator) -> tuple[str, ...]:
    match indicator:
        case AvailabilityIndicator():
            return ("availability",)
        case GoodputIndicator():
            return ("goodput",)
        case ConditionIndicator():
            return ("no", *indicator.kinds)
        case EndpointIndicator():
            names = tuple(value for _, value in indicator.dimensions)
            return (*(names or (indicator.service,)), indicator.metric or "availability")
        case _:
            return (indicator.metric,)
