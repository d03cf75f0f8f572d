"""Every page's data at once in a real store and a real state: well filled, coarse and stale, empty, hostile."""

import json
import shutil
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import quote

import numpy as np
import uvicorn
from fastapi import FastAPI

from alerts import api
from alerts.access import Access
from alerts.access_settings import AuthSettings
from alerts.caretaker import Caretaker
from alerts.change import Change
from alerts.definition import Promises, load_all
from alerts.evaluator import Evaluator
from alerts.matcher import matchers_of
from alerts.response_api import response_router
from alerts.settings import AlertsSettings
from alerts.silence import Silences, Wish
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from alerts.told_changes import ToldChanges
from collector.reader import StoreReader
from collector.store import open_store
from dashboard.app import attach
from dashboard.vitals import ReceiverState, Vitals
from domain.endpoint import EndpointKey, EndpointPoint, PointState
from domain.labels import labels_of
from exporters.engine.otlp import export_request
from exporters.engine.reading import Latency, Level, Reading
from review.shelf import Decision, Shelf
from stagewatch.review_api import review_router
from tests.collector.gpu_fleet import NOW, WELL, fleet
from tests.collector.storing import writing
from tests.dashboard.outside_scene import (
    SLOWEST,
    probed,
    requests,
    sidecars,
    together,
    trace_id,
)
from tests.review.test_report import recorded
from tests.strategies import VLLM_TTFT_S, scrape

__all__ = [
    "HOSTILE_NAMES",
    "PAGES",
    "Scene",
    "empty",
    "full",
    "stale",
]

HOSTILE = '"\'><img src=x onerror="window.hacked=1">\u202e🦙&amp;\n' + "x" * 10_000
"""Markup, both quotes, an override of direction, an emoji, a line break, and no end."""

_TOKEN = {"token": "s-ada", "role": "responder", "name": "ada"}
_MINUTE_S = 60


@dataclass(frozen=True, kw_only=True)
class Named:
    """What everything is called."""

    service: str = "chat"
    replica: str = "vllm-{}"
    model: str = "llama-3.3-70b"
    pool: str = "decode-a"
    region: str = "eu-west-1"
    objective: str = "chat-ttft"
    said: str = "v42 of the chat template"
    endpoint: str = "llm-prod"


HOSTILE_NAMES = Named(
    **{name: f"{name} {HOSTILE}"[:256] for name in Named.__dataclass_fields__}
    | {"objective": f"objective {HOSTILE}"[:100], "replica": f"replica {{}} {HOSTILE}"[:256]}
)
"""Each as long as a label, or what it is, may be."""


class Witnessed:
    """How the process is, as `stagewatch up` would say it; one receiver fails."""

    def __init__(self, name):
        pager = ReceiverState(name=name, failing=True, waiting=2, waiting_since_s=NOW - 600)
        self._vitals = Vitals(evaluates=True, heartbeat=None, receivers=[pager])

    def vitals(self):
        return self._vitals


