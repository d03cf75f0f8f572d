"""Every page over a store of 500 series and 30 days, asked as a browser asks: time and bytes a chart.

A page is asked for whole when it is opened, and again for what is in it with each refresh: here every
30 s of the store's clock, so that no answer is one that was given before. Both are answered by one
core: what counts is its time, what others do on this machine must not; the clock on the wall stands
beside it.
"""

from __future__ import annotations

import gzip
import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import create_server
from statistics import median
from typing import Any

import uvicorn
from fastapi import FastAPI

from alerts import api as alerts_api
from alerts.definition import load
from alerts.evaluator import Evaluator
from alerts.ledger import Ledger
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from benchmarks import month
from collector import api as collector_api
from collector.reader import StoreReader
from dashboard.app import attach
from dashboard.url import View
from domain.slice import MINUTE_S
from review.shelf import Shelf

__all__ = ["Browser", "main", "served"]

CALL_BAR_MS = 100.0
CHART_BAR_BYTES = 25_000
_ROUNDS = 5
_REFRESH_S = 30
_HOUR_S, _DAY_S = 3600, 86_400
_OBJECTIVES = 40
_TOLD = {"zone": "Europe/Berlin", "offset": 60, "host": "watch.example", "acted": False}


class Clock:
    """The store's, moved by hand."""

    def __init__(self) -> None:
        self.now_s = float(month.NOW_S)

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Browser:
    """What a page asks of its server, over one connection."""

    port: int
    outputs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.outputs = [each["output"] for each in json.loads(self.get("/_dash-dependencies"))]

    def get(self, path: str) -> bytes:
        self._connection.request("GET", path, headers={"Accept-Encoding": "identity"})
        return self._connection.getresponse().read()

    def ask(self, body: bytes) -> bytes:
        """An answer, as packed as it comes."""
        self._connection.close()  # why: a server gives up a connection that rests between refreshes
        headers = {"Accept-Encoding": "gzip", "Content-Type": "application/json"}
        self._connection.request("POST", "/_dash-update-component", body, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"the server answered {answer.status}: {text[:300]!r}")
        return text

    def opening(self, link: str) -> bytes:
        """The question for a whole page."""
        output = next(each for each in self.outputs if "content.children" in each)
        answered = output.split("answered.")[1][:-2]
        outputs = [
            {"id": "content", "property": "children"},
            {"id": "answered", "property": answered},
        ]
        return _question("ask-page", link, output, outputs)

    def refresh(self, link: str, shown: bytes) -> bytes:
        """The question for what is in that page."""
        names = sorted(set(_ids(json.loads(gzip.decompress(shown)))))
        output = next(each for each in self.outputs if '"region"' in each)
        regions, charts = (
            [{"id": {kind: name}, "property": what} for found, name in names if found == kind]
            for kind, what in (("region", "children"), ("chart", "figure"))
        )
        outputs = [regions, charts, {"id": "answered", "property": "data"}]
        return _question("ask-fill", link, output, outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """One call, several times."""

    cpu_ms: Sequence[float]
    wall_ms: Sequence[float]
    answer: bytes


def main() -> int:
    """1 when a bar is missed."""
    with tempfile.TemporaryDirectory() as name:
        began_s = time.perf_counter()
        month.fill(Path(name))
        print(f"{month.SERIES} series of a month in {time.perf_counter() - began_s:.0f} s")
        return measured(Path(name))


def measured(folder: Path) -> int:
    """Over a store that is there."""
    clock = Clock()
    with served(folder, clock) as (port, alert):
        browser = Browser(port)
        missed = sum(_reported(name, link, browser, clock) for name, link in _links(browser, alert))
    print(f"\n{missed} of all calls missed a bar")
    return int(missed > 0)


def _reported(name: str, link: str, browser: Browser, clock: Clock) -> int:
    opened = _asked(browser, clock, browser.opening(link))
    filled = _asked(browser, clock, browser.refresh(link, opened.answer))
    sizes = [_packed(each) for each in _figures(json.loads(gzip.decompress(filled.answer)))]
    largest = max(sizes, default=0)
    parts = []
    for word, cost in (("open", opened), ("refresh", filled)):
        cpu_ms = median(cost.cpu_ms)
        parts.append(
            f"{word} {cpu_ms:6.1f} ms = {cpu_ms / CALL_BAR_MS:4.2f} of the bar"
            f" (wall {median(cost.wall_ms):6.1f}, worst {max(cost.wall_ms):6.1f})"
        )
    missed = any(median(each.cpu_ms) > CALL_BAR_MS for each in (opened, filled))
    missed |= largest > CHART_BAR_BYTES
    size = f"chart {largest / 1e3:5.1f} kB = {largest / CHART_BAR_BYTES:4.2f}" if sizes else ""
    print(f"{name:34} {', '.join(parts)} {size} {'MISSED' if missed else 'ok'}", flush=True)
    return int(missed)


def _asked(browser: Browser, clock: Clock, body: bytes) -> _Cost:
    browser.ask(body)  # what is read for the first time is not warm
    cpu_ms, wall_ms, answer = [], [], b""
    clock.now_s = float(month.NOW_S)
    for _ in range(_ROUNDS):
        clock.now_s += _REFRESH_S
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        answer = browser.ask(body)
        cpu_ms.append((time.process_time() - cpu_s) * 1e3)
        wall_ms.append((time.perf_counter() - wall_s) * 1e3)
    return _Cost(cpu_ms=cpu_ms, wall_ms=wall_ms, answer=answer)


def _links(browser: Browser, alert: str) -> Iterator[tuple[str, str]]:
    """All pages, and those of charts over all their windows."""
    one = month.service(0)
    spans = {"1 h": _HOUR_S, "24 h": _DAY_S, "7 d": 7 * _DAY_S, "30 d": 30 * _DAY_S}
    for word, span_s in spans.items():
        yield f"fleet, {word}", View(span_s=span_s).link()
        yield f"service, {word}", View(service=one, span_s=span_s).link()
        yield (
            f"service by replica, {word}",
            View(service=one, span_s=span_s, by="replica", a_week_ago=True).link(),
        )
        for page in ("requests", "gpus", "endpoints", "probes"):
            yield f"{page}, {word}", View(alone=page, span_s=span_s).link()
        yield f"status, {word}", View(alone="status", span_s=span_s).link()
    past = View(service=one).between(month.NOW_S - 7317, month.NOW_S - 3717)
    yield "service, an hour that is past", past.link()
    yield "requests of a service", View(alone="requests", where=(("service", one),)).link()
    yield "alerts", "/alerts"
    yield "alert", f"/alerts/{alert}"
    yield "objective", f"/objectives/{_objective(browser)}"
    yield "one request", f"/requests/{_request(browser)}"
    yield "balance", "/balance"
    yield "silences", "/silences"


def _objective(browser: Browser) -> str:
    found: dict[str, Any] = json.loads(browser.get("/api/v1/slos"))
    return str(found["slos"][0]["id"])


def _request(browser: Browser) -> str:
    until_s = month.NOW_S
    found = json.loads(browser.get(f"/api/v1/requests?from={until_s - 60}&to={until_s}&limit=1"))
    return str(found["requests"][0]["trace_id"])


@contextmanager
def served(folder: Path, clock: Clock) -> Iterator[tuple[int, str]]:
    """The pages over a store, its promises judged; the port, and an alert that is open."""
    reader = StoreReader(folder, now=clock)
    state = open_state(f"sqlite:///{folder / 'alerts.db'}")
    _judge(reader, state)
    ledger: Ledger = SqlLedger(state)
    app = FastAPI()
    app.include_router(collector_api.router(reader))
    app.include_router(alerts_api.router(ledger))
    attach(app, reader, ledger, cache_s=0, shelf=Shelf(folder / "reviews"), now=clock)
    listener = create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1], ledger.alerts()[0].id
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
        reader.close()
        state.dispose()


