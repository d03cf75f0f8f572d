"""OTLP/JSON in: hex ids, integer enums, int64 as strings or numbers; protobuf's own JSON is refused.

protobuf's printer writes ids in base64 and enums by name; read as OTLP they would be wrong ids, so
the sender is told. Unknown fields are ignored, as OTLP asks.
"""

import base64
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.json_format import ParseDict, ParseError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from domain.errors import InputError

__all__ = ["metrics", "parse", "traces"]

_Request = TypeVar("_Request", ExportMetricsServiceRequest, ExportTraceServiceRequest)

_ID_BYTES = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
_SNAKE_ID = {"trace_id": "traceId", "span_id": "spanId", "parent_span_id": "parentSpanId"}
_ENUMS = frozenset(
    ("kind", "code", "severityNumber", "severity_number", "aggregationTemporality")
) | {"aggregation_temporality"}
_ENUM_NAME = re.compile(r"[A-Z][A-Z_]+[A-Z]")
_MAX_DEPTH = 100
_REMEDY = "Send OTLP/JSON (ids in hex, enums as integers), or protobuf."


def traces(body: bytes) -> ExportTraceServiceRequest:
    return parse(body, ExportTraceServiceRequest, where="/v1/traces")


def metrics(body: bytes) -> ExportMetricsServiceRequest:
    return parse(body, ExportMetricsServiceRequest, where="/v1/metrics")


def parse(body: bytes, request: Callable[[], _Request], *, where: str) -> _Request:
    """One export from its JSON; `InputError` says what is wrong and where it came in."""
    try:
        document = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is no JSON: {error}", where=where, remedy=_REMEDY) from error
    if not isinstance(document, dict):
        raise InputError(
            f"the body is a JSON {type(document).__name__}, not an object",
            where=where,
            remedy=_REMEDY,
        )
    try:
        return ParseDict(_translated(document, where, 0), request(), ignore_unknown_fields=True)
    except (ParseError, RecursionError, ValueError, OverflowError) as error:
        raise InputError(f"the body is no OTLP: {error}", where=where, remedy=_REMEDY) from error


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _translated(value: Any, where: str, depth: int) -> Any:
    """The same in protobuf's own JSON: ids in base64."""
    if depth > _MAX_DEPTH:
        raise InputError(f"nested deeper than {_MAX_DEPTH}", where=where, remedy=_REMEDY)
    if isinstance(value, list):
        return [_translated(each, where, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _field(name, inner, where)
        if isinstance(inner, str)
        else _translated(inner, where, depth + 1)
        for name, inner in value.items()
    }


def _field(name: str, text: str, where: str) -> str:
    camel = _SNAKE_ID.get(name, name)
    if camel in _ID_BYTES:
        return _base64_of_hex(camel, text, where)
    if name in _ENUMS and _ENUM_NAME.fullmatch(text):
        raise InputError(
            f"{name}: integer expected, {text!r} is an enum name of protobuf's own JSON",
            where=where,
            remedy=_REMEDY,
        )
    return text


def _base64_of_hex(name: str, text: str, where: str) -> str:
    if not text:
        return text
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != _ID_BYTES[name] or len(text) != 2 * len(raw):
        guess = ", looks like base64" if len(text) in (24, 12) else ""
        raise InputError(f"{name}: hex expected{guess}, not {text!r}", where=where, remedy=_REMEDY)
    return base64.b64encode(raw).decode()
