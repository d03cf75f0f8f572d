"""The whole sidecar on loopback: engines that serve, hang, restart and lie, and a collector."""

import asyncio
import gzip
import threading
import time
import urllib.request
from contextlib import ExitStack
from itertools import pairwise

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from domain.errors import ConfigError
from exporters.engine.describe import describe
from exporters.engine.run import _Watch, read_once, run
from exporters.engine.scrape import http_client
from exporters.engine.settings import EngineSettings
from tests.exporters.fake_engine import answering, serving
from tests.exporters.test_target import histogram
from tests.paths import RECORDED

OK = ExportMetricsServiceResponse().SerializeToString()


def served_in_turn(*pages):
    """The pages one after the other; the last one stays."""
    left = list(pages)

    def page():
        return (left.pop(0) if len(left) > 1 else left[0]).encode()

    return answering(page)


def growing(step):
    """A page whose counter grows by `step` with every scrape."""
    count = [0]

    def page():
        count[0] += step
        return f'vllm:generation_tokens_total{{model_name="m"}} {count[0]}\n'.encode()

    return answering(page)


class Sidecar:
    """A sidecar in a thread, and the exports that the collector got from it."""

    def __init__(self, collector, *targets, **changes):
        self.collector = collector
        self.stop, self.ready, self.port, self.failure = (
            threading.Event(),
            threading.Event(),
            None,
            None,
        )
        self.settings = EngineSettings(
            **{
                "targets": [
                    {"url": url, "service": "chat", "replica": name} for name, url in targets
                ],
                "interval_s": 0.1,
                "timeout_s": 0.5,
                "endpoint": collector.root if collector else None,
                "listen_port": 0,
                "spool_dir": None,
                **changes,
            }
        )
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            run(self.settings, self.stop, started=self._started)
        except BaseException as error:
            self.failure = error
            raise
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

    def points(self, name, replica=None):
        """(attributes, point) of one metric in every export so far."""
        found = []
        for _, _, body in list(self.collector.requests):
            request = ExportMetricsServiceRequest.FromString(gzip.decompress(body))
            for resource in request.resource_metrics:
                own = {p.key: p.value.string_value for p in resource.resource.attributes}
                if replica not in (None, own["service.instance.id"]):
                    continue
                for metric in resource.scope_metrics[0].metrics:
                    if metric.name == name:
                        points = getattr(metric, metric.WhichOneof("data")).data_points
                        found += [
                            ({p.key: p.value.string_value for p in x.attributes}, x) for x in points
                        ]
        return found

    def wait_for(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it never came"
            self.stop.wait(0.02)


def test_a_request_on_the_page_arrives_at_the_collector_as_a_pair():
    page = served_in_turn(histogram([]), histogram([]), histogram([0.2]))
    with (
        serving(answering(OK)) as collector,
        serving(page) as engine,
        Sidecar(collector, ("r0", engine.url)) as sidecar,
    ):
        sidecar.wait_for(lambda: sidecar.points("stagewatch_ttft_seconds"))
        seen = len(sidecar.points("stagewatch_up"))
        sidecar.wait_for(lambda: len(sidecar.points("stagewatch_up")) > seen + 2)
        pair = sidecar.points("stagewatch_ttft_seconds")

    assert [attributes["stagewatch.bound"] for attributes, _ in pair] == ["low", "high"]
    assert {point.count for _, point in pair} == {1}


def test_every_increment_arrives_once_and_intervals_touch():
    with serving(answering(OK)) as collector, serving(growing(5)) as engine:
        with Sidecar(collector, ("r0", engine.url)) as sidecar:
            sidecar.wait_for(lambda: len(sidecar.points("stagewatch_generation_tokens_total")) >= 8)
        points = [point for _, point in sidecar.points("stagewatch_generation_tokens_total")]

    assert {point.as_double for point in points} == {5.0}
    for before, after in pairwise(points):
        assert before.time_unix_nano == after.start_time_unix_nano


def test_scrapes_keep_to_their_grid():
    with serving(answering(OK)) as collector, serving(growing(1)) as engine:
        with Sidecar(collector, ("r0", engine.url)) as sidecar:
            sidecar.wait_for(lambda: len(sidecar.points("stagewatch_up")) >= 20)
        times = [point.time_unix_nano / 1e9 for _, point in sidecar.points("stagewatch_up")]

    elapsed = times[-1] - times[0]
    assert elapsed == pytest.approx(round(elapsed / 0.1) * 0.1, abs=0.09)
    assert elapsed >= 0.1 * (len(times) - 1) - 0.09


def test_one_hung_engine_delays_no_other():
    def hang(request):
        request.server.closing.wait()

    with (
        serving(answering(OK)) as collector,
        serving(hang) as hung,
        serving(growing(1)) as good,
        Sidecar(collector, ("bad", hung.url), ("good", good.url)) as sidecar,
    ):
        sidecar.wait_for(lambda: len(sidecar.points("stagewatch_up", "bad")) >= 2)
        sidecar.wait_for(lambda: len(sidecar.points("stagewatch_up", "good")) >= 6)
        bad = sidecar.points("stagewatch_up", "bad")

    assert {point.as_double for _, point in bad} == {0.0}
    assert {attributes["stagewatch.reason"] for attributes, _ in bad} == {"timeout"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (answering(b"", status=500), "http_500"),
        (answering(b""), "empty"),
        (answering(b"<html>"), "html"),
        (answering(b"\xff\xff\xff"), "binary"),
        (answering(b'"# HELP a\\na 1\\n"'), "json_string"),
    ],
)
def test_an_engine_that_lies_is_down_with_its_reason(answer, reason, caplog):
    with (
        serving(answering(OK)) as collector,
        serving(answer) as engine,
        Sidecar(collector, ("r0", engine.url)) as sidecar,
    ):
        sidecar.wait_for(lambda: len(sidecar.points("stagewatch_up")) >= 3)
        points = sidecar.points("stagewatch_up")

    assert {attributes["stagewatch.reason"] for attributes, _ in points} == {reason}
    told = [line for line in caplog.messages if "not observed" in line]
    assert len(told) == 1