def _judge(reader: StoreReader, state: Any) -> None:
    """Promises about every service; what of one is broken pages."""
    text = "\n".join(
        f"- p99 {('ttft', 'e2e')[n // month.SERVICES]} <= {(0.01, 30)[n > 1]}s over 30d where"
        f" service={month.service(n % month.SERVICES)}"
        for n in range(_OBJECTIVES)
    )
    until_s = month.NOW_S // MINUTE_S * MINUTE_S
    if reader.watermark_s() is None:
        raise RuntimeError("the store is empty")
    evaluator = Evaluator(reader, load(text), state)
    for minute in range(8, -1, -1):
        evaluator.tick(until_s - minute * MINUTE_S + 20.0)


def _question(source: str, link: str, output: str, outputs: Sequence[Any]) -> bytes:
    path, _, query = link.partition("?")
    told = _TOLD | {"path": path, "search": f"?{query}" if query else "", "id": "7"}
    asked = [{"id": source, "property": "data", "value": told}]
    return json.dumps(
        {
            "output": output,
            "outputs": outputs,
            "inputs": asked,
            "changedPropIds": [f"{source}.data"],
        }
    ).encode()


def _ids(found: Any) -> Iterator[tuple[str, str]]:
    """Regions and charts, wherever they stand."""
    if isinstance(found, dict):
        own = found.get("id")
        if isinstance(own, dict):
            yield from ((kind, own[kind]) for kind in ("region", "chart") if kind in own)
        for each in found.values():
            yield from _ids(each)
    elif isinstance(found, list):
        for each in found:
            yield from _ids(each)


def _figures(answer: Any) -> Iterator[Any]:
    for each in answer.get("response", {}).values():
        if "figure" in each:
            yield each["figure"]


def _packed(figure: Any) -> int:
    return len(gzip.compress(json.dumps(figure, separators=(",", ":")).encode(), 5))


if __name__ == "__main__":
    sys.exit(main())
