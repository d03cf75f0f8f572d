"""Case EN21 the whole way: the pages of a real vLLM that hangs, the sidecar, the store, the page."""

import json

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.settings import AlertsSettings
from alerts.sql_ledger import SqlLedger
from alerts.tables import OutboxRow, open_state
from alerts.watch import Watch
from exporters.engine.failure import ScrapeError
from exporters.engine.otlp import export_request
from exporters.engine.target import STALL_AFTER_S, TargetState
from tests.alerts.engines import START_S, sidecar
from tests.exporters.pages_of import page
from tests.paths import SHARED

HANG = SHARED / "data" / "vllm-hang"
RECEIVER = {"name": "pager", "url": "http://127.0.0.1:9/", "allow_private": True}
LABELS = (("replica", "vllm-3"), ("service", "chat"))
STOPPED_S, CONTINUED_S, KILLED_S = 8, 20, 32


@pytest.fixture
def pages():
    found = {int(path.stem): path.read_text() for path in sorted(HANG.glob("[0-9][0-9].prom"))}
    return found or pytest.skip("the pages of the hang are beside the tree, and not here")


def outbox(state):
    with Session(state) as session:
        rows = session.scalars(select(OutboxRow).order_by(OutboxRow.id))
        return [json.loads(row.body) for row in rows]


def test_a_hung_engine_that_every_probe_calls_healthy_pages_and_is_over_when_it_moves(
    pages, tmp_path
):
    state = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    target = TargetState(LABELS)
    told, queue = {}, []
    with sidecar(tmp_path / "data") as into:
        settings = AlertsSettings(receivers=(RECEIVER,), conditions={"down_after_s": 5})
        watch = Watch(into.reader, state, settings=settings)
        for t in range(46):
            at_ns = (START_S + t) * 10**9
            into.now_s = START_S + t
            if t in pages:
                into.writer.metrics(export_request(target.observe(page(pages[t]), at_ns)))
            elif t > KILLED_S:
                refused = ScrapeError(
                    "refused", "connection refused", where="vllm-3", remedy="Start it."
                )
                into.writer.metrics(export_request(target.failed(refused, at_ns)))
            for change in watch.tick(START_S + t + 0.5):
                told[change.incident.severity.value, change.event.value] = t
            queue += [(t, each) for each in into.reader.conditions(START_S + t) if each.over]
        watch.tick(START_S + 3600)
    ledger = SqlLedger(state)
    still = ledger.conditions()
    bodies = outbox(state)
    state.dispose()

    assert STOPPED_S + STALL_AFTER_S <= told["page", "firing"] < CONTINUED_S
    assert CONTINUED_S <= told["page", "resolved"] <= CONTINUED_S + 1
    assert next(each.waiting for t, each in queue if t == 21) == 23
    page_of, over, down = bodies
    assert (page_of["stage"], page_of["place"]["replica"]) == ("engine", "vllm-3")
    assert page_of["text"].startswith("vllm-3 of chat has stood still for at least ")
    assert over["event"] == "resolved"
    assert (down["event"], down["severity"]) == ("firing", "ticket")
    assert "has not answered since" in down["text"]
    assert [each.stale for each in still] == [True]  # down, and nothing is resolved by silence
