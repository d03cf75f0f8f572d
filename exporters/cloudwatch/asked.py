"""One series that is asked for: which statistics, under which of CloudWatch's names and ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from domain.endpoint import EndpointKey, rank_statistic
from domain.endpoint_catalogue import of_kind
from domain.endpoint_metric import BILLED_TOGETHER, EndpointMetric, Meaning
from exporters.cloudwatch.settings import EndpointSettings, ScopeSettings

__all__ = ["PERIOD_S", "Asked", "asked_of"]

PERIOD_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`statistics` are pairs of CloudWatch's name and ours: a rank has another threshold in µs."""

    key: EndpointKey
    metric: EndpointMetric
    service: str
    statistics: tuple[tuple[str, str], ...]
    query_account: str | None = None  # named in the query, where the credentials are another's
    gpus: int | None = None  # of one instance, where the configuration says so

    @property
    def endpoint(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Which endpoint it belongs to: all its series are active, or none is."""
        return self.metric.family.kind, self.key.dimensions

    @property
    def billed_units(self) -> int:
        return -(-len(self.statistics) // BILLED_TOGETHER)


def asked_of(
    scope: ScopeSettings,
    endpoint: EndpointSettings,
    thresholds_s: Mapping[str, float],
    *,
    present: Iterable[tuple[str, str]] = (),
) -> list[Asked]:
    """Every series of one endpoint; optional metrics only where (namespace, name) is `present`."""
    there = frozenset(present)
    dimensions = tuple(sorted(endpoint.dimensions.items()))
    thresholds = {**thresholds_s, **endpoint.thresholds_s}
    return [
        Asked(
            key=EndpointKey(
                account=scope.account,
                region=scope.region,
                namespace=metric.namespace,
                name=metric.name,
                dimensions=dimensions,
                period_s=PERIOD_S,
            ),
            metric=metric,
            service=endpoint.service or endpoint.dimensions[metric.family.named_by],
            statistics=_statistics(metric, thresholds.get(metric.ours)),
            query_account=scope.account if scope.linked else None,
            gpus=endpoint.gpus,
        )
        for metric in of_kind(endpoint.kind)
        if set(metric.family.dimensions) == set(endpoint.dimensions)
        and (not metric.optional or (metric.namespace, metric.name) in there)
    ]


def _statistics(metric: EndpointMetric, threshold_s: float | None) -> tuple[tuple[str, str], ...]:
    plain = tuple((name, name) for name in metric.statistics)
    if (
        metric.meaning is not Meaning.LATENCY
        or threshold_s is None
        or "p99" not in metric.statistics
    ):
        return plain
    theirs = rank_statistic(threshold_s / metric.per_unit)
    return (*plain, (theirs, rank_statistic(threshold_s)))
