"""Answers as JSON says them, one shape for the API and the command line. Stable: others script on it.

JSON has no infinity: an interval without an upper end has `high: null` and `open: true`. A `value`
is null where the source does not say more than the interval. Asked for one quantile, `q` is a
number; asked for several it is a list, and each series stands once per quantile, with its own `q`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NotRequired

from typing_extensions import TypedDict  # why: pydantic asks for it before Python 3.12

from collector.query import Flow, Numbers, Point, Series, Stages, StageShare, Window
from collector.times import rfc3339
from domain.distribution import Distribution
from domain.metric import METRICS
from domain.request import Request

__all__ = [
    "GaugeAnswer",
    "LabelsAnswer",
    "QuantileAnswer",
    "RequestAnswer",
    "RequestsAnswer",
    "StagesAnswer",
    "gauge_answer",
    "labels_answer",
    "quantile_answer",
    "request_answer",
    "requests_answer",
    "stages_answer",
]

_SECOND_NS = 1_000_000_000

QuantilePoint = TypedDict(
    "QuantilePoint",
    {
        "from": str,
        "to": str,
        "n": int,
        "value": float | None,
        "low": float | None,
        "high": float | None,
        "open": NotRequired[bool],
        "failed": int,
    },
)


class QuantileSeries(TypedDict):
    """One group; `q` only where several were asked for."""

    labels: dict[str, str]
    q: NotRequired[float]
    sources: list[str]
    points: list[QuantilePoint]


class QuantileAnswer(TypedDict):
    """`/api/v1/quantile`."""

    metric: str
    q: float | list[float]
    unit: str
    series: list[QuantileSeries]


class _Quantile(TypedDict):
    q: float
    value: float | None
    low: float | None
    high: float | None
    open: NotRequired[bool]


class _Latency(TypedDict):
    n: int
    mean: float | None
    quantiles: list[_Quantile]


class _Stage(_Latency):
    stage: str
    share: float | None


class _Flow(TypedDict):
    """Null where nobody counts it. `started`: answers begun; `unfinished`: at least so many."""

    started: int | None
    finished: int | None
    in_flight_before: int | None
    unfinished: int | None
    unfinished_high: int | None
    failed: int | None
    cancelled: int | None
    rejected: int | None


StagesSeries = TypedDict(
    "StagesSeries",
    {
        "labels": dict[str, str],
        "from": str,
        "to": str,
        "e2e": _Latency,
        "ttft": _Latency,
        "stages": list[_Stage],
        "missing": list[str],
        "missing_because": dict[str, str],
        "flow": _Flow,
    },
)


class StagesAnswer(TypedDict):
    """`/api/v1/stages`."""

    unit: str
    series: list[StagesSeries]


class RequestAnswer(TypedDict):
    """One request. Durations are seconds, null where nobody measured them.

    `ttft_s` and `e2e_s` are those of `measured_by`: `frontend`, `engine`, or nobody. `unknown` says
    why a stage has no value. A request is `complete` unless the span of somebody who saw it lacks.
    """

    trace_id: str
    labels: dict[str, str]
    start: str
    end: str
    outcome: str
    finish_reason: str
    complete: bool
    streamed: bool | None
    measured_by: str
    ttft_s: float | None
    e2e_s: float | None
    tpot_s: float | None
    itl_max_s: float | None
    client_ttft_s: float | None
    client_e2e_s: float | None
    stages_s: dict[str, float | None]
    unknown: dict[str, str]
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None


RequestsAnswer = TypedDict(
    "RequestsAnswer", {"from": str, "to": str, "requests": list[RequestAnswer]}
)

GaugePoint = TypedDict(
    "GaugePoint",
    {"from": str, "to": str, "value": float, "low": float, "high": float, "last": float},
)


class GaugeSeries(TypedDict):
    """One group. `weighted_by`: by what a ratio is averaged over replicas; null for a plain mean."""

    labels: dict[str, str]
    weighted_by: str | None
    points: list[GaugePoint]


class GaugeAnswer(TypedDict):
    """`/api/v1/gauges`: gauges, and counters as their increase."""

    metric: str
    kind: str
    unit: str
    series: list[GaugeSeries]


class LabelsAnswer(TypedDict):
    """`/api/v1/labels`."""

    label: str
    values: list[str]


def quantile_answer(
    metric: str, quantiles: Sequence[float], series: Iterable[Series]
) -> QuantileAnswer:
    """Quantiles of a latency, one or several."""
    several = len(quantiles) > 1
    found: list[QuantileSeries] = []
    for each in series:
        # why once: a point's distribution is made when it is looked at
        rows = [_quantile_points(point, quantiles) for point in each.points]
        for place, q in enumerate(quantiles):
            one: QuantileSeries = {
                "labels": dict(each.labels),
                "sources": sorted(each.sources),
                "points": [row[place] for row in rows],
            }
            if several:
                one["q"] = q
            found.append(one)
    asked = list(quantiles) if several else quantiles[0]
    return {"metric": metric, "q": asked, "unit": "s", "series": found}


def stages_answer(stages: Iterable[Stages], quantiles: Sequence[float]) -> StagesAnswer:
    """Where the time goes."""
    return {
        "unit": "s",
        "series": [
            {
                "labels": dict(each.labels),
                "from": rfc3339(each.window.since_s),
                "to": rfc3339(each.window.until_s),
                "e2e": _latency(each.e2e, quantiles),
                "ttft": _latency(each.ttft, quantiles),
                "stages": [_stage(share, quantiles) for share in each.stages],
                "missing": [str(stage) for stage in each.missing],
                "missing_because": {str(stage): str(why) for stage, why in each.reasons.items()},
                "flow": _flow(each.flow),
            }
            for each in stages
        ],
    }


def requests_answer(window: Window, requests: Iterable[Request]) -> RequestsAnswer:
    """Requests, in the order given."""
    return {
        "from": rfc3339(window.since_s),
        "to": rfc3339(window.until_s),
        "requests": [request_answer(each) for each in requests],
    }


def request_answer(request: Request) -> RequestAnswer:
    """Everything that is known of one request."""
    return {
        "trace_id": request.trace_id.hex(),
        "labels": dict(request.labels),
        "start": _instant(request.start_at_ns),
        "end": _instant(request.end_at_ns),
        "outcome": str(request.outcome),
        "finish_reason": request.finish_reason,
        "complete": request.complete,
        "streamed": request.streamed,
        "measured_by": request.measured_by,
        "ttft_s": request.ttft_s,
        "e2e_s": request.e2e_s,
        "tpot_s": request.tpot_s,
        "itl_max_s": request.itl_max_s,
        "client_ttft_s": request.client_ttft_s,
        "client_e2e_s": request.client_e2e_s,
        "stages_s": {str(stage): value_s for stage, value_s in request.stage_s.items()},
        "unknown": {str(stage): reason for stage, reason in request.unknown.items()},
        "prompt_tokens": request.prompt_tokens,
        "cached_tokens": request.cached_tokens,
        "output_tokens": request.output_tokens,
    }


def gauge_answer(metric: str, numbers: Iterable[Numbers]) -> GaugeAnswer:
    """A gauge or a counter."""
    return {
        "metric": metric,
        "kind": str(METRICS[metric].kind),
        "unit": METRICS[metric].unit,
        "series": [
            {
                "labels": dict(each.labels),
                "weighted_by": each.weighted_by or None,
                "points": [
                    {
                        "from": rfc3339(point.since_s),
                        "to": rfc3339(point.until_s),
                        "value": point.value,
                        "low": point.low,
                        "high": point.high,
                        "last": point.last,
                    }
                    for point in each.points
                ],
            }
            for each in numbers
        ],
    }


def labels_answer(label: str, values: Iterable[str]) -> LabelsAnswer:
    """The values that a label took."""
    return {"label": label, "values": list(values)}


def _quantile_points(point: Point, quantiles: Sequence[float]) -> list[QuantilePoint]:
    distribution = point.distribution
    n, since, until = distribution.n, rfc3339(point.since_s), rfc3339(point.until_s)
    found: list[QuantilePoint] = []
    for q in quantiles:
        interval = _interval(distribution, q)
        one: QuantilePoint = {
            "from": since,
            "to": until,
            "n": n,
            "value": interval["value"],
            "low": interval["low"],
            "high": interval["high"],
            "failed": point.failed,
        }
        if interval.get("open"):
            one["open"] = True
        found.append(one)
    return found


def _interval(distribution: Distribution, q: float) -> _Quantile:
    found = distribution.quantile(q)
    if found is None:
        return {"q": q, "value": None, "low": None, "high": None}
    value_s = found.value_s
    closed = math.isfinite(found.high_s)
    interval: _Quantile = {
        "q": q,
        "value": value_s if value_s is not None and math.isfinite(value_s) else None,
        "low": found.low_s,
        "high": found.high_s if closed else None,
    }
    if not closed:
        interval["open"] = True
    return interval


def _latency(distribution: Distribution, quantiles: Sequence[float]) -> _Latency:
    return {
        "n": distribution.n,
        "mean": distribution.mean_s,
        "quantiles": [_interval(distribution, q) for q in quantiles] if distribution.n else [],
    }


def _stage(share: StageShare, quantiles: Sequence[float]) -> _Stage:
    return {
        "stage": str(share.stage),
        "n": share.distribution.n,
        "mean": share.mean_s,
        "share": share.share,
        "quantiles": [_interval(share.distribution, q) for q in quantiles],
    }


def _flow(flow: Flow) -> _Flow:
    return {
        "started": flow.started,
        "finished": flow.finished,
        "in_flight_before": flow.in_flight_before,
        "unfinished": flow.unfinished_low,
        "unfinished_high": flow.unfinished_high,
        "failed": flow.failed,
        "cancelled": flow.cancelled,
        "rejected": flow.rejected,
    }


def _instant(at_ns: int) -> str:
    """To the nanosecond: a double cannot hold it, a text can."""
    seconds, rest_ns = divmod(at_ns, _SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns:09d}Z"
