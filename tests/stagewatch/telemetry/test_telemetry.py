"""Our own traces and metrics: on when asked for, without secrets, and never about themselves."""

import gzip
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, Counter, Histogram
from pydantic import ValidationError

from collector.own_metrics import OwnMetrics
from domain.errors import ConfigError
from domain.own_work import Kind, own_work
from stagewatch.extras import missing
from stagewatch.telemetry.metrics import metrics_data
from stagewatch.telemetry.opening import own_telemetry
from stagewatch.telemetry.settings import TelemetrySettings
from tests.collector.serving import RecordingIntake, app_of, http_server
from tests.collector.storing import span, traces

SECRET = "Bearer of-nobody"  # noqa: S105 - of nobody


@contextmanager
def receiving(status=200):
    """Where it is sent; (path, headers, message) of all that came."""
    taken = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self):
            body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
            kind = (
                ExportTraceServiceRequest
                if self.path.endswith("traces")
                else ExportMetricsServiceRequest
            )
            taken.append((self.path, dict(self.headers), kind.FromString(body)))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", taken
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def spans(taken):
    return [
        each
        for path, _, message in taken
        if path == "/v1/traces"
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for each in scope.spans
    ]


def told(span_or_point):
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value"))
        for each in span_or_point.attributes
    }


def sending(url, **settings):
    return own_telemetry(
        "stagewatch",
        TelemetrySettings(endpoint=url, metrics=False, **{"sample_ratio": 1.0, **settings}),
        environment={},
    )


def test_a_piece_of_work_arrives_as_a_span_with_its_children():
    with (
        receiving() as (url, taken),
        sending(url, headers={"Authorization": SECRET}),
        own_work("POST /v1/traces", {"http.route": "/v1/traces"}, Kind.SERVER) as piece,
    ):
        piece.tell("stagewatch.items", 3)
        with own_work("store"):
            pass

    child, parent = spans(taken)
    assert (parent.name, parent.kind) == ("POST /v1/traces", Span.SPAN_KIND_SERVER)
    assert told(parent) == {"http.route": "/v1/traces", "stagewatch.items": 3}
    assert (child.name, child.parent_span_id) == ("store", parent.span_id)
    ((path, headers, message),) = taken
    assert path == "/v1/traces"
    assert headers["authorization"] == SECRET
    assert SECRET not in str(message)
    named = told(message.resource_spans[0].resource)
    assert named["service.name"] == "stagewatch"
    assert named["service.version"]


def test_an_error_is_named_by_its_kind_and_its_words_are_not_told():
    with (
        receiving() as (url, taken),
        sending(url),
        pytest.raises(ValueError, match="key"),
        own_work("notify slack"),
    ):
        raise ValueError("the key is hunter2")

    (failed,) = spans(taken)
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert told(failed) == {"error.type": "ValueError"}
    assert "hunter2" not in str(failed)


def test_nothing_inside_a_quiet_piece_is_told_and_what_comes_after_it_is():
    with receiving() as (url, taken), sending(url):
        with own_work("POST /v1/traces", quiet=True), own_work("store"):
            pass
        with own_work("evaluate"):
            pass

    assert [each.name for each in spans(taken)] == ["evaluate"]


def test_an_export_is_a_span_with_what_was_done_with_it_and_one_refused_says_why():
    body = traces(span(1), span(2)).SerializeToString()
    with (
        receiving() as (url, taken),
        sending(url),
        http_server(app_of(RecordingIntake(), OwnMetrics())) as ours,
    ):
        headers = {"Content-Type": "application/x-protobuf"}
        httpx.post(f"{ours}/v1/traces", content=body, headers=headers).raise_for_status()
        httpx.post(f"{ours}/v1/traces", content=b"x")

    whole = {each.name: each for each in spans(taken) if "error.type" not in told(each)}
    (refused,) = [each for each in spans(taken) if "error.type" in told(each)]
    assert set(whole) == {"POST /v1/traces", "decode", "store"}
    assert told(whole["store"]) == {"stagewatch.items": 2}
    assert told(whole["decode"]) == {"stagewatch.bytes": len(body)}
    assert whole["decode"].parent_span_id == whole["POST /v1/traces"].span_id
    assert told(refused)["error.type"] == "content_type"
    assert told(refused)["http.response.status_code"] == 415
    assert refused.status.code == Status.STATUS_CODE_UNSET, "it is the sender's error, not ours"


def test_pointed_at_ourselves_it_tells_of_others_and_not_of_its_telling():
    intake = RecordingIntake()
    with http_server(app_of(intake, OwnMetrics())) as ours:
        for _ in range(3):
            with sending(ours):
                body = traces(span(1)).SerializeToString()
                headers = {"Content-Type": "application/x-protobuf"}
                httpx.post(f"{ours}/v1/traces", content=body, headers=headers)

    assert len(intake.requests) == 6
    assert sorted(each.name for each in intake.spans if each.name == "store") == ["store"] * 3


