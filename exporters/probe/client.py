"""One request to a streaming endpoint, and everything that was measured of it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import h11

from domain.request import Outcome
from domain.retry_after import asked_s
from exporters.probe.answer import Answer
from exporters.probe.connection import Connection
from exporters.probe.dialect import (
    LESS_USAGE,
    ChunkReader,
    Document,
    EventChunks,
    body_of,
    headers_of,
)
from exporters.probe.exchange import Exchange
from exporters.probe.failure import ProbeError, plain
from exporters.probe.processor import stood_in_line_s
from exporters.probe.prompt import Prompt
from exporters.probe.secret import secrets_of, without
from exporters.probe.settings import ProbeTarget

__all__ = ["exchange"]

_SECOND_NS = 1e9
_ERROR_BYTES = 64 * 1024
_DRAIN_S = 1.0
_LONGEST_RETRY_S = 86_400.0
_REFUSED_LOAD = (408, 425, 429)


async def exchange(
    target: ProbeTarget,
    prompt: Prompt,
    *,
    connection: Connection | None = None,
    timeout_s: float,
) -> Exchange:
    """Ask once and time the answer; never raises for what the other side does.

    With a `connection` it is kept for the next request where both sides allow it.
    """
    own = connection if connection is not None else Connection(target)
    try:
        done = await _until_understood(own, prompt, timeout_s)
        if connection is not None:
            await _drain(own)
    except BaseException:
        own.abort()
        raise
    else:
        return done
    finally:
        if connection is None:
            await own.close()


async def _until_understood(own: Connection, prompt: Prompt, timeout_s: float) -> Exchange:
    """Once more with less asked of the server's token counts, if that is what it refused."""
    until_s = time.monotonic() + timeout_s
    while True:
        attempt = _Attempt(own, prompt)
        done = await attempt.run(max(until_s - time.monotonic(), 0), timeout_s)
        stale = done.reused and done.first_byte_s is None and done.reason == "cut_off"
        asked_too_much = done.status in (400, 422) and "stream_options" in attempt.said
        if asked_too_much and own.usage in LESS_USAGE:
            own.usage = LESS_USAGE[own.usage]
        elif not stale:  # a kept connection that was closed meanwhile tells nothing of the service
            return done


