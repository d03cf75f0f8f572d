"""Endpoints found by ListMetrics and by SageMaker's own lists, under one set of dimensions each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from domain.endpoint_catalogue import metric_of, of_kind
from domain.labels import MAX_LABEL_LENGTH
from exporters.cloudwatch.asked import Asked, asked_of
from exporters.cloudwatch.settings import EndpointSettings, ScopeSettings
from exporters.cloudwatch.source import Listed

__all__ = ["Discovered", "namespaces", "wanted"]

_MOST_ENDPOINTS = 500
_SHOWN = 60
Dimensions = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Discovered:
    """What the lists said. `levels` counts series by the set of dimensions they stand under."""

    present: defaultdict[Dimensions, set[tuple[str, str]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    endpoints: dict[tuple[str, Dimensions], None] = field(default_factory=dict)
    levels: Counter[str] = field(default_factory=Counter)
    unusable: dict[str, str] = field(default_factory=dict)
    """By how its name begins, why an endpoint is left alone."""

    def listed(self, series: Iterable[Listed], account: str) -> None:
        """ListMetrics: what is published. The same traffic under more dimensions is a drill-down."""
        for each in series:
            known = metric_of(each.namespace, each.name, (name for name, _ in each.dimensions))
            if known is None or each.account != account:
                continue
            metric, level = known
            self.levels[level] += 1
            if level == "endpoint" and self._is_usable(each.dimensions):
                self.present[each.dimensions].add((each.namespace, each.name))
                self.endpoints.setdefault((metric.family.kind, each.dimensions))

    def named(self, kind: str, every: Iterable[Mapping[str, str]]) -> None:
        """A service's own list: a fresh endpoint is not in ListMetrics for up to 15 minutes.

        And one that is gone stays in ListMetrics for two weeks: the service's list decides.
        """
        names = (tuple(sorted(each.items())) for each in every)
        there = {(kind, name): None for name in names if self._is_usable(name)}
        rest = {each: None for each in self.endpoints if each[0] != kind}
        self.endpoints = rest | there

    def _is_usable(self, dimensions: Dimensions) -> bool:
        """A name that cannot be a label costs its own endpoint, and no other."""
        for name, value in dimensions:
            if not 0 < len(value) <= MAX_LABEL_LENGTH:
                self.unusable[value[:_SHOWN]] = (
                    f"an endpoint is left alone: its {name} has {len(value)} characters, "
                    f"{MAX_LABEL_LENGTH} is the most: {value[:_SHOWN]!r}"
                )
                return False
        return True

    def with_(self, fresh: Discovered) -> Discovered:
        """Where a list could not be read, what it said before still holds."""
        present = defaultdict(set, {name: set(told) for name, told in self.present.items()})
        for name, told in fresh.present.items():
            present[name] |= told
        return Discovered(present, self.endpoints | fresh.endpoints, fresh.levels)


def namespaces(scope: ScopeSettings) -> list[str]:
    """Those that must be listed for the kinds that are named or looked for."""
    kinds = {*scope.discover, *(each.kind for each in scope.endpoints)}
    return sorted({row.namespace for kind in kinds for row in of_kind(kind)})


def wanted(
    scope: ScopeSettings, thresholds_s: Mapping[str, float], found: Discovered
) -> list[Asked]:
    """Every series to poll: endpoints that are named, and those found of kinds that are looked for."""
    named = {(each.kind, tuple(sorted(each.dimensions.items()))): each for each in scope.endpoints}
    more: Sequence[EndpointSettings] = [
        EndpointSettings.model_validate({"kind": kind, "dimensions": dict(dimensions)})
        for kind, dimensions in found.endpoints
        if kind in scope.discover and (kind, dimensions) not in named
    ]
    return [
        asked
        for endpoint in [*named.values(), *more[:_MOST_ENDPOINTS]]
        for asked in asked_of(
            scope,
            endpoint,
            thresholds_s,
            present=found.present.get(tuple(sorted(endpoint.dimensions.items())), ()),
        )
    ]
