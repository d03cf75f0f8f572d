"""The probe as it runs: in a thread with a collector that listens, and as the command."""

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import UTC, datetime

import pytest
import yaml
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.own_metrics import OwnMetrics
from domain.errors import ConfigError
from exporters.probe.run import run
from exporters.probe.settings import ProbeSettings
from stagewatch import exporter_command
from tests.collector.serving import RecordingIntake, app_of, http_server
from tests.e2e.running import Stagewatch
from tests.exporters.probe.asking import target_of
from tests.exporters.probe.streaming_server import StreamingServer
from tests.paths import ROOT


@pytest.fixture
def intake():
    return RecordingIntake()


@pytest.fixture
def collector(intake):
    with http_server(app_of(intake, OwnMetrics(version="test"))) as url:
        yield url


class Sidecar:
    """The probe in a thread."""

    def __init__(self, tmp_path, collector, *targets, **changes):
        told = {
            "targets": targets,
            "interval_s": 1.0,
            "endpoint": collector,
            "spool_dir": tmp_path / "spool",
            "state_file": tmp_path / "probe.json",
            "handshake_spacing_s": 0.02,
            "listen_port": 0,
        }
        self.settings = ProbeSettings(**{**told, **changes})
        self.stop, self.ready, self.port = threading.Event(), threading.Event(), None
        self.failure = None
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            run(self.settings, self.stop, started=self._started)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failure = error
        finally:
            self.ready.set()

    def _started(self, port):
        self.port = port
        self.ready.set()

    def __enter__(self):
        self.thread.start()
        assert self.ready.wait(20)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(20)
        assert not self.thread.is_alive()

    def page(self):
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
    return found


def points(intake, name):
    """(attributes, point) of one metric in every export so far."""
    return [
        ({pair.key: pair.value.string_value for pair in point.attributes}, point)
        for request in list(intake.requests)
        if hasattr(request, "resource_metrics")
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
        for point in getattr(metric, metric.WhichOneof("data")).data_points
    ]


