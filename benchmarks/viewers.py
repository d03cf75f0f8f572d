"""Twenty viewers, each refreshing every 30 s, beside steady exports: what they cost those who send.

A real `stagewatch up`: the collector's way in, the alerts and the pages are one process. Exports come
at a steady rate over HTTP, one after the other on two connections: 5 000 requests a second, ten times
what 500 replicas answer. What counts is how long an export waits until it is stored, and whether the
rate is kept. With and without viewers take turns, because a shared machine changes its speed between
minutes and hardly within one. Beside it what the process holds in memory.
"""

from __future__ import annotations

import http.client
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socket import create_server
from statistics import median

from benchmarks.ingest import bodies
from benchmarks.pages import Browser
from dashboard.url import View

__all__ = ["main"]

_Turn = tuple[float, float, float]

VIEWERS = 20
REFRESH_S = 30.0
SLOWER_BAR = 1.10
SENDERS, EXPORTS_PER_S = 2, 10
_TURN_S = 15.0
_TURNS = 4
_WARM_S = 10.0
_PAGES = (
    View(),
    View(service="vllm-tiny"),
    View(service="vllm-tiny", by="replica"),
    View(alone="requests"),
    View(alone="status"),
)


@dataclass
class _Senders:
    """Each sends one every so often, late ones at once, and notes how long it took."""

    port: int
    exports: Iterator[bytes]
    took_ms: list[float] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Content-Type": "application/x-protobuf"}
        due_s = time.monotonic()
        while not self.stop.wait(max(due_s - time.monotonic(), 0)):
            due_s += SENDERS / EXPORTS_PER_S
            with self._lock:
                body = next(self.exports)
            began_s = time.perf_counter()
            connection.request("POST", "/v1/traces", body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"an export was answered {answer.status}")
            self.took_ms.append((time.perf_counter() - began_s) * 1e3)


@dataclass
class _Viewers:
    """Each with a page of its own, their refreshes spread over the half minute."""

    port: int
    watching: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    took_ms: list[float] = field(default_factory=list)

    def run(self, number: int) -> None:
        browser = Browser(self.port)
        link = _PAGES[number % len(_PAGES)].link()
        refresh = browser.refresh(link, browser.ask(browser.opening(link)))
        due_s = time.monotonic() + number * REFRESH_S / VIEWERS
        while not self.stop.wait(max(due_s - time.monotonic(), 0)):
            due_s += REFRESH_S
            if self.watching.is_set():
                began_s = time.perf_counter()
                browser.ask(refresh)
                self.took_ms.append((time.perf_counter() - began_s) * 1e3)


def main() -> int:
    """1 when the bar is missed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages, otlp = _free_ports(2)
        config = folder / "stagewatch.yaml"
        config.write_text(
            f"store: {{data_dir: {folder / 'data'}}}\n"
            f"collector: {{otlp_http_port: {otlp}, otlp_grpc_port: 0}}\n"
            f"dashboard: {{port: {pages}}}\n"
            "objectives:\n  - p99 ttft <= 1.5s over 30d where service=vllm-tiny\n"
        )
        command = [sys.executable, "-m", "stagewatch", "up", "--config", str(config)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - ours
            try:
                _wait(pages)
                return _measured(process.pid, pages, otlp)
            finally:
                process.send_signal(signal.SIGTERM)


def _measured(pid: int, pages: int, otlp: int) -> int:
    senders, viewers = _Senders(otlp, _exports()), _Viewers(pages)
    working = [threading.Thread(target=senders.run, daemon=True) for _ in range(SENDERS)]
    for thread in working:
        thread.start()
    time.sleep(_WARM_S)
    begun_mib = _rss_mib(pid)
    watching = [
        threading.Thread(target=viewers.run, args=(number,), daemon=True)
        for number in range(VIEWERS)
    ]
    for thread in watching:
        thread.start()
    time.sleep(_WARM_S)
    pairs = [(_turn(pid, senders), _turn(pid, senders, viewers)) for _ in range(_TURNS)]
    for each in (senders, viewers):
        each.stop.set()
    for thread in (*working, *watching):
        thread.join(timeout=60)
    return _report(pairs, viewers.took_ms, begun_mib, _rss_mib(pid))


def _turn(
    pid: int, senders: _Senders, viewers: _Viewers | None = None
) -> tuple[float, float, float]:
    """How long an export waits (ms), exports a second, and the core seconds of a second."""
    if viewers is not None:
        viewers.watching.set()
    began_s, sent, cpu_s = time.perf_counter(), len(senders.took_ms), _cpu_s(pid)
    time.sleep(_TURN_S)
    took_s, cpu_s, took_ms = (
        time.perf_counter() - began_s,
        _cpu_s(pid) - cpu_s,
        senders.took_ms[sent:],
    )
    if viewers is not None:
        viewers.watching.clear()
    return median(took_ms), len(took_ms) / took_s, cpu_s / took_s


def _report(
    pairs: Sequence[tuple[_Turn, _Turn]],
    took_ms: Sequence[float],
    begun_mib: float,
    ended_mib: float,
) -> int:
    alone, beside = (
        [median(pair[side][what] for pair in pairs) for what in range(3)] for side in (0, 1)
    )
    slower = median(with_[0] / without[0] for without, with_ in pairs)
    slower = max(slower, alone[1] / beside[1])
    verdict = "ok" if slower <= SLOWER_BAR else "MISSED"
    for word, each in (("alone", alone), (f"beside {VIEWERS} viewers", beside)):
        print(f"{word:20} an export waits {each[0]:6.1f} ms, {each[1]:5.2f}/s, {each[2]:.2f} cores")
    print(f"ingest is {slower:.3f} times slower, bar {SLOWER_BAR}: {verdict}")
    print(f"{len(took_ms)} refreshes, median {median(took_ms):.0f} ms, worst {max(took_ms):.0f} ms")
    print(f"memory {begun_mib:.0f} MiB before, {ended_mib:.0f} MiB after")
    return int(slower > SLOWER_BAR)


def _exports() -> Iterator[bytes]:
    """Spans of now, each with ids of its own."""
    rng = random.Random(3)  # noqa: S311 - ids for a benchmark
    for _ in itertools.count():
        yield from itertools.islice(bodies(rng, first_at_s=int(time.time()) - 8), 8)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/statm").read_text().split()
    return int(text[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _free_ports(number: int) -> list[int]:
    listeners = [create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in listeners]
    for each in listeners:
        each.close()
    return ports


def _wait(port: int) -> None:
    for _ in range(1800):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass  # why: it is not there yet
        time.sleep(0.1)
    raise RuntimeError("stagewatch did not start within three minutes")


if __name__ == "__main__":
    sys.exit(main())
