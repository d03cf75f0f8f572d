"""OTLP data points to pairs, counters and gauges; what is not ours is ignored and counted.

Exponential histograms of any scale and explicit buckets become pairs (DESIGN's distribution) per
interval; cumulative streams are differenced first. A point that contradicts itself is refused with
its reason, the rest of the export is kept.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    NumberDataPoint,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as OtlpMetric
from sqlalchemy import Connection

from collector.coverage import Coverage
from collector.cumulative import Cumulative, Grown, Reading
from collector.histograms import MOST_VALUES, Explicit, Exponential, Refused, explicit, exponential
from collector.semantics import CHAT, LONGEST_S, METRIC_NAMES, OPERATION, labels_in, text_in
from collector.series import SeriesIds, key_of
from collector.span_columns import Times
from collector.tiles import Tiles
from domain.endpoint_wire import METRIC_PREFIX
from domain.labels import labels_of
from domain.metric import BOUND_ATTRIBUTE, METRICS, Kind, Metric

__all__ = ["Ledgers", "PointReader", "Points"]

_LONGEST_NS = int(LONGEST_S * 1e9)
_DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_NO_VALUE = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
_Point = NumberDataPoint | HistogramDataPoint | ExponentialHistogramDataPoint
_LARGEST = 1e18  # sums of such are numbers still
_UNIT_S = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(slots=True)
class Ledgers:
    """What was counted before, in this transaction's reach."""

    connection: Connection
    coverage: Coverage
    cumulative: Cumulative


@dataclass(slots=True)
class Points:
    """What became of an export's points."""

    refused: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    ends_at_ns: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    """One point's stream: whose it is, and the key of its ledger."""

    key: bytes
    series_id: int
    bound: str


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose points: the labels of a resource, and all it says of itself."""

    labels: Mapping[str, str]
    key: str


@dataclass(frozen=True, slots=True)
class _Export:
    """What all points of an export share."""

    times: Times
    ledgers: Ledgers
    tiles: Tiles
    into: Points


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """What all points of one metric share."""

    metric: Metric
    source: str
    name: str
    unit_s: float
    owner: _Owner
    temporality: int
    export: _Export


_Add = Callable[[_Context, Any, _Stream], None]


class PointReader:
    """Reads exports of metrics into tiles."""

    def __init__(
        self, ids: SeriesIds, *, roles: Mapping[str, str], services: Mapping[str, str]
    ) -> None:
        self._ids = ids
        self._roles = roles
        self._services = services

    def read(
        self, request: ExportMetricsServiceRequest, times: Times, ledgers: Ledgers, tiles: Tiles
    ) -> Points:
        """Add every point of an export that is ours, sound and new."""
        into = Points()
        for resource_metrics in request.resource_metrics:
            attributes = resource_metrics.resource.attributes
            owner = _Owner(labels_in(attributes), _identity(attributes))
            for scope_metrics in resource_metrics.scope_metrics:
                for metric in scope_metrics.metrics:
                    self._metric(metric, owner, _Export(times, ledgers, tiles, into))
        return into

    def _metric(self, otlp: OtlpMetric, owner: _Owner, export: _Export) -> None:
        if otlp.name.startswith(METRIC_PREFIX):
            return  # `collector.endpoint_points` reads these
        shape = otlp.WhichOneof("data")
        data = getattr(otlp, shape) if shape else None
        known = METRIC_NAMES.get(otlp.name)
        if data is None or known is None:
            export.into.counts["ignored_points_total"] += len(data.data_points) if data else 0
            return
        metric, source = known
        context = _Context(
            metric=metric,
            source=source,
            name=otlp.name,
            unit_s=_UNIT_S.get(otlp.unit, math.nan) if metric.kind is Kind.LATENCY else 1.0,
            owner=owner,
            temporality=getattr(data, "aggregation_temporality", 0),
            export=export,
        )
        add = _ADDS.get((metric.kind, shape or ""))
        if add is None or math.isnan(context.unit_s):
            reason = f"{otlp.name} as {shape} in {otlp.unit!r} cannot be read"
            export.into.refused[reason] += len(data.data_points)
            return
        for point in data.data_points:
            self._point(context, point, add)

    def _point(self, context: _Context, point: _Point, add: _Add) -> None:
        refused = context.export.into.refused
        if any(a.key == OPERATION and text_in(a.value) not in CHAT for a in point.attributes):
            context.export.into.counts["ignored_points_total"] += 1
        elif point.flags & _NO_VALUE:
            refused["it has no value"] += 1
        elif reason := _untimely(point, context.export.times):
            refused[reason] += 1
        else:
            try:
                add(context, point, self._stream(context, point.attributes))
            except Refused as error:
                refused[str(error)] += 1

    def _stream(self, context: _Context, attributes: Iterable[KeyValue]) -> _Stream:
        unnamed = "unknown_service" if context.metric.of_requests else ""
        labels = {"service": unnamed, "source": context.source, **context.owner.labels}
        labels.update(labels_in(attributes))
        service = labels["service"]
        renamed = labels["service"] = self._services.get(service, service)
        role = labels.get("role") or self._roles.get(service) or self._roles.get(renamed)
        if role:
            labels["role"] = role
        bound = next((text_in(a.value) for a in attributes if a.key == BOUND_ATTRIBUTE), "")
        return _Stream(
            key=key_of(context.name, context.owner.key, _identity(attributes)),
            series_id=self._ids.id_of(labels_of(labels), context.export.into.counts),
            bound=bound,
        )


def _identity(attributes: Iterable[KeyValue]) -> str:
    """All attributes, known or not: two streams that we show as one are still two."""
    return "\1".join(sorted(f"{a.key}\2{text_in(a.value)}" for a in attributes))


def _untimely(point: _Point, times: Times) -> str:
    start, end = point.start_time_unix_nano, point.time_unix_nano
    if end > times.newest_at_ns:
        return "it is from the future"
    if end < times.oldest_at_ns:
        return "it is older than anything kept"
    return "it ends before it starts" if start > end else ""


def _is_new(context: _Context, point: _Point, stream: _Stream) -> bool:
    """Whether this delta's interval is counted for the first time."""
    end = point.time_unix_nano
    start = min(point.start_time_unix_nano or end - 1, end - 1)
    if end - start > _LONGEST_NS:
        raise Refused("its interval is longer than 36 h")
    ledgers = context.export.ledgers
    new = ledgers.coverage.claim(ledgers.connection, stream.key, start, end)
    return _told(context, end, new=new)


