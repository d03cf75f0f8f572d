"""Why an export is refused, and how OTLP says so over HTTP and over gRPC.

A refusal for lack of room carries a `google.rpc.RetryInfo`, so that senders wait and try again
(over HTTP it is 503 and not 429: senders are known that drop what was answered with 429).
"""

import math
from enum import StrEnum

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped] # no py.typed
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped] # no py.typed

from domain.errors import InputError

__all__ = [
    "JSON",
    "PROTOBUF",
    "Answer",
    "Reason",
    "Refusal",
    "answer",
    "encoded",
    "retry_trailers",
    "status_of",
]

JSON = "application/json"
PROTOBUF = "application/x-protobuf"

Answer = tuple[int, int]
"""An HTTP status and a gRPC status code."""


class Reason(StrEnum):
    """Why an export was not taken: the label of the counter and of the log line."""

    CONTENT_TYPE = "content_type"
    CUT_OFF = "cut_off"  # the sender went away before its body ended
    ENCODING = "encoding"
    LOGS = "logs"
    MALFORMED = "malformed"
    METHOD = "method"
    OVERLOADED = "overloaded"
    PARTIAL = "partial"  # taken, but not all of it
    SLOW = "slow"
    STORE = "store"
    TOO_LARGE = "too_large"
    UNAUTHENTICATED = "unauthenticated"
    WARNING = "warning"  # all taken, but not as it was sent


_INVALID_ARGUMENT, _DEADLINE, _EXHAUSTED, _UNIMPLEMENTED = 3, 4, 8, 12
_UNAVAILABLE, _UNAUTHENTICATED = 14, 16
_ANSWERS: dict[Reason, Answer] = {
    Reason.CONTENT_TYPE: (415, _INVALID_ARGUMENT),
    Reason.CUT_OFF: (400, _INVALID_ARGUMENT),
    Reason.ENCODING: (415, _UNIMPLEMENTED),
    Reason.LOGS: (404, _UNIMPLEMENTED),
    Reason.MALFORMED: (400, _INVALID_ARGUMENT),
    Reason.METHOD: (405, _UNIMPLEMENTED),
    Reason.OVERLOADED: (503, _UNAVAILABLE),
    Reason.SLOW: (408, _DEADLINE),
    Reason.STORE: (503, _UNAVAILABLE),
    Reason.TOO_LARGE: (413, _EXHAUSTED),
    Reason.UNAUTHENTICATED: (401, _UNAUTHENTICATED),
}


class Refusal(InputError):  # noqa: N818 - an answer, named like one
    """An export we do not take: where, what, the way out, and when to try again."""

    def __init__(
        self,
        problem: str,
        *,
        reason: Reason,
        where: str,
        remedy: str,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(problem, where=where, remedy=remedy)
        self.reason = reason
        self.retry_after_s = retry_after_s


def answer(reason: Reason) -> Answer:
    return _ANSWERS[reason]


def status_of(refusal: Refusal) -> Status:
    """The `google.rpc.Status` of a refusal."""
    status = Status(code=answer(refusal.reason)[1], message=str(refusal))
    if refusal.retry_after_s is not None:
        detail = AnyMessage()
        detail.Pack(_retry_info(refusal.retry_after_s))
        status.details.append(detail)
    return status


def retry_trailers(refusal: Refusal) -> tuple[tuple[str, bytes], ...]:
    """The gRPC trailers of a refusal: the rich status, and RetryInfo alone as some senders read it."""
    rich = (("grpc-status-details-bin", status_of(refusal).SerializeToString()),)
    if refusal.retry_after_s is None:
        return rich
    alone = _retry_info(refusal.retry_after_s).SerializeToString()
    return (*rich, ("google.rpc.retryinfo-bin", alone))


def encoded(message: Message, media_type: str) -> bytes:
    """A message in the encoding of the request it answers."""
    if media_type == PROTOBUF:
        return message.SerializeToString()
    return MessageToJson(message, indent=None).encode()


def _retry_info(after_s: float) -> RetryInfo:
    whole_s = math.floor(after_s)
    nanos = round((after_s - whole_s) * 1e9)
    return RetryInfo(retry_delay=Duration(seconds=whole_s, nanos=min(nanos, 999_999_999)))
