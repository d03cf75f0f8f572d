"""OpenSLO v1 and v2alpha read as objectives of ours; what cannot be taken over is reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import yaml

from alerts import phrase, promql, quantity
from alerts.entry import HOPELESS, name_of
from alerts.loss import Loss, Translated
from alerts.phrase import CALENDAR_S
from alerts.promise import Definition
from alerts.reading import Nodes, documents
from alerts.watching import watching
from domain.errors import ConfigError
from domain.indicator import Indicator, counts_minutes
from domain.labels import Labels, labels_of
from domain.objective import DAY_S, Objective, usual_min_events
from domain.period import Calendar, CalendarUnit
from domain.slice import SlicePolicy

__all__ = ["ANNOTATIONS", "SOURCE", "UNITS", "read"]

_Keys = Mapping[str, yaml.Node]

SOURCE = "Stagewatch"
"""The type of a metric source whose query is a sentence of ours."""

ANNOTATIONS = {
    f"stagewatch/{key.replace('_', '-')}": key
    for key in (
        "min_events",
        "runbook",
        "for",
        "keep_firing",
        "clear",
        "no_data_after",
        "no_data",
        "since",
        "notes",
        "summary",
    )
}
"""Annotations that carry what OpenSLO has no field for."""

UNITS = {
    "d": CalendarUnit.DAY,
    "w": CalendarUnit.WEEK,
    "M": CalendarUnit.MONTH,
    "Q": CalendarUnit.QUARTER,
    "Y": CalendarUnit.YEAR,
}
_LENGTHS_S = {"m": 60, "h": 3600, **{letter: CALENDAR_S[unit] for letter, unit in UNITS.items()}}
_VERSIONS = ("openslo/v1", "openslo.com/v2alpha")
_OURS = "Stagewatch has burn rules and receivers of its own; see docs/promise-a-ttft.md."
_SPEC = (
    "description",
    "service",
    "indicator",
    "indicatorRef",
    "sli",
    "sliRef",
    "timeWindow",
    "budgetingMethod",
    "objectives",
)


def read(text: str, name: str) -> Translated:
    """The objectives of all SLOs of a file, and everything in it that is not taken over."""
    reading = _Reading(Nodes(name))
    for root in documents(text, name):
        inside = root.value if isinstance(root, yaml.SequenceNode) else [root]
        for node in inside:
            reading.add(node)
    if not reading.slos:
        raise ConfigError("holds no SLO", where=name, remedy="Give OpenSLO objects of kind SLO.")
    for node in reading.slos:
        reading.translate(node)
    return Translated(definitions=reading.definitions, losses=reading.losses)


@dataclass(frozen=True, slots=True)
class _Found:
    """What is counted; `share` where a quantile says how many of a minute must be good."""

    indicator: Indicator
    share: Fraction | None = None


@dataclass(slots=True)
class _Reading:
    """One file on its way: SLIs by name, so that an SLO may refer to one further down."""

    nodes: Nodes
    slis: dict[str, yaml.Node] = field(default_factory=dict)
    slos: list[yaml.Node] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)

    def add(self, node: yaml.Node) -> None:
        keys = self.nodes.mapping(node, None, "apiVersion: openslo/v1")
        version = self.text(keys, "apiVersion")
        if version not in _VERSIONS:
            self.nodes.refuse(
                node, f"has the version {version!r}", f"Give one of {', '.join(_VERSIONS)}."
            )
        kind = self.text(keys, "kind")
        if kind == "SLO":
            self.slos.append(node)
        elif kind == "SLI":
            self.slis[self.text(self.inside(keys, "metadata"), "name")] = keys.get("spec", node)
        else:
            self.note(node, f"{kind or 'an object without a kind'} is not taken over", _OURS)

    def translate(self, node: yaml.Node) -> None:
        """Each objective of one SLO, or why not."""
        keys = self.nodes.mapping(node, None, "kind: SLO")
        spec = self.inside(keys, "spec")
        for key, value in spec.items():
            if key not in _SPEC and value.value:
                self.note(value, f"{key!r} is not taken over", _OURS)
        listed = spec.get("objectives")
        parts = listed.value if isinstance(listed, yaml.SequenceNode) else []
        if not parts:
            self.drop(node, "it has no objectives", "Add objectives.")
        for each in parts:
            try:
                self.definitions.append(self._definition(each, keys, spec, alone=len(parts) == 1))
            except ConfigError as error:
                inside = error.where.startswith(self.nodes.file)
                self.drop(each, error.problem, error.remedy, error.where if inside else "")

    def _definition(self, node: yaml.Node, keys: _Keys, spec: _Keys, *, alone: bool) -> Definition:
        said = self.nodes.mapping(node, None, "target: 0.99")
        metadata = self.inside(keys, "metadata")
        found = self._found(node, spec, said)
        slices = self._slices(node, spec, said, found)
        period_s, calendar = self._window(spec)
        annotations = self.inside(metadata, "annotations")
        watched = {
            ours: annotations[name] for name, ours in ANNOTATIONS.items() if name in annotations
        }
        least = usual_min_events(found.indicator, slices)
        name = self.text(metadata, "displayName") or self.text(metadata, "name")
        further = self.text(said, "displayName") or str(node.start_mark.line + 1)
        definition = Definition(
            objective=Objective(
                name=name_of(self.nodes, node, name if alone else f"{name} {further}"),
                indicator=found.indicator,
                target=self._target(node, said),
                period_s=period_s,
                min_events=self.nodes.count(watched["min_events"])
                if "min_events" in watched
                else least,
                runbook=self.text(watched, "runbook"),
                slices=slices,
                calendar=calendar,
            ),
            description=self.text(spec, "description"),
            labels=self._labels(metadata),
            **watching(self.nodes, watched),
        )
        if definition.hopeless:
            self.nodes.refuse(node, definition.hopeless, HOPELESS)
        return definition

    def _target(self, node: yaml.Node, said: _Keys) -> Fraction:
        if ("target" in said) == ("targetPercent" in said):
            self.nodes.refuse(node, "has no target or two", "Give target or targetPercent.")
        if "target" in said:
            return self._share(said["target"])
        found = said["targetPercent"]
        return quantity.target(f"{self.nodes.text(found)}%", at=self.nodes.at(found))

    def _share(self, node: yaml.Node) -> Fraction:
        text = self.nodes.text(node)
        if not re.fullmatch(r"0?\.\d{1,12}", text):
            self.nodes.refuse(
                node, f"{text!r} is no share below 1", "Write 0.99, or targetPercent."
            )
        return quantity.target(f"0{text.lstrip('0')}", at=self.nodes.at(node))

    def _slices(
        self, node: yaml.Node, spec: _Keys, said: _Keys, found: _Found
    ) -> SlicePolicy | None:
        method = self.text(spec, "budgetingMethod")
        if method not in ("Occurrences", "Timeslices"):
            self.nodes.refuse(
                spec.get("budgetingMethod", node),
                f"the budgeting method {method!r} is not ours",
                "Use Occurrences (requests) or Timeslices (minutes): a mean of ratios lets a quiet "
                "minute weigh as much as a busy one.",
            )
        if method == "Timeslices":
            self._check_window(said, node)
        if counts_minutes(found.indicator):
            return None
        if method == "Timeslices":
            return SlicePolicy(target=found.share or self._slice_target(said, node))
        if found.share is not None:
            self.nodes.refuse(
                node,
                "a quantile has no occurrences to count",
                "Use budgetingMethod: Timeslices, or a ratio of a bucket and its count.",
            )
        return None

    def _check_window(self, said: _Keys, node: yaml.Node) -> None:
        window = self.text(said, "timeSliceWindow")
        if window not in ("1", "1m"):
            self.nodes.refuse(
                said.get("timeSliceWindow", node),
                f"time slices of {window or 'no length'} are not ours",
                "Use timeSliceWindow: 1m.",
            )

    def _slice_target(self, said: _Keys, node: yaml.Node) -> Fraction:
        if "timeSliceTarget" not in said:
            self.nodes.refuse(node, "'timeSliceTarget' is missing", "Add timeSliceTarget.")
        return self._share(said["timeSliceTarget"])

    def _window(self, spec: _Keys) -> tuple[int, Calendar | None]:
        """Rolling, or by a calendar: `1m` is a minute, and `1M` a month."""
        node = spec.get("timeWindow")
        windows = node.value if isinstance(node, yaml.SequenceNode) else []
        if len(windows) != 1:
            self.nodes.refuse(node, "'timeWindow' is not one window", "Give exactly one.")
        said = self.nodes.mapping(windows[0], None, "duration: 30d")
        text = self.text(said, "duration")
        found = re.fullmatch(r"([1-9]\d{0,5})([mhdwMQY])", text)
        place = said.get("duration", windows[0])
        if found is None:
            self.nodes.refuse(place, f"{text!r} is no duration", "Write 30d, 4w or 1M.")
        count, unit = int(found[1]), found[2]
        is_month = "; a month is 1M" if unit == "m" else ""
        if "calendar" in said:
            if count != 1 or unit not in UNITS:
                self.nodes.refuse(
                    place,
                    f"{text} by the calendar is no day, week, month, quarter or year{is_month}",
                    "Write 1d, 1w, 1M, 1Q or 1Y.",
                )
            return CALENDAR_S[UNITS[unit]], self._calendar(UNITS[unit], said["calendar"])
        if not ("isRolling" in said and self.nodes.flag(said["isRolling"])):
            self.nodes.refuse(
                place, "is neither rolling nor calendar-aligned", "Add isRolling: true."
            )
        length_s = count * _LENGTHS_S[unit]
        if unit in "MQY":
            self.note(place, f"{text} rolling is taken as {length_s // DAY_S} days", "Check it.")
        hours = f"{length_s / 3600:g}h"
        return quantity.period_s(hours, at=f"{self.nodes.at(place)} ({text}{is_month})"), None

    def _calendar(self, unit: CalendarUnit, node: yaml.Node) -> Calendar:
        said = self.nodes.mapping(node, None, "timeZone: Europe/Berlin")
        zone = self.text(said, "timeZone") or "UTC"
        calendar = phrase.calendar(unit, zone, at=self.nodes.at(node))
        if "startTime" in said:
            start = said["startTime"]
            at_s = quantity.instant_s(
                self.nodes.text(start), zone_name=zone, at=self.nodes.at(start)
            )
            if calendar.begin_s(at_s) != at_s:
                self.note(
                    start,
                    f"the {unit} begins at {self.nodes.text(start)}; ours begins at midnight of its "
                    "first day",
                    "The budget is renewed then.",
                )
        return calendar

    def _found(self, node: yaml.Node, spec: _Keys, said: _Keys) -> _Found:
        """What is counted: by a sentence of ours, or by PromQL that counts the same."""
        keys = self._sli(node, spec, said)
        if "thresholdMetric" in keys:
            return self._by_value(keys["thresholdMetric"], said, node)
        ratio = self.inside(keys, "ratioMetric")
        if not ("total" in ratio and ("good" in ratio) != ("bad" in ratio)):
            self.nodes.refuse(
                keys.get("ratioMetric", node),
                "gives no total with either good or bad",
                "A ratio that was made elsewhere cannot be counted: give good and total.",
            )
        side = "good" if "good" in ratio else "bad"
        (kind, part), (_, total) = self._query(ratio[side]), self._query(ratio["total"])
        if kind.lower() == SOURCE.lower():
            return _Found(phrase.parse(part, at=self.nodes.at(ratio[side])).indicator)
        recognised = promql.by_good if side == "good" else promql.by_bad
        return self._recognised(ratio[side], lambda: _Found(recognised(part, total)))

    def _by_value(self, node: yaml.Node, said: _Keys, place: yaml.Node) -> _Found:
        op = self.text(said, "op")
        if op not in ("lte", "lt", "gte", "gt") or "value" not in said:
            self.nodes.refuse(place, "compares with nothing", "Give op and value.")
        if op in ("lt", "gt"):
            self.note(place, f"{op} is taken as {op}e: a value on the bound is good", "Check it.")
        bound = quantity.level(self.nodes.text(said["value"]), at=self.nodes.at(said["value"]))
        _, query = self._query(node)
        return self._recognised(
            node, lambda: _Found(*promql.by_value(query, bound, at_most=op.startswith("lt")))
        )

    def _recognised(self, node: yaml.Node, build: Callable[[], _Found]) -> _Found:
        try:
            return build()
        except ConfigError as error:
            raise ConfigError(
                error.problem, where=self.nodes.at(node), remedy=error.remedy
            ) from error

    def _sli(self, node: yaml.Node, spec: _Keys, said: _Keys) -> _Keys:
        """The spec of the indicator: of the objective itself, inline, or by its name."""
        named = ("indicator", "sli", "indicatorRef", "sliRef")
        keys = next((each for each in (said, spec) if any(key in each for key in named)), None)
        if keys is None:
            self.nodes.refuse(node, "has no indicator", "Give indicator or indicatorRef.")
        key = next(key for key in named if key in keys)
        if not key.endswith("Ref"):
            return self.inside(self.inside(keys, key), "spec")
        reference = self.text(keys, key)
        if reference not in self.slis:
            way_out = quantity.suggestion(reference, self.slis) if self.slis else "Add it."
            self.nodes.refuse(keys[key], f"there is no SLI {reference!r} in this file", way_out)
        return self.nodes.mapping(self.slis[reference], None, "ratioMetric: …")

    def _query(self, node: yaml.Node) -> tuple[str, str]:
        """The type of the source and its query; v2 has no `metricSource` around it."""
        keys = self.nodes.mapping(node, None, "metricSource: …")
        source = self.inside(keys, "metricSource") if "metricSource" in keys else keys
        inside = self.inside(source, "spec")
        query = inside.get("query")
        if query is None:
            self.nodes.refuse(node, "has no query that can be read", "Give spec.query.")
        return self.text(source, "type"), self.nodes.text(query)

    def _labels(self, metadata: _Keys) -> Labels:
        found = {}
        for name, node in self.inside(metadata, "labels").items():
            values = node.value if isinstance(node, yaml.SequenceNode) else [node]
            found[re.sub(r"\W", "_", name)] = ",".join(self.nodes.text(each) for each in values)
        return labels_of(found)

    def inside(self, keys: _Keys, name: str) -> _Keys:
        """The mapping under a key; an empty one where it is absent."""
        return self.nodes.mapping(keys[name], None, f"{name}: …") if name in keys else {}

    def text(self, keys: _Keys, name: str) -> str:
        return self.nodes.text(keys[name]) if name in keys else ""

    def note(self, node: yaml.Node, what: str, way_out: str) -> None:
        self.losses.append(Loss(where=self.nodes.at(node), what=what, way_out=way_out))

    def drop(self, node: yaml.Node, what: str, way_out: str, where: str = "") -> None:
        at = where or self.nodes.at(node)
        self.losses.append(Loss(where=at, what=what, way_out=way_out, dropped=True))
