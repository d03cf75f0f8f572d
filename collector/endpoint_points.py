"""OTLP summaries of managed endpoints to points; what contradicts itself is refused with its reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import DataPointFlags, SummaryDataPoint

from collector.semantics import number_in, text_in
from collector.span_columns import Times
from domain import endpoint_wire as wire
from domain.endpoint import EndpointKey, EndpointPoint, PointState
from domain.endpoint_catalogue import metric_of
from domain.endpoint_soundness import problem_in

__all__ = ["EndpointPoints", "problem_of", "read"]

_NO_VALUE = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
_SECOND_NS = 1_000_000_000
_LONGEST_PERIOD_S = 86_400
_MOST_DIMENSIONS, _LONGEST_TEXT = 30, 1024
_LARGEST = 1e18
_SOURCES = frozenset(("poll", "promql", "stream"))


@dataclass(slots=True)
class EndpointPoints:
    """What of an export are points of endpoints, and why others are not."""

    points: list[EndpointPoint] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


def read(request: ExportMetricsServiceRequest, times: Times) -> EndpointPoints:
    """Every sound point of an endpoint in it."""
    found = EndpointPoints()
    for owner, metric in _metrics(request):
        if metric.WhichOneof("data") != "summary":
            shape = metric.WhichOneof("data")
            points = getattr(metric, shape).data_points if shape else ()
            found.refused[f"{metric.name[:100]} is no summary"] += len(points)
            continue
        for told in metric.summary.data_points:
            try:
                point = _point(told, owner)
            except _UnsoundError as error:
                found.refused[str(error)] += 1
                continue
            problem = problem_of(point) or _untimely(point, times)
            if problem:
                found.refused[problem] += 1
            else:
                found.points.append(point)
    return found


def problem_of(point: EndpointPoint) -> str:
    """What is wrong with a point, whoever made it; empty when nothing is."""
    key = point.key
    texts = (key.account, key.region, key.namespace, key.name, point.service)
    told = (*texts, *(text for pair in key.dimensions for text in pair))
    if not all(texts) or max(map(len, told)) > _LONGEST_TEXT:
        return "an endpoint's name is empty or too long"
    if len(key.dimensions) > _MOST_DIMENSIONS:
        return f"more than {_MOST_DIMENSIONS} dimensions"
    on_grid = 1 <= key.period_s <= _LONGEST_PERIOD_S and point.start_s % key.period_s == 0
    if not on_grid or point.start_s < 0:
        return "its period is not on the clock's grid"
    if point.source not in _SOURCES:
        return "it does not say how it was read"
    if bool(point.statistics) != (point.state is PointState.VALUE):
        return "it has no value"
    known = metric_of(key.namespace, key.name, (name for name, _ in key.dimensions))
    return problem_in(point.statistics, known[0] if known else None) or _dates(point)


def _dates(point: EndpointPoint) -> str:
    instants = [point.fetched_at_s, *([] if point.settled_at_s is None else [point.settled_at_s])]
    return "" if all(0 <= at < _LARGEST for at in instants) else "it was read at no instant"


def _untimely(point: EndpointPoint, times: Times) -> str:
    if point.start_s * _SECOND_NS > times.newest_at_ns:
        return "it is from the future"
    if point.end_s * _SECOND_NS < times.oldest_at_ns:
        return "it is older than anything kept"
    if point.fetched_at_s * _SECOND_NS > times.newest_at_ns:
        return "it was read in the future"
    return ""


class _UnsoundError(Exception):
    """A point that is not what it claims to be."""


def _metrics(request: ExportMetricsServiceRequest) -> Iterator[tuple[Mapping[str, str], Any]]:
    for resource in request.resource_metrics:
        owner = _texts(resource.resource.attributes)
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if metric.name.startswith(wire.METRIC_PREFIX):
                    yield owner, metric


def _texts(attributes: Iterable[KeyValue]) -> dict[str, str]:
    return {each.key: text_in(each.value) for each in attributes}


def _point(told: SummaryDataPoint, owner: Mapping[str, str]) -> EndpointPoint:
    start_s, off_start = divmod(told.start_time_unix_nano, _SECOND_NS)
    end_s, off_end = divmod(told.time_unix_nano, _SECOND_NS)
    if off_start or off_end:
        raise _UnsoundError("its period is not on the clock's grid")
    texts = _texts(told.attributes)
    numbers = {each.key: number_in(each.value) for each in told.attributes}
    dimensions = sorted(
        (name.removeprefix(wire.DIMENSION), value)
        for name, value in texts.items()
        if name.startswith(wire.DIMENSION)
    )
    fetched_at_s = numbers.get(wire.FETCHED)
    return EndpointPoint(
        key=EndpointKey(
            account=owner.get(wire.ACCOUNT, ""),
            region=owner.get(wire.REGION, ""),
            namespace=texts.get(wire.NAMESPACE, ""),
            name=texts.get(wire.NAME, ""),
            dimensions=tuple(dimensions),
            period_s=end_s - start_s,
        ),
        service=owner.get(wire.SERVICE, ""),
        start_s=start_s,
        fetched_at_s=math.nan if fetched_at_s is None else fetched_at_s,
        state=PointState.NO_DATA if told.flags & _NO_VALUE else PointState.VALUE,
        settled_at_s=numbers.get(wire.SETTLED),
        source=texts.get(wire.SOURCE, ""),
        statistics=_statistics(told, texts.get(wire.SUMMARY, ""), numbers),
    )


def _statistics(
    told: SummaryDataPoint, fields: str, numbers: Mapping[str, float | None]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in fields.split(","):
        if name == "SampleCount":
            found[name] = float(told.count)
        elif name == "Sum":
            found[name] = told.sum
    for each in told.quantile_values:
        if not 0 <= each.quantile <= 1:
            raise _UnsoundError("a quantile outside 0 to 1")
        found[wire.quantile_name(each.quantile)] = each.value
    for key, value in numbers.items():
        if key.startswith(wire.STATISTIC):
            found[key.removeprefix(wire.STATISTIC)] = math.nan if value is None else value
    return found
