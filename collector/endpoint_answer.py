"""Managed endpoints as JSON: every period, what may be added up, and availability with its definition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from typing_extensions import TypedDict  # why: pydantic asks for it before Python 3.12

from collector.query import EndpointReading, EndpointSeries, Window
from collector.times import rfc3339
from domain.endpoint import (
    Availability,
    EndpointKey,
    EndpointPoint,
    Good,
    PointState,
    availability,
    good_count,
    pooled,
)
from domain.endpoint_wall import Wall
from domain.errors import InputError
from domain.managed_endpoint import ManagedEndpoint, managed, metric_in

__all__ = ["EndpointsAnswer", "endpoints_answer", "settled_until_s"]

_Place = tuple[str, str, str, tuple[tuple[str, str], ...]]
_ADDITIVE = ("SampleCount", "Sum", "Average", "Minimum", "Maximum")

EndpointPeriod = TypedDict(
    "EndpointPeriod",
    {
        "from": str,
        "to": str,
        "state": str,
        "provisional": bool,
        "revision": int,
        "fetched_at": str,
        "source": str,
        "statistics": dict[str, float],
    },
)


class GoodAnswer(TypedDict):
    """Requests up to a threshold: surely, possibly, and of how many."""

    low: int
    high: int
    total: int


class EndpointSeriesAnswer(TypedDict):
    """One metric of one endpoint. Percentiles stand in the points only: they do not add."""

    service: str
    account: str
    region: str
    namespace: str
    name: str
    metric: str
    unit: str
    level: str
    dimensions: dict[str, str]
    period_s: int
    settled_until: str | None
    total: dict[str, float]
    accelerators: int | None
    per_accelerator: dict[str, float]
    good: dict[str, GoodAnswer]
    points: list[EndpointPeriod]


class WallAnswer(TypedDict):
    """A time limit before the model that calls run into; `limit` is null where AWS sets none there."""

    service: str
    dimensions: dict[str, str]
    at_s: float
    minutes: int
    of_minutes: int
    errors: int
    middle_s: float | None
    limit: str | None
    remedy: str | None


class AvailabilityAnswer(TypedDict):
    """Bedrock's availability under one of AWS's two definitions of Invocations."""

    service: str
    definition: str
    share: float


EndpointsAnswer = TypedDict(
    "EndpointsAnswer",
    {
        "evaluated_at": str,
        "from": str,
        "to": str,
        "series": list[EndpointSeriesAnswer],
        "availability": list[AvailabilityAnswer],
        "walls": list[WallAnswer],
    },
)


def settled_until_s(series: Iterable[EndpointSeries]) -> int | None:
    """Up to here every endpoint's newest metric has settled: what a question without a time is of."""
    newest: dict[str, int] = {}
    for each in series:
        if each.settled_until_s is not None:
            newest[each.service] = max(each.settled_until_s, newest.get(each.service, 0))
    return min(newest.values(), default=None)


def endpoints_answer(window: Window, series: Sequence[EndpointSeries]) -> EndpointsAnswer:
    """`evaluated_at` names the instant that the answer speaks of: the end of its window."""
    endpoints = managed(series)
    gpus = {_place(each.service, each): each.accelerators for each in endpoints}
    return {
        "evaluated_at": rfc3339(window.until_s),
        "from": rfc3339(window.since_s),
        "to": rfc3339(window.until_s),
        "series": [_series(each, gpus) for each in series],
        "availability": _availability(series),
        "walls": [_wall(each, wall) for each in endpoints if (wall := each.wall) is not None],
    }


def _place(service: str, at: EndpointKey | ManagedEndpoint) -> _Place:
    return service, at.account, at.region, at.dimensions


