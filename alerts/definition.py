"""Objectives as people write them: a YAML list of sentences and mappings, each error with its place.

- p99 ttft <= 1.5s over 30d where use_case=chat
- {name: voice, metric: ttft, threshold: 300ms, target: 99.5%, where: {use_case: voice}}
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import yaml

from alerts import phrase
from alerts.state import AT_ONCE, Timers
from domain.errors import ConfigError
from domain.indicator import LatencyIndicator
from domain.objective import BurnRule, Objective, Severity, burn_rules

__all__ = ["Definition", "define", "gather", "load", "slug"]

_PARTS = ("metric", "threshold", "target", "period", "where")
_FURTHER = (
    "min_events",
    "runbook",
    "description",
    "for",
    "keep_firing",
    "no_data_after",
    "no_data",
)
_KEYS = ("name", "phrase", *_PARTS, *_FURTHER)
_NO_DATA = ("page", "ticket", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A promise and how it is watched. `left_out`: rules that even a total outage never reaches."""

    objective: Objective
    description: str = ""
    timers: Timers = AT_ONCE
    no_data_after_s: int = 600
    no_data: Severity | None = Severity.PAGE

    @property
    def id(self) -> str:
        """Stable as long as the name is."""
        return slug(self.objective.name)

    @property
    def name(self) -> str:
        return self.objective.name

    @property
    def rules(self) -> tuple[BurnRule, ...]:
        return _rules(self.objective.period_s, self.objective.target)[0]

    @property
    def left_out(self) -> tuple[BurnRule, ...]:
        return _rules(self.objective.period_s, self.objective.target)[1]


@functools.lru_cache
def _rules(period_s: int, target: Fraction) -> tuple[tuple[BurnRule, ...], tuple[BurnRule, ...]]:
    """The rules of a period: those that a total outage reaches, and the others."""
    rules = burn_rules(period_s)
    reached = tuple(rule for rule in rules if rule.factor * (1 - target) < 1)
    return reached, tuple(rule for rule in rules if rule not in reached)


def load(source: Path | str, *, name: str = "objectives") -> list[Definition]:
    """The objectives of a file, or of a text that calls itself `name`."""
    if isinstance(source, Path):
        try:
            text, name = source.read_text(encoding="utf-8"), str(source)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
            raise ConfigError(
                f"cannot be read: {reason}", where=str(source), remedy="Check the path."
            ) from error
    else:
        text = source
    return _unique(_Reader(name).objectives(_composed(text, name)))


def gather(items: Iterable[str | Mapping[str, Any]], *, base: Path = Path()) -> list[Definition]:
    """The objectives of a configuration: sentences, mappings, and paths of files."""
    found: list[tuple[Definition, str]] = []
    for index, item in enumerate(items):
        at = f"objectives[{index}]"
        if isinstance(item, str) and not re.search(r"[<>=]|^p\d", item):
            found += [(each, item) for each in load(base / item)]
        else:
            text = yaml.safe_dump(item, default_flow_style=True, sort_keys=False)
            found += [(define(text, at=at), at)]
    return _unique(found)


def define(text: str, *, at: str) -> Definition:
    """One objective, written as a sentence or as a mapping."""
    node = _composed(text, at)
    if node is None:
        raise ConfigError("is empty", where=at, remedy="Write p99 ttft <= 1.5s over 30d.")
    return _Reader(at).objective(node)


