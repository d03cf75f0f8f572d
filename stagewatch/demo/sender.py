"""Spans on their way to a collector: OTLP/HTTP, kept and tried again while nobody answers."""

import logging
import random
import threading
from collections import deque

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stagewatch.demo.settings import FleetSettings

__all__ = ["SpanSender"]

_RETRYABLE = frozenset((408, 429, 500, 502, 503, 504))
_LONGEST_WAIT_S = 5.0
_TIMEOUT_S = 4.0
_GRACE_S = 2.0

_log = logging.getLogger(__name__)


class SpanSender:
    """A thread that empties a bounded buffer in order; what does not fit is counted, oldest first."""

    def __init__(self, settings: FleetSettings) -> None:
        self.sent_spans = 0
        self.lost_spans = 0
        self._url = settings.endpoint.rstrip("/") + "/v1/traces"
        self._headers = {**settings.headers, "content-type": "application/x-protobuf"}
        self._limit_bytes = settings.buffer_bytes
        self._bytes = 0
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._closing = threading.Event()
        self._jitter = random.Random(settings.seed)
        self._thread = threading.Thread(target=self._run, name="demo-spans", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, request: ExportTraceServiceRequest, spans: int) -> None:
        """Take an export; never blocks."""
        body = request.SerializeToString()
        with self._lock:
            self._waiting.append((body, spans))
            self._bytes += len(body)
            while self._bytes > self._limit_bytes and len(self._waiting) > 1:
                oldest, lost = self._waiting.popleft()
                self._bytes -= len(oldest)
                self.lost_spans += lost
        self._news.set()

    def close(self) -> None:
        """Send what is left if the collector answers within a moment, then end."""
        self._closing.set()
        self._news.set()
        self._thread.join(_GRACE_S)
        self.lost_spans += sum(spans for _, spans in self._waiting)
        if self.lost_spans:
            _log.warning("%d spans were not delivered", self.lost_spans)

    def _run(self) -> None:
        failures = 0
        with httpx.Client(timeout=_TIMEOUT_S, trust_env=False) as client:
            while True:
                export = self._head()
                if export is None:
                    if self._closing.is_set():
                        return
                    self._news.wait()
                    self._news.clear()
                    continue
                wait_s = self._deliver(client, *export)
                failures = 0 if wait_s is None else failures + 1
                if wait_s is None:
                    continue
                if self._closing.is_set():
                    return
                self._closing.wait(wait_s or self._pause_s(failures))

    def _head(self) -> tuple[bytes, int] | None:
        with self._lock:
            return self._waiting[0] if self._waiting else None

    def _deliver(self, client: httpx.Client, body: bytes, spans: int) -> float | None:
        """None when the export is done with; otherwise how long to wait, 0 for our own choice."""
        try:
            answer = client.post(self._url, content=body, headers=self._headers)
        except httpx.TransportError as error:
            _log.debug("no answer from %s: %s", self._url, error)
            return 0.0
        if answer.status_code in _RETRYABLE:
            return _retry_after_s(answer)
        self._forget(body)
        if answer.is_success:
            self.sent_spans += spans
        else:
            self.lost_spans += spans
            _log.warning("%s refused %d spans: %d", self._url, spans, answer.status_code)
        return None

    def _forget(self, body: bytes) -> None:
        """Remove an export from the buffer, unless room was made by dropping it meanwhile."""
        with self._lock:
            if self._waiting and self._waiting[0][0] is body:
                self._waiting.popleft()
                self._bytes -= len(body)

    def _pause_s(self, failures: int) -> float:
        longest_s = min(0.25 * 2.0**failures, _LONGEST_WAIT_S)
        return longest_s * self._jitter.uniform(0.5, 1.0)


def _retry_after_s(answer: httpx.Response) -> float:
    """What the collector asked for, in seconds; dates and nonsense are our own choice."""
    asked = answer.headers.get("retry-after", "")
    return min(float(asked), 60.0) if asked.isdigit() else 0.0
