"""Sends an outbox to one collector, one request at a time, again after a failure."""

import asyncio
import gzip
import logging
import random
import time
from itertools import takewhile

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from domain.retry_after import asked_s
from exporters.delivery.frame import Record
from exporters.delivery.outbox import Outbox

__all__ = ["Pusher"]

_LOG = logging.getLogger(__name__)
_REFUSED = (400, 413, 422)
"""Answers that speak of the export itself: sent again it would be refused again.

All others speak of the way: a token, an ingress, a collector that starts. What was sent waits.
"""
_PATIENCE = 20
"""A server error on one export this often in a row, with nothing else between, speaks of it too."""
_BATCH_BYTES = 256 * 1024
_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.1, 300.0
_ANSWER_BYTES = 64 * 1024
_SHOWN_BYTES = 200


class Pusher:
    """One collector's sender. The first try is at once; then it waits longer and longer."""

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
        self._traces_url = url.removesuffix("/v1/metrics") + "/v1/traces"
        self._timeout_s = timeout_s
        self._first_wait_s, self._longest_wait_s = first_wait_s, longest_wait_s
        self._failures = self._server_errors = 0
        self._sending: asyncio.Task[float | None] | None = None
        self._headers = {
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
            "accept-encoding": "identity",  # or what a partial success says could not be read
            **({"authorization": f"Bearer {token}"} if token else {}),
        }

    async def run(self) -> None:
        """Until cancelled; what is under way then goes on, for `flush` to wait for or `close` to end."""
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(arrived.set)

        self._outbox.on_arrival = wake
        try:
            while True:
                arrived.clear()
                self._sending = asyncio.create_task(self.send_some())
                wait_s = await asyncio.shield(self._sending)
                if wait_s is None:
                    await arrived.wait()
                elif wait_s > 0:
                    await asyncio.sleep(wait_s)
        finally:
            self._outbox.on_arrival = lambda: None

    async def flush(self, within_s: float) -> int:
        """One last try for everything that waits; how many exports were left."""
        try:
            async with asyncio.timeout(within_s):
                if self._sending is not None:
                    await self._sending
                while await self.send_some() == 0:
                    pass
        except TimeoutError:
            _LOG.warning("the collector did not take the last exports within %g s", within_s)
        return len(self._outbox)

    async def close(self) -> None:
        """Nothing is under way any more."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def send_some(self) -> float | None:
        """Send the oldest exports; the seconds to wait before the next try, 0 only after a success.

        None when there was nothing to send.
        """
        records = await self._taken()
        if not records:
            return None
        try:
            traces = records[0].traces
            return await self._send([*takewhile(lambda each: each.traces is traces, records)])
        finally:  # also when cancelled: it may have arrived or not, a second copy does no harm
            self._outbox.release()

    async def _taken(self) -> list[Record]:
        # why a thread: a slow disk must not hold up the scrapes
        taking = asyncio.create_task(asyncio.to_thread(self._outbox.take, _BATCH_BYTES))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            await taking  # why: nobody can cancel the thread, and what it takes is to be given back
            self._outbox.release()
            raise

    async def _send(self, records: list[Record]) -> float:
        """Seconds to wait. What was not settled is to be sent again.

        Exports in one request are one export: their bytes one after the other. If that is refused,
        each is sent alone, so that one bad export takes no good one with it.
        """
        status, retry_after, answer = await self._post(_body(records), traces=records[0].traces)
        is_error = status == httpx.codes.INTERNAL_SERVER_ERROR
        self._server_errors = self._server_errors + 1 if is_error else 0
        if status == httpx.codes.OK:
            self._settle(len(records))
            self._note_success(len(records), answer)
            return 0.0
        if not self._is_refused(status):
            return self._later(status, retry_after, answer)
        if len(records) > 1:
            return await self._one_by_one(records)
        self._settle(1, refused=True)
        self._failures = self._server_errors = 0
        self._outbox.counts[f"http_{status}"] += 1
        said = self._start_of(answer)
        _LOG.error("%s answers %s to an export, which is dropped: %s", self._url, status, said)
        return 0.0

    async def _one_by_one(self, records: list[Record]) -> float:
        for record in records:
            wait_s = await self._send([record])
            if wait_s > 0:
                return wait_s
        return 0.0

    def _settle(self, number: int, *, refused: bool = False) -> None:
        # why not in a thread: nobody may cancel us between the answer and the note of it
        for _ in range(number):
            self._outbox.settle(refused=refused)

    def _is_refused(self, status: int | None) -> bool:
        if status == httpx.codes.INTERNAL_SERVER_ERROR:
            return self._server_errors > _PATIENCE
        return status in _REFUSED

    async def _post(self, body: bytes, *, traces: bool) -> tuple[int | None, str, bytes]:
        """Status, Retry-After and the start of the answer; no status when there was no answer."""
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream(
                    "POST",
                    self._traces_url if traces else self._url,
                    content=body,
                    headers=self._headers,
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

    def _later(self, status: int | None, retry_after: str, answer: bytes) -> float:
        """As long as the collector says; else twice as long as the last time, with jitter."""
        self._failures += 1
        self._outbox.counts["retried"] += 1
        if status is not None and self._failures == 1:
            said = self._start_of(answer)
            _LOG.warning("%s answers %d: exports wait. It says %s", self._url, status, said)
        told_s = asked_s(retry_after, now_s=time.time(), most_s=_LONGEST_WAIT_S)
        if told_s is not None:
            return max(told_s, _SHORTEST_WAIT_S)
        most_s = min(self._first_wait_s * 2 ** min(self._failures - 1, 30), self._longest_wait_s)
        return float(most_s) * random.uniform(0.5, 1)  # noqa: S311 - jitter, no secret

    def _start_of(self, answer: bytes) -> bytes:
        """For the log, without our token: who refuses it may repeat it."""
        secret = self._headers.get("authorization", "").removeprefix("Bearer ").encode()
        return (answer.replace(secret, b"***") if secret else answer)[:_SHOWN_BYTES]

    def _note_success(self, number: int, answer: bytes) -> None:
        """A partial success says how many points were not taken, and why."""
        if self._failures:
            _LOG.warning("the collector %s takes exports again", self._url)
        self._failures = 0
        self._outbox.counts["sent"] += number
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


def _body(records: list[Record]) -> bytes:
    """One gzip of all of them. Members one after the other would be gzip too; not all can read it."""
    if len(records) == 1:
        return records[0].packed
    return gzip.compress(b"".join(gzip.decompress(each.packed) for each in records), 1, mtime=0)