def slug(name: str) -> str:
    """The name as it stands in links and keys."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _composed(text: str, name: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise ConfigError(
            f"is not YAML: {error.problem}", where=at, remedy="Quote texts that contain : or #."
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError(
            "is not YAML: it holds a character that YAML forbids",
            where=name,
            remedy="Save it as UTF-8 text.",
        ) from error


def _unique(found: Sequence[tuple[Definition, str]]) -> list[Definition]:
    seen: dict[str, str] = {}
    for definition, at in found:
        if definition.id in seen:
            raise ConfigError(
                f"{definition.name!r} is promised already at {seen[definition.id]}",
                where=at,
                remedy="Give one of them another name.",
            )
        seen[definition.id] = at
    return [definition for definition, _ in found]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns YAML nodes into objectives and knows where each of them stands."""

    file: str

    def objectives(self, root: yaml.Node | None) -> list[tuple[Definition, str]]:
        if isinstance(root, yaml.MappingNode):
            inside = self._mapping(root, ("objectives",))
            root = inside.get("objectives")
        if not isinstance(root, yaml.SequenceNode) or not root.value:
            self._refuse(root, "holds no list of objectives", "Begin each with a dash and a space.")
        return [(self.objective(node), self._at(node)) for node in root.value]

    def objective(self, node: yaml.Node) -> Definition:
        if isinstance(node, yaml.ScalarNode):
            return self._built(node, {}, phrase.parse(node.value, at=self._at(node)))
        if not isinstance(node, yaml.MappingNode):
            self._refuse(node, "is no objective", "Write a sentence or a mapping with a phrase.")
        keys = self._mapping(node, _KEYS)
        return self._built(node, keys, self._parts(node, keys))

    def _parts(self, node: yaml.Node, keys: Mapping[str, yaml.Node]) -> phrase.Phrase:
        if "phrase" in keys:
            twice = [key for key in _PARTS if key in keys]
            if twice:
                self._refuse(
                    keys[twice[0]], f"{twice[0]!r} is in the phrase already", "Keep one of the two."
                )
            return phrase.parse(self._text(keys["phrase"]), at=self._at(keys["phrase"]))
        missing = [key for key in ("metric", "threshold", "target") if key not in keys]
        if missing:
            self._refuse(
                node,
                f"{missing[0]!r} is missing",
                "Give metric, threshold and target, or a phrase.",
            )
        at = {key: self._at(value) for key, value in keys.items()}
        values = {key: self._text(keys[key]) for key in _PARTS if key in keys and key != "where"}
        return phrase.Phrase(
            target=phrase.target(values["target"], at=at["target"]),
            metric=phrase.metric_name(values["metric"], at=at["metric"]),
            threshold_s=phrase.duration_s(values["threshold"], at=at["threshold"]),
            period_s=phrase.period_s(values.get("period", "30d"), at=at.get("period", self.file)),
            where=self._where(keys["where"]) if "where" in keys else (),
        )

    def _built(
        self, node: yaml.Node, keys: Mapping[str, yaml.Node], parts: phrase.Phrase
    ) -> Definition:
        name = self._text(keys["name"]).strip() if "name" in keys else _named(parts)
        if not slug(name):
            self._refuse(keys["name"], f"{name!r} is no name", "Use letters and digits.")
        objective = Objective(
            name=name,
            indicator=LatencyIndicator(
                metric=parts.metric, threshold_s=parts.threshold_s, where=parts.where
            ),
            target=parts.target,
            period_s=parts.period_s,
            min_events=self._count(keys["min_events"]) if "min_events" in keys else 10,
            runbook=self._text(keys["runbook"]) if "runbook" in keys else "",
        )
        definition = Definition(objective=objective, **self._watching(keys))
        if not definition.rules:
            self._refuse(node, *_hopeless(definition))
        return definition

    def _watching(self, keys: Mapping[str, yaml.Node]) -> dict[str, Any]:
        def wait_s(key: str, default_s: int) -> int:
            node = keys.get(key)
            return phrase.seconds(self._text(node), at=self._at(node)) if node else default_s

        no_data = self._text(keys["no_data"]) if "no_data" in keys else "page"
        if no_data not in (*_NO_DATA, "false"):  # why "false": YAML 1.1 takes a bare off for it
            self._refuse(keys["no_data"], f"{no_data!r} is no severity", f"Use {_NO_DATA}.")
        return {
            "description": self._text(keys["description"]) if "description" in keys else "",
            "timers": Timers(for_s=wait_s("for", 0), keep_firing_s=wait_s("keep_firing", 0)),
            "no_data_after_s": wait_s("no_data_after", 600),
            "no_data": Severity(no_data) if no_data in ("page", "ticket") else None,
        }

    def _where(self, node: yaml.Node) -> tuple[tuple[str, str], ...]:
        if not isinstance(node, yaml.MappingNode):
            self._refuse(node, "is no selector", "Write where: {use_case: chat}.")
        keys = self._mapping(node, None)
        pairs = ((name, self._text(value)) for name, value in keys.items())
        return phrase.where_labels(pairs, at=self._at(node))

    def _mapping(self, node: yaml.MappingNode, known: Sequence[str] | None) -> dict[str, yaml.Node]:
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self._text(key)
            if known is not None and name not in known:
                self._refuse(key, f"there is no key {name!r}", phrase.suggestion(name, known))
            if name in found:
                self._refuse(key, f"{name!r} stands here twice", "Keep one of the two.")
            found[name] = value
        return found

    def _text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self._refuse(node, "is no plain value", "Write one text or number.")
        return str(node.value)

    def _count(self, node: yaml.Node) -> int:
        text = self._text(node)
        if not re.fullmatch(r"\d{1,9}", text):
            self._refuse(node, f"{text!r} is no count", "Use 0 or more; 0 lets one request page.")
        return int(text)

    def _at(self, node: yaml.Node) -> str:
        return f"{self.file}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"

    def _refuse(self, node: yaml.Node | None, problem: str, remedy: str) -> NoReturn:
        raise ConfigError(problem, where=self._at(node) if node else self.file, remedy=remedy)


def _named(parts: phrase.Phrase) -> str:
    """`chat-ttft`: whom it concerns, what is measured, and the target unless it is p99."""
    whom = [value for _, value in parts.where]
    share = "" if parts.target == Fraction(99, 100) else f"p{float(parts.target * 100):g}"
    return "-".join(part for part in (*whom, parts.metric, share) if part)


def _hopeless(definition: Definition) -> tuple[str, str]:
    most = float(1 / definition.objective.budget)
    least = min((float(rule.factor) for rule in definition.left_out), default=1.0)
    return (
        f"no rule can ever fire: a total outage burns {most:.3g}x, the mildest asks {least:.3g}x",
        "Use a tighter target or another period.",
    )