def test_only_a_share_of_the_traces_is_sent_and_a_trace_is_whole():
    with receiving() as (url, taken), sending(url, sample_ratio=0.2):
        for _ in range(1000):
            with own_work("parent"), own_work("child"):
                pass

    names = [each.name for each in spans(taken)]
    assert names.count("parent") == names.count("child")
    assert 100 < names.count("parent") < 320


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}, False),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}, False),
        (
            {
                "OTEL_TRACES_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "URL",
                "OTEL_TRACES_SAMPLER": "always_on",
            },
            True,
        ),
        (
            {
                "OTEL_SDK_DISABLED": "true",
                "OTEL_TRACES_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "URL",
            },
            False,
        ),
    ],
)
def test_the_environment_asks_for_it_as_it_asks_any_program(environment, sent, monkeypatch):
    with receiving() as (url, taken):
        for name, value in environment.items():
            monkeypatch.setenv(name, value.replace("URL", url))
        with own_telemetry("stagewatch-engine-exporter"), own_work("scrape engine"):
            pass

    assert [each.name for each in spans(taken)] == (["scrape engine"] if sent else [])


def test_nobody_there_holds_nobody_up_and_is_said():
    begun_s = time.monotonic()
    own = OwnMetrics(version="1")
    settings = TelemetrySettings(endpoint="http://127.0.0.1:9", sample_ratio=1.0)
    with own_telemetry("s", settings, registry=own.registry, environment={}) as problem:
        with own_work("evaluate"):
            pass
        until_s = time.monotonic() + 6
        while problem() is None and time.monotonic() < until_s:
            time.sleep(0.05)
        said = problem()

    assert "telemetry: nobody takes our own metrics (no answer)" in said
    assert time.monotonic() - begun_s < 12


def test_who_refuses_it_is_said_once_and_what_they_answer_nowhere(caplog):
    with (
        receiving(401) as (url, taken),
        sending(url, headers={"Authorization": SECRET}) as problem,
    ):
        for _ in range(2):
            until_s, known = time.monotonic() + 10, len(taken)
            with own_work("evaluate"):
                pass
            while len(taken) == known and time.monotonic() < until_s:
                time.sleep(0.05)
        said = problem()

    assert said == "telemetry: nobody takes our own traces (HTTP 401)"
    assert [each.getMessage() for each in caplog.records] == [said]


def test_our_metrics_arrive_as_our_page_shows_them():
    own = OwnMetrics(version="1.2")
    own.received_spans.labels("http").inc(7)
    own.duration_s.labels("http", "traces").observe(0.02)
    settings = TelemetrySettings(traces=False, metrics_interval_s=60)
    with receiving() as (url, taken):
        asked = settings.model_copy(update={"endpoint": url})
        with own_telemetry("stagewatch", asked, registry=own.registry, environment={}):
            until_s = time.monotonic() + 5
            while not taken and time.monotonic() < until_s:
                time.sleep(0.02)

    ((path, _, message),) = taken
    metrics = {each.name: each for each in message.resource_metrics[0].scope_metrics[0].metrics}
    assert path == "/v1/metrics"
    (spans_taken,) = metrics["stagewatch_collector_received_spans"].sum.data_points
    assert (spans_taken.as_double, told(spans_taken)) == (7.0, {"protocol": "http"})
    (duration,) = metrics["stagewatch_collector_export_duration_seconds"].histogram.data_points
    assert (duration.count, sum(duration.bucket_counts)) == (1, 1)
    assert len(duration.bucket_counts) == len(duration.explicit_bounds) + 1
    (build,) = metrics["stagewatch_build_info"].gauge.data_points
    assert told(build) == {"version": "1.2"}


def test_buckets_of_prometheus_become_those_of_otlp():
    registry = CollectorRegistry()
    seconds = Histogram("x_seconds", "", ("of",), buckets=(1, 2), registry=registry)
    for value in (0.5, 1.5, 1.6, 9):
        seconds.labels("a").observe(value)
    Counter("never_asked", "", ("of",), registry=registry)

    data = metrics_data(registry.collect(), Resource({}), begun_ns=1, now_ns=2)

    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    (point,) = metric.data.data_points
    assert (list(point.bucket_counts), list(point.explicit_bounds)) == ([1, 2, 1], [1.0, 2.0])
    assert (point.count, point.sum) == (4, 12.6)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"headers": {"Authorization": f"{SECRET}\n"}}, "no header may hold"),
        ({"headers": {"traceparent": "00"}}, "no header that can be set"),
        ({"endpoint": "http://a:b@collector:4318"}, "password"),
        ({"sample_ratio": 1.5}, "less than or equal to 1"),
        ({"endpiont": "http://x"}, "Extra inputs"),
    ],
)
def test_what_cannot_work_is_refused_and_no_secret_is_in_the_words(settings, said):
    with pytest.raises(ValidationError, match=said) as refused:
        TelemetrySettings(**settings)

    assert SECRET not in str(refused.value)


def test_nothing_is_loaded_where_nobody_asks():
    code = (
        "import sys; from stagewatch.telemetry.opening import own_telemetry\n"
        "from domain.own_work import own_work\n"
        "with own_telemetry('s', environment={}), own_work('x'): pass\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert loaded.stdout.strip() == "[]"


def test_who_has_not_installed_it_is_told_what_to_install():
    error = missing(ModuleNotFoundError(name="opentelemetry.exporter.otlp"), "up")

    assert isinstance(error, ConfigError)
    assert "stagewatch[telemetry]" in str(error)
