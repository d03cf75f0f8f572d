"""A real Prometheus writes to a real Stagewatch, and its past is read: the counts are its own."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from tests.collector import storing
from tests.e2e.prometheus_process import BINARY, GrowingPage, NativePage, Prometheus
from tests.e2e.running import Stagewatch
from tests.exporters.fake_engine import answering, serving
from tests.paths import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BINARY is None, reason="there is no `prometheus` on this machine"),
]

GROWS_S = float(os.environ.get("PROMETHEUS_TEST_S", "6"))
SETTINGS = {
    "STAGEWATCH_COLLECTOR__REMOTE_WRITE__SETTLE_S": "1.5",
    "STAGEWATCH_COLLECTOR__REMOTE_WRITE__SERVICES": '{"vllm": "chat"}',
}
COUNTS = {
    "generation_tokens": "vllm:generation_tokens_total",
    "requests_finished": "vllm:request_success_total",
    "requests_started": "vllm:time_to_first_token_seconds_count",
}
LATENCIES = {
    "ttft": "vllm:time_to_first_token_seconds_count",
    "e2e": "vllm:e2e_request_latency_seconds_count",
    "queue": "vllm:request_queue_time_seconds_count",
}


def stored(data_dir):
    """What a store holds: counters by their sums, latencies by how many values they took."""
    counters = {name: storing.number(data_dir, name)[1] or 0 for name in COUNTS}
    return counters | {name: storing.distribution(data_dir, name).n for name in LATENCIES}


def import_past(prometheus, begun_s, *into, **environment):
    since = datetime.fromtimestamp(begun_s, UTC).isoformat()
    asked = subprocess.run(
        [
            *(sys.executable, "-m", "stagewatch", "import", "--prometheus", prometheus.url),
            *("--from", since, "--rename", "vllm=chat", *into),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert asked.returncode == 0, asked.stderr
    return asked.stdout


def began(data_dir, stagewatch):
    """Wait until counting has begun."""
    stagewatch.eventually(
        lambda: storing.rows(data_dir, "SELECT 1 FROM series LIMIT 1"),
        within_s=30,
        what="the first scrape",
    )


def test_what_prometheus_writes_and_what_it_remembers_are_counted_once(tmp_path):
    begun_s = time.time()
    live, past = tmp_path / "live", tmp_path / "past"
    with (
        GrowingPage() as page,
        serving(answering(page)) as engine,
        Stagewatch("collector", "--data-dir", str(live), **SETTINGS) as stagewatch,
        Prometheus(
            tmp_path / "prometheus",
            lambda own: {"vllm": [f"127.0.0.1:{engine.server_port}"], "self": [own]},
            write_url=stagewatch.otlp_url,
            write={"queue_config": {"batch_send_deadline": "1s"}},
            labels={"region": "eu", "prometheus": "a"},
        ) as prometheus,
    ):
        began(live, stagewatch)
        page.growing.set()
        time.sleep(GROWS_S)
        page.growing.clear()
        last = page.requests
        stagewatch.eventually(
            lambda: stored(live)["generation_tokens"] == 7 * (last - 1000),
            within_s=15,
            what=f"all of {last - 1000} requests: {stored(live)}",
        )
        time.sleep(2)  # a scrape or two more: nothing must come after the last
        its_own = {
            name: prometheus.grown(family) for name, family in {**COUNTS, **LATENCIES}.items()
        }
        counted = stored(live)
        labels = stagewatch.get("/api/v1/labels", label="service")
        import_past(prometheus, begun_s, "--url", stagewatch.otlp_url)
        after_import = stored(live)
        said = [import_past(prometheus, begun_s, "--data-dir", str(past)) for _ in range(2)]
        remembered = stored(past)

    assert last > 1000 + 20 * GROWS_S
    assert counted == its_own
    assert "chat" in str(labels)
    assert after_import == counted, "the past of what was written already is known"
    assert remembered == its_own
    assert "of 1 target taken" in said[0]


def test_native_histograms_are_counted_written_or_remembered(tmp_path):
    begun_s = time.time()
    live, past = tmp_path / "live", tmp_path / "past"
    headers = [("content-type", NativePage.TYPE)]
    with (
        NativePage() as page,
        serving(answering(page, headers=headers)) as engine,
        Stagewatch("collector", "--data-dir", str(live), **SETTINGS) as stagewatch,
        Prometheus(
            tmp_path / "prometheus",
            lambda _: {"vllm": [f"127.0.0.1:{engine.server_port}"]},
            write_url=stagewatch.otlp_url,
            write={
                "send_native_histograms": True,
                "queue_config": {"batch_send_deadline": "1s"},
            },
            options=["--enable-feature=native-histograms"],
        ) as prometheus,
    ):
        began(live, stagewatch)
        page.growing.set()
        time.sleep(3)
        page.growing.clear()
        grown = page.requests - 1000
        slow = page.requests // 4 - 1000 // 4
        stagewatch.eventually(
            lambda: storing.distribution(live, "e2e").n == grown,
            within_s=15,
            what=f"all of {grown}",
        )
        import_past(prometheus, begun_s, "--data-dir", str(past))

    for found in (storing.distribution(live, "e2e"), storing.distribution(past, "e2e")):
        assert found.n == grown
        assert found.at_most(0.25) == (grown - slow, grown - slow)
        assert found.at_most(0.5) == (grown - slow, grown - slow)
        assert found.at_most(1.0) == (grown, grown)
