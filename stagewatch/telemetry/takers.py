"""Whether somebody takes our own telemetry; said when that changes, not each time."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import requests
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

__all__ = ["Taker", "WatchedSpans", "without_its_words"]

_LOG = logging.getLogger(__name__)
_ITS_LOGS = tuple(
    f"opentelemetry.exporter.otlp.proto.http.{kind}_exporter" for kind in ("trace", "metric")
)


class Taker:
    """Who gets one kind of it. Of an answer only the status is told: it may repeat our headers."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._answered: int | None = None
        self._refused = ""
        self.session = requests.Session()
        self.session.hooks["response"].append(self._heard)

    def note(self, *, taken: bool) -> None:
        """After each export."""
        was, answered = self._refused, self._answered
        self._answered = None
        self._refused = "" if taken else "no answer" if answered is None else f"HTTP {answered}"
        if self._refused and self._refused != was:
            _LOG.warning("%s", self.problem())
        elif was and taken:
            _LOG.warning("telemetry: our own %s are taken again", self._what)

    def problem(self) -> str | None:
        """Why nobody gets it, or None."""
        if not self._refused:
            return None
        return f"telemetry: nobody takes our own {self._what} ({self._refused})"

    def _heard(self, answer: requests.Response, *_: object, **__: Any) -> None:
        self._answered = answer.status_code


class WatchedSpans(SpanExporter):
    """The same exporter, and whether it succeeds."""

    def __init__(self, exporter: SpanExporter, taker: Taker) -> None:
        self._exporter, self._taker = exporter, taker

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        done = self._exporter.export(spans)
        self._taker.note(taken=done is SpanExportResult.SUCCESS)
        return done

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


@contextmanager
def without_its_words() -> Iterator[None]:
    """While the block lasts: the SDK would write each failure down, with all that was answered."""
    logs = [logging.getLogger(name) for name in _ITS_LOGS]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