class Scene:
    """A server over one store: its address, its parts, and the address of each page."""

    def __init__(self, folder, text, *, named=None, now_s=NOW, tokens=(_TOKEN,), **options):
        self.now_s = now_s
        self._access = Access(AuthSettings(tokens=list(tokens)))
        self.named = named or Named()
        self.reader = StoreReader(folder, now=lambda: float(self.now_s))
        self.state = open_state(f"sqlite:///{folder / 'alerts.db'}")
        self.ledger = SqlLedger(self.state)
        self.shelf = Shelf(folder / "reviews")
        promised = load_all(text) if text else Promises(definitions=(), composites=())
        self._evaluator = Evaluator(
            self.reader, promised.definitions, self.state, settings=AlertsSettings(),
            composites=promised.composites,
        )  # fmt: skip
        self._options = options

    def judge(self):
        """The last hour, as it went."""
        for ago_s in (900, 600, 300, 0):
            self._evaluator.tick(self.now_s - ago_s)
            Caretaker(self.state).tick(self.now_s - ago_s)

    def application(self):
        app = FastAPI(docs_url=None, redoc_url=None)
        access = app.state.access = self._access
        clock = {"clock": lambda: float(self.now_s)}
        app.include_router(api.router(self.ledger))
        app.include_router(response_router(self.state, self.ledger, **clock))
        app.include_router(review_router(self.shelf, **clock))
        attach(
            app, self.reader, self.ledger, access=access, shelf=self.shelf,
            witness=Witnessed(self.named.service), now=lambda: float(self.now_s), **self._options,
        )  # fmt: skip
        return app

    @contextmanager
    def serving(self):
        listener = socket.create_server(("127.0.0.1", 0))
        http = uvicorn.Server(uvicorn.Config(self.application(), log_level="warning"))
        thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield self
        finally:
            http.should_exit = True
            thread.join(timeout=10)
            listener.close()

    def path(self, page):
        """Where a page of this scene lies; of what is not there, where it would be."""
        found = self.ledger.alerts()
        alert = next((each.id for each in found if each.open), "nothing")
        objective = next((each.id for each in self.ledger.standings()), "nothing")
        return {
            "Fleet": "/",
            "Service": f"/service/{quote(self.named.service, safe='')}",
            "Alert": f"/alerts/{alert}",
            "Objective": f"/objectives/{quote(objective, safe='')}",
            "Request": f"/requests/{trace_id(SLOWEST)}",
            "Sign in": "/login",
        }.get(page, f"/{page.lower()}")


PAGES = (
    "Fleet", "Service", "Alerts", "Alert", "Objective", "Requests", "Request", "GPUs",
    "Endpoints", "Probes", "Balance", "Silences", "Status", "Sign in",
)  # fmt: skip


def _promises(named):
    """Of the service: one that breaks, one that is kept; one that nobody asks, one nobody sees."""
    where = {"service": named.service}
    return json.dumps(
        [
            {"name": named.objective, "metric": "ttft", "threshold": "0.2s", "target": "99%",
             "where": where, "runbook": "https://wiki.example/ttft", "description": named.said},
            {"name": f"{named.objective[:90]}-e2e", "metric": "e2e", "threshold": "60s",
             "target": "95%", "where": where},
            {"name": "search-ttft", "metric": "ttft", "threshold": "1s", "target": "99%",
             "where": {"service": "search"}},
            {"name": "batch-e2e", "metric": "e2e", "threshold": "2s", "target": "96%",
             "where": {"service": "batch"}},
        ],
        ensure_ascii=False,
    )  # fmt: skip


def full(folder, *, named=None, **options):
    """A fleet of one service that is slow, with GPUs, probes, endpoints, silences and reviews."""
    named = named or Named()
    _fill(folder, named)
    scene = Scene(folder, _promises(named), named=named, **options)
    scene.judge()
    _act(scene)
    return scene


def _fill(folder, named):
    own = {"service": named.service, "role": "decode", "pool": named.pool}
    chat = {**own, "replica": named.replica.format(0)}
    held = (WELL, {"gpu_throttle/hw_thermal": 40, "gpu_energy": 60_000}, [chat])
    well = (WELL | {"gpu_index": 1}, {"gpu_energy": 60_000}, [chat])
    lost = ({"gpu_up": 0, "gpu_index": 2, "gpu_down/gpu_lost": 1}, {"gpu_xid_errors/79": 1}, [])
    engine = {"requests_running": 14, "requests_waiting": 9, "kv_cache_usage": 0.93}
    fleet(
        folder,
        [lambda _: held, lambda _: well, lambda ago_s: lost if ago_s < 600 else well],
        [(chat, lambda _: (engine, {"generation_tokens": 90_000}))],
        length_s=3400, every_s=120, node=named.replica.format("node"),
    )  # fmt: skip
    with writing(folder, now=lambda: float(NOW)) as writer:
        for number in range(2):
            told = requests(
                90, service=named.service, replica=named.replica.format(number), seed=number,
                first=1 + 90 * number, model=named.model, region=named.region,
            )  # fmt: skip
            writer.traces(together(told))
        writer.metrics(together(probed(named.service, named.region)))
        writer.metrics(together(probed(named.service, "us-east-1", held=True, usd=9.5, seed=1)))
        writer.metrics(together(probed("search", named.region, reason="http_429", seed=2)))
        writer.metrics(together(sidecars(lost=12.0, waits_bytes=5e6, spent_usd=0.95)))
        writer.metrics(together(_coarse("batch", named)))
        writer.endpoints(list(_endpoints(named)))
        writer.settle()


