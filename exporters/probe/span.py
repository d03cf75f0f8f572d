"""An exchange as the span of a client, so that the engine's own span joins it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from exporters.probe.exchange import Exchange
from exporters.probe.settings import ProbeTarget

__all__ = ["SCOPE", "spans_request"]

SCOPE = "stagewatch.exporters.probe"

_RESOURCE = {
    "service": "service.name",
    "replica": "service.instance.id",
    "region": "cloud.region",
    "zone": "cloud.availability_zone",
    "model": "gen_ai.request.model",
}
_SECOND_NS = 1e9
_MOST_GAPS = 10_000

Value = str | int | float | Sequence[float]


def spans_request(target: ProbeTarget, exchanges: Iterable[Exchange]) -> ExportTraceServiceRequest:
    """One span per exchange; their source is the probe, not a user."""
    known = {_RESOURCE.get(name, f"stagewatch.{name}"): value for name, value in target.series}
    resource = Resource(attributes=_attributes({**known, "stagewatch.source": "probe"}))
    scope = ScopeSpans(
        scope=InstrumentationScope(name=SCOPE),
        spans=[_span(target, each) for each in exchanges],
    )
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])]
    )


def _span(target: ProbeTarget, exchange: Exchange) -> Span:
    start_at_ns = exchange.sent_at_ns or exchange.started_at_ns
    operation = "text_completion" if target.kind == "openai-completions" else "chat"
    length_s = exchange.lasted_s or 0.0
    status = Status(code=Status.STATUS_CODE_OK)
    if not exchange.ok:
        status = Status(code=Status.STATUS_CODE_ERROR, message=exchange.trouble)
    return Span(
        trace_id=exchange.trace_id,
        span_id=exchange.span_id,
        name=f"{operation} {target.model}",
        kind=Span.SPAN_KIND_CLIENT,
        start_time_unix_nano=start_at_ns,
        end_time_unix_nano=start_at_ns + int(length_s * _SECOND_NS),
        attributes=_attributes(
            {"gen_ai.operation.name": operation, **_told(exchange), **_way(exchange)}
        ),
        status=status,
    )


def _told(exchange: Exchange) -> dict[str, Value]:
    """What the collector reads of a client."""
    told: dict[str, Value | None] = {
        "stagewatch.outcome": exchange.outcome.value,
        "gen_ai.response.finish_reason": exchange.finish_reason or None,
        "gen_ai.usage.input_tokens": exchange.prompt_tokens,
        "gen_ai.usage.output_tokens": _tokens_with_gaps(exchange),
    }
    if exchange.ok:
        told |= {
            "gen_ai.response.time_to_first_chunk": exchange.ttft_s,
            "gen_ai.latency.e2e": exchange.e2e_s,
            "stagewatch.decode_s": exchange.decode_s,
            "stagewatch.itl_max_s": exchange.itl_max_s,
            "stagewatch.itl_s": exchange.gaps_s[:_MOST_GAPS] or None,
        }
    return {key: value for key, value in told.items() if value is not None}


def _tokens_with_gaps(exchange: Exchange) -> int | None:
    """Tokens that TPOT can be told of: not a thought that was billed and not sent, nor a lump."""
    tokens = exchange.streamed_tokens
    return tokens if exchange.gaps_s or (tokens or 0) <= 1 else None


def _way(exchange: Exchange) -> dict[str, Value]:
    """More for other readers of traces."""
    told: dict[str, Value | None] = {
        "url.full": exchange.url,
        "server.address": exchange.address or None,
        "http.response.status_code": exchange.status,
        "stagewatch.probe.dns_s": exchange.dns_s,
        "stagewatch.probe.connect_s": exchange.connect_s,
        "stagewatch.probe.tls_s": exchange.tls_s,
        "stagewatch.probe.first_byte_s": exchange.first_byte_s,
        "stagewatch.probe.reason": exchange.reason or None,
    }
    return {key: value for key, value in told.items() if value is not None}


def _attributes(told: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in told.items()]


def _value(value: Value) -> AnyValue:
    match value:
        case str():
            return AnyValue(string_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=[AnyValue(double_value=each) for each in value]))
