"""Exports on their way to the collector: in order, again after a failure, in bounded memory."""

import asyncio
import gzip
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

__all__ = ["Export", "Outbox", "Pusher"]

_LOG = logging.getLogger(__name__)
_RETRIED = (429, 502, 503, 504)  # what OTLP calls retryable
_BATCH_BYTES = 256 * 1024
_LONGEST_WAIT_S = 300.0
_ANSWER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Export:
    """One encoded export, and when it was handed over."""

    body: bytes
    put_at_s: float


class Outbox:
    """What waits to be sent. Beyond its bytes or its age the oldest is dropped, and counted."""

    def __init__(
        self, *, max_bytes: int, max_age_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.held_bytes = 0
        self.arrived = asyncio.Event()
        self._max_bytes, self._max_age_s, self._clock = max_bytes, max_age_s, clock
        self._waiting: deque[Export] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, body: bytes) -> None:
        self._waiting.append(Export(body, self._clock()))
        self.held_bytes += len(body)
        self._shrink()
        self.arrived.set()

    def take(self, max_bytes: int) -> list[Export]:
        """The oldest exports, at least one if there are any; they are ours no longer."""
        oldest = self._clock() - self._max_age_s
        while self._waiting and self._waiting[0].put_at_s < oldest:
            self._drop("too_old")
        taken: list[Export] = []
        room = max_bytes
        while self._waiting and (not taken or len(self._waiting[0].body) <= room):
            taken.append(self._waiting.popleft())
            self.held_bytes -= len(taken[-1].body)
            room -= len(taken[-1].body)
        if not self._waiting:
            self.arrived.clear()
        return taken

    def give_back(self, exports: list[Export]) -> None:
        """What could not be sent goes back to the front of the queue."""
        self._waiting.extendleft(reversed(exports))
        self.held_bytes += sum(len(export.body) for export in exports)
        self._shrink()
        if self._waiting:
            self.arrived.set()

    def _shrink(self) -> None:
        while self.held_bytes > self._max_bytes and self._waiting:
            self._drop("queue_full")

    def _drop(self, reason: str) -> None:
        self.held_bytes -= len(self._waiting.popleft().body)
        self.counts[reason] += 1


class Pusher:
    """Sends an outbox to one collector, one request at a time."""

    def __init__(
        self,
        outbox: Outbox,
        client: httpx.AsyncClient,
        url: str,
        *,
        timeout_s: float,
        token: str | None = None,
        first_wait_s: float = 0.5,
        longest_wait_s: float = 30.0,
    ) -> None:
        self._outbox, self._client, self._url = outbox, client, url
        self._timeout_s = timeout_s
        self._first_wait_s, self._longest_wait_s = first_wait_s, longest_wait_s
        self._failures = 0
        self._headers = {
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
            **({"authorization": f"Bearer {token}"} if token else {}),
        }

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._outbox.arrived.wait()
            wait_s = await self.send_some()
            if wait_s > 0:
                await asyncio.sleep(wait_s)

    async def flush(self, within_s: float) -> int:
        """One last try for everything that waits; how many exports were left."""
        try:
            async with asyncio.timeout(within_s):
                while len(self._outbox) and await self.send_some() == 0:
                    pass
        except TimeoutError:
            _LOG.warning("the collector did not take the last exports within %g s", within_s)
        return len(self._outbox)

    async def send_some(self) -> float:
        """Send the oldest exports; the seconds to wait before the next try, 0 after a success."""
        exports = self._outbox.take(_BATCH_BYTES)
        if not exports:
            return 0.0
        try:
            wait_s, rest = await self._send(exports)
        except asyncio.CancelledError:  # it may have arrived or not; a second copy does no harm
            self._outbox.give_back(exports)
            raise
        self._outbox.give_back(rest)
        return wait_s

    async def _send(self, exports: list[Export]) -> tuple[float, list[Export]]:
        """Seconds to wait, and what is to be sent again.

        Exports in one request are one export: their bytes one after the other. If that is refused,
        each is sent alone, so that one bad export takes no good one with it.
        """
        status, retry_after, answer = await self._post(b"".join(export.body for export in exports))
        if status == httpx.codes.OK:
            if self._failures:
                _LOG.warning("the collector %s takes exports again", self._url)
            self._failures = 0
            self._outbox.counts["sent"] += len(exports)
            self._note_rejected(answer)
            return 0.0, []
        if status is None or status in _RETRIED:
            return self._later(status, retry_after), exports
        if len(exports) > 1:
            return await self._one_by_one(exports)
        self._outbox.counts[f"http_{status}"] += 1
        _LOG.error("%s answers %d to an export, which is dropped: %s", self._url, status, answer)
        return 0.0, []

    async def _one_by_one(self, exports: list[Export]) -> tuple[float, list[Export]]:
        for position, export in enumerate(exports):
            wait_s, rest = await self._send([export])
            if rest:
                return wait_s, exports[position:]
        return 0.0, []

    async def _post(self, body: bytes) -> tuple[int | None, str, bytes]:
        """Status, Retry-After and the start of the answer; no status when there was no answer."""
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream(
                    "POST", self._url, content=gzip.compress(body, 1), headers=self._headers
                ) as response,
            ):
                answer = b""
                async for part in response.aiter_raw():
                    answer += part
                    if len(answer) > _ANSWER_BYTES:
                        break
                return response.status_code, response.headers.get("retry-after", ""), answer
        except (TimeoutError, httpx.HTTPError) as error:
            if not self._failures:
                _LOG.warning("no answer from %s: %s", self._url, str(error) or type(error).__name__)
            return None, "", b""

    def _later(self, status: int | None, retry_after: str) -> float:
        """As long as the collector says; else twice as long as the last time, with jitter."""
        self._failures += 1
        self._outbox.counts["retried"] += 1
        if status is not None and self._failures == 1:
            _LOG.warning("%s answers %d: exports wait", self._url, status)
        asked_s = _seconds_of(retry_after)
        if asked_s is not None:
            return min(asked_s, _LONGEST_WAIT_S)
        most_s = min(self._first_wait_s * 2 ** min(self._failures - 1, 30), self._longest_wait_s)
        return float(most_s) * random.uniform(0.5, 1)  # noqa: S311 - jitter, no secret

    def _note_rejected(self, answer: bytes) -> None:
        """A partial success says how many points were not taken, and why."""
        try:
            told = ExportMetricsServiceResponse.FromString(answer).partial_success
        except DecodeError:
            _LOG.warning("%s answers 200 with something that is not OTLP", self._url)
            return
        if told.rejected_data_points:
            self._outbox.counts["rejected_points"] += told.rejected_data_points
            _LOG.warning(
                "the collector rejects %d points: %s", told.rejected_data_points, told.error_message
            )


def _seconds_of(retry_after: str) -> float | None:
    """Retry-After in seconds, from a number or a date; None if it says nothing."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max((at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0.0)