def _coarse(service, named):
    """An engine's page says between which edges, no more."""
    own = {"service": service, "replica": f"tgi-{named.region}"[:200], "region": named.region}
    dice = np.random.default_rng(5)
    for minute in range(55, 0, -1):
        at_ns = (NOW - _MINUTE_S * minute) * 10**9
        told = []
        for metric, middle_s in (("ttft", 0.4), ("e2e", 2.0), ("queue", 0.1), ("prefill", 0.3)):
            taken_s = middle_s * dice.lognormal(0, 0.4, 20)
            told.append((metric, scrape(taken_s, VLLM_TTFT_S, with_sum=False).distribution))
        yield _pages_of(own, at_ns, told)


def _pages_of(own, at_ns, told):
    latencies = tuple(
        Latency(metric=metric, labels=(), start_at_ns=at_ns - _MINUTE_S * 10**9, distribution=each)
        for metric, each in told
    )
    level = Level(metric="up", labels=(), value=1.0)
    return export_request(
        Reading(target=labels_of(own), at_ns=at_ns, up=True, latencies=latencies, levels=(level,))
    )


def _endpoints(named):
    for metric, statistics in (
        ("Invocations", {"Sum": 240.0, "SampleCount": 240.0}),
        ("ModelLatency", {"SampleCount": 240.0, "Sum": 480.0, "Maximum": 29.9, "p50": 1.8, "p99": 29.1}),
        ("Invocation5XXErrors", {"Sum": 4.0, "SampleCount": 240.0}),
    ):  # fmt: skip
        key = EndpointKey(
            account="111122223333", region="us-east-1", namespace="AWS/SageMaker", name=metric,
            dimensions=(("EndpointName", named.endpoint), ("VariantName", "AllTraffic")),
            period_s=60,
        )  # fmt: skip
        for minute in range(30, 3, -1):
            start_s = NOW - 60 * minute
            yield EndpointPoint(
                key=key, service=named.endpoint, start_s=start_s, fetched_at_s=start_s + 170,
                settled_at_s=start_s + 160, state=PointState.VALUE, statistics=statistics,
            )  # fmt: skip


def _act(scene):
    """People: they silence, deploy, and decide."""
    named = scene.named
    for begins_s, reason in ((0, named.said), (3600, "rollout")):
        matchers = matchers_of(["objective=search-ttft"])
        wish = Wish(
            author=named.replica[:100], reason=reason, matchers=matchers,
            starts_at_s=scene.now_s + begins_s, ends_at_s=scene.now_s + begins_s + 3600,
        )  # fmt: skip
        Silences(scene.state).create(wish, at_s=scene.now_s)
    where = labels_of({"service": named.service})
    deploy = Change(at_s=scene.now_s - 900, kind="deploy", title=named.said, labels=where,
                    author=named.replica[:100])  # fmt: skip
    ToldChanges(scene.state).add(deploy)
    review = replace(recorded("move"), service=named.service)
    kept = scene.shelf.keep(review)
    told = Decision(done=True, why=named.said, author=named.replica[:100], at_s=NOW - 60)
    scene.shelf.decide(kept.id, told)


def stale(folder, filled, **options):
    """The same store 25 minutes later, with nothing heard since."""
    shutil.copytree(filled, folder, dirs_exist_ok=True)
    (folder / "alerts.db").unlink()
    scene = Scene(folder, _promises(Named()), now_s=NOW + 1500, **options)
    scene.judge()
    return scene


def empty(folder, **options):
    """Nobody has sent or promised anything."""
    open_store(folder).close()
    return Scene(folder, None, **options)
