"""Objectives as people write them: a YAML list of sentences and mappings, each error with its place.

- p99 ttft <= 1.5s over 30d where use_case=chat
- {name: voice, metric: ttft, threshold: 300ms, target: 99.5%, where: {use_case: voice}}
- preset: code
- {name: assistant, all_of: [chat-ttft, voice]}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from alerts.entry import composite, expanded, objective
from alerts.promise import Change, Composite, Definition, Escalation, slug
from alerts.quantity import suggestion
from alerts.reading import Nodes, composed, text_of
from domain.errors import ConfigError

__all__ = [
    "Change",
    "Composite",
    "Definition",
    "Escalation",
    "Promises",
    "define",
    "gather",
    "gather_all",
    "load",
    "load_all",
    "slug",
]

_MOST = 5000
_Found = list[tuple[Definition | Composite, str]]


@dataclass(frozen=True, slots=True)
class Promises:
    """What a file promises: objectives, and composites made of them."""

    definitions: tuple[Definition, ...]
    composites: tuple[Composite, ...] = ()


def load(source: Path | str, *, name: str = "objectives") -> list[Definition]:
    """The objectives of a file, or of a text that calls itself `name`."""
    return list(load_all(source, name=name).definitions)


def load_all(source: Path | str, *, name: str = "objectives") -> Promises:
    """Objectives and composites of a file, or of a text that calls itself `name`."""
    return _sorted(_read(source, name))


def gather(items: Iterable[str | Mapping[str, Any]], *, base: Path = Path()) -> list[Definition]:
    """The objectives of a configuration: sentences, mappings, and paths of files."""
    return list(gather_all(items, base=base).definitions)


def gather_all(items: Iterable[str | Mapping[str, Any]], *, base: Path = Path()) -> Promises:
    """Objectives and composites of a configuration."""
    found: _Found = []
    for index, item in enumerate(items):
        if isinstance(item, str) and not _is_sentence(item):
            found += _read(base / item, item)
        else:
            text = yaml.safe_dump(item, default_flow_style=True, sort_keys=False)
            at = f"objectives[{index}]"
            node = composed(text, at)
            found += [] if node is None else _entries(Nodes(at, placed=False), node)
    return _sorted(found)


def define(text: str, *, at: str) -> Definition:
    """One objective, written as a sentence or as a mapping."""
    node = composed(text, at)
    if node is None:
        raise ConfigError("is empty", where=at, remedy="Write p99 ttft <= 1.5s over 30d.")
    return objective(Nodes(at), node)


def _is_sentence(text: str) -> bool:
    return re.search(r"[<>=]|^p\d| available| of minutes", text) is not None


def _read(source: Path | str, name: str) -> _Found:
    if isinstance(source, Path):
        name, source = str(source), text_of(source)
    nodes, root = Nodes(name), composed(source, name)
    if isinstance(root, yaml.MappingNode):
        root = nodes.mapping(root, ("objectives",), "a list of objectives").get("objectives")
    if not isinstance(root, yaml.SequenceNode) or not root.value:
        nodes.refuse(root, "holds no list of objectives", "Begin each with a dash and a space.")
    if len(root.value) > _MOST:
        nodes.refuse(root, f"holds {len(root.value)} objectives", f"Keep it to {_MOST}.")
    return [each for node in root.value for each in _entries(nodes, node)]


def _entries(nodes: Nodes, node: yaml.Node) -> _Found:
    """What one item of the list stands for: one objective, one composite, or a whole preset."""
    keys = {key.value for key, _ in node.value} if isinstance(node, yaml.MappingNode) else set()
    at = nodes.at(node)
    if "preset" in keys:
        return [(each, at) for each in expanded(nodes, node)]
    if "all_of" in keys:
        return [(composite(nodes, node), at)]
    return [(objective(nodes, node), at)]


def _sorted(found: _Found) -> Promises:
    """Objectives and composites apart; no two of one name, none made of what is not there."""
    seen: dict[str, str] = {}
    for each, at in found:
        if each.id in seen:
            raise ConfigError(
                f"{each.name!r} is promised already at {seen[each.id]}",
                where=at,
                remedy="Give one of them another name.",
            )
        seen[each.id] = at
    definitions = tuple(each for each, _ in found if isinstance(each, Definition))
    ids = {each.id for each in definitions}
    for each, at in found:
        missing = (
            [part for part in each.of if part not in ids] if isinstance(each, Composite) else ()
        )
        if missing:
            raise ConfigError(
                f"there is no objective {missing[0]!r}",
                where=at,
                remedy=suggestion(missing[0], sorted(ids)),
            )
    return Promises(definitions, tuple(each for each, _ in found if isinstance(each, Composite)))
