"""What a service has promised of its latencies, as far as a diagnosis needs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from alerts.promise import Definition
from domain.distribution import Distribution
from domain.indicator import GoodputIndicator, LatencyIndicator
from domain.labels import Labels, value_of

__all__ = ["TOKEN_METRICS", "Promised", "promised_by"]

TOKEN_METRICS = ("itl", "tpot", "itl_max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """`rank` of the requests keep `threshold_s` of `metric`."""

    metric: str
    threshold_s: float
    rank: float
    where: Labels = ()

    @property
    def allowed(self) -> float:
        return 1.0 - self.rank

    @property
    def of_clients(self) -> bool:
        return value_of(self.where, "source") in ("client", "probe")

    def bad(self, told: Distribution, failed: int) -> tuple[int, int]:
        """(surely bad, all)."""
        _, possibly = told.at_most(self.threshold_s)
        return told.n - possibly + failed, told.n + failed


def promised_by(definitions: Iterable[Definition], service: str) -> list[Promised]:
    """Of this service's latencies; what names no service is promised of each."""
    found = []
    for each in definitions:
        indicator = each.objective.indicator
        if not isinstance(indicator, LatencyIndicator | GoodputIndicator):
            continue
        if value_of(indicator.where, "service") not in ("", service):
            continue
        where = tuple(sorted({**dict(indicator.where), "service": service}.items()))
        found += [
            Promised(
                metric=limit.metric,
                threshold_s=float(limit.threshold_s),
                rank=float(each.objective.target),
                where=where,
            )
            for limit in indicator.limits
        ]
    return found
