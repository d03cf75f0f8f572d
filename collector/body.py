"""Bodies of bounded size: read within a budget of bytes, decompressed no further than allowed."""

import asyncio
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from collector.otlp_status import Reason, Refusal

__all__ = ["OVERHEAD_BYTES", "Body", "Budget", "Lease", "gunzip", "too_large", "too_slow"]

OVERHEAD_BYTES = 16 * 1024
"""What an export costs us beside its body while it is read."""

_SLICE_BYTES = 64 * 1024
_MEMBERS_MAX = 1000
_DRAIN_BYTES = 128 * 1024 * 1024
_DRAIN_S = 5.0
_RETRY_S = 1.0
_GZIP = 16 + zlib.MAX_WBITS

_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Budget:
    """The bytes that all bodies being read may hold together. Safe to share between threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    @contextmanager
    def lease(self, where: str) -> Iterator["Lease"]:
        """A share that grows as a body is read and goes back at the end."""
        lease = Lease(self, where)
        try:
            lease.grow(OVERHEAD_BYTES)
            yield lease
        finally:
            self._take(-lease.held_bytes)

    def _take(self, more_bytes: int) -> bool:
        with self._lock:
            if more_bytes > 0 and self._held_bytes + more_bytes > self._limit_bytes:
                return False
            self._held_bytes += more_bytes
            return True


class Lease:
    """One export's share of a budget."""

    def __init__(self, budget: Budget, where: str) -> None:
        self._budget = budget
        self._where = where
        self.held_bytes = 0

    def grow(self, more_bytes: int) -> None:
        """Hold more, or refuse the export: it is welcome again when others are done."""
        if not self._budget._take(more_bytes):  # noqa: SLF001 - two halves of one thing
            raise Refusal(
                "too many exports are being read at this moment",
                reason=Reason.OVERLOADED,
                where=self._where,
                remedy="Send the same export again later, or raise collector.max_concurrent.",
                retry_after_s=_RETRY_S,
            )
        self.held_bytes += more_bytes


@dataclass(slots=True)
class Body:
    """The body of one HTTP request as it arrives. `complete`: nothing of it is left to read."""

    receive: _Receive
    where: str
    complete: bool = field(default=False, init=False)

    async def read(self, lease: Lease, *, limit_bytes: int, timeout_s: float) -> bytes:
        """All of it, or a refusal as soon as it is too large, too slow or cut off."""
        chunks: list[bytes] = []
        left_bytes = limit_bytes
        try:
            async with asyncio.timeout(timeout_s):
                while not self.complete:
                    chunk = await self._next()
                    left_bytes -= len(chunk)
                    if left_bytes < 0:
                        raise too_large(self.where, limit_bytes)
                    lease.grow(len(chunk))
                    chunks.append(chunk)
        except TimeoutError as slow:
            raise too_slow(self.where, timeout_s) from slow
        return b"".join(chunks)

    async def drain(self) -> None:
        """Read on without keeping, so that a sender still writing sees our answer and no reset."""
        left_bytes = _DRAIN_BYTES
        try:
            async with asyncio.timeout(_DRAIN_S):
                while not self.complete and left_bytes > 0:
                    left_bytes -= len(await self._next())
        except (TimeoutError, Refusal):
            return  # it had its chance; the connection is closed now

    async def _next(self) -> bytes:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Refusal(
                "the sender went away before its body ended",
                reason=Reason.CUT_OFF,
                where=self.where,
                remedy="Raise the sender's timeout, or look at the network in between.",
            )
        self.complete = not message.get("more_body", False)
        return bytes(message.get("body", b""))


def too_large(where: str, limit_bytes: int, *, once: str = "") -> Refusal:
    return Refusal(
        f"the export is larger than {limit_bytes} bytes{once}",
        reason=Reason.TOO_LARGE,
        where=where,
        remedy="Send smaller batches, or raise collector.max_body_bytes and max_decompressed_bytes.",
    )


def too_slow(where: str, timeout_s: float) -> Refusal:
    return Refusal(
        f"the export was not there after {timeout_s:g} s",
        reason=Reason.SLOW,
        where=where,
        remedy="Send smaller exports, or raise collector.body_timeout_s.",
    )


def gunzip(body: bytes, *, limit_bytes: int, where: str) -> bytes:
    """The decompressed body, never holding more than `limit_bytes` of it and one slice."""
    parts: list[bytes] = []
    left_bytes = limit_bytes
    try:
        for part in _inflated(body):
            left_bytes -= len(part)
            if left_bytes < 0:
                raise too_large(where, limit_bytes, once=" once decompressed")
            parts.append(part)
    except (zlib.error, EOFError) as error:
        raise Refusal(
            f"the body is not whole gzip: {error}",
            reason=Reason.MALFORMED,
            where=where,
            remedy="Send it again; if it fails again, switch the sender's compression off.",
        ) from error
    return b"".join(parts)


def _inflated(body: bytes) -> Iterator[bytes]:
    """Slices of every member of a gzip body."""
    stream = zlib.decompressobj(_GZIP)
    members = 1
    for start in range(0, len(body), _SLICE_BYTES):
        data = body[start : start + _SLICE_BYTES]
        while data:
            if stream.eof:
                data = data.lstrip(b"\0")  # padding between members is allowed
                stream = zlib.decompressobj(_GZIP) if data else stream
                members += 1
            if members > _MEMBERS_MAX:
                raise EOFError(f"it has more than {_MEMBERS_MAX} members")
            if data:
                yield stream.decompress(data, _SLICE_BYTES)
                data = stream.unused_data if stream.eof else stream.unconsumed_tail
    while not stream.eof:  # what the last slice still holds
        part = stream.decompress(stream.unconsumed_tail, _SLICE_BYTES)
        if not part:
            raise EOFError("it ends too early")
        yield part
