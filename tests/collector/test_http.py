"""OTLP/HTTP as a sender meets it, over a real socket."""

import gzip
import json
import socket
import threading

import httpx
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector.intake import Outcome, Overloaded
from collector.own_metrics import OwnMetrics
from domain.errors import InputError, StoreError
from tests.collector.serving import RecordingIntake, app_of, http_server, reading
from tests.paths import RECORDED

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
SPANS = (RECORDED / "vllm/overload/all-spans.bin").read_bytes()
SPANS_JSON = (RECORDED / "vllm/overload/all-spans.otlp.json").read_bytes()


class Receiver:
    """A running receiver, what reached its intake, and what it counted."""

    def __init__(self):
        self.intake = RecordingIntake()
        self.metrics = OwnMetrics()
        self.client = None
        self.port = 0

    def post(self, content=SPANS, path="/v1/traces", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(path, content=content, headers={**PROTOBUF, **named})

    def refused(self, reason, signal="traces"):
        return reading(
            self.metrics, "refused_exports_total", protocol="http", signal=signal, reason=reason
        )


@pytest.fixture
def start():
    """Starts a receiver with the settings given; all end with the test."""
    ends = []

    def run(*, http="auto", **settings):
        receiver = Receiver()
        app = app_of(receiver.intake, receiver.metrics, **settings)
        server = http_server(app, http=http)
        url = server.__enter__()
        ends.append(lambda: server.__exit__(None, None, None))
        receiver.client = httpx.Client(base_url=url, timeout=30)
        ends.append(receiver.client.close)
        receiver.port = receiver.client.base_url.port
        return receiver

    yield run
    for end in reversed(ends):
        end()


@pytest.fixture
def receiver(start):
    return start()


def status_of(answer):
    return Status.FromString(answer.content)


def test_spans_sent_as_protobuf_arrive_whole(receiver):
    answer = receiver.post()

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    assert receiver.intake.requests == [ExportTraceServiceRequest.FromString(SPANS)]
    assert reading(receiver.metrics, "received_spans_total", protocol="http") == 148


def test_json_is_the_same_export_and_is_answered_in_json(receiver):
    answer = receiver.post(SPANS_JSON, content_type="application/json; charset=utf-8")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {}
    ids = [(span.trace_id, span.span_id) for span in receiver.intake.spans]
    receiver.post()
    assert ids == [(span.trace_id, span.span_id) for span in receiver.intake.spans][148:]


@pytest.mark.parametrize(("body", "kind"), [(SPANS, PROTOBUF), (SPANS_JSON, JSON)])
def test_gzip_is_the_same_export(receiver, body, kind):
    receiver.post(body, **kind)

    answer = receiver.post(gzip.compress(body), content_encoding="gzip", **kind)

    assert answer.status_code == 200
    assert receiver.intake.requests[0] == receiver.intake.requests[1]


def test_a_body_in_chunks_of_unknown_length_is_the_same_export(receiver):
    answer = receiver.post(SPANS[start : start + 1000] for start in range(0, len(SPANS), 1000))

    assert answer.status_code == 200
    assert len(receiver.intake.spans) == 148


def test_an_empty_export_is_welcome(receiver):
    assert receiver.post(b"").status_code == 200


def test_what_was_rejected_is_said_in_the_encoding_of_the_request(receiver, caplog):
    receiver.intake.answer = Outcome(rejected=3, message="3 spans end in the future")

    plain, as_json = receiver.post(), receiver.post(SPANS_JSON, **JSON)

    partial = ExportTraceServiceResponse.FromString(plain.content).partial_success
    assert (plain.status_code, as_json.status_code) == (200, 200)
    assert (partial.rejected_spans, partial.error_message) == (3, "3 spans end in the future")
    assert as_json.json() == {
        "partialSuccess": {"rejectedSpans": "3", "errorMessage": "3 spans end in the future"}
    }
    assert receiver.refused("partial") == 2
    assert reading(receiver.metrics, "rejected_spans_total", protocol="http") == 6
    assert ["3 of 148 spans refused" in line for line in caplog.messages].count(True) == 1


def test_what_was_kept_otherwise_than_sent_is_a_warning_and_no_refusal(receiver, caplog):
    receiver.intake.answer = Outcome(message="3 series became `other`")

    answer = receiver.post()

    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (partial.rejected_spans, partial.error_message) == (0, "3 series became `other`")
    assert [line.split()[0] for line in caplog.messages if "reason=warning" in line] == [
        "event=export_changed"
    ]
    assert receiver.refused("warning") == 0


def test_rejected_points_are_counted_as_points(receiver):
    receiver.intake.answer = Outcome(rejected=2, message="too many series")

    answer = receiver.post(b"", "/v1/metrics")

    response = ExportMetricsServiceResponse.FromString(answer.content)
    assert response.partial_success.rejected_data_points == 2
    assert reading(receiver.metrics, "rejected_points_total", protocol="http") == 2


@pytest.mark.parametrize(
    "body",
    [b"garbage", SPANS[:-1], SPANS[: len(SPANS) // 2], b"\x08\x01"],
    ids=["garbage", "short by one byte", "half", "unknown fields only"],
)
def test_what_is_no_export_is_refused_with_a_reason(receiver, body, caplog):
    answer = receiver.post(body)

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert status_of(answer).code == 3
    assert status_of(answer).message.startswith("POST /v1/traces: the body is no export of traces")
    assert receiver.refused("malformed") == 1
    assert len([line for line in caplog.messages if "export_refused" in line]) == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"garbage", SPANS])
def test_json_that_is_none_is_refused_in_json(receiver, body):
    answer = receiver.post(body, **JSON)

    assert answer.status_code == 400
    assert answer.json()["code"] == 3
    assert "no export of traces" in answer.json()["message"]


def test_half_a_gzip_is_refused(receiver):
    answer = receiver.post(gzip.compress(SPANS)[:-9], content_encoding="gzip")

    assert answer.status_code == 400
    assert "not whole gzip" in status_of(answer).message


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-protobufx"])
def test_another_content_type_is_refused(receiver, kind):
    answer = receiver.post(content_type=kind)

    assert answer.status_code == 415
    assert "Send application/x-protobuf or application/json" in answer.json()["message"]
    assert receiver.refused("content_type") == 1


@pytest.mark.parametrize("encoding", ["zstd", "deflate", "gzip, gzip", "br"])
def test_another_content_encoding_is_refused_and_told_which_would_do(receiver, encoding):
    answer = receiver.post(content_encoding=encoding)

    assert answer.status_code == 415
    assert answer.headers["accept-encoding"] == "gzip, identity"
    assert receiver.refused("encoding") == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/metrics"])
def test_another_method_is_refused_and_told_which_would_do(receiver, method, path):
    answer = receiver.client.request(method, path)

    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


def test_logs_have_no_place_here(receiver):
    answer = receiver.post(b"", "/v1/logs")

    assert answer.status_code == 404
    assert "logs are not taken here" in answer.json()["message"]


@pytest.mark.parametrize("given", [None, "Bearer wrong", "Bearer", "Basic sesame", "sesame"])
def test_a_stranger_stays_outside(start, given, caplog):
    receiver = start(tokens=["sesame", "other"])

    answer = receiver.post(**({"authorization": given} if given else {}))

    assert answer.status_code == 401
    assert "with one of `auth.tokens`" in answer.text
    assert answer.headers["www-authenticate"] == 'Bearer realm="stagewatch"'
    assert status_of(answer).code == 16
    assert receiver.intake.requests == []
    assert receiver.refused("unauthenticated") == 1
    assert not any("sesame" in line or "wrong" in line for line in caplog.messages)


@pytest.mark.parametrize("given", ["Bearer sesame", "bearer other", "Bearer  sesame"])
def test_each_token_opens(start, given):
    assert start(tokens=["sesame", "other"]).post(authorization=given).status_code == 200


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_an_export_that_is_too_large_is_refused_before_it_is_read(start, http):
    receiver = start(http=http, max_body_bytes=100_000)

    answer = receiver.post(b"\0" * 20_000_000)

    assert answer.status_code == 413
    assert "larger than 100000 bytes" in status_of(answer).message
    assert receiver.refused("too_large") == 1
    assert receiver.post().status_code == 200


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_an_export_that_does_not_say_its_size_is_refused_when_it_gets_too_large(start, http):
    receiver = start(http=http, max_body_bytes=100_000)

    answer = receiver.post(b"\0" * 10_000 for _ in range(1000))

    assert answer.status_code == 413
    assert receiver.post().status_code == 200


def test_an_export_is_too_large_once_decompressed(start):
    receiver = start(max_body_bytes=100_000, max_decompressed_bytes=200_000)

    answer = receiver.post(gzip.compress(b"\0" * 200_001), content_encoding="gzip")

    assert answer.status_code == 413
    assert "larger than 200000 bytes once decompressed" in status_of(answer).message


def test_a_full_queue_asks_to_come_again(receiver):
    receiver.intake.error = Overloaded(2.25)

    plain, as_json = receiver.post(), receiver.post(SPANS_JSON, **JSON)

    retry = RetryInfo()
    assert status_of(plain).details[0].Unpack(retry)
    assert (plain.status_code, plain.headers["retry-after"]) == (503, "3")
    assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (2, 250_000_000)
    assert as_json.json()["details"] == [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.250s"}
    ]
    assert receiver.refused("overloaded") == 2


def test_a_store_that_cannot_write_asks_to_come_again(receiver):
    receiver.intake.error = StoreError("disk full", where="store", remedy="Free some space.")

    answer = receiver.post()

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert status_of(answer).message == "store: disk full. Free some space."


def test_an_export_the_intake_cannot_read_is_malformed(receiver):
    receiver.intake.error = InputError("odd ids", where="span 3", remedy="Send 16 bytes.")

    answer = receiver.post()

    assert answer.status_code == 400
    assert status_of(answer).message == "span 3: odd ids. Send 16 bytes."


def test_a_sender_that_dawdles_is_given_up(start):
    receiver = start(body_timeout_s=0.1)
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=20) as slow:
        slow.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
            b"Content-Type: application/json\r\n\r\n{"
        )
        answer = slow.recv(65536).decode()

    assert answer.startswith("HTTP/1.1 408 ")
    assert "connection: close" in answer
    assert receiver.refused("slow") == 1


