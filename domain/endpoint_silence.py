"""When silence means none: a count of events that was not published, of an endpoint that was there.

CloudWatch publishes no error count for a minute without errors. That is zero only if the minute has
settled, was read completely, and something else of the same endpoint was published for it: requests,
or the utilisation of its instances. Otherwise it stays what it is, no data.
"""

from __future__ import annotations

from collections.abc import Mapping

from domain.endpoint_catalogue import metric_of
from domain.endpoint_metric import EndpointMetric

__all__ = ["counts_events", "none_happened"]


def counts_events(
    namespace: str, name: str, dimensions: Mapping[str, str]
) -> EndpointMetric | None:
    """The metric, if its silence may mean none and its dimensions are the endpoint's own."""
    known = metric_of(namespace, name, dimensions)
    if known is None or known[1] != "endpoint" or not known[0].zero_if_silent:
        return None
    return known[0]


def none_happened(metric: EndpointMetric) -> dict[str, float]:
    """Its statistics where nothing happened: counts and sums; of nothing there is no percentile."""
    return {name: 0.0 for name in metric.statistics if name in ("SampleCount", "Sum")}
