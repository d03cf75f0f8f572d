"""Whatever is sent: the right status, one log line, a counter; and the next good export is taken."""

import gzip
import json
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import grpc
import httpx
import psutil
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from prometheus_client.parser import text_string_to_metric_families

from tests.paths import RECORDED, ROOT

PROTOBUF = {"content-type": "application/x-protobuf"}
GZIP = {"content-encoding": "gzip"}
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SPANS = (RECORDED / "vllm/overload/all-spans.bin").read_bytes()
HOUR_NS = 3600 * 10**9
MIB = 1024 * 1024


class Collector:
    """A collector in a process of its own, and what it says of itself."""

    def __init__(self, folder, **settings):
        self._log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.collector.receiver_process",
                str(folder / "store"),
                json.dumps({"otlp_grpc_port": 0, **settings}),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        ports = self.process.stdout.readline()
        assert ports, (folder / "log").read_text()
        self.http = httpx.Client(base_url=json.loads(ports)["http"], timeout=60)
        self.channel = grpc.insecure_channel(json.loads(ports)["grpc"])
        self._process = Path("/proc") / str(self.process.pid)
        self._logged, self._counted, self._before_bytes = 0, {}, 0

    def begin(self):
        """From here on a log, counts and a peak of memory of its own."""
        self.post(SPANS)
        self._logged = len(self._whole_log())
        self._counted = self._counts()
        (self._process / "clear_refs").write_text("5")  # the peak is what it holds now
        self._before_bytes = self._peak_bytes()

    def close(self):
        self.http.close()
        self.channel.close()
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        self._log.close()

    def post(self, content, path="/v1/traces", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(path, content=content, headers={**PROTOBUF, **named})

    def refused_over_grpc(self, body, path=TRACES, **call):
        with pytest.raises(grpc.RpcError) as refused:
            self.channel.unary_unary(path)(body, timeout=60, **call)
        return refused.value.code()

    def _counts(self):
        families = text_string_to_metric_families(self.http.get("/metrics").text)
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }

    def counted(self, name, **labels):
        return sum(
            value - self._counted.get(key, 0)
            for key, value in self._counts().items()
            if key[0] == f"stagewatch_collector_{name}" and labels.items() <= key[1]
        )

    def refusals(self):
        return [line for line in self.log().splitlines() if "event=export_refused" in line]

    def _whole_log(self):
        self._log.seek(0)
        return self._log.read()

    def log(self):
        return self._whole_log()[self._logged :]

    def grown_bytes(self):
        """The most memory it held since the test began, above what it held then."""
        return self._peak_bytes() - self._before_bytes

    def _peak_bytes(self):
        lines = (self._process / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if "VmHWM" in line) * 1024


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    collector = Collector(tmp_path_factory.mktemp("collector"))
    yield collector
    collector.close()


@pytest.fixture
def collector(running):
    """One collector takes everything in this file, one thing after the other."""
    running.begin()
    return running


def goes_on(collector, reason, *, refusals=1):
    """One line and one count for each refusal; no traceback; and a good export is still taken."""
    assert len(collector.refusals()) == refusals, collector.log()
    assert all(f"reason={reason}" in line for line in collector.refusals())
    assert collector.counted("refused_exports_total", reason=reason) == refusals
    assert "Traceback" not in collector.log()
    before = collector.counted("received_spans_total")
    answer = collector.post(SPANS)
    assert (answer.status_code, answer.content) == (200, b"")
    assert collector.counted("received_spans_total") == before + 148
    assert collector.http.get("/readyz").status_code == 200
    return True


@pytest.mark.parametrize("body", [b"garbage", SPANS[:-1], SPANS[:4000]])
def test_garbage_and_truncated_protobuf(collector, body):
    assert collector.post(body).status_code == 400
    assert collector.refused_over_grpc(body) is grpc.StatusCode.INVALID_ARGUMENT
    assert goes_on(collector, "malformed", refusals=2)


def test_a_wrong_content_type(collector):
    assert collector.post(SPANS, content_type="text/html").status_code == 415
    assert goes_on(collector, "content_type")


def test_a_body_of_100_mb_costs_next_to_no_memory(collector):
    assert collector.post(b"\0" * 100_000_000).status_code == 413
    assert collector.post(b"\0" * MIB for _ in range(100)).status_code == 413
    assert collector.refused_over_grpc(b"\0" * 100_000_000) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert collector.grown_bytes() < 64 * MIB
    assert goes_on(collector, "too_large", refusals=3)


