"""What both receivers do with an export, whatever wire it came on: admit, decode, keep, count, log."""

import asyncio
import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import Message

from collector.body import OVERHEAD_BYTES, Budget, Lease, gunzip, too_large
from collector.intake import Intake, Outcome, Overloaded
from collector.log import RefusalLog
from collector.otlp_status import Reason, Refusal, answer
from collector.own_metrics import OwnMetrics
from collector.settings import CollectorSettings
from collector.signals import TRACES, AnySignal
from domain.errors import InputError, StoreError
from domain.own_work import Kind, Piece, own_work

__all__ = ["Arrival", "Reception"]

_STORE_RETRY_S = 10.0
_JSON_BURDEN = 4  # decoding JSON takes several times the memory of protobuf
_LARGE_BYTES = 4 * 1024 * 1024
_UNTRACED = "-00"  # the flags of a W3C traceparent

_Digested = TypeVar("_Digested")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An export that knocks: what it claims to be, who sent it, and of which trace that was part."""

    signal: str
    where: str
    peer: str
    traceparent: str = ""


class Reception:
    """Shared by all connections of one protocol. Its threads bound what is decoded at one time."""

    def __init__(
        self,
        intake: Intake,
        settings: CollectorSettings,
        metrics: OwnMetrics,
        *,
        protocol: str,
        log: RefusalLog | None = None,
    ) -> None:
        self.settings = settings
        self._intake = intake
        self._metrics = metrics
        self._protocol = protocol
        self._log = log or RefusalLog()
        self._tokens = tuple(_digest(token.get_secret_value()) for token in settings.tokens)
        room = settings.max_concurrent * (settings.max_body_bytes + OVERHEAD_BYTES)
        self._budget = Budget(room)
        self._large = threading.Lock()  # why: decoded, one large export at a time is enough
        self._threads = ThreadPoolExecutor(settings.max_concurrent, f"otlp-{protocol}")

    def admit(self, authorization: str | None, where: str) -> None:
        """Refuse who has no token of ours. Takes as long for a nearly right one as for any other."""
        if not self._tokens:
            return
        scheme, _, token = (authorization or "").partition(" ")
        digest = _digest(token.strip())
        known = [hmac.compare_digest(digest, ours) for ours in self._tokens]
        if scheme.lower() != "bearer" or not any(known):
            raise Refusal(
                "no bearer token" if not token else "the bearer token is not one of ours",
                reason=Reason.UNAUTHENTICATED,
                where=where,
                remedy="Send `authorization: Bearer TOKEN` with one of `auth.tokens`.",
            )

    def lease(self, where: str) -> AbstractContextManager[Lease]:
        """Room for one body while it is read and kept."""
        return self._budget.lease(where)

    @contextmanager
    def export(self, arrival: Arrival) -> Iterator[None]:
        """Count and time an export; count, log and pass on its refusal."""
        began_s = time.perf_counter()
        in_flight = self._metrics.in_flight.labels(self._protocol)
        in_flight.inc()
        try:
            with self._piece(arrival) as piece:
                try:
                    yield
                    self._end(piece, arrival, 200)
                except Refusal as refusal:
                    self._end(piece, arrival, answer(refusal.reason)[0])
                    piece.tell("error.type", refusal.reason.value)
                    self.refused(arrival, refusal)
                    raise
        finally:
            in_flight.dec()
            duration = self._metrics.duration_s.labels(self._protocol, arrival.signal)
            duration.observe(time.perf_counter() - began_s)

    def _piece(self, arrival: Arrival) -> AbstractContextManager[Piece]:
        """A sender that says it is not traced is not: it may be ourselves, telling of the last one."""
        method, _, path = arrival.where.rpartition(" ")
        named = (
            {"http.request.method": method, "http.route": path}
            if method
            else {"rpc.system.name": "grpc", "rpc.method": path.removeprefix("/")}
        )
        quiet = arrival.traceparent.endswith(_UNTRACED)
        return own_work(
            arrival.where.removeprefix("/"),
            {**named, "stagewatch.signal": arrival.signal},
            Kind.SERVER,
            quiet=quiet,
        )

    def _end(self, piece: Piece, arrival: Arrival, status: int) -> None:
        if " " in arrival.where:
            piece.tell("http.response.status_code", status)

    async def keep(
        self, signal: AnySignal, body: bytes, arrival: Arrival, *, gzip: bool, json: bool = False
    ) -> Message:
        """The answer to an export, once it is on disk."""
        received = self._metrics.received_bytes.labels(self._protocol, signal.name)
        received.inc(len(body))
        loop = asyncio.get_running_loop()
        in_context = copy_context().run  # why: what a thread does belongs to this piece of work
        return await loop.run_in_executor(
            self._threads, in_context, self._kept, signal, body, arrival, gzip, json
        )

    async def work(
        self, body: bytes, arrival: Arrival, digest: Callable[[bytes], _Digested]
    ) -> _Digested:
        """What `digest` makes of a body that is no OTLP, on a thread of ours."""
        self._metrics.received_bytes.labels(self._protocol, arrival.signal).inc(len(body))
        loop = asyncio.get_running_loop()
        with_care = self._large if len(body) > _LARGE_BYTES else nullcontext()

        def digested() -> _Digested:
            with with_care:
                return digest(body)

        return await loop.run_in_executor(self._threads, digested)

    def close(self) -> None:
        """Wait for what is being kept."""
        self._threads.shutdown()

    def _kept(
        self,
        signal: AnySignal,
        body: bytes,
        arrival: Arrival,
        gzip: bool,  # noqa: FBT001 - an executor passes no keywords
        json: bool,  # noqa: FBT001 - the same
    ) -> Message:
        where, limit_bytes = arrival.where, self.settings.max_decompressed_bytes
        if json:
            limit_bytes //= _JSON_BURDEN
        if gzip:
            body = gunzip(body, limit_bytes=limit_bytes, where=where)
        elif len(body) > limit_bytes:
            raise too_large(where, limit_bytes)
        with self._large if len(body) > _LARGE_BYTES else nullcontext():
            max_items = self.settings.max_items
            with own_work("decode", {"stagewatch.bytes": len(body)}):
                request = signal.decode(body, where=where, json=json, max_items=max_items)
            del body  # why: it need not lie in memory while the store is busy
            items = signal.count(request)
            with own_work("store", {"stagewatch.items": items}):
                outcome = self._handed_over(signal, request, where)
            self._count(signal, items, outcome, arrival)
        return signal.response(outcome)

    def _handed_over(self, signal: AnySignal, request: Any, where: str) -> Outcome:
        try:
            return signal.hand_over(self._intake, request)
        except Overloaded as full:
            raise Refusal(
                "more is coming in than the store takes",
                reason=Reason.OVERLOADED,
                where=where,
                remedy="Send the same export again later, or raise collector.queue_bytes.",
                retry_after_s=full.retry_after_s,
            ) from full
        except StoreError as error:
            raise Refusal(
                error.problem,
                reason=Reason.STORE,
                where=error.where,
                remedy=error.remedy,
                retry_after_s=_STORE_RETRY_S,
            ) from error
        except InputError as error:
            raise Refusal(
                error.problem, reason=Reason.MALFORMED, where=error.where, remedy=error.remedy
            ) from error

    def _count(self, signal: AnySignal, n: int, outcome: Outcome, arrival: Arrival) -> None:
        metrics, protocol = self._metrics, self._protocol
        received, rejected = (
            (metrics.received_spans, metrics.rejected_spans)
            if signal is TRACES
            else (metrics.received_points, metrics.rejected_points)
        )
        metrics.exports.labels(protocol, signal.name).inc()
        received.labels(protocol).inc(n)
        if outcome.rejected:
            rejected.labels(protocol).inc(outcome.rejected)
            partial = Refusal(
                f"{outcome.rejected} of {n} {signal.unit} refused: {outcome.message}",
                reason=Reason.PARTIAL,
                where=arrival.where,
                remedy="The others are kept; mend what is named and do not send these again.",
            )
            self.refused(arrival, partial)
        elif outcome.message:
            self._say(
                arrival,
                Refusal(
                    outcome.message,
                    reason=Reason.WARNING,
                    where=arrival.where,
                    remedy="All of it is kept, but not as sent.",
                ),
            )

    def refused(self, arrival: Arrival, refusal: Refusal) -> None:
        """Count and log what was not taken, or not all of it."""
        refused = self._metrics.refused.labels(self._protocol, arrival.signal, refusal.reason)
        refused.inc()
        self._say(arrival, refusal)

    def _say(self, arrival: Arrival, refusal: Refusal) -> None:
        self._log.refused(
            refusal.reason,
            event="export_changed" if refusal.reason is Reason.WARNING else "export_refused",
            protocol=self._protocol,
            signal=arrival.signal,
            peer=arrival.peer,
            where=refusal.where,
            problem=refusal.problem,
            remedy=refusal.remedy,
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
