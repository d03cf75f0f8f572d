"""OTLP/gRPC as a sender meets it, over a real channel."""

import gzip
import threading
from contextlib import contextmanager

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from collector.grpc_server import serve
from collector.intake import Outcome, Overloaded
from collector.own_metrics import OwnMetrics
from collector.settings import CollectorSettings
from domain.errors import ConfigError, StoreError
from tests.collector.serving import RecordingIntake, reading
from tests.paths import RECORDED

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SPANS = (RECORDED / "vllm/overload/all-spans.bin").read_bytes()


class Receiver:
    """A running receiver, what reached its intake, and what it counted."""

    def __init__(self, **settings):
        self.intake = RecordingIntake()
        self.metrics = OwnMetrics()
        self.server = serve(
            self.intake, CollectorSettings(otlp_grpc_port=0, **settings), self.metrics
        )
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.port}")

    def send(self, body=SPANS, path=TRACES, **call):
        """Bytes as they are, without a stub that would make them well-formed."""
        return self.channel.unary_unary(path)(body, timeout=20, **call)

    def error(self, *args, **call):
        with pytest.raises(grpc.RpcError) as refused:
            self.send(*args, **call)
        return refused.value

    def refused(self, reason):
        return reading(
            self.metrics, "refused_exports_total", protocol="grpc", signal="traces", reason=reason
        )


@contextmanager
def receiving(**settings):
    receiver = Receiver(**settings)
    try:
        yield receiver
    finally:
        receiver.channel.close()
        receiver.server.stop()


@pytest.fixture
def receiver():
    with receiving() as running:
        yield running


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
def test_spans_arrive_whole_compressed_or_not(receiver, compression):
    request = ExportTraceServiceRequest.FromString(SPANS)

    answer = TraceServiceStub(receiver.channel).Export(request, compression=compression)

    assert answer == ExportTraceServiceResponse()
    assert receiver.intake.requests == [request]
    assert reading(receiver.metrics, "received_spans_total", protocol="grpc") == 148


def test_points_have_a_service_of_their_own(receiver):
    answer = MetricsServiceStub(receiver.channel).Export(ExportMetricsServiceRequest())

    assert answer == ExportMetricsServiceResponse()


def test_what_was_rejected_is_said(receiver, caplog):
    receiver.intake.answer = Outcome(rejected=3, message="3 spans end in the future")

    answer = ExportTraceServiceResponse.FromString(receiver.send())

    assert answer.partial_success.rejected_spans == 3
    assert answer.partial_success.error_message == "3 spans end in the future"
    assert receiver.refused("partial") == 1
    assert len([line for line in caplog.messages if "export_refused" in line]) == 1


@pytest.mark.parametrize(
    "body",
    [b"garbage", SPANS[:-1], b"\x08\x01", gzip.compress(SPANS)[:-9]],
    ids=["garbage", "truncated", "unknown fields only", "half a gzip"],
)
def test_what_is_no_export_is_an_invalid_argument(receiver, body, caplog):
    error = receiver.error(body)

    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert receiver.refused("malformed") == 1
    assert len([line for line in caplog.messages if "export_refused" in line]) == 1
    assert receiver.send() == b""


def test_a_message_that_is_too_large_is_refused_unread(receiver, caplog):
    error = receiver.error(b"\0" * 20_000_000)

    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert receiver.send() == b""
    assert receiver.refused("too_large") == 1
    assert len([line for line in caplog.messages if "reason=too_large" in line]) == 1


def test_a_bomb_is_stopped_at_the_decompressed_limit():
    with receiving(max_body_bytes=100_000, max_decompressed_bytes=200_000) as receiver:
        error = receiver.error(b"\0" * 50_000_000, compression=grpc.Compression.Gzip)

    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than 200000 bytes once decompressed" in error.details()


@pytest.mark.parametrize("given", [None, "Bearer wrong", "sesame"])
def test_a_stranger_stays_outside(given):
    with receiving(tokens=["sesame"]) as receiver:
        error = receiver.error(metadata=[("authorization", given)] if given else None)

        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert receiver.intake.requests == []
        assert receiver.refused("unauthenticated") == 1


def test_a_token_opens():
    with receiving(tokens=["sesame"]) as receiver:
        assert receiver.send(metadata=[("authorization", "Bearer sesame")]) == b""


def test_a_full_queue_says_when_to_come_again(receiver):
    receiver.intake.error = Overloaded(2.5)

    error = receiver.error()

    trailers = dict(error.trailing_metadata())
    status = Status.FromString(trailers["grpc-status-details-bin"])
    packed, alone = RetryInfo(), RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"])
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert status.details[0].Unpack(packed)
    assert packed == alone
    assert (alone.retry_delay.seconds, alone.retry_delay.nanos) == (2, 500_000_000)
    assert (status.code, status.message) == (14, error.details())


def test_a_store_that_cannot_write_says_when_to_come_again(receiver):
    receiver.intake.error = StoreError("disk full", where="store", remedy="Free some space.")

    error = receiver.error()

    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert error.details() == "store: disk full. Free some space."
    assert "google.rpc.retryinfo-bin" in dict(error.trailing_metadata())


@pytest.mark.parametrize("service", ["logs.v1.LogsService", "trace.v1.TraceServiceX"])
def test_other_services_are_unimplemented(receiver, service):
    error = receiver.error(b"", f"/opentelemetry.proto.collector.{service}/Export")

    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_compression_we_do_not_know_is_refused(receiver):
    error = receiver.error(compression=grpc.Compression.Deflate)

    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_sender_that_dawdles_is_given_up():
    with receiving(body_timeout_s=0.1) as receiver:
        never = threading.Event()

        def slow():
            never.wait(20)
            yield b""

        with pytest.raises(grpc.RpcError) as refused:
            receiver.channel.stream_unary(TRACES)(slow(), timeout=20)
        never.set()

        assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert receiver.refused("slow") == 1


def test_a_port_that_is_taken_is_an_error_with_the_way_out(receiver):
    settings = CollectorSettings(otlp_grpc_port=receiver.server.port)

    with pytest.raises(ConfigError, match="set another port"):
        serve(RecordingIntake(), settings, OwnMetrics())
    assert receiver.send() == b""


def test_an_export_under_way_is_finished_before_the_end():
    entered, go_on = threading.Event(), threading.Event()

    class Slow(RecordingIntake):
        def traces(self, request):
            entered.set()
            assert go_on.wait(20)
            return super().traces(request)

    intake = Slow()
    server = serve(intake, CollectorSettings(otlp_grpc_port=0), OwnMetrics())
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call = channel.unary_unary(TRACES).future(SPANS, timeout=20)
        assert entered.wait(20)
        stopping = threading.Thread(target=server.stop, args=(10.0,))
        stopping.start()
        go_on.set()
        answer = call.result()
        stopping.join()

    assert answer == b""
    assert len(intake.spans) == 148


def test_many_senders_at_once_all_arrive(receiver):
    calls = [receiver.channel.unary_unary(TRACES).future(SPANS, timeout=30) for _ in range(50)]

    assert [call.result() for call in calls] == [b""] * 50
    assert len(receiver.intake.spans) == 50 * 148
    assert reading(receiver.metrics, "exports_in_flight", protocol="grpc") == 0