def _series(each: EndpointSeries, gpus: Mapping[_Place, int | None]) -> EndpointSeriesAnswer:
    key = each.key
    total, row = _total(each), metric_in(each)
    is_sum = row is not None and row.per_accelerator
    number = gpus.get(_place(each.service, key)) if is_sum else None
    return {
        "service": each.service,
        "account": key.account,
        "region": key.region,
        "namespace": key.namespace,
        "name": key.name,
        "metric": each.metric,
        "unit": each.unit,
        "level": each.level,
        "dimensions": dict(key.dimensions),
        "period_s": key.period_s,
        "settled_until": None if each.settled_until_s is None else rfc3339(each.settled_until_s),
        "total": total,
        "accelerators": number,
        "per_accelerator": _divided(total, number),
        "good": _good(each),
        "points": [_period(point) for point in each.points],
    }


def _divided(total: Mapping[str, float], number: int | None) -> dict[str, float]:
    """The mean and the extremes of one GPU; nothing where their number is not known."""
    if number is None:
        return {}
    names = ("Average", "Maximum", "Minimum")
    return {name: total[name] / number for name in names if name in total}


def _wall(endpoint: ManagedEndpoint, wall: Wall) -> WallAnswer:
    return {
        "service": endpoint.service,
        "dimensions": dict(endpoint.dimensions),
        "at_s": wall.at_s,
        "minutes": wall.minutes,
        "of_minutes": wall.of_minutes,
        "errors": wall.errors,
        "middle_s": wall.middle_s,
        "limit": None if wall.limit is None else wall.limit.of,
        "remedy": None if wall.limit is None else wall.limit.remedy,
    }


def _period(point: EndpointReading) -> EndpointPeriod:
    return {
        "from": rfc3339(point.since_s),
        "to": rfc3339(point.until_s),
        "state": point.state.value,
        "provisional": point.provisional,
        "revision": point.revision,
        "fetched_at": rfc3339(int(point.fetched_at_s)),
        "source": point.source,
        "statistics": dict(point.statistics),
    }


def _total(each: EndpointSeries) -> dict[str, float]:
    """What adds, over all points of the window; a statistic without a value is left out."""
    points = _points(each)
    told = {name: pooled(name, points) for name in _ADDITIVE}
    return {name: value for name, value in told.items() if value is not None}


def _good(each: EndpointSeries) -> dict[str, GoodAnswer]:
    counts: defaultdict[str, Good] = defaultdict(lambda: Good(0, 0, 0))
    for point in each.points:
        samples = point.statistics.get("SampleCount")
        for name, value in point.statistics.items():
            if name.startswith("PR(") and samples is not None:
                counts[name] += _counted(value, samples)
    return {
        name: {"low": good.low, "high": good.high, "total": good.total}
        for name, good in sorted(counts.items())
    }


def _counted(percent: float, samples: float) -> Good:
    try:
        return good_count(percent, samples)
    except InputError:  # why: fractional samples are counted as nothing but doubt
        return Good(0, int(samples), int(samples))


def _points(each: EndpointSeries) -> list[EndpointPoint]:
    return [
        EndpointPoint(
            key=each.key,
            service=each.service,
            start_s=point.since_s,
            fetched_at_s=point.fetched_at_s,
            state=point.state,
            statistics=point.statistics,
        )
        for point in each.points
    ]


def _availability(series: Sequence[EndpointSeries]) -> list[AvailabilityAnswer]:
    """Over the window; an error count that was silent is none where invocations were told."""
    by_service: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for each in series:
        if each.key.namespace == "AWS/Bedrock" and each.level == "endpoint" and _has_value(each):
            counts = by_service[each.service]
            counts[each.metric] = counts.get(each.metric, 0.0) + _total(each).get("Sum", 0.0)
    return [
        {"service": service, "definition": told.label, "share": float(told.share)}
        for service, counts in sorted(by_service.items())
        if "invocations" in counts
        for counts_failures in (False, True)
        if (told := _share(counts, counts_failures=counts_failures)) is not None
    ]


def _has_value(each: EndpointSeries) -> bool:
    return any(point.state is not PointState.NO_DATA for point in each.points)


def _share(counts: Mapping[str, float], *, counts_failures: bool) -> Availability | None:
    return availability(
        invocations=counts["invocations"],
        server_errors=counts.get("server_errors", 0.0),
        throttles=counts.get("throttles", 0.0),
        counts_failures=counts_failures,
    )