def test_an_engine_that_comes_back_goes_on_and_says_so(caplog):
    name = 'vllm:generation_tokens_total{model_name="m"} '
    page = served_in_turn(name + "10\n", "", "", name + "13\n")
    with (
        serving(answering(OK)) as collector,
        serving(page) as engine,
        Sidecar(collector, ("r0", engine.url)) as sidecar,
    ):
        sidecar.wait_for(lambda: len(sidecar.points("stagewatch_up")) >= 6)
        tokens = sidecar.points("stagewatch_generation_tokens_total")
        ups = [point.as_double for _, point in sidecar.points("stagewatch_up")]

    assert ups[:4] == [1, 0, 0, 1]
    assert tokens[0][1].as_double == 3
    assert [line for line in caplog.messages if "is observed again" in line]


def test_a_collector_that_was_away_gets_everything_in_order():
    away = threading.Event()
    away.set()

    def moody(request):
        answering(b"" if away.is_set() else OK, status=503 if away.is_set() else 200)(request)

    with (
        serving(moody) as collector,
        serving(growing(1)) as engine,
        Sidecar(collector, ("r0", engine.url)) as sidecar,
    ):
        sidecar.wait_for(lambda: len(collector.requests) >= 2)
        collector.requests.clear()
        away.clear()
        sidecar.wait_for(lambda: len(sidecar.points("stagewatch_generation_tokens_total")) >= 8)
        points = [point for _, point in sidecar.points("stagewatch_generation_tokens_total")]

    ends = [point.time_unix_nano for point in points]
    assert ends == sorted(ends)
    assert all(a.time_unix_nano == b.start_time_unix_nano for a, b in pairwise(points))


def test_a_second_process_goes_on_where_the_first_one_was(tmp_path):
    name = "stagewatch_generation_tokens_total"
    with serving(answering(OK)) as collector, serving(growing(3)) as engine:
        for _ in range(3):
            with Sidecar(collector, ("r0", engine.url), spool_dir=tmp_path) as sidecar:
                seen = len(sidecar.points(name))
                sidecar.wait_for(lambda seen=seen: len(sidecar.points(name)) >= seen + 3)
        points = {point.time_unix_nano: point for _, point in sidecar.points(name)}
        looks = sum(point.as_double for point in points.values()) / 3

    in_order = [points[at_ns] for at_ns in sorted(points)]
    assert all(a.time_unix_nano == b.start_time_unix_nano for a, b in pairwise(in_order))
    assert looks >= 9


