"""The OpenTelemetry SDK's own exporters, which most senders use, reach us over both protocols."""

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
    OTLPMetricExporter as GrpcMetrics,
)
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
    OTLPMetricExporter as HttpMetrics,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from collector.grpc_server import serve
from collector.intake import Outcome, Overloaded
from collector.own_metrics import OwnMetrics
from collector.settings import CollectorSettings
from tests.collector.serving import RecordingIntake, app_of, http_server

RESOURCE = Resource({"service.name": "chat", "service.instance.id": "r1"})
TOKEN = {"authorization": "Bearer sesame"}


@pytest.fixture
def spans():
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with provider.get_tracer("t").start_as_current_span("llm_request") as span:
        span.set_attribute("gen_ai.request.model", "llama")
    provider.shutdown()
    return memory.get_finished_spans()


@pytest.fixture
def points():
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], resource=RESOURCE, shutdown_on_exit=False)
    provider.get_meter("t").create_counter("requests").add(3)
    data = reader.get_metrics_data()
    provider.shutdown()
    return data


@pytest.fixture
def intake():
    return RecordingIntake()


@pytest.fixture
def http_url(intake):
    with http_server(app_of(intake, OwnMetrics(), tokens=["sesame"])) as url:
        yield url


@pytest.fixture
def grpc_address(intake):
    settings = CollectorSettings(otlp_grpc_port=0, tokens=["sesame"])
    server = serve(intake, settings, OwnMetrics())
    yield f"127.0.0.1:{server.port}"
    server.stop()


def exported(exporter, batch):
    try:
        return exporter.export(batch)
    finally:
        exporter.shutdown()


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_spans_over_http(http_url, intake, spans, compression):
    exporter = HttpSpans(f"{http_url}/v1/traces", headers=TOKEN, compression=compression)

    assert exported(exporter, spans) is SpanExportResult.SUCCESS
    assert [span.name for span in intake.spans] == ["llm_request"]


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_spans_over_grpc(grpc_address, intake, spans, compression):
    exporter = GrpcSpans(grpc_address, insecure=True, headers=TOKEN, compression=compression)

    assert exported(exporter, spans) is SpanExportResult.SUCCESS
    assert [span.name for span in intake.spans] == ["llm_request"]


def test_points_over_http(http_url, intake, points):
    exporter = HttpMetrics(f"{http_url}/v1/metrics", headers=TOKEN)

    assert exported(exporter, points) is MetricExportResult.SUCCESS
    assert intake.requests[0].resource_metrics[0].scope_metrics[0].metrics[0].name == "requests"


def test_points_over_grpc(grpc_address, intake, points):
    exporter = GrpcMetrics(grpc_address, insecure=True, headers=TOKEN)

    assert exported(exporter, points) is MetricExportResult.SUCCESS
    assert intake.requests[0].resource_metrics[0].scope_metrics[0].metrics[0].name == "requests"


class BusyOnce(RecordingIntake):
    """Full at the first export, empty at the second."""

    def traces(self, request):
        if not self.requests:
            self.requests.append(request)
            raise Overloaded(0.05)
        self.requests.append(request)
        return Outcome()


def test_a_full_queue_costs_a_grpc_sender_a_moment_and_no_span(spans):
    intake = BusyOnce()
    server = serve(intake, CollectorSettings(otlp_grpc_port=0), OwnMetrics())
    exporter = GrpcSpans(f"127.0.0.1:{server.port}", insecure=True)

    result = exported(exporter, spans)
    server.stop()

    assert result is SpanExportResult.SUCCESS
    assert intake.requests[0] == intake.requests[1]


def test_a_full_queue_costs_an_http_sender_a_moment_and_no_span(spans):
    intake = BusyOnce()
    with http_server(app_of(intake, OwnMetrics())) as url:
        result = exported(HttpSpans(f"{url}/v1/traces"), spans)

    assert result is SpanExportResult.SUCCESS
    assert intake.requests[0] == intake.requests[1]


def test_a_token_that_is_wrong_is_a_failure_the_sender_sees(http_url, intake, spans):
    exporter = HttpSpans(f"{http_url}/v1/traces", headers={"authorization": "Bearer wrong"})

    assert exported(exporter, spans) is SpanExportResult.FAILURE
    assert intake.requests == []