@pytest.fixture(scope="module")
def bomb():
    """1 GB of zeros in 1 MB: a block that stands for itself, 64 times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b"\0" * (16 * MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * 64 + packer.flush()


def test_a_gzip_bomb_costs_no_more_than_the_limit(collector, bomb):
    assert collector.post(bomb, **GZIP).status_code == 413
    assert collector.refused_over_grpc(bomb) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert collector.grown_bytes() < 64 * MIB
    assert goes_on(collector, "too_large", refusals=2)


def nested(*tags, inner):
    """`inner` wrapped in one length-delimited field after another, outermost first."""
    for tag in reversed(tags):
        length, size = bytearray(), len(inner)
        while size > 0x7F:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        inner = bytes((tag, *length, size)) + inner
    return inner


@pytest.mark.parametrize(
    ("tags", "unit", "status"),
    [
        ((0x0A, 0x12), b"\x12\x00", 413),
        ((0x0A, 0x12), b"\x12\x02\x30\x02", 413),
        ((0x0A, 0x12, 0x12), b"\x4a\x00", 413),
        ((), b"\x0a\x00", 413),
        ((0x0A,), b"\x1b\x18\x07\x1c", 400),
    ],
    ids=["empty spans", "tiny spans", "empty attributes", "empty resources", "groups"],
)
def test_a_bomb_of_tiny_messages_is_not_decoded(collector, tags, unit, status):
    body = nested(*tags, inner=unit * (30 * MIB // len(unit)))

    assert collector.post(gzip.compress(body, 1), **GZIP).status_code == status
    assert collector.grown_bytes() < 96 * MIB
    assert goes_on(collector, "too_large" if status == 413 else "malformed")


@pytest.mark.parametrize("unit", [b"{},", b"[["])
def test_a_bomb_of_json_braces_is_not_decoded(collector, unit):
    body = b'{"resourceSpans":[' + unit * (7 * MIB // len(unit))

    assert collector.post(body, content_type="application/json").status_code == 413
    assert collector.grown_bytes() < 64 * MIB
    assert goes_on(collector, "too_large")


def shifted(body, by_ns):
    """The same spans at another time."""
    request = ExportTraceServiceRequest.FromString(body)
    for span in spans_of(request):
        span.start_time_unix_nano += by_ns
        span.end_time_unix_nano += by_ns
    return request


def spans_of(request):
    return [
        span
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def starting_at(request, at_ns):
    """Moved in time so that the first span starts at an instant."""
    first = min(span.start_time_unix_nano for span in spans_of(request))
    return shifted(request.SerializeToString(), at_ns - first)


def recorded():
    return ExportTraceServiceRequest.FromString(SPANS)


def test_a_clock_an_hour_ahead_is_refused_and_says_so(collector):
    ahead = starting_at(recorded(), time.time_ns() + HOUR_NS)

    answer = collector.post(ahead.SerializeToString())

    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert answer.status_code == 200
    assert partial.rejected_spans == 136  # the others are no requests, and ignored
    assert "future" in partial.error_message
    assert goes_on(collector, "partial")


def test_negative_durations_are_refused_and_the_rest_is_kept(collector):
    request = recorded()
    requests = [span for span in spans_of(request) if span.name == "llm_request"]
    for span in requests[:10]:
        span.end_time_unix_nano = span.start_time_unix_nano - 10**9

    answer = collector.post(request.SerializeToString())

    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert answer.status_code == 200
    assert partial.rejected_spans == 10
    assert partial.error_message
    assert goes_on(collector, "partial")


def test_attributes_that_are_no_numbers_harm_nothing(collector):
    request = recorded()
    for span in spans_of(request):
        for attribute in span.attributes:
            if attribute.key.startswith("gen_ai.latency"):
                attribute.value.double_value = float("nan")

    answer = collector.post(request.SerializeToString())

    assert answer.status_code == 200
    assert "Traceback" not in collector.log()
    assert collector.post(SPANS).status_code == 200


def gauge(values, *, replica="r1", at_ns=None):
    """An export of one gauge with a point per value."""
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    for key, value in (("service.name", "chat"), ("service.instance.id", replica)):
        resource.resource.attributes.add(key=key).value.string_value = value
    metric = resource.scope_metrics.add().metrics.add(name="stagewatch_requests_waiting")
    now_ns = at_ns or time.time_ns()
    for number, value in enumerate(values):
        metric.gauge.data_points.add(time_unix_nano=now_ns - number * 10**9, as_double=value)
    return request


def test_points_that_are_no_numbers_are_refused_and_the_rest_is_kept(collector):
    body = gauge([1.0, float("nan"), float("inf"), 2.0]).SerializeToString()

    answer = collector.post(body, "/v1/metrics")

    partial = ExportMetricsServiceResponse.FromString(answer.content).partial_success
    assert answer.status_code == 200
    assert partial.rejected_data_points == 2
    assert goes_on(collector, "partial")


def test_a_hundred_thousand_label_values_meet_a_limit(collector):
    now_ns = time.time_ns()
    for start in range(0, 100_000, 10_000):
        request = gauge([])
        points = request.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points
        for number in range(start, start + 10_000):
            point = points.add(time_unix_nano=now_ns, as_double=1.0)
            point.attributes.add(key="stagewatch.tenant").value.string_value = f"tenant-{number}"
        answer = collector.post(request.SerializeToString(), "/v1/metrics")
        assert answer.status_code == 200
        response = ExportMetricsServiceResponse.FromString(answer.content)
        assert response.partial_success.rejected_data_points == 0
        assert "became `other`" in response.partial_success.error_message

    assert collector.counted("bounded_labels_total") >= 97_000
    assert collector.grown_bytes() < 128 * MIB
    assert collector.refusals() == []
    assert collector.log().count("event=export_changed") == 10  # one an export
    assert "Traceback" not in collector.log()
    assert collector.post(SPANS).status_code == 200


def test_a_storm_of_everything_at_once_leaves_a_working_collector(collector, bomb):
    bad = [
        (b"garbage", {}),
        (SPANS[:-1], {}),
        (bomb, GZIP),
        (b"{" * 10_000, {"content_type": "application/json"}),
        (struct.pack("<Q", 2**63), {}),
    ]
    for body, headers in bad * 3:
        assert collector.post(body, **headers).status_code in {400, 413}

    assert len(collector.refusals()) == 15
    assert collector.post(SPANS).status_code == 200
    assert psutil.Process(collector.process.pid).num_threads() < 64