def test_two_sidecars_with_one_spool_are_one_clear_error(tmp_path):
    with (
        serving(answering(OK)) as collector,
        serving(growing(1)) as engine,
        Sidecar(collector, ("r0", engine.url), spool_dir=tmp_path) as sidecar,
        pytest.raises(ConfigError, match=r"another exporter .* keeps its exports there"),
    ):
        run(sidecar.settings, threading.Event())


def test_it_ends_at_once_though_engine_and_collector_hang():
    def hang(request):
        request.server.closing.wait()

    with serving(hang) as collector, serving(hang) as engine:
        sidecar = Sidecar(collector, ("r0", engine.url), timeout_s=60)
        with sidecar:
            sidecar.stop.wait(0.3)
            begun = time.monotonic()

    assert time.monotonic() - begun < 5


def test_its_own_page_shows_the_same():
    page = served_in_turn(histogram([]), histogram([0.2]))
    with serving(page) as engine, Sidecar(None, ("r0", engine.url)) as sidecar:

        def own_page():
            url = f"http://127.0.0.1:{sidecar.port}/metrics"
            with urllib.request.urlopen(url, timeout=5) as response:
                return response.read().decode()

        sidecar.wait_for(lambda: "stagewatch_ttft_seconds_bucket" in own_page())
        text = own_page()

    assert (
        'stagewatch_up{engine="vllm",model="m",replica="r0",service="chat",source="page"} 1.0'
        in text
    )


def test_without_a_page_of_its_own_it_listens_nowhere():
    with (
        serving(growing(1)) as engine,
        Sidecar(None, ("r0", engine.url), listen_port=None) as sidecar,
    ):
        assert sidecar.port is None


def test_a_port_that_is_taken_is_said_with_the_way_out():
    with serving(growing(1)) as engine:
        settings = EngineSettings(
            targets=[{"url": engine.url, "service": "chat"}],
            endpoint=None,
            listen_port=engine.server_port,
        )

        with pytest.raises(ConfigError, match="Choose another port"):
            run(settings, threading.Event())


class FaultyState:
    """A state with a fault of ours, which no page should be able to reach."""

    def observe(self, *_):
        raise ZeroDivisionError("a fault")


def test_a_fault_of_ours_in_one_target_is_told_and_ends_no_other(caplog):
    with serving(growing(1)) as engine:
        settings = EngineSettings(targets=[{"url": engine.url, "service": "chat"}])
        watch = _Watch(settings.targets[0], FaultyState())

        async def twice():
            async with http_client() as client:
                return [await watch.read(client, settings) for _ in range(2)]

        bad, good = asyncio.run(twice())

    assert not bad.up
    assert "cannot be digested" in bad.notes[0]
    assert "Traceback" in caplog.text
    assert good.up


def test_one_reading_tells_all_since_the_engine_started():
    page = (RECORDED / "vllm" / "overload" / "98-after.prom").read_bytes()
    with serving(answering(page)) as engine:
        target = {"url": engine.url, "service": "chat", "replica": "r0"}
        text = describe(read_once(EngineSettings(targets=[target])))

    assert "replica=r0 service=chat: up" in text
    assert "n=144, mean 9.276 s, P50 9.935 s …" in text
    assert "(one per step)" in text


def test_one_reading_of_an_engine_that_is_not_there_says_so():
    with serving(answering(b"", status=500)) as engine:
        target = {"url": engine.url, "service": "chat", "replica": "r0"}
        settings = EngineSettings(targets=[target])

        readings = read_once(settings)

        assert "r0 service=chat: not observed" in describe(readings)
        assert [reading.up for reading in readings] == [False]


def once_of(*bodies, **changes):
    """What `--once` prints of engines that serve these bodies."""
    with ExitStack() as stack:
        engines = [stack.enter_context(serving(answering(body))) for body in bodies]
        targets = [
            {"url": engine.url, "service": "chat", "replica": f"r{number}", **changes}
            for number, engine in enumerate(engines)
        ]
        return describe(read_once(EngineSettings(targets=targets)))