def spans(intake):
    return [
        span
        for request in list(intake.requests)
        if hasattr(request, "resource_spans")
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_every_probe_arrives_as_one_span_and_its_counts_as_metrics(tmp_path, intake, collector):
    with StreamingServer(tokens=10) as server:
        target = target_of(server.url, handshakes=5)
        with Sidecar(tmp_path, collector, target):
            until(lambda: len(spans(intake)) >= 3 and len(points(intake, "stagewatch_up")) >= 3)
        asked = [truth["headers"]["traceparent"] for truth in server.truth()]

    sent = [f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01" for span in spans(intake)]
    assert sent == asked
    assert {span.kind for span in spans(intake)} == {Span.SPAN_KIND_CLIENT}
    ok = [p for told, p in points(intake, "stagewatch_probes_total")]
    assert sum(p.as_double for p in ok) == len(asked)
    assert not points(intake, "stagewatch_ttft_seconds")
    low = [p for told, p in points(intake, "stagewatch_connect_seconds")]
    assert sum(p.count for p in low) / 2 == len(asked) + 5


def test_without_spans_the_metrics_tell_all(tmp_path, intake, collector):
    with (
        StreamingServer(tokens=10) as server,
        Sidecar(tmp_path, collector, target_of(server.url, handshakes=0), spans=False),
    ):
        until(lambda: points(intake, "stagewatch_ttft_seconds"))

    assert not spans(intake)
    assert points(intake, "stagewatch_itl_seconds")


def test_the_own_page_shows_everything_under_our_names(tmp_path, collector):
    with StreamingServer(tokens=10) as server:
        target = target_of(server.url, handshakes=0, name="edge")
        with Sidecar(tmp_path, collector, target) as sidecar:
            page = until(lambda: "stagewatch_probes_total" in sidecar.page() and sidecar.page())

    assert re.search(r'stagewatch_ttft_seconds_count\{[^}]*replica="edge"[^}]*\} 1', page)
    assert 'reason="ok"' in page
    assert 'source="probe"' in page


def test_a_target_that_is_down_does_not_delay_the_others(tmp_path, intake, collector):
    with StreamingServer(tokens=3) as server, StreamingServer(headers_s=60) as hanging:
        targets = [
            target_of(hanging.url, timeout_s=30.0, name="hangs", handshakes=0),
            target_of(server.url, name="lives", handshakes=0),
            target_of("http://127.0.0.1:1", name="gone", handshakes=0),
        ]
        with Sidecar(tmp_path, collector, *targets):
            until(lambda: len(spans(intake)) >= 6)

    up = {
        told["stagewatch.reason"] for told, p in points(intake, "stagewatch_up") if not p.as_double
    }
    assert up == {"refused"}


def test_a_capped_target_is_not_asked_and_says_so_once(tmp_path, intake, collector, caplog):
    with StreamingServer(tokens=10) as server:
        target = target_of(
            server.url,
            prompt_words=10,
            max_tokens=20,
            month_tokens=120,
            handshakes=0,
            cold_start_probe=False,
        )
        with Sidecar(tmp_path, collector, target):
            until(
                lambda: [
                    told
                    for told, _ in points(intake, "stagewatch_probes_total")
                    if told["stagewatch.reason"] == "capped"
                ][1:]
            )
        asked = len(server.truth())

    assert 1 <= asked <= 4
    assert caplog.text.count("120 tokens are used") == 1


def test_state_that_cannot_be_read_is_an_error_before_anything_is_asked(tmp_path, collector):
    (tmp_path / "probe.json").write_text("what")
    with StreamingServer() as server:
        with Sidecar(tmp_path, collector, target_of(server.url)) as sidecar:
            sidecar.thread.join(10)
        assert not server.truth()

    assert isinstance(sidecar.failure, ConfigError)


def configured(tmp_path, *targets, **more):
    file = tmp_path / "stagewatch.yaml"
    probe = {"state_file": str(tmp_path / "probe.json"), "targets": list(targets), **more}
    store = {"data_dir": str(tmp_path / "data")}
    file.write_text(yaml.safe_dump({"store": store, "exporters": {"probe": probe}}))
    return file


def command(*words):
    parser = argparse.ArgumentParser()
    exporter_command.add_parser(parser.add_subparsers(required=True))
    return exporter_command.run(parser.parse_args(["exporter", "probe", *words]))


def test_once_prints_a_paragraph_of_each_and_is_1_when_one_failed(tmp_path, capsys):
    with StreamingServer(tokens=10) as server:
        good = {"service": "chat", "model": "m", "url": server.url, "handshakes": 3}
        bad = {**good, "url": "http://127.0.0.1:1"}
        status = command(
            "--once", "--config", str(configured(tmp_path, good, handshake_spacing_s=0.02))
        )
        said = capsys.readouterr().out
        both = command("--once", "--config", str(configured(tmp_path, good, bad)))

    assert (status, both) == (0, 1)
    assert "first token" in said
    assert "█" in said
    assert "network floor: 3 TCP handshakes" in said
    assert "refused" in capsys.readouterr().out


def test_without_targets_the_way_out_is_named(tmp_path):
    file = tmp_path / "empty.yaml"
    file.write_text("store: {}\n")

    with pytest.raises(ConfigError, match="no endpoint to ask"):
        command("--config", str(file))


def test_the_command_ends_when_it_is_asked_to(tmp_path):
    with StreamingServer(tokens=3) as server:
        target = {"service": "chat", "model": "m", "url": server.url, "handshakes": 0}
        file = configured(tmp_path, target, endpoint=None, listen_port=None)
        process = subprocess.Popen(
            [sys.executable, "-m", "stagewatch", "exporter", "probe", "--config", str(file)],
            cwd=ROOT,
        )
        until(server.truth)
        begun_s = time.monotonic()
        process.send_signal(signal.SIGTERM)

        assert process.wait(10) == 0
        assert time.monotonic() - begun_s < 5


def server_span(collector_url, truth):
    """What an engine with tracing would send of a probe: its own span in the probe's trace."""
    import httpx
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    _, trace_id, parent, _ = truth["headers"]["traceparent"].split("-")
    length_ns = truth["ended"] - truth["arrived"]
    ttft_s = (truth["tokens"][0] - truth["arrived"]) / 1e9
    end_at_ns = int(datetime.now(UTC).timestamp() * 1e9)
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.append(
        KeyValue(key="service.name", value=AnyValue(string_value="chat"))
    )
    span = resource.scope_spans.add().spans.add(
        trace_id=bytes.fromhex(trace_id),
        span_id=b"engine!!",
        parent_span_id=bytes.fromhex(parent),
        name="llm_request",
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=end_at_ns - length_ns,
        end_time_unix_nano=end_at_ns,
    )
    for key, value in {"time_to_first_token": ttft_s, "e2e": length_ns / 1e9}.items():
        told = AnyValue(double_value=value)
        span.attributes.append(KeyValue(key=f"gen_ai.latency.{key}", value=told))
    httpx.post(
        f"{collector_url}/v1/traces",
        content=request.SerializeToString(),
        headers={"content-type": "application/x-protobuf"},
    ).raise_for_status()


def test_stagewatch_up_asks_and_counts_each_probe_once_and_joins_the_engines_span(tmp_path):
    with StreamingServer(first_token_s=0.2, tokens=10) as server, contextlib.ExitStack() as stack:
        port = _free_port()
        target = {"service": "chat", "model": "m", "url": server.url, "handshakes": 0}
        file = configured(
            tmp_path,
            {**target, "interval_s": 3600},
            endpoint=f"http://127.0.0.1:{port}",
            listen_port=None,
        )
        up = stack.enter_context(
            Stagewatch(
                "up",
                "--config",
                str(file),
                STAGEWATCH_COLLECTOR__OTLP_HTTP_PORT=str(port),
            )
        )
        (truth,) = until(lambda: [each for each in server.truth() if each["ended"]])
        server_span(up.otlp_url, truth)

        def n(metric, **where):
            asked = {"metric": metric, "q": "0.5", "from": "now-10m", "to": "now"}
            told = [f"{name}={value}" for name, value in where.items()]
            series = up.get("/api/v1/quantile", **asked, where=told)["series"]
            return [(point["n"], point["value"]) for each in series for point in each["points"]]

        ((count, ttft_s),) = up.eventually(
            lambda: n("ttft", source="probe"), within_s=20, what="the probe's TTFT"
        )
        assert count == 1
        assert 0.19 < ttft_s < 5, "the server's pause, and what a process that begins takes"
        assert [each for each, _ in n("e2e", source="probe")] == [1]
        assert [each for each, _ in n("itl", source="probe")] == [9]
        assert [each for each, _ in n("connect", source="probe")] == [1]
        assert not any(each for each, _ in n("ttft", source="client"))
        ((count, _),) = up.eventually(lambda: n("network"), within_s=20, what="the network between")
        assert count == 1
        trace_id = truth["headers"]["traceparent"].split("-")[1]
        joined = up.get(f"/api/v1/requests/{trace_id}")
        assert joined["stages_s"]["network"] is not None, json.dumps(joined)


def _free_port():
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def test_books_that_take_nothing_stop_the_asking_until_they_do_and_not_the_sidecar(
    tmp_path, intake, collector
):
    folder = tmp_path / "books"
    in_the_way = folder / ".probe.json.new"

    def refusals():
        told = [told for told, _ in points(intake, "stagewatch_probes_total")]
        return [each for each in told if each["stagewatch.reason"] == "no_books"]

    with StreamingServer(tokens=4) as server:
        target = target_of(server.url, handshakes=0)
        with Sidecar(tmp_path, collector, target, state_file=folder / "probe.json") as sidecar:
            until(lambda: spans(intake))
            in_the_way.mkdir()
            until(refusals)
            before = len(spans(intake))
            in_the_way.rmdir()
            until(lambda: len(spans(intake)) > before)

    assert sidecar.failure is None
