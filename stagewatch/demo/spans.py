"""Spans as a vLLM 0.33 and the clients of its users write them, in OTLP."""

from collections.abc import Iterable, Mapping, MutableSequence
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from stagewatch.demo.blueprint import Replica
from stagewatch.demo.engine_page import Finished

__all__ = ["Client", "ClientSpan", "EngineSpan", "export_request"]

_SDK = {
    "telemetry.sdk.language": "python",
    "telemetry.sdk.name": "opentelemetry",
    "telemetry.sdk.version": "1.45.2",
}
_LOCAL, _REMOTE_PARENT = 0x100, 0x300  # OTLP span flags: is the parent remote? known: no, yes

Value = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpan:
    """One `llm_request`: what an engine says of a request when it is whole."""

    replica: Replica
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start_at_ns: int
    end_at_ns: int
    ttft_s: float
    finished: Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Whose client sends: what it asks for and from where."""

    service: str
    model: str
    use_case: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpan:
    """What a user's client measured. `ttft_s` is None when no token came."""

    client: Client
    trace_id: bytes
    span_id: bytes
    start_at_ns: int
    end_at_ns: int
    outcome: str
    ttft_s: float | None
    prompt_tokens: int | None
    output_tokens: int | None


def export_request(spans: Iterable[EngineSpan | ClientSpan]) -> ExportTraceServiceRequest:
    """One export of spans, grouped by who sends them."""
    request = ExportTraceServiceRequest()
    groups: dict[Replica | Client, ResourceSpans] = {}
    for span in spans:
        owner = span.replica if isinstance(span, EngineSpan) else span.client
        group = groups.get(owner)
        if group is None:
            group = groups[owner] = request.resource_spans.add()
            _describe(group, owner)
        target = group.scope_spans[0].spans.add()
        if isinstance(span, EngineSpan):
            _engine_span(target, span)
        else:
            _client_span(target, span)
    return request


def _describe(group: ResourceSpans, owner: Replica | Client) -> None:
    """The resource: what `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` would set."""
    attributes: dict[str, Value] = {
        **_SDK,
        "service.name": owner.service,
        "gen_ai.request.model": owner.model,
        "cloud.region": owner.region,
        "stagewatch.use_case": owner.use_case,
    }
    if isinstance(owner, Replica):
        attributes |= {
            "service.instance.id": owner.name,
            "cloud.availability_zone": owner.zone,
            "stagewatch.role": owner.role,
            "stagewatch.pool": owner.pool,
            "stagewatch.engine": "vllm",
            "vllm.instrumenting_module_name": "vllm.llm_engine",
            "vllm.process_id": "1",
        }
    _set(group.resource.attributes, attributes)
    group.scope_spans.add().scope.name = (
        "vllm.tracing.otel" if isinstance(owner, Replica) else "chat-client"
    )


def _engine_span(target: Span, span: EngineSpan) -> None:
    done = span.finished
    target.trace_id = span.trace_id
    target.span_id = span.span_id
    target.parent_span_id = span.parent_id
    target.name = "llm_request"
    target.kind = Span.SPAN_KIND_SERVER
    target.start_time_unix_nano = span.start_at_ns
    target.end_time_unix_nano = span.end_at_ns
    target.flags = _REMOTE_PARENT
    target.status.SetInParent()
    _set(
        target.attributes,
        {
            "gen_ai.latency.time_to_first_token": span.ttft_s,
            "gen_ai.latency.e2e": done.e2e_s,
            "gen_ai.latency.time_in_queue": done.queue_s,
            "gen_ai.usage.prompt_tokens": done.prompt_tokens,
            "gen_ai.usage.completion_tokens": done.output_tokens,
            "gen_ai.latency.time_in_model_prefill": done.prefill_s,
            "gen_ai.latency.time_in_model_decode": done.decode_s,
            "gen_ai.latency.time_in_model_inference": done.inference_s,
            "gen_ai.request.id": f"chatcmpl-{span.trace_id[:8].hex()}",
            "gen_ai.request.top_p": 1.0,
            "gen_ai.request.max_tokens": done.max_tokens,
            "gen_ai.request.temperature": 1.0,
            "gen_ai.request.n": 1,
        },
    )


def _client_span(target: Span, span: ClientSpan) -> None:
    target.trace_id = span.trace_id
    target.span_id = span.span_id
    target.name = f"chat {span.client.model}"
    target.kind = Span.SPAN_KIND_CLIENT
    target.start_time_unix_nano = span.start_at_ns
    target.end_time_unix_nano = span.end_at_ns
    target.flags = _LOCAL
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": span.client.model,
        "stagewatch.outcome": span.outcome,
    }
    if span.ttft_s is not None:
        attributes["gen_ai.response.time_to_first_chunk"] = span.ttft_s
    if span.prompt_tokens is not None:
        attributes["gen_ai.usage.input_tokens"] = span.prompt_tokens
    if span.output_tokens is not None:
        attributes["gen_ai.usage.output_tokens"] = span.output_tokens
    if span.outcome != "ok":
        attributes["error.type"] = span.outcome
        target.status.code = Status.STATUS_CODE_ERROR
    _set(target.attributes, attributes)


def _set(target: MutableSequence[KeyValue], attributes: Mapping[str, Value]) -> None:
    for key, value in attributes.items():
        if isinstance(value, str):
            told = AnyValue(string_value=value)
        elif isinstance(value, int):
            told = AnyValue(int_value=value)
        else:
            told = AnyValue(double_value=value)
        target.append(KeyValue(key=key, value=told))
