"""Metric Streams, delivered by Amazon Data Firehose to an HTTP endpoint: `/v1/firehose`.

A delivery is JSON around base64 around lines of JSON, one record each; it may come several times.
Records are upserted like any other reading, so a repeat changes nothing. A record whose unit
contradicts our table is refused and counted, the others are kept; a delivery that cannot be read at
all is refused as a whole. Records in OpenTelemetry's format are not read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import APIRouter, Request, Response
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from collector.body import Body, too_large
from collector.endpoint_points import problem_of
from collector.intake import EndpointIntake, Outcome
from collector.log import RefusalLog
from collector.otlp_status import Reason, Refusal, answer
from collector.own_metrics import OwnMetrics
from collector.reception import Arrival, Reception
from collector.settings import CollectorSettings
from collector.signals import METRICS, AnySignal
from domain.endpoint import EndpointKey, EndpointPoint, is_statistic
from domain.endpoint_catalogue import metric_of, units_fit
from domain.endpoint_soundness import is_measurement
from domain.errors import InputError

__all__ = ["Delivered", "delivered", "firehose_router"]

PATH = "/v1/firehose"
_PERIOD_S = 60
_SETTLE_S = 180
_MOST_RECORDS = 50_000
_NAMES = {"count": "SampleCount", "sum": "Sum", "min": "Minimum", "max": "Maximum"}
_ID_LENGTH = 200


@dataclass(slots=True)
class Delivered:
    """What was in one delivery. `ignored` records are of metrics that are not ours."""

    request_id: str
    points: list[EndpointPoint] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    ignored: int = 0


def delivered(body: bytes) -> Delivered:
    """The points of one delivery, or `InputError` where it is none."""
    envelope = _object(_json(body, "the body"), "the body")
    at_ms = envelope.get("timestamp")
    records = envelope.get("records")
    if not isinstance(records, list) or not is_measurement(at_ms):
        raise _unreadable("it has no `records` or no `timestamp`")
    into = Delivered(str(envelope.get("requestId", ""))[:_ID_LENGTH])
    for number, line in enumerate(_lines(records)):
        if number >= _MOST_RECORDS:
            raise _unreadable(f"it has more than {_MOST_RECORDS} records")
        try:
            told = _object(_json(line, "a record"), "a record")
            point = _point(told, float(at_ms) / 1000)
        except InputError as error:
            into.refused[error.problem] += 1
            continue
        if point is None:
            into.ignored += 1
        else:
            into.points.append(point)
    return into


def _lines(records: list[Any]) -> Iterator[bytes]:
    for record in records:
        try:
            data = base64.b64decode(_object(record, "a record")["data"], validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise _unreadable("the data of a record are no base64") from error
        yield from (line for line in data.splitlines() if line.strip())


def _point(told: Mapping[str, Any], fetched_at_s: float) -> EndpointPoint | None:
    """One record in our units; None where the metric is not one of ours."""
    namespace, name = str(told.get("namespace", "")), str(told.get("metric_name", ""))
    dimensions = _object(told.get("dimensions", {}), "its dimensions")
    pairs = tuple(sorted((str(key), str(value)) for key, value in dimensions.items()))
    known = metric_of(namespace, name, (key for key, _ in pairs))
    if known is None:
        return None
    metric, _ = known
    unit = str(told.get("unit", ""))
    if not units_fit(metric, unit):
        raise _unreadable(f"{namespace} {name} in {unit[:40]!r} and not in {metric.unit}")
    at_ms = told.get("timestamp")
    if not is_measurement(at_ms) or at_ms % (_PERIOD_S * 1000):
        raise _unreadable("its time stamp is no whole minute")
    start_s = int(at_ms // 1000)
    point = EndpointPoint(
        key=EndpointKey(
            account=str(told.get("account_id", "")),
            region=str(told.get("region", "")),
            namespace=namespace,
            name=name,
            dimensions=pairs,
            period_s=_PERIOD_S,
        ),
        service=dict(pairs).get(metric.family.named_by, name),
        start_s=start_s,
        fetched_at_s=fetched_at_s,
        settled_at_s=start_s + _PERIOD_S + _SETTLE_S,
        source="stream",
        statistics=_statistics(_object(told.get("value"), "its value"), metric.per_unit),
    )
    if problem := problem_of(point):
        raise _unreadable(problem)
    return point


def _statistics(told: Mapping[str, Any], per_unit: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, value in told.items():
        name = _NAMES.get(key, key)
        if is_statistic(name):
            if not is_measurement(value):
                raise _unreadable("its value is no measurement: not a number, or beyond 10^18")
            found[name] = float(value) * (1.0 if name == "SampleCount" else per_unit)
    return found


def _json(text: bytes, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(f"{what} is no JSON") from error


def _object(told: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(told, dict):
        raise _unreadable(f"{what} is no object of JSON")
    return told


def _unreadable(problem: str) -> InputError:
    return InputError(problem, where=PATH, remedy="Choose JSON as the stream's output format.")


def _hand_over(intake: EndpointIntake, told: Delivered) -> Outcome:
    kept = intake.endpoints(told.points)
    reasons = [f"{n} refused: {reason}" for reason, n in told.refused.most_common(5)]
    said = "; ".join(filter(None, (kept.message, *reasons)))
    return Outcome(kept.rejected + told.refused.total(), said)


def _stream(intake: EndpointIntake) -> AnySignal:
    metrics: AnySignal = METRICS
    return replace(
        metrics,
        name="endpoints",
        path=PATH,
        from_json=delivered,
        count=lambda told: len(told.points) + told.refused.total(),
        hand_over=lambda _, told: _hand_over(intake, told),
        response=lambda _: ExportMetricsServiceResponse(),  # Firehose is told another thing
    )


def firehose_router(
    intake: EndpointIntake,
    settings: CollectorSettings,
    counters: OwnMetrics,
    *,
    log: RefusalLog | None = None,
    now: Callable[[], float] = time.time,
) -> APIRouter:
    """The route that takes deliveries. Without `firehose_keys` it lets nobody in."""
    reception = Reception(intake, settings, counters, protocol="firehose", log=log)
    keys = tuple(_digest(key.get_secret_value()) for key in settings.firehose_keys)
    stream, router = _stream(intake), APIRouter(tags=["firehose"])

    @router.post(PATH, name="firehose", response_class=Response)
    async def deliver(request: Request) -> Response:
        """A delivery of Amazon Data Firehose."""
        peer = request.client.host if request.client else "unknown"
        arrival = Arrival(signal=stream.name, where=f"POST {PATH}", peer=peer)
        body = Body(request.receive, arrival.where)
        asked = request.headers.get("x-amz-firehose-request-id", "")[:_ID_LENGTH]
        told = {"requestId": asked, "timestamp": int(now() * 1000)}
        try:
            with reception.export(arrival):
                _admit(request.headers.get("x-amz-firehose-access-key", ""), keys, arrival.where)
                await _taken(request, body, reception, stream, arrival)
        except Refusal as refusal:
            await body.drain()
            told["errorMessage"] = str(refusal)
            return _answer(answer(refusal.reason)[0], told)
        return _answer(200, told)

    return router


async def _taken(
    request: Request, body: Body, reception: Reception, stream: AnySignal, arrival: Arrival
) -> None:
    settings, where = reception.settings, arrival.where
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "gzip", "identity"):
        raise Refusal(
            f"content encoding {encoding[:80]!r} is not taken",
            reason=Reason.ENCODING,
            where=where,
            remedy="Choose GZIP or no encoding for the delivery stream.",
        )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > settings.max_body_bytes:
        raise too_large(where, settings.max_body_bytes)
    with reception.lease(where) as lease:
        data = await body.read(
            lease, limit_bytes=settings.max_body_bytes, timeout_s=settings.body_timeout_s
        )
        await reception.keep(stream, data, arrival, gzip=encoding == "gzip", json=True)


def _admit(key: str, keys: tuple[bytes, ...], where: str) -> None:
    """Refuse who has no key of ours. Takes as long for a nearly right one as for any other."""
    digest = _digest(key)
    if not any([hmac.compare_digest(digest, ours) for ours in keys]):  # noqa: C419 - all are compared
        raise Refusal(
            "the access key is not one of ours" if key else "no access key",
            reason=Reason.UNAUTHENTICATED,
            where=where,
            remedy="Give the delivery stream an access key of collector.firehose_keys.",
        )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _answer(status: int, told: Mapping[str, Any]) -> Response:
    return Response(json.dumps(told), status_code=status, media_type="application/json")
