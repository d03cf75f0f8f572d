"""The two OTLP signals we take: how to decode one, count it, hand it over and answer it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector import otlp_json
from collector.census import METRICS_PATH, TRACES_PATH, Path, census, crowded_json, hollow
from collector.intake import Intake, Outcome
from collector.otlp_status import Reason, Refusal
from domain.errors import InputError

__all__ = ["METRICS", "SIGNALS", "TRACES", "AnySignal", "Signal"]

_Request = TypeVar("_Request", ExportTraceServiceRequest, ExportMetricsServiceRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(Generic[_Request]):
    """One kind of export. `unit` is what it is a batch of."""

    name: str
    unit: str
    path: str  # of OTLP/HTTP
    service: str  # of OTLP/gRPC
    items_path: Path
    from_protobuf: Callable[[bytes], _Request]
    from_json: Callable[[bytes], _Request]
    is_empty: Callable[[_Request], bool]
    count: Callable[[_Request], int]
    hand_over: Callable[[Intake, _Request], Outcome]
    response: Callable[[Outcome], Message]

    def decode(self, body: bytes, *, where: str, json: bool, max_items: int) -> _Request:
        """The request in a body, or a refusal. What would burst when decoded is not decoded."""
        try:
            if crowded_json(body) if json else self._is_crowded(body, max_items):
                raise self._crowded(where, max_items)
            request = self.from_json(body) if json else self.from_protobuf(body)
        except Refusal:
            raise
        except InputError as error:
            raise self._malformed(error.problem, where) from error
        except (DecodeError, ValueError) as error:
            raise self._malformed("truncated or not protobuf", where) from error
        if body and not json and self.is_empty(request):
            # why: random bytes often are well-formed protobuf of fields that nobody knows
            raise self._malformed(f"no {self.name} in it, only unknown fields", where)
        return request

    def _is_crowded(self, body: bytes, max_items: int) -> bool:
        return hollow(body) or census(body, self.items_path, limit=max_items) > max_items

    def _crowded(self, where: str, max_items: int) -> Refusal:
        return Refusal(
            f"the export holds more than {max_items} {self.unit}, or mostly empty messages",
            reason=Reason.TOO_LARGE,
            where=where,
            remedy="Send smaller batches, or raise collector.max_items.",
        )

    def _malformed(self, problem: str, where: str) -> Refusal:
        return Refusal(
            f"the body is no export of {self.name}: {problem}",
            reason=Reason.MALFORMED,
            where=where,
            remedy=f"Send an OTLP export of {self.name}; check what is sent to this port, and how.",
        )


AnySignal = Signal[Any]


def _spans(request: ExportTraceServiceRequest) -> int:
    return sum(len(s.spans) for resource in request.resource_spans for s in resource.scope_spans)


def _points(request: ExportMetricsServiceRequest) -> int:
    return sum(
        len(getattr(metric, kind).data_points)
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if (kind := metric.WhichOneof("data"))
    )


def _traces_response(outcome: Outcome) -> Message:
    if not (outcome.rejected or outcome.message):
        return ExportTraceServiceResponse()
    partial = ExportTracePartialSuccess(
        rejected_spans=outcome.rejected, error_message=outcome.message
    )
    return ExportTraceServiceResponse(partial_success=partial)


def _metrics_response(outcome: Outcome) -> Message:
    if not (outcome.rejected or outcome.message):
        return ExportMetricsServiceResponse()
    partial = ExportMetricsPartialSuccess(
        rejected_data_points=outcome.rejected, error_message=outcome.message
    )
    return ExportMetricsServiceResponse(partial_success=partial)


TRACES: Signal[ExportTraceServiceRequest] = Signal(
    name="traces",
    unit="spans",
    path="/v1/traces",
    service="opentelemetry.proto.collector.trace.v1.TraceService",
    items_path=TRACES_PATH,
    from_protobuf=ExportTraceServiceRequest.FromString,
    from_json=otlp_json.traces,
    is_empty=lambda request: not request.resource_spans,
    count=_spans,
    hand_over=lambda intake, request: intake.traces(request),
    response=_traces_response,
)
METRICS: Signal[ExportMetricsServiceRequest] = Signal(
    name="metrics",
    unit="points",
    path="/v1/metrics",
    service="opentelemetry.proto.collector.metrics.v1.MetricsService",
    items_path=METRICS_PATH,
    from_protobuf=ExportMetricsServiceRequest.FromString,
    from_json=otlp_json.metrics,
    is_empty=lambda request: not request.resource_metrics,
    count=_points,
    hand_over=lambda intake, request: intake.metrics(request),
    response=_metrics_response,
)
SIGNALS: tuple[AnySignal, ...] = (TRACES, METRICS)
