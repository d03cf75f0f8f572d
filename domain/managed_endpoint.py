"""One managed endpoint: the series of its own dimensions put together, deeper levels left aside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from domain.endpoint import EndpointKey
from domain.endpoint_catalogue import metric_of
from domain.endpoint_instance import ACCELERATORS, ACCELERATORS_NAMESPACE
from domain.endpoint_metric import EndpointMetric
from domain.endpoint_wall import Wall, wall_in

__all__ = ["EndpointSeries", "ManagedEndpoint", "Reading", "managed", "metric_in"]


class Reading(Protocol):
    """One period of a series."""

    @property
    def statistics(self) -> Mapping[str, float]: ...


class EndpointSeries(Protocol):
    """One metric of one endpoint, as a reader gives it."""

    @property
    def key(self) -> EndpointKey: ...
    @property
    def service(self) -> str: ...
    @property
    def metric(self) -> str: ...
    @property
    def level(self) -> str: ...
    @property
    def points(self) -> Sequence[Reading]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedEndpoint:
    """`by_metric` holds its series by our name of the metric."""

    service: str
    account: str
    region: str
    dimensions: tuple[tuple[str, str], ...]
    by_metric: Mapping[str, EndpointSeries]

    @property
    def kind(self) -> str:
        """`sagemaker`, `bedrock`, …; empty for what is asked of PromQL."""
        found = (metric_in(each) for each in self.by_metric.values())
        return next((each.family.kind for each in found if each is not None), "")

    @property
    def accelerators(self) -> int | None:
        """GPUs of one instance; None: not known."""
        series = self.by_metric.get(ACCELERATORS)
        if series is None or series.key.namespace != ACCELERATORS_NAMESPACE:
            return None
        told = [each["Last"] for each in self.statistics(ACCELERATORS) if "Last" in each]
        return round(told[-1]) if told and told[-1] >= 1 else None

    @property
    def wall(self) -> Wall | None:
        """The time limit that its calls run into."""
        return wall_in(self.kind, {name: self.statistics(name) for name in self.by_metric})

    def statistics(self, metric: str) -> list[Mapping[str, float]]:
        """Of every period that has a value."""
        series = self.by_metric.get(metric)
        return (
            [] if series is None else [each.statistics for each in series.points if each.statistics]
        )

    def total(self, metric: str) -> float | None:
        """The sum over all periods, or how many samples where only those are told; None: not told."""
        told = (each.get("Sum", each.get("SampleCount")) for each in self.statistics(metric))
        known = [value for value in told if value is not None]
        return math.fsum(known) if known else None


def metric_in(series: EndpointSeries) -> EndpointMetric | None:
    """The row of the table of metrics that a series is of."""
    known = metric_of(series.key.namespace, series.key.name, dict(series.key.dimensions))
    return None if known is None else known[0]


def managed(series: Iterable[EndpointSeries]) -> list[ManagedEndpoint]:
    """Every endpoint once; the same traffic under more dimensions is no other endpoint."""
    grouped: dict[tuple[str, EndpointKey], dict[str, EndpointSeries]] = {}
    for each in series:
        if each.level == "endpoint":
            grouped.setdefault((each.service, _place(each.key)), {}).setdefault(each.metric, each)
    return [
        ManagedEndpoint(
            service=service,
            account=place.account,
            region=place.region,
            dimensions=place.dimensions,
            by_metric=by_metric,
        )
        for (service, place), by_metric in grouped.items()
    ]


def _place(key: EndpointKey) -> EndpointKey:
    """What series of one endpoint have in common."""
    return EndpointKey(
        account=key.account,
        region=key.region,
        namespace="",
        name="",
        dimensions=key.dimensions,
        period_s=0,
    )
