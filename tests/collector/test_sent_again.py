"""Sent once or thrice, whole or in other batches, over any wire: the answers are those of once."""

import gzip
import json
import random
from contextlib import contextmanager

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.grpc_server import serve
from collector.own_metrics import OwnMetrics
from collector.query import Selection, Window
from collector.reader import StoreReader
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.writer import Writer
from domain.metric import COUNTERS, LATENCIES
from tests.collector.serving import app_of, http_server
from tests.paths import RECORDED

OVERLOAD = RECORDED / "vllm/overload"
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
WHOLE = (OVERLOAD / "all-spans.bin").read_bytes()
WHOLE_JSON = (OVERLOAD / "all-spans.otlp.json").read_bytes()
BATCHES = [path.read_bytes() for path in sorted((OVERLOAD / "spans").glob("*.bin"))]


def one_by_one():
    """An export for every span, each with its resource and scope."""
    for resource in ExportTraceServiceRequest.FromString(WHOLE).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                request = ExportTraceServiceRequest()
                alone = request.resource_spans.add(resource=resource.resource)
                alone.scope_spans.add(scope=scope.scope).spans.add().CopyFrom(span)
                yield request.SerializeToString()


def json_by_resource():
    for resource in json.loads(WHOLE_JSON)["resourceSpans"]:
        yield json.dumps({"resourceSpans": [resource]}).encode()


class Senders:
    """Every way to send, to one running collector."""

    def __init__(self, http, channel, writer, folder):
        self._http, self._channel = http, channel
        self._writer, self._folder = writer, folder

    def http(self, bodies, *, kind="application/x-protobuf", packed=False):
        for body in bodies:
            headers = {"content-type": kind, **({"content-encoding": "gzip"} if packed else {})}
            sent = gzip.compress(body) if packed else body
            assert self._http.post("/v1/traces", content=sent, headers=headers).status_code == 200

    def grpc(self, bodies, *, packed=False):
        compression = grpc.Compression.Gzip if packed else None
        send = self._channel.unary_unary(TRACES)
        for body in bodies:
            assert send(body, timeout=30, compression=compression) == b""

    def answers(self):
        """All that anyone can read of the latencies, counters and requests."""
        self._writer.settle()
        reader = StoreReader(self._folder)
        try:
            return _answers(reader)
        finally:
            reader.close()


def _answers(reader):
    spans = [
        span
        for resource in ExportTraceServiceRequest.FromString(WHOLE).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    window = Window(
        since_s=min(span.start_time_unix_nano for span in spans) // 10**9 // 60 * 60,
        until_s=max(span.end_time_unix_nano for span in spans) // 10**9 // 60 * 60 + 60,
    )
    told = {}
    for step_s in (10, 60, None):
        selection = Selection(window=window, by=("service", "replica", "model"), step_s=step_s)
        for metric in LATENCIES:
            for series in reader.latency(metric, selection):
                for point in series.points:
                    counts = point.distribution
                    key = (metric, step_s, series.labels, point.since_s)
                    told[key] = (counts.n, point.failed, counts.low.tolist(), counts.sum_s)
        for metric in COUNTERS:
            for numbers in reader.numbers(metric, selection):
                told[metric, step_s, numbers.labels] = [point.value for point in numbers.points]
    requests = sorted(reader.requests(window, limit=1000), key=lambda request: request.trace_id)
    return told, requests


@contextmanager
def collecting(folder):
    settings = CollectorSettings(otlp_grpc_port=0)
    metrics = OwnMetrics()
    with Writer(open_store(folder), settings) as writer:
        server = serve(writer, settings, metrics)
        address = f"127.0.0.1:{server.port}"
        with (
            http_server(app_of(writer, metrics)) as url,
            httpx.Client(base_url=url, timeout=30) as client,
            grpc.insecure_channel(address) as channel,
        ):
            yield Senders(client, channel, writer, folder)
        server.stop()


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    with collecting(tmp_path_factory.mktemp("once")) as senders:
        senders.http([WHOLE])
        return senders.answers()


@pytest.fixture
def senders(tmp_path):
    with collecting(tmp_path) as running:
        yield running


WAYS = {
    "HTTP": lambda to: to.http([WHOLE]),
    "HTTP, gzip": lambda to: to.http([WHOLE], packed=True),
    "HTTP, JSON": lambda to: to.http([WHOLE_JSON], kind="application/json"),
    "HTTP, JSON, gzip": lambda to: to.http([WHOLE_JSON], kind="application/json", packed=True),
    "HTTP, JSON by resource": lambda to: to.http(json_by_resource(), kind="application/json"),
    "HTTP, as recorded": lambda to: to.http(BATCHES),
    "HTTP, one by one": lambda to: to.http(one_by_one()),
    "gRPC": lambda to: to.grpc([WHOLE]),
    "gRPC, gzip": lambda to: to.grpc([WHOLE], packed=True),
    "gRPC, backwards": lambda to: to.grpc(reversed(BATCHES)),
}


def same(answers, once):
    told, requests = answers
    expected, expected_requests = once
    assert told.keys() == expected.keys()
    for key, value in expected.items():
        if len(key) == 4:  # why: a sum of floats depends on its order in the last bit
            assert told[key][:3] == value[:3], key
            assert told[key][3] == pytest.approx(value[3], rel=1e-12), key
        else:
            assert told[key] == value, key
    assert requests == expected_requests
    return True


def test_once_is_all_136_requests(once):
    told, requests = once

    assert len(requests) == 136
    assert sum(value[0] for key, value in told.items() if key[:2] == ("ttft", None)) == 136


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_send_gives_the_same_answers(senders, once, way):
    WAYS[way](senders)

    assert same(senders.answers(), once)


def test_every_way_thrice_in_any_order_gives_the_answers_of_once(senders, once):
    order = [*WAYS] * 3
    random.Random(7).shuffle(order)  # noqa: S311 - an order, no secret
    for way in order:
        WAYS[way](senders)

    assert same(senders.answers(), once)