def test_one_reading_of_every_engine_names_it_and_what_it_cannot_tell():
    names = (
        "sglang-0.5.23-unified",
        "tgi-3.3.7-synthetic-1",
        "litellm-1.110.2-1",
        "lmdeploy-HEAD-1",
    )
    text = once_of(*((RECORDED / "engines" / f"{name}.prom").read_bytes() for name in names))

    for title in ("SGLang", "Hugging Face TGI", "LiteLLM proxy", "LMDeploy"):
        assert f"up ({title})" in text
    assert "not reported: decode" in text
    assert "not reported: ttft, itl, tpot, prefill, decode, kv_cache_usage" in text
    assert "not reported: itl, tpot\n" in text
    assert "ttft_estimated" in text


def test_one_reading_of_a_strangers_page_says_what_it_found():
    text = once_of(b"nginx_connections 3\n")

    assert "not observed" in text
    assert "it has nginx_connections" in text


def test_engines_of_several_kinds_arrive_at_the_collector_with_their_names():
    kinds = {
        "vllm": "vllm-0.33.0-agg",
        "sglang": "sglang-0.5.23-unified",
        "tgi": "tgi-3.3.7-synthetic-1",
    }
    with ExitStack() as stack:
        collector = stack.enter_context(serving(answering(OK)))
        engines = {
            kind: stack.enter_context(
                serving(answering((RECORDED / "engines" / f"{name}.prom").read_bytes()))
            )
            for kind, name in kinds.items()
        }
        sidecar = stack.enter_context(
            Sidecar(collector, *((kind, engine.url) for kind, engine in engines.items()))
        )
        for kind in kinds:
            sidecar.wait_for(lambda kind=kind: sidecar.points("stagewatch_up", kind))
        told = {kind: sidecar.points("stagewatch_up", kind)[0][0] for kind in kinds}
        missing = [
            a["stagewatch.reason"] for a, _ in sidecar.points("stagewatch_not_reported", "tgi")
        ]

    assert {kind: attributes["stagewatch.engine"] for kind, attributes in told.items()} == {
        kind: kind for kind in kinds
    }
    assert {"ttft", "itl", "kv_cache_usage"} <= set(missing)


def test_21_an_engine_that_hangs_while_its_page_answers_is_stalled_and_then_not():
    page, moves = b"vllm:num_requests_running 1\n", threading.Event()
    steps = [0]

    def body():
        steps[0] += moves.is_set()
        return page + b"vllm:iteration_tokens_total_count %d\n" % steps[0]

    with (
        serving(answering(OK)) as collector,
        serving(answering(body)) as engine,
        Sidecar(collector, ("r0", engine.url), stall_after_s=1) as sidecar,
    ):

        def told():
            points = (point for _, point in sidecar.points("stagewatch_engine_stalled"))
            return [(point.as_double, point.time_unix_nano / 1e9) for point in points]

        def stalled():
            return [value for value, _ in told()]

        sidecar.wait_for(lambda: 1.0 in stalled())
        moves.set()
        sidecar.wait_for(lambda: stalled()[-1] == 0.0)
        seen = told()

    (first, began_s), ends_s = seen[0], next(at_s for value, at_s in seen if value == 1.0)
    assert first == 0.0
    assert ends_s - began_s >= 0.9, "after a second without a move, and not before"


def test_23_a_page_that_hangs_and_one_that_answers_500_are_not_observed_within_the_deadline():
    def hang(request):
        request.server.closing.wait(60)

    with (
        serving(answering(OK)) as collector,
        serving(hang) as hung,
        serving(answering(b"boom", status=500)) as broken,
        serving(growing(1)) as good,
        Sidecar(
            collector, ("hung", hung.url), ("broken", broken.url), ("good", good.url), timeout_s=0.5
        ) as sidecar,
    ):
        begun = time.monotonic()
        for replica in ("hung", "broken"):
            sidecar.wait_for(lambda replica=replica: sidecar.points("stagewatch_up", replica))
        took_s = time.monotonic() - begun
        reasons = {
            replica: sidecar.points("stagewatch_up", replica)[0][0]["stagewatch.reason"]
            for replica in ("hung", "broken")
        }
        sidecar.wait_for(lambda: len(sidecar.points("stagewatch_up", "good")) >= 5)
        ups = {point.as_double for _, point in sidecar.points("stagewatch_up", "good")}

    assert reasons == {"hung": "timeout", "broken": "http_500"}
    assert took_s < 5
    assert ups == {1.0}