@dataclass(slots=True)
class _Attempt:
    """One request while it runs; what is known of it is kept wherever it ends."""

    connection: Connection
    prompt: Prompt
    said: str = ""
    known: dict[str, Any] = field(default_factory=dict)
    _sent_at_ns: int | None = None
    _answer: Answer | None = None
    _secrets: tuple[str, ...] = ()

    async def run(self, left_s: float, timeout_s: float) -> Exchange:
        """What became of it within the seconds that are left of `timeout_s`."""
        connection = self.connection
        self._secrets = secrets_of(connection.target, connection.url, {})
        self.known.update(
            url=connection.url,
            started_at_ns=time.time_ns(),
            reused=connection.alive,
            trace_id=secrets.token_bytes(16),
            span_id=secrets.token_bytes(8),
        )
        ended_ns: int | None = None
        before_s = stood_in_line_s()
        try:
            async with asyncio.timeout(left_s):
                ended_ns = await self._ask()
        except TimeoutError:
            connection.abort()
            self._fail("timeout", self._too_late(timeout_s))
        except ProbeError as error:
            connection.abort()
            self._fail(error.reason, str(error))
        stopped_ns = ended_ns or time.perf_counter_ns()
        after_s = stood_in_line_s()
        if before_s is not None and after_s is not None:
            self.known["waited_s"] = max(after_s - before_s, 0.0)
        return self._exchange(stopped_ns, whole=ended_ns is not None)

    async def _ask(self) -> int:
        """Open, send, read; the instant at which the answer was whole."""
        connection = self.connection
        headers, body = await self._request()
        if not connection.alive:
            handshake = await connection.open()
            self.known.update(
                address=handshake.address,
                dns_s=handshake.dns_s,
                connect_s=handshake.connect_s,
                tls_s=handshake.tls_s,
                notes=handshake.notes,
            )
        self._sent_at_ns = connection.send(list(headers.items()), body)
        self.known["sent_at_ns"] = time.time_ns()
        _, event = await connection.receive()
        while isinstance(event, h11.InformationalResponse):
            _, event = await connection.receive()
        if not isinstance(event, h11.Response):
            raise ProbeError("garbage", "no HTTP answer", where=connection.url)
        self.known["status"] = event.status_code
        told = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        self.known["server"] = plain(" ".join(filter(None, map(told.get, ("server", "via")))))[:80]
        if event.status_code != 200:
            return await self._refused(event.status_code, told)
        return await self._read(told)

    async def _request(self) -> tuple[dict[str, str], bytes]:
        """What is sent; made before the connection, so that no signature holds it up."""
        connection, target = self.connection, self.connection.target
        ids = self.known["trace_id"].hex(), self.known["span_id"].hex()
        body = body_of(target, self.prompt, connection.usage)
        headers = headers_of(target, connection.url, len(body), "00-{}-{}-01".format(*ids))
        if target.aws:
            from exporters.probe.aws import signed  # noqa: PLC0415 - boto3 is heavy

            headers = await asyncio.to_thread(signed, target, connection.url, headers, body)
            self._secrets = secrets_of(target, connection.url, headers)
        return headers, body

    async def _read(self, headers: Mapping[str, str]) -> int:
        """The events of an answer, each with the instant at which it was whole."""
        connection = self.connection
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise ProbeError("encoding", "the stream is compressed unasked", where=connection.url)
        reader = _reader(connection, headers.get("content-type", "").lower())
        answer = self._answer = Answer(connection.url, self._sent_at_ns or 0)
        ended, at_ns = False, 0
        while not answer.done and not answer.error and not ended:
            at_ns, event = await connection.receive()
            ended = not isinstance(event, h11.Data)
            chunks = (
                reader.feed(bytes(event.data)) if isinstance(event, h11.Data) else reader.rest()
            )
            for chunk in chunks:
                answer.take(at_ns, chunk)
        self.known.update(answer.judged())
        if not answer.events and reader.total_bytes:
            self._fail("garbage", f"{connection.url}: {reader.total_bytes} bytes, and no event")
        return at_ns

    async def _refused(self, status: int, headers: Mapping[str, str]) -> int:
        """An answer that is none: what the server says, in a bounded length."""
        connection, said = self.connection, bytearray()
        self.known["retry_after_s"] = asked_s(
            headers.get("retry-after"), now_s=time.time(), most_s=_LONGEST_RETRY_S
        )
        at_ns, event = await connection.receive()
        while isinstance(event, h11.Data) and len(said) < _ERROR_BYTES:
            said += event.data
            at_ns, event = await connection.receive()
        kind = plain(headers.get("x-amzn-errortype", "").partition(":")[0])
        self.said = ": ".join(filter(None, (kind, plain(said.decode(errors="replace")))))
        problem = f"it answers {status}"
        if 300 <= status < 400:
            problem = f"it redirects to {plain(headers.get('location', 'nowhere'))}"
        bad = status >= 500 or status in _REFUSED_LOAD
        self._fail(
            "redirect" if 300 <= status < 400 else f"http_{status}",
            f"{connection.url}: {problem}" + (f": {self.said}" if self.said else ""),
            Outcome.FAILED if bad else Outcome.REJECTED,
        )
        return at_ns

    def _fail(self, reason: str, trouble: str, outcome: Outcome = Outcome.FAILED) -> None:
        self.known.update(outcome=outcome, reason=reason, trouble=trouble)

    def _too_late(self, timeout_s: float) -> str:
        where, sent = self.connection.url, self._sent_at_ns
        if sent is None:
            return f"{where}: no connection within {timeout_s:g} s"
        chunks = self._answer.chunks if self._answer else 0
        return f"{where}: no end within {timeout_s:g} s; {chunks} chunks had come until then"

    def _exchange(self, ended_ns: int, *, whole: bool) -> Exchange:
        """Everything that is known, also of what broke off."""
        connection, sent = self.connection, self._sent_at_ns
        if sent is not None:
            first, last = connection.first_byte_at_ns, connection.last_byte_at_ns
            self.known["lasted_s"] = _seconds(sent, ended_ns)
            self.known["idle_s"] = _seconds(last if last is not None else sent, ended_ns)
            self.known["first_byte_s"] = None if first is None else _seconds(sent, first)
            if self._answer is not None:
                notes = self.known.get("notes", ())
                self.known.update(self._answer.measured())
                self.known["notes"] = (*notes, *self.known["notes"])
        if whole and self.known.get("outcome") is Outcome.OK:
            self.known["e2e_s"] = self.known["lasted_s"]
        for name in ("url", "server", "finish_reason", "trouble"):
            self.known[name] = without(self._secrets, self.known.get(name, ""))
        return Exchange(**self.known)


async def _drain(connection: Connection) -> None:
    """Read what follows the last event, so that the connection can be used again."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            while connection.speaks:
                await connection.receive()
        connection.finish()
    except (TimeoutError, ProbeError):
        connection.abort()


def _reader(connection: Connection, content_type: str) -> ChunkReader:
    """What understands this answer."""
    if connection.target.aws and "eventstream" in content_type:
        from exporters.probe.aws import FramedChunks  # noqa: PLC0415 - botocore is heavy

        return FramedChunks(connection.url)
    if content_type.startswith("application/json"):
        return Document(connection.url)
    return EventChunks(connection.url)


def _seconds(sooner_ns: int, later_ns: int) -> float:
    return max(later_ns - sooner_ns, 0) / _SECOND_NS
