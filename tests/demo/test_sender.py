"""Spans on their way: a collector that is away, busy or cross loses nothing that fits."""

import socket

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stagewatch.demo.sender import SpanSender
from stagewatch.demo.settings import FleetSettings
from tests.demo.sink import Sink


def export(name, size=0):
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.name = name
    span.trace_state = "x" * size
    return request


def names(sink):
    return [span.name for _, span in sink.spans]


@pytest.fixture
def sending():
    started = []

    def start(endpoint, **changes):
        sender = SpanSender(FleetSettings(endpoint=endpoint, **changes))
        sender.start()
        started.append(sender)
        return sender

    yield start
    for sender in started:
        sender.close()


def test_exports_arrive_in_their_order_as_protobuf(sending):
    with Sink() as sink:
        sender = sending(sink.url)
        for name in "abc":
            sender.offer(export(name), 1)
        sink.wait_for(lambda s: len(s.requests) == 3)

        assert names(sink) == ["a", "b", "c"]
        assert set(sink.paths) == {"/v1/traces"}
        assert {h["content-type"] for h in sink.headers} == {"application/x-protobuf"}
        sender.close()
        assert (sender.sent_spans, sender.lost_spans) == (3, 0)


def test_a_token_goes_along(sending):
    with Sink() as sink:
        sending(sink.url, headers={"authorization": "Bearer t"}).offer(export("a"), 1)
        sink.wait_for(lambda s: s.requests)

        assert sink.headers[0]["authorization"] == "Bearer t"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_collector_is_asked_again(sending, status):
    with Sink((status, {}), (status, {"retry-after": "0"})) as sink:
        sender = sending(sink.url)
        sender.offer(export("a"), 1)
        sender.offer(export("b"), 1)
        sink.wait_for(lambda s: len(s.requests) == 2)

        assert names(sink) == ["a", "b"]
        assert len(sink.paths) == 4


@pytest.mark.parametrize("status", [400, 401, 413, 415])
def test_a_refused_export_is_lost_and_counted_and_the_next_one_goes(sending, status):
    with Sink((status, {})) as sink:
        sender = sending(sink.url)
        sender.offer(export("a"), 7)
        sender.offer(export("b"), 1)
        sink.wait_for(lambda s: s.requests)

        assert names(sink) == ["b"]
        sender.close()
        assert (sender.sent_spans, sender.lost_spans) == (1, 7)


def test_a_collector_that_comes_later_gets_everything(sending):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    sender = sending(f"http://127.0.0.1:{port}")
    for name in "abcd":
        sender.offer(export(name), 1)

    with Sink() as sink:
        sender._url = f"{sink.url}/v1/traces"
        sink.wait_for(lambda s: len(s.requests) == 4)

        assert names(sink) == ["a", "b", "c", "d"]


def test_what_does_not_fit_is_dropped_from_the_oldest_end_and_counted():
    sender = SpanSender(FleetSettings(buffer_bytes=1 << 16))
    for index in range(10):
        sender.offer(export(str(index), size=20_000), 5)

    assert sender.lost_spans == 7 * 5
    with Sink() as sink:
        sender._url = f"{sink.url}/v1/traces"
        sender.start()
        sink.wait_for(lambda s: len(s.requests) == 3)
        sender.close()

        assert names(sink) == ["7", "8", "9"]
        assert sender.sent_spans == 15


def test_closing_sends_what_is_left():
    with Sink() as sink:
        sender = SpanSender(FleetSettings(endpoint=sink.url))
        for index in range(20):
            sender.offer(export(str(index)), 1)
        sender.start()
        sender.close()

        assert len(sink.requests) == 20


def test_closing_without_a_collector_ends_at_once_and_counts_what_is_lost():
    sender = SpanSender(FleetSettings(endpoint="http://127.0.0.1:9"))
    sender.start()
    sender.offer(export("a"), 3)
    sender.close()

    assert (sender.sent_spans, sender.lost_spans) == (0, 3)
