"""Prometheus remote-write over HTTP: `/api/v1/write`, versions 1.0 and 2.0.

What Prometheus must not send again is answered 400, 401, 413 or 415; what it is to send again
later, 503 with Retry-After. A sample that is not wanted has been taken all the same: a sender that
is told otherwise reports a failure (and so does one of whom a twin is believed).
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from fastapi import APIRouter, Request, Response
from google.protobuf.message import DecodeError

from collector.body import Body, too_large
from collector.census import Path, census
from collector.intake import Intake, Overloaded
from collector.log import RefusalLog
from collector.otlp_status import PROTOBUF, Reason, Refusal, answer
from collector.own_metrics import OwnMetrics
from collector.reception import Arrival, Reception
from collector.refused import WHO_ARE_YOU, Refused
from collector.remote_write_series import Decoder, Sample, Streams, Written
from collector.settings import CollectorSettings
from collector.snappy import unsnappy

__all__ = ["PATH", "Scrapes", "remote_write_router"]

PATH: Final = "/api/v1/write"

_SIGNAL: Final = "remote_write"
_MESSAGES: Final = {"prometheus.WriteRequest": 1, "io.prometheus.write.v2.Request": 2}
_SERIES_PATHS: Final[Mapping[int, Path]] = {1: (frozenset({1}),), 2: (frozenset({4, 5}),)}
_OTHER_METHODS: Final = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "PUT"]
_HEADERS: Final = {
    Reason.METHOD: {"allow": "POST"},
    Reason.UNAUTHENTICATED: WHO_ARE_YOU,
}
_STATUS: Final = {Reason.SLOW: 503, Reason.PARTIAL: 400}  # a 408 is never sent again
_SLOW_RETRY_S: Final = 1.0
_COUNTED: Final = (
    "requests",
    "series",
    "taken_samples",
    "ignored_series",
    "refused_histograms",
    "exemplars",
    "metadata",
)


class Scrapes(Streams, Protocol):
    """Takes samples as they come, in any order, more than once. Called from many threads."""

    def take(self, samples: Sequence[Sample]) -> None:
        """Keep them, or raise `Overloaded`: the same samples are welcome again later."""
        ...


def remote_write_router(
    scrapes: Scrapes,
    intake: Intake,
    settings: CollectorSettings,
    counters: OwnMetrics,
    *,
    log: RefusalLog | None = None,
) -> APIRouter:
    """The route that Prometheus writes to."""
    reception = Reception(intake, settings, counters, protocol="http", log=log)
    door = _Door(scrapes, reception)
    counters.watch(door.readings)
    router = APIRouter(tags=["remote-write"])

    @router.post(PATH, name=_SIGNAL, response_class=Response, status_code=204)
    async def write(request: Request) -> Response:
        return await door.answer(request)

    @router.api_route(PATH, methods=_OTHER_METHODS, name=f"no_{_SIGNAL}", include_in_schema=False)
    async def refuse(request: Request) -> Response:
        return await door.answer(request)

    return router


class _Door:
    """One way in: what came through it is counted."""

    def __init__(self, scrapes: Scrapes, reception: Reception) -> None:
        self._scrapes = scrapes
        self._reception = reception
        most_known = reception.settings.remote_write.max_series
        self._decoder = Decoder(scrapes, most_known=most_known)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def readings(self) -> Mapping[str, float]:
        with self._lock:
            return {f"{_SIGNAL}_{name}_total": self._counts[name] for name in _COUNTED}

    async def answer(self, request: Request) -> Response:
        peer = request.client.host if request.client else "unknown"
        where = f"{request.method} {request.url.path}"
        arrival = Arrival(signal=_SIGNAL, where=where, peer=peer)
        body = Body(request.receive, where)
        try:
            with self._reception.export(arrival):
                return await self._taken(request, body, arrival)
        except Refusal as refusal:
            if refusal.reason is Reason.SLOW:
                refusal.retry_after_s = _SLOW_RETRY_S
            return _refused(refusal, body)

    async def _taken(self, request: Request, body: Body, arrival: Arrival) -> Response:
        settings, where = self._reception.settings, arrival.where
        self._reception.admit(request.headers.get("authorization"), where)
        if request.method != "POST":
            raise _refusal(Reason.METHOD, "samples are sent by POST", where, "Use POST.")
        version = _version(request.headers.get("content-type", ""), where)
        _check_encoding(request.headers.get("content-encoding", ""), where)
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > settings.max_body_bytes:
            raise too_large(where, settings.max_body_bytes)
        with self._reception.lease(where) as lease:
            data = await body.read(
                lease, limit_bytes=settings.max_body_bytes, timeout_s=settings.body_timeout_s
            )
            written = await self._reception.work(
                data, arrival, lambda each: self._digested(each, version, where)
            )
        headers = _stats(written) if version == 2 else {}
        if written.problems:
            return _partly(written, headers, self._reception, arrival)
        return Response(status_code=204, headers=headers)

    def _digested(self, body: bytes, version: int, where: str) -> Written:
        settings = self._reception.settings
        inflated = unsnappy(body, limit_bytes=settings.max_decompressed_bytes, where=where)
        written = self._decoded(inflated, version, where)
        try:
            self._scrapes.take(written.samples)
        except Overloaded as full:
            raise _refusal(
                Reason.OVERLOADED,
                "more scrapes are waiting to be stored than there is room for",
                where,
                "Prometheus sends it again; if this goes on, look at the store's disk.",
                retry_after_s=full.retry_after_s,
            ) from full
        with self._lock:
            self._counts.update(written.counts)
            self._counts.update(requests=1, taken_samples=len(written.samples))
        return written

    def _decoded(self, body: bytes, version: int, where: str) -> Written:
        limit = self._reception.settings.max_items
        try:
            if census(body, _SERIES_PATHS[version], limit=limit) > limit:
                raise _refusal(
                    Reason.TOO_LARGE,
                    f"the request holds more than {limit} series or symbols",
                    where,
                    "Lower max_samples_per_send, or raise collector.max_items.",
                )
            if version == 2:
                return self._decoder.version_2(body)
            return self._decoder.version_1(body)
        except (DecodeError, ValueError) as error:
            problem = str(error) if type(error) is ValueError else "truncated or not protobuf"
            raise _refusal(
                Reason.MALFORMED,
                f"the body is no remote-write {version}.0 request: {problem}",
                where,
                "Send what the content type says; check what is sent to this address.",
            ) from error


def _version(content_type: str, where: str) -> int:
    """The version by the content type; without a `proto` it is 1.0."""
    media_type, *parameters = (part.strip() for part in content_type.split(";"))
    told = dict(parameter.partition("=")[::2] for parameter in parameters)
    proto = told.get("proto", "prometheus.WriteRequest").strip('"')
    if media_type.lower() not in (PROTOBUF, "") or proto not in _MESSAGES:
        raise _refusal(
            Reason.CONTENT_TYPE,
            f"content type {content_type[:120]!r} is not remote-write",
            where,
            f"Send {PROTOBUF}, with `;proto=io.prometheus.write.v2.Request` for 2.0.",
        )
    return _MESSAGES[proto]


def _check_encoding(encoding: str, where: str) -> None:
    if encoding.strip().lower() not in ("snappy", ""):
        raise _refusal(
            Reason.ENCODING,
            f"content encoding {encoding[:80]!r} is not taken",
            where,
            "Compress with snappy (block format), as remote-write asks for.",
        )


def _stats(written: Written) -> dict[str, str]:
    """What 2.0 wants to be told of what was taken."""
    counts = written.counts
    taken = {
        "Samples": counts["samples"],
        "Histograms": counts["histograms"] - counts["refused_histograms"],
        "Exemplars": counts["exemplars"],
    }
    return {f"X-Prometheus-Remote-Write-{what}-Written": str(n) for what, n in taken.items()}


def _partly(
    written: Written, headers: Mapping[str, str], reception: Reception, arrival: Arrival
) -> Response:
    """400 for what cannot be, though the rest is kept: sent again it would be no better."""
    (problem, n), *others = written.problems.most_common()
    more = f" (and {len(others)} other problems)" if others else ""
    refusal = _refusal(
        Reason.PARTIAL,
        f"{n} times: {problem}{more}",
        arrival.where,
        "The others are kept; mend what is named and do not send these again.",
    )
    reception.refused(arrival, refusal)
    return Response(f"{refusal}\n", status_code=400, headers=headers, media_type="text/plain")


def _refused(refusal: Refusal, body: Body) -> Refused:
    return Refused(
        refusal,
        body,
        content=f"{refusal}\n".encode(),
        status=_STATUS.get(refusal.reason) or answer(refusal.reason)[0],
        media_type="text/plain",
        headers=_HEADERS.get(refusal.reason, {}),
    )


def _refusal(
    reason: Reason, problem: str, where: str, remedy: str, *, retry_after_s: float | None = None
) -> Refusal:
    return Refusal(problem, reason=reason, where=where, remedy=remedy, retry_after_s=retry_after_s)
