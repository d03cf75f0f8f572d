"""A night with alerts: promises judged over a world in memory, into a real state, behind the real API."""
# ruff: noqa: ARG002 - a protocol names its arguments, also those that nothing here depends on

import socket
import threading
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from alerts import api
from alerts.access import Access
from alerts.acknowledgement import Acknowledged, Acknowledgements
from alerts.caretaker import Caretaker
from alerts.definition import load_all
from alerts.evaluator import Evaluator
from alerts.matcher import matchers_of
from alerts.reset import reset_budget
from alerts.response_api import response_router
from alerts.settings import AlertsSettings
from alerts.silence import Silences, Wish
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from dashboard.alert_words import kind_of, of_budget
from dashboard.app import attach
from tests.dashboard.memory import MemoryReader, World
from tests.dashboard.worlds import night, serve

__all__ = ["HOSTILE", "NOW_S", "Incidents", "bad_night", "quiet_night", "serving"]

NOW_S = 1_772_367_000 + 17  # 2026-03-01 12:10:17 UTC
HOSTILE = "<img src=x onerror=alert(1)>\u202e-ttft-" + "x" * 60
OBJECTIVES = f"""
- {{phrase: "p99 ttft <= 1.5s over 30d where service=chat", name: chat-ttft, runbook: "https://wiki.example/ttft",
   description: "The first token of the assistant comes soon."}}
- {{phrase: "p96 e2e <= 9.5s over 30d where service=batch", name: batch-e2e}}
- {{phrase: "p99 ttft <= 1s over 30d where service=search", name: search-ttft, no_data: page, no_data_after: 10min}}
- {{phrase: "p99 ttft <= 1.5s over 30d where service=code", name: code-ttft,
   maintenance: [{{name: deploys, cron: "0 11 * * *", duration: 10min, reason: "weekly deploy"}}]}}
- {{phrase: "p99 ttft <= 0.3s over 7d where service=odd", name: {HOSTILE!r}, runbook: "javascript:alert(1)"}}
- {{name: both, all_of: [chat-ttft, code-ttft]}}
"""
FIRST = {"name": "first", "url": "http://127.0.0.1:9/hook", "allow_private": True}


class Judged(MemoryReader):
    """The world as the evaluator asks for it."""

    def slices_of(self, indicators, window):
        return [self.slices(each, window) for each in indicators]

    def settled_s(self, indicator, now_s):
        return None

    def edges_around(self, indicator, window):
        streams = self._streams(indicator.metric, indicator.where)
        return (5, 10) if any(stream.coarse for stream in streams) else None


class Incidents:
    """A state that has seen the last fifty minutes of a world."""

    def __init__(self, folder, world, text=OBJECTIVES):
        self.reader = Judged(world)
        self.state = open_state(f"sqlite:///{folder / 'alerts.db'}")
        self.ledger = SqlLedger(self.state)
        promised = load_all(text)
        self.evaluator = Evaluator(
            self.reader,
            promised.definitions,
            self.state,
            settings=AlertsSettings(receivers=(FIRST,)),
            composites=promised.composites,
            fill_s=0,  # the same past however fast the machine is
        )
        self.caretaker = Caretaker(self.state)
        self.now_s = world.now_s
        for ago_s in (3000, 1800, *range(1200, -1, -120)):
            self.look(self.now_s - ago_s)

    def look(self, at_s):
        self.reader.world.now_s = at_s
        self.evaluator.tick(at_s)
        self.caretaker.tick(at_s)

    def alert(self, name, kind="page"):
        """The open one of a promise that is of this kind; of its budget only if there is no other."""
        found = [
            each
            for each in self.ledger.alerts()
            if each.objective_name == name and kind_of(each) == kind
        ]
        return min(found, key=of_budget)

    def acknowledge(self, alert, **said):
        given = Acknowledged(by="ada", **said)
        Acknowledgements(self.state).give(alert.id, given, now_s=self.now_s)

    def silence(self, *matchers, begins_s=0, lasts_s=3600, author="ada", reason="a load test"):
        wish = Wish(
            author=author,
            reason=reason,
            matchers=matchers_of(matchers),
            starts_at_s=self.now_s + begins_s,
            ends_at_s=self.now_s + begins_s + lasts_s,
        )
        return Silences(self.state).create(wish, at_s=self.now_s)

    def reset(self, name, *, ago_s):
        at_s = self.now_s - ago_s
        reset_budget(self.state, name, author="ada", reason="a new model", at_s=at_s)

    def application(self, **options):
        app = FastAPI(docs_url=None, redoc_url=None)
        app.state.access = Access()
        app.include_router(api.router(self.ledger))
        app.include_router(
            response_router(self.state, self.ledger, clock=lambda: float(self.now_s))
        )
        access = app.state.access
        attach(
            app, self.reader, self.ledger, access=access, now=lambda: float(self.now_s), **options
        )
        return app


def bad_night(folder):
    """One of everything: a page that somebody has, a ticket within bounds, no data, a hostile name."""
    world = night(NOW_S)
    serve(world, "odd", ["odd-0", "odd-1"], per_min=40, fault=(900, "prefill", 9), seed=9)
    found = Incidents(folder, world)
    found.reset("code-ttft", ago_s=600)
    found.look(NOW_S)
    return found


def quiet_night(folder):
    """Nobody promised anything, and nobody was told."""
    world = World(now_s=NOW_S)
    text = (
        '- {phrase: "p99 ttft <= 1.5s over 30d where service=chat", name: chat-ttft, no_data: off}'
    )
    return Incidents(folder, world, text)


@contextmanager
def serving(incidents, **options):
    """The pages and the API on a free port."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(incidents.application(**options), log_level="warning", lifespan="on")
    http = uvicorn.Server(config)
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        http.should_exit = True
        thread.join(timeout=10)
        listener.close()