def _grown(context: _Context, stream: _Stream, now: Reading) -> Grown | None:
    """What a cumulative stream grew by; None where that is already counted."""
    ledgers = context.export.ledgers
    grown = ledgers.cumulative.grown(ledgers.connection, stream.key, now)
    if not _told(context, now.at_ns, new=grown is not None):
        return None
    if grown is not None and grown.restarted:
        number = METRICS["counter_resets"].number
        context.export.tiles.add_number(number, now.at_ns, stream.series_id, 1.0)
    return grown


def _told(context: _Context, at_ns: int, *, new: bool) -> bool:
    if new:
        context.export.into.ends_at_ns.append(at_ns)
    else:
        context.export.into.counts["duplicate_points_total"] += 1
    return new


def _value(point: NumberDataPoint) -> float:
    value = point.as_double if point.WhichOneof("value") == "as_double" else float(point.as_int)
    if not abs(value) <= _LARGEST:
        raise Refused("its value is no measurement: not a number, or beyond 10^18")
    return value


def _add_gauge(context: _Context, point: NumberDataPoint, stream: _Stream) -> None:
    value, at_ns, ledgers = _value(point), point.time_unix_nano, context.export.ledgers
    new = ledgers.coverage.claim_reading(ledgers.connection, stream.key, at_ns)
    if _told(context, at_ns, new=new):
        context.export.tiles.add_number(context.metric.number, at_ns, stream.series_id, value)


def _add_counter(context: _Context, point: NumberDataPoint, stream: _Stream) -> None:
    value: float | None = _value(point)
    if value is None or value < 0:
        raise Refused(f"a counter cannot be {value}")
    if _is_cumulative(context):
        start, at = point.start_time_unix_nano, point.time_unix_nano
        grown = _grown(context, stream, Reading(start_at_ns=start, at_ns=at, sum=value))
        value = grown.sum if grown else None
    elif not _is_new(context, point, stream):
        value = None
    if value is not None:
        context.export.tiles.add_number(
            context.metric.number, point.time_unix_nano, stream.series_id, value
        )


def _add_explicit(context: _Context, point: HistogramDataPoint, stream: _Stream) -> None:
    _add_histogram(context, point, stream, explicit(point, context.unit_s))


def _add_exponential(
    context: _Context, point: ExponentialHistogramDataPoint, stream: _Stream
) -> None:
    _add_histogram(context, point, stream, exponential(point, context.unit_s))


def _add_histogram(
    context: _Context, point: _Point, stream: _Stream, told: Explicit | Exponential
) -> None:
    noise_s: float | None = None
    at_ns = point.time_unix_nano
    if _is_cumulative(context):
        told = told if isinstance(told, Explicit) else told.on_grid()
        stream = replace(stream, key=key_of(stream.key.hex(), told.shape))
        now = Reading(
            start_at_ns=point.start_time_unix_nano, at_ns=at_ns, sum=told.sum_s, counts=told.counts
        )
        grown = _grown(context, stream, now)
        if grown is None or not any(grown.counts):
            return
        sum_s = grown.sum if grown.sum is not None and grown.sum >= 0 else None
        _check_interval(grown.counts)
        told, noise_s = told.grown(grown.counts, sum_s), grown.noise
        pair, contradicted = told.pair(bound=stream.bound, noise_s=noise_s)
    else:
        _check_interval(told.counts)
        pair, contradicted = told.pair(bound=stream.bound)
        if not _is_new(context, point, stream) or not any(told.counts):
            return
    if contradicted:
        number = METRICS["refused_sums"].number
        context.export.tiles.add_number(number, at_ns, stream.series_id, 1.0)
    context.export.tiles.add_pair(context.metric.number, at_ns, stream.series_id, pair)


def _check_interval(counts: Iterable[int]) -> None:
    if sum(counts) > MOST_VALUES:
        raise Refused("more than 2^32 values in one interval cannot be")


def _is_cumulative(context: _Context) -> bool:
    if context.temporality not in (_DELTA, _CUMULATIVE):
        raise Refused("it says neither delta nor cumulative")
    return context.temporality == _CUMULATIVE


_ADDS: Mapping[tuple[Kind, str], _Add] = {
    (Kind.LATENCY, "histogram"): _add_explicit,
    (Kind.LATENCY, "exponential_histogram"): _add_exponential,
    (Kind.COUNTER, "sum"): _add_counter,
    (Kind.LEVEL, "gauge"): _add_gauge,
    (Kind.LEVEL, "sum"): _add_gauge,
    (Kind.RATIO, "gauge"): _add_gauge,
    (Kind.MAXIMUM, "gauge"): _add_gauge,
    (Kind.MINIMUM, "gauge"): _add_gauge,
}
