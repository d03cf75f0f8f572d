"""The collector is away under load, the sidecar is killed twice, the spool is full once."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager

import pytest
import yaml

from stagewatch.sockets import listen
from tests.collector.storing import distribution, number, rows
from tests.e2e.running import Stagewatch
from tests.exporters.fake_engine import answering, serving
from tests.exporters.test_target import histogram
from tests.paths import ROOT

pytestmark = pytest.mark.slow

AWAY_S = float(os.environ.get("STAGEWATCH_AWAY_S", "12"))
"""How long the collector is away. `STAGEWATCH_AWAY_S=600` is the ten minutes that we promise."""

TARGETS = 4
INTERVAL_S = max(0.1, AWAY_S / 600)


class Engine:
    """An engine that answers one request, of one token, between any two looks at its page."""

    def __init__(self):
        self.looks, self.is_busy, self._lock = 0, True, threading.Lock()

    def page(self):
        with self._lock:
            self.looks += self.is_busy
            text = histogram([0.2] * self.looks)
            return f'{text}vllm:generation_tokens_total{{model_name="m"}} {self.looks}\n'.encode()


class Sidecar:
    """`stagewatch exporter engine` in a process of its own."""

    def __init__(self, file, settings):
        file.write_text(yaml.safe_dump({"exporters": {"engine": settings}}))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stagewatch", "exporter", "engine", "--config", str(file)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.port = settings["listen_port"]
        wait_until(self._is_up, within_s=30, what="the sidecar starts")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        return self._said()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        said = self._said()
        assert self.process.returncode == 0, said
        return said

    def own_page(self):
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()

    def shown(self, name):
        """All series of a name on its own page, added up."""
        found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", self.own_page(), re.MULTILINE)
        return sum(map(float, found))

    def _is_up(self):
        try:
            return bool(self.own_page())
        except OSError:
            assert self.process.poll() is None, self._said()
            return False

    def _said(self):
        return self.process.communicate(timeout=20)[1]


def free_port():
    with listen("127.0.0.1", 0, setting="test") as socket:
        return socket.getsockname()[1]


@contextmanager
def engines():
    found = [Engine() for _ in range(TARGETS)]
    pages = [serving(answering(engine.page)) for engine in found]
    urls = [page.__enter__().url for page in pages]
    try:
        yield found, urls
    finally:
        for page in pages:
            page.__exit__(None, None, None)


@contextmanager
def away_until(until_s, found):
    """The collector is away so long; from then on nothing happens in the engines any more."""
    time.sleep(max(until_s - time.monotonic(), 2.0))
    for engine in found:
        engine.is_busy = False
    yield


def wait_until(true, *, within_s, what):
    until_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < until_s, what
        time.sleep(0.1)


def test_everything_that_there_was_room_for_arrives_once_and_the_rest_is_counted(tmp_path):
    rng = random.Random(os.getpid())  # noqa: S311 - no secret
    otlp, data, spool = free_port(), tmp_path / "data", tmp_path / "spool"
    with engines() as (found, urls):
        settings = {
            "targets": [
                {"url": url, "service": "chat", "replica": f"r{place}"}
                for place, url in enumerate(urls)
            ],
            "interval_s": INTERVAL_S,
            "endpoint": f"http://127.0.0.1:{otlp}",
            "listen_port": free_port(),
            "spool_dir": str(spool),
            "spool_bytes": 64 * 1024,
        }
        begun_s = time.monotonic()

        with Sidecar(tmp_path / "first.yaml", settings) as first:
            time.sleep(AWAY_S / 2)
            wait_until(
                lambda: first.shown("stagewatch_exports_dropped_total") > 0,
                within_s=60,
                what="a spool of 64 KiB is full by now",
            )
            assert first.shown("stagewatch_spooled_bytes") > 20_000
            assert sum(p.stat().st_size for p in spool.rglob("*.spool")) <= 64 * 1024
            time.sleep(rng.random())
            first.kill()

        roomy = {**settings, "spool_bytes": 100_000_000}
        with Sidecar(tmp_path / "second.yaml", roomy) as second:
            time.sleep(AWAY_S / 4 + rng.random())
            assert "of an earlier process wait to be sent" in second.kill()

        with (
            Sidecar(tmp_path / "third.yaml", roomy) as third,
            away_until(begun_s + AWAY_S, found),
            Stagewatch(
                *("collector", "--data-dir", str(data)),
                STAGEWATCH_COLLECTOR__OTLP_HTTP_PORT=str(otlp),
            ) as collector,
        ):
            wait_until(
                lambda: (
                    third.shown("stagewatch_exporter_exports_total") > 0
                    and third.shown("stagewatch_spooled_bytes") == 0
                ),
                within_s=60,
                what="all of it is sent",
            )
            services = collector.get("/api/v1/freshness")["services"]
            shown = collector.get("/api/v1/gauges", metric="exports_dropped", by="reason")
            time.sleep(5 * INTERVAL_S)
            third.end()
            collector.interrupt()

    looks = sum(engine.looks for engine in found)
    tokens = number(data, "generation_tokens")[1]
    lost = number(data, "exports_dropped")[1]
    print(  # noqa: T201 - for whoever ran the ten minutes
        f"away {time.monotonic() - begun_s:.0f} s: {looks} looks, {tokens:g} arrived, {lost:g} lost"
    )
    assert lost > 0
    # the first page of each target is where counting begins: nothing is lost with it but a word
    assert tokens + lost == looks
    assert distribution(data, "ttft").n == tokens
    replicas = rows(
        data,
        "SELECT DISTINCT labels FROM number_10 JOIN series ON series.id = series_id"
        " WHERE metric = 119",
    )
    assert len(replicas) == TARGETS
    assert all('"spool_full"' in labels and '"chat"' in labels for (labels,) in replicas)
    assert [each["service"] for each in services] == ["chat"]
    (series,) = shown["series"]
    assert series["labels"]["reason"] == "spool_full"
    assert number(data, "spooled_bytes")[1] > 0