def test_a_sender_that_asks_first_is_refused_before_it_sends(start):
    receiver = start(max_body_bytes=1000)
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=20) as polite:
        polite.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n"
            b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n"
        )
        answer = polite.recv(65536).decode()

    assert answer.startswith("HTTP/1.1 413 ")


def test_many_senders_at_once_all_arrive(receiver):
    answers = []

    def send():
        answers.append(receiver.post().status_code)

    threads = [threading.Thread(target=send) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [200] * 24
    assert len(receiver.intake.spans) == 24 * 148
    assert reading(receiver.metrics, "exports_in_flight", protocol="http") == 0


def test_bodies_beyond_the_budget_are_asked_to_come_again(start):
    receiver = start(max_concurrent=1, max_body_bytes=len(SPANS))
    entered, go_on = threading.Event(), threading.Event()

    def slow(_):
        entered.set()
        assert go_on.wait(20)
        return Outcome()

    receiver.intake.traces = slow
    answers = []
    first = threading.Thread(target=lambda: answers.append(receiver.post().status_code))
    first.start()
    assert entered.wait(20)
    second = receiver.post()
    go_on.set()
    first.join()

    assert (second.status_code, second.headers["retry-after"]) == (503, "1")
    assert answers == [200]
    assert receiver.post().status_code == 200


def test_the_openapi_page_describes_the_two_doors(receiver):
    paths = receiver.client.get("/openapi.json").json()["paths"]

    assert {path: list(methods) for path, methods in paths.items() if path.startswith("/v1")} == {
        "/v1/traces": ["post"],
        "/v1/metrics": ["post"],
    }


def test_every_refusal_on_the_wire_is_valid_status_json(receiver):
    refused = [
        receiver.post(content_type="text/plain"),
        receiver.post(b"{", **JSON),
        receiver.client.get("/v1/traces"),
    ]

    assert all(set(json.loads(answer.content)) == {"code", "message"} for answer in refused)
