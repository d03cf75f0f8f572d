"""OTLP over HTTP: `/v1/traces` and `/v1/metrics`, protobuf or JSON, plain or gzip."""

from fastapi import APIRouter, Request, Response
from google.protobuf.message import Message

from collector.body import Body, too_large
from collector.intake import Intake
from collector.log import RefusalLog
from collector.otlp_status import (
    JSON,
    PROTOBUF,
    Reason,
    Refusal,
    answer,
    encoded,
    status_of,
)
from collector.own_metrics import OwnMetrics
from collector.reception import Arrival, Reception
from collector.refused import WHO_ARE_YOU, Refused
from collector.settings import CollectorSettings
from collector.signals import SIGNALS, AnySignal

__all__ = ["otlp_router"]

_OTHER_METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "PUT"]
_HEADERS = {
    Reason.ENCODING: {"accept-encoding": "gzip, identity"},
    Reason.METHOD: {"allow": "POST"},
    Reason.UNAUTHENTICATED: WHO_ARE_YOU,
}


def otlp_router(
    intake: Intake,
    settings: CollectorSettings,
    counters: OwnMetrics,
    *,
    log: RefusalLog | None = None,
) -> APIRouter:
    """Routes that take OTLP; each answers in the encoding it was asked in."""
    reception = Reception(intake, settings, counters, protocol="http", log=log)
    router = APIRouter(tags=["otlp"])
    for signal in SIGNALS:
        _take(router, reception, signal)
        _refuse(
            router,
            reception,
            signal.name,
            signal.path,
            methods=_OTHER_METHODS,
            reason=Reason.METHOD,
        )
    _refuse(
        router, reception, "logs", "/v1/logs", methods=["POST", *_OTHER_METHODS], reason=Reason.LOGS
    )
    return router


def _take(router: APIRouter, reception: Reception, signal: AnySignal) -> None:
    @router.post(signal.path, name=f"otlp_{signal.name}", response_class=Response)
    async def export(request: Request) -> Response:
        arrival = _arrival(request, signal.name)
        body = Body(request.receive, arrival.where)
        media_type = _media_type(request)
        try:
            with reception.export(arrival):
                response = await _taken(request, body, reception, signal, arrival)
        except Refusal as refusal:
            return _refused(refusal, body, media_type)
        return Response(encoded(response, media_type), media_type=media_type)


async def _taken(
    request: Request, body: Body, reception: Reception, signal: AnySignal, arrival: Arrival
) -> Message:
    settings, where = reception.settings, arrival.where
    reception.admit(request.headers.get("authorization"), where)
    media_type = _checked_media_type(request, where)
    gzip = _is_gzip(request, where)
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > settings.max_body_bytes:
        raise too_large(where, settings.max_body_bytes)
    with reception.lease(where) as lease:
        data = await body.read(
            lease, limit_bytes=settings.max_body_bytes, timeout_s=settings.body_timeout_s
        )
        return await reception.keep(signal, data, arrival, gzip=gzip, json=media_type == JSON)


def _refuse(
    router: APIRouter,
    reception: Reception,
    name: str,
    path: str,
    *,
    methods: list[str],
    reason: Reason,
) -> None:
    """A route that says what is wrong, so that no page of the dashboard answers in its place."""
    problem, remedy = {
        Reason.METHOD: ("an export is sent by POST", "Use POST."),
        Reason.LOGS: ("logs are not taken here", "Send traces and metrics; switch logs off."),
    }[reason]

    @router.api_route(path, methods=methods, name=f"no_{name}", include_in_schema=False)
    async def refuse(request: Request) -> Response:
        arrival = _arrival(request, name)
        refusal = Refusal(problem, reason=reason, where=arrival.where, remedy=remedy)
        try:
            with reception.export(arrival):
                raise refusal
        except Refusal:
            return _refused(refusal, Body(request.receive, arrival.where), JSON)


def _arrival(request: Request, signal: str) -> Arrival:
    peer = request.client.host if request.client else "unknown"
    return Arrival(
        signal=signal,
        where=f"{request.method} {request.url.path}",
        peer=peer,
        traceparent=request.headers.get("traceparent", ""),
    )


def _media_type(request: Request) -> str:
    """The encoding of the answer: that of the request, JSON where we do not know it."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return PROTOBUF if given == PROTOBUF else JSON


def _checked_media_type(request: Request, where: str) -> str:
    given = request.headers.get("content-type", "")
    media_type = given.partition(";")[0].strip().lower()
    if media_type not in {JSON, PROTOBUF}:
        raise Refusal(
            f"content type {given[:80]!r} is not OTLP",
            reason=Reason.CONTENT_TYPE,
            where=where,
            remedy=f"Send {PROTOBUF} or {JSON}.",
        )
    return media_type


def _is_gzip(request: Request, where: str) -> bool:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "gzip", "identity"}:
        raise Refusal(
            f"content encoding {encoding[:80]!r} is not taken",
            reason=Reason.ENCODING,
            where=where,
            remedy="Compress with gzip, or not at all.",
        )
    return encoding == "gzip"


def _refused(refusal: Refusal, body: Body, media_type: str) -> Refused:
    """A refusal as OTLP/HTTP says it."""
    return Refused(
        refusal,
        body,
        content=encoded(status_of(refusal), media_type),
        status=answer(refusal.reason)[0],
        media_type=media_type,
        headers=_HEADERS.get(refusal.reason, {}),
    )
