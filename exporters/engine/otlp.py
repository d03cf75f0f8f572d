"""A reading as one OTLP export: pairs as two exponential histograms, increments as delta sums."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from domain.labels import Labels, value_of
from domain.metric import BOUND_ATTRIBUTE, METRICS
from exporters.engine.reading import Increment, Latency, Level, Reading

if TYPE_CHECKING:
    from domain.grid import Cells

__all__ = ["SAMPLE_ATTRIBUTE", "SCOPE", "export_request"]

SCOPE = "stagewatch.exporters.engine"
SAMPLE_ATTRIBUTE = "stagewatch.sample"
"""On an ITL point: what one sample is of, `step` or `token`. Engines differ."""

_RESOURCE = {
    "service": "service.name",
    "replica": "service.instance.id",
    "region": "cloud.region",
    "zone": "cloud.availability_zone",
}
_ENVIRONMENT = "OTEL_RESOURCE_ATTRIBUTES"
_DELTA = otlp.AGGREGATION_TEMPORALITY_DELTA


def export_request(reading: Reading) -> ExportMetricsServiceRequest:
    """All points of one scrape."""
    metrics: dict[str, otlp.Metric] = {}
    for latency in reading.latencies:
        into = _metric(metrics, latency.metric).exponential_histogram
        into.aggregation_temporality = _DELTA
        into.data_points.extend(_pair(reading, latency))
    for increment in reading.increments:
        total = _metric(metrics, increment.metric).sum
        total.aggregation_temporality, total.is_monotonic = _DELTA, True
        total.data_points.append(_increment(reading, increment))
    for level in reading.levels:
        _metric(metrics, level.metric).gauge.data_points.append(_level(reading, level))
    scope = otlp.ScopeMetrics(
        scope=InstrumentationScope(name=SCOPE), metrics=sorted(metrics.values(), key=_name)
    )
    told = tuple(pair for pair in reading.target if pair[0] != "source")
    resource = otlp.ResourceMetrics(resource=_resource(told), scope_metrics=[scope])
    return ExportMetricsServiceRequest(resource_metrics=[resource])


def _name(metric: otlp.Metric) -> str:
    return metric.name


def _metric(metrics: dict[str, otlp.Metric], name: str) -> otlp.Metric:
    known = METRICS[name]
    if name not in metrics:
        metrics[name] = otlp.Metric(name=known.full_name, unit=known.unit, description=known.help)
    return metrics[name]


def _pair(reading: Reading, latency: Latency) -> Iterable[otlp.ExponentialHistogramDataPoint]:
    both = latency.distribution
    sample = {SAMPLE_ATTRIBUTE: latency.sample} if latency.sample else {}
    for bound, side in (("low", both.low), ("high", both.high)):
        point = _side(side, both.n, both.sum_s)
        point.start_time_unix_nano, point.time_unix_nano = latency.start_at_ns, reading.at_ns
        point.attributes.extend(
            _attributes(reading, latency.labels, {BOUND_ATTRIBUTE: bound, **sample})
        )
        yield point


def _side(side: Cells, count: int, sum_s: float | None) -> otlp.ExponentialHistogramDataPoint:
    from domain.exponential import to_sparse  # noqa: PLC0415 - numpy: not for GPUs
    from domain.grid import EDGES_S, SCALE  # noqa: PLC0415 - the same

    sparse = to_sparse(side)
    return otlp.ExponentialHistogramDataPoint(
        count=count,
        sum=sum_s,  # absent is not known, which is not 0
        scale=SCALE,
        zero_count=sparse.zero_count,
        zero_threshold=float(EDGES_S[0]),
        positive=otlp.ExponentialHistogramDataPoint.Buckets(
            offset=sparse.offset, bucket_counts=sparse.counts
        ),
    )


def _increment(reading: Reading, increment: Increment) -> otlp.NumberDataPoint:
    return otlp.NumberDataPoint(
        start_time_unix_nano=increment.start_at_ns,
        time_unix_nano=reading.at_ns,
        as_double=increment.by,
        attributes=_attributes(reading, increment.labels),
    )


def _level(reading: Reading, level: Level) -> otlp.NumberDataPoint:
    return otlp.NumberDataPoint(
        time_unix_nano=reading.at_ns,
        as_double=level.value,
        attributes=_attributes(reading, level.labels),
    )


def _attributes(
    reading: Reading, labels: Labels, more: dict[str, str] | None = None
) -> Sequence[KeyValue]:
    """What the resource does not say already."""
    told = {pair for pair in reading.target if pair[0] != "source"}
    own = {f"stagewatch.{name}": value for name, value in labels if (name, value) not in told}
    return [_key_value(key, value) for key, value in sorted({**own, **(more or {})}.items())]


@lru_cache(maxsize=1024)
def _resource(labels: Labels) -> Resource:
    """With what OTEL_RESOURCE_ATTRIBUTES adds to what we know of a target.

    What belongs to no service (a GPU) is not made to, and is no instance of one: an instance that
    the SDK makes up anew at each start would make every series anew.
    """
    known = {_RESOURCE.get(name, f"stagewatch.{name}"): value for name, value in labels}
    attributes = _with_the_sdk(known) if value_of(labels, "service") else _of_no_service(known)
    return Resource(attributes=[_key_value(key, attributes[key]) for key in sorted(attributes)])


def _with_the_sdk(known: Mapping[str, str]) -> Mapping[str, object]:
    from opentelemetry.sdk.resources import Resource as SdkResource  # noqa: PLC0415 - heavy

    return SdkResource.create(dict(known)).attributes


def _of_no_service(known: Mapping[str, str]) -> Mapping[str, object]:
    """The same without the SDK, whose memory is for who needs it."""
    told = (part.partition("=") for part in os.environ.get(_ENVIRONMENT, "").split(","))
    others = {name.strip(): unquote(value.strip()) for name, sign, value in told if sign}
    return {n: v for n, v in others.items() if not n.startswith("service.")} | dict(known)


def _key_value(key: str, value: object) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=str(value)))
