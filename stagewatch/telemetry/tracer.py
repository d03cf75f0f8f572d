"""Our own pieces of work as spans of the OpenTelemetry SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY as SUPPRESSED
from opentelemetry.context import attach, detach, get_value, set_value
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from domain.own_work import Attributes, Kind, Piece, Value
from stagewatch.release import VERSION

__all__ = ["SdkTracer"]

_KINDS = {
    Kind.INTERNAL: SpanKind.INTERNAL,
    Kind.SERVER: SpanKind.SERVER,
    Kind.CLIENT: SpanKind.CLIENT,
}
_ERROR = "error.type"


class SdkTracer:
    """Inside what is not to be told nothing is, nor while the SDK itself sends."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("stagewatch", VERSION)

    @contextmanager
    def piece(
        self, name: str, kind: Kind, attributes: Attributes, *, quiet: bool
    ) -> Iterator[Piece]:
        if quiet or get_value(SUPPRESSED):
            token = attach(set_value(SUPPRESSED, value=True))
            try:
                yield _Quiet()
            finally:
                detach(token)
            return
        with self._tracer.start_as_current_span(
            name,
            kind=_KINDS[kind],
            attributes=attributes,
            record_exception=False,  # why: its text may hold what is nobody's business
            set_status_on_exception=False,
        ) as span:
            piece = _Told(span)
            try:
                yield piece
            except BaseException as error:
                piece.failed(error)
                raise


class _Quiet:
    def tell(self, name: str, value: Value) -> None:
        """To nobody."""


class _Told:
    def __init__(self, span: Span) -> None:
        self._span = span
        self._explained = False

    def tell(self, name: str, value: Value) -> None:
        self._span.set_attribute(name, value)
        self._explained |= name == _ERROR

    def failed(self, error: BaseException) -> None:
        """Who refuses what others sent says why, and that is no error of ours."""
        if not self._explained:
            self._span.set_attribute(_ERROR, type(error).__qualname__)
            self._span.set_status(Status(StatusCode.ERROR))
