"""Sloth's `prometheus/v1` files as objectives of ours; queries that are not ours are reported."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from alerts import promql, quantity
from alerts.entry import name_of
from alerts.loss import Loss, Translated
from alerts.promise import Definition
from alerts.reading import Nodes, documents
from domain.errors import ConfigError
from domain.indicator import Indicator
from domain.labels import Labels, labels_of
from domain.objective import DAY_S, Objective, usual_min_events

__all__ = ["read"]

_Keys = Mapping[str, yaml.Node]
_VERSION = "prometheus/v1"
_BY_HAND = "Write this objective by hand; docs/write-an-objective.md says how."
_OURS = "Stagewatch has receivers, severities and timers of its own; see docs/promise-a-ttft.md."


def read(text: str, name: str) -> Translated:
    """The objectives of a file, 30 days each as Sloth has them by default."""
    definitions: list[Definition] = []
    losses: list[Loss] = []
    nodes = Nodes(name)
    for root in documents(text, name):
        _file(nodes, root, definitions, losses)
    if not definitions and not losses:
        raise ConfigError("holds no SLO", where=name, remedy="Give a Sloth file (version, slos).")
    return Translated(definitions=definitions, losses=losses)


def _file(nodes: Nodes, root: yaml.Node, definitions: list[Definition], losses: list[Loss]) -> None:
    keys = nodes.mapping(root, None, f"version: {_VERSION}")
    version = nodes.text(keys["version"]) if "version" in keys else "none"
    if version != _VERSION:
        nodes.refuse(root, f"has the version {version!r}", f"Give a file of {_VERSION}.")
    service = nodes.text(keys["service"]) if "service" in keys else "service"
    common = _labels(nodes, keys)
    losses += _unread(nodes, keys, ("version", "service", "labels", "slos"))
    for node in nodes.sequence(keys.get("slos", root), "slos: [{name: …, objective: 99.9}]"):
        slo = nodes.mapping(node, None, "name: requests-latency")
        try:
            definitions.append(_definition(nodes, node, slo, service, common))
        except ConfigError as error:
            losses.append(
                Loss(
                    where=error.where if error.where.startswith(nodes.file) else nodes.at(node),
                    what=error.problem,
                    way_out=error.remedy,
                    dropped=True,
                )
            )
            continue
        losses += _unread(nodes, slo, ("name", "objective", "description", "labels", "sli"))


def _definition(
    nodes: Nodes, node: yaml.Node, slo: _Keys, service: str, common: Labels
) -> Definition:
    missing = [key for key in ("name", "objective", "sli") if key not in slo]
    if missing:
        nodes.refuse(node, f"{missing[0]!r} is missing", f"Add {missing[0]}.")
    indicator = _indicator(nodes, slo["sli"])
    target = quantity.target(f"{nodes.text(slo['objective'])}%", at=nodes.at(slo["objective"]))
    name = f"{service}-{nodes.text(slo['name'])}"
    return Definition(
        objective=Objective(
            name=name_of(nodes, node, name),
            indicator=indicator,
            target=target,
            period_s=30 * DAY_S,
            min_events=usual_min_events(indicator, None),
        ),
        description=nodes.text(slo["description"]) if "description" in slo else "",
        labels=labels_of({**dict(common), **dict(_labels(nodes, slo))}),
    )


def _indicator(nodes: Nodes, node: yaml.Node) -> Indicator:
    sli = nodes.mapping(node, None, "events: {error_query: …, total_query: …}")
    events = sli.get("events")
    if events is None:
        nodes.refuse(node, f"{', '.join(sli) or 'it'} gives no events to count", _BY_HAND)
    queries = nodes.mapping(events, None, "error_query: …, total_query: …")
    missing = [key for key in ("error_query", "total_query") if key not in queries]
    if missing:
        nodes.refuse(events, f"{missing[0]!r} is missing", f"Add {missing[0]}.")
    error, total = (nodes.text(queries[key]) for key in ("error_query", "total_query"))
    try:
        return promql.by_bad(error, total)
    except ConfigError as refused:
        raise ConfigError(
            refused.problem, where=nodes.at(queries["error_query"]), remedy=refused.remedy
        ) from refused


def _labels(nodes: Nodes, keys: _Keys) -> Labels:
    if "labels" not in keys:
        return ()
    said = nodes.mapping(keys["labels"], None, "labels: {team: chat}")
    return labels_of((re.sub(r"\W", "_", name), nodes.text(value)) for name, value in said.items())


def _unread(nodes: Nodes, keys: _Keys, read_keys: tuple[str, ...]) -> list[Loss]:
    return [
        Loss(where=nodes.at(value), what=f"{key!r} is not taken over", way_out=_OURS)
        for key, value in keys.items()
        if key not in read_keys
    ]
