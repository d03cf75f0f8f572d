"""Points of endpoints for tests, and the store's last word on them."""

import json

from domain.endpoint import EndpointKey, EndpointPoint, PointState
from tests.collector.storing import rows

__all__ = ["T0", "kept", "key", "point"]

T0 = 1_780_000_020


def key(name="ModelLatency", *, namespace="AWS/SageMaker", period_s=60, **dimensions):
    told = dimensions or {"EndpointName": "llm-prod", "VariantName": "AllTraffic"}
    return EndpointKey(
        account="111122223333",
        region="us-east-1",
        namespace=namespace,
        name=name,
        dimensions=tuple(sorted(told.items())),
        period_s=period_s,
    )


def point(start_s=T0, *, of=None, service="chat", at_s=T0 + 70, settled_s=None, **more):
    statistics = more.pop("statistics", {"SampleCount": 4.0, "Sum": 8.0})
    return EndpointPoint(
        key=of or key(),
        service=service,
        start_s=start_s,
        fetched_at_s=at_s,
        settled_at_s=settled_s,
        state=PointState.VALUE if statistics else PointState.NO_DATA,
        statistics=statistics,
        **more,
    )


def kept(path):
    """(service, metric, start): (statistics, settled, revision, source)."""
    found = rows(
        path,
        "SELECT service, name, at_s, statistics, settled_at_s, revision, source"
        " FROM endpoint_point JOIN endpoint_series ON id = series_id ORDER BY 1, 2, 3",
    )
    return {
        (service, name, at_s): (json.loads(told), settled, revision, source)
        for service, name, at_s, told, settled, revision, source in found
    }
