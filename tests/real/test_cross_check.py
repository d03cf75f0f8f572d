"""A real vLLM on this CPU: what client, spans and page say of the same requests agrees.

Run by `make test-real`; the tools that install and load the engine lie beside the project.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collector.query import Selection, Window
from collector.reader import StoreReader
from exporters.engine.family import histogram
from exporters.engine.text import PageParser
from tests.e2e.running import Stagewatch
from tests.paths import ROOT, SHARED

TOOLS = SHARED / "tools" / "vllm-cpu"
SOURCES = ("client", "span", "page")
ENGINE = os.environ.get("STAGEWATCH_REAL_VLLM")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(ENGINE is None, reason="no real vLLM here: `make test-real` installs one"),
]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One calm run, one word per token, seen by all three; and what the engine itself counted."""
    place = tmp_path_factory.mktemp("real")
    grpc_port, http_port, engine_port = free_port(), free_port(), free_port()
    out = place / "out"
    targets = [{"url": f"http://127.0.0.1:{engine_port}", "service": "real", "role": "both"}]
    config = place / "stagewatch.yaml"
    engine = {
        "targets": targets,
        "listen_port": None,
        "endpoint": f"http://127.0.0.1:{http_port}",
    }
    config.write_text(json.dumps({"exporters": {"engine": engine}}))
    ports = {
        "STAGEWATCH_COLLECTOR__OTLP_GRPC_PORT": str(grpc_port),
        "STAGEWATCH_COLLECTOR__OTLP_HTTP_PORT": str(http_port),
    }
    arguments = ("up", "--config", str(config), "--data-dir", str(place / "data"))
    with Stagewatch(*arguments, **ports) as up:
        _load(out, engine_port, f"http://127.0.0.1:{grpc_port}")
        _import(out / "client.jsonl", up.otlp_url)
        up.eventually(
            lambda: [seen(up, source) for source in SOURCES] == [len(clients(out))] * len(SOURCES),
            within_s=30,
            what=f"{len(clients(out))} requests, three times",
        )
        yield StoreReader(place / "data"), out


def seen(up, source):
    """How many first tokens one source told of."""
    asked = {"metric": "ttft", "q": "0.5", "where": f"source={source}", "from": "now-30m"}
    return sum(each["points"][0]["n"] for each in up.get("/api/v1/quantile", **asked)["series"])


def _load(out, port, otlp_url):
    name = {"OTEL_SERVICE_NAME": "real", "OTEL_RESOURCE_ATTRIBUTES": "stagewatch.role=both"}
    command = ["bash", str(TOOLS / "run_vllm.sh"), ENGINE, str(out), "wordlevel"]
    subprocess.run(
        [*command, "--otlp", otlp_url, "--port", str(port)],
        env={**os.environ, **name},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _import(table: Path, url):
    command = [sys.executable, "-m", "stagewatch", "import", str(table)]
    subprocess.run([*command, "--url", url, "--service", "real"], cwd=ROOT, check=True)


def clients(out):
    rows = [json.loads(line) for line in (out / "client.jsonl").read_text().splitlines()]
    return [row for row in rows if row.get("finish")]


def grown(out, family):
    """What the engine's own counters grew by over the run, read from its pages by hand."""
    pages = [
        PageParser(lambda name: name.startswith("vllm:")).parse(
            (out / name).read_text(), where=name
        )
        for name in ("00-before.prom", "98-after.prom")
    ]
    n, total = [], []
    for page in pages:
        parts = histogram(page, family).values()
        n.append(sum(sum(part.counts) for part in parts))
        total.append(sum(part.total for part in parts))
    return n[1] - n[0], total[1] - total[0]


def told(reader, metric, source):
    """Everything that one source told of a metric, as one distribution."""
    now_s = int(time.time())
    window = Window(since_s=now_s - 1800, until_s=now_s + 60)
    (series,) = reader.latency(metric, Selection(window=window, where=(("source", source),)))
    (point,) = series.points
    return point.distribution


@pytest.mark.parametrize(
    ("metric", "family"),
    [
        ("ttft", "vllm:time_to_first_token_seconds"),
        ("e2e", "vllm:e2e_request_latency_seconds"),
        ("queue", "vllm:request_queue_time_seconds"),
        ("prefill", "vllm:request_prefill_time_seconds"),
        ("decode", "vllm:request_decode_time_seconds"),
    ],
)
def test_spans_and_page_are_the_engine_s_own_counters(run, metric, family):
    reader, out = run
    n, total_s = grown(out, family)

    for source in ("span", "page"):
        both = told(reader, metric, source)
        assert both.n == n
        assert both.sum_s == pytest.approx(total_s, rel=1e-6)


def test_the_gaps_between_tokens_are_the_engine_s_own_counters(run):
    reader, out = run
    n, total_s = grown(out, "vllm:inter_token_latency_seconds")
    page, client = told(reader, "itl", "page"), told(reader, "itl", "client")

    assert page.n == n
    assert page.sum_s == pytest.approx(total_s, rel=1e-6)
    assert client.n == pytest.approx(n, abs=len(clients(out)))  # a chunk may carry two tokens
    assert client.mean_s == pytest.approx(page.mean_s, rel=0.05)


def test_a_client_waits_a_little_longer_than_the_engine_says(run):
    reader, _ = run
    network = told(reader, "network", "span")
    client, engine = told(reader, "ttft", "client"), told(reader, "ttft", "span")

    assert network.n == engine.n
    assert network.mean_s == pytest.approx(client.mean_s - engine.mean_s, rel=1e-3)
    assert 0 < network.mean_s < 0.1


def test_every_quantile_of_the_page_holds_what_the_spans_know(run):
    reader, _ = run

    for metric in ("ttft", "e2e", "queue", "prefill", "decode"):
        page, exact = told(reader, metric, "page"), told(reader, metric, "span")
        for q in (0.5, 0.9, 0.95, 0.99):
            interval, value = page.quantile(q), exact.quantile(q)
            assert interval.low_s <= value.high_s
            assert value.low_s <= interval.high_s
