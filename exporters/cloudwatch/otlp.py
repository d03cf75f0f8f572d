"""Points as OTLP: one summary each, with all that the collector needs to put them in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from domain import endpoint_wire as wire
from domain.endpoint import EndpointPoint, PointState
from domain.endpoint_catalogue import metric_of
from domain.labels import labels_of
from exporters.delivery.export import Export

__all__ = ["SCOPE", "exports"]

SCOPE = "stagewatch.exporters.cloudwatch"
_MOST_POINTS = 2000
_SECOND_NS = 1_000_000_000
_NO_VALUE = otlp.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
_Owner = tuple[str, str, str]


def exports(points: Iterable[EndpointPoint], *, at_ns: int) -> Iterator[Export]:
    """All points, in exports of a size that a collector takes, each of one service."""
    for owner, own in groupby(sorted(points, key=_order), key=_owner):
        listed = list(own)
        service, _, region = owner
        labels = labels_of({"service": service, "region": region})
        for at in range(0, len(listed), _MOST_POINTS):
            body = _request(owner, listed[at : at + _MOST_POINTS]).SerializeToString()
            yield Export(owner=labels, at_ns=at_ns, body=body)


def _owner(point: EndpointPoint) -> _Owner:
    return point.service, point.key.account, point.key.region


def _order(point: EndpointPoint) -> tuple[_Owner, str, int]:
    return _owner(point), _name(point), point.start_s


def _request(owner: _Owner, points: Sequence[EndpointPoint]) -> ExportMetricsServiceRequest:
    metrics = []
    for name, same in groupby(points, key=_name):
        summary = otlp.Summary(data_points=[_summary(point) for point in same])
        metrics.append(otlp.Metric(name=name, summary=summary))
    scope = otlp.ScopeMetrics(scope=InstrumentationScope(name=SCOPE), metrics=metrics)
    service, account, region = owner
    told = {wire.SERVICE: service, wire.ACCOUNT: account, wire.REGION: region}
    resource = Resource(attributes=[_text(key, value) for key, value in sorted(told.items())])
    return ExportMetricsServiceRequest(
        resource_metrics=[otlp.ResourceMetrics(resource=resource, scope_metrics=[scope])]
    )


def _name(point: EndpointPoint) -> str:
    """What other receivers see: our word for the metric, or that of the question."""
    known = metric_of(point.key.namespace, point.key.name, dict(point.key.dimensions))
    return f"{wire.METRIC_PREFIX}{known[0].ours if known else point.key.name}"


def _summary(point: EndpointPoint) -> otlp.SummaryDataPoint:
    into = otlp.SummaryDataPoint(
        start_time_unix_nano=point.start_s * _SECOND_NS,
        time_unix_nano=point.end_s * _SECOND_NS,
        attributes=_attributes(point),
        flags=_NO_VALUE if point.state is PointState.NO_DATA else 0,
    )
    told = []
    for name, value in sorted(point.statistics.items()):
        quantile = wire.quantile_of(name)
        if name == "SampleCount" and value == int(value):
            into.count = int(value)
            told.append(name)
        elif name == "Sum":
            into.sum = value
            told.append(name)
        elif quantile is not None:
            into.quantile_values.add(quantile=quantile, value=value)
        else:
            into.attributes.append(_number(wire.STATISTIC + name, value))
    into.attributes.append(_text(wire.SUMMARY, ",".join(told)))
    return into


def _attributes(point: EndpointPoint) -> list[KeyValue]:
    key = point.key
    attributes = [
        _text(wire.NAMESPACE, key.namespace),
        _text(wire.NAME, key.name),
        _text(wire.SOURCE, point.source),
        _number(wire.FETCHED, point.fetched_at_s),
        *(_text(wire.DIMENSION + name, value) for name, value in key.dimensions),
    ]
    if point.settled_at_s is not None:
        attributes.append(_number(wire.SETTLED, point.settled_at_s))
    return attributes


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def _number(key: str, value: float) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(double_value=value))
