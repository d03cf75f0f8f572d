"""What a poller needs of AWS, whoever speaks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Listed", "MetricSource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One series that ListMetrics has."""

    account: str
    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]


class MetricSource(Protocol):
    """One account and region. Each method is one call, and raises `CallError`."""

    def metric_data(
        self, queries: Sequence[Mapping[str, Any]], since_s: int, until_s: int, token: str | None
    ) -> Mapping[str, Any]:
        """One page of GetMetricData."""
        ...

    def metrics(self, namespace: str, token: str | None) -> tuple[list[Listed], str | None]:
        """One page of ListMetrics, and the token of the next."""
        ...

    def endpoints(self, token: str | None) -> tuple[list[dict[str, str]], str | None]:
        """One page of SageMaker's endpoints in service: dimensions of their variants."""
        ...

    def components(self, token: str | None) -> tuple[list[dict[str, str]], str | None]:
        """One page of SageMaker's inference components: their dimensions."""
        ...

    def instance_types(self, endpoint: str) -> dict[str, str]:
        """Of each variant of one of SageMaker's endpoints; those that have instances."""
        ...
