"""What fires says why; whatever is wrong with the diagnosis, the page goes out."""

import json

from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.api import router
from alerts.definition import load
from alerts.diagnosis.telling import lines
from alerts.evaluator import Evaluator
from alerts.receivers.settings import WebhookSettings
from alerts.settings import AlertsSettings
from alerts.sql_ledger import SqlLedger
from alerts.tables import OutboxRow, open_state
from collector.reader import StoreReader
from domain.objective import Severity
from tests.alerts.diagnosis.rehearsal import STARTED_S

PROMISE = (
    "objectives:\n  - name: first\n    phrase: p99 ttft <= 1.5s over 30d where service=assistant\n"
)
HOOK = {"name": "hook", "url": "http://127.0.0.1:9/", "allow_private": True}
SETTINGS = AlertsSettings(receivers=(WebhookSettings.model_validate(HOOK),))


class Forgetful(StoreReader):
    """A door that cannot say who was heard of, which only a diagnosis asks."""

    def freshness(self, window, *, service=""):  # noqa: ARG002 - a protocol names its arguments
        raise RuntimeError(f"nobody remembers {window}")


def judged(folder, state_path, kind, end_s, *, promises=PROMISE):
    """The state of an evaluator that has seen the incident, and its reader."""
    reader = kind(folder, now=lambda: float(end_s))
    state = open_state(f"sqlite:///{state_path}")
    evaluator = Evaluator(reader, load(promises), state, settings=SETTINGS)
    evaluator.tick(STARTED_S + 71.0)
    evaluator.tick(end_s + 61.0)
    reader.close()
    return state


TWO = """objectives:
  - {name: tokens, phrase: p95 tpot <= 16ms over 30d where service=assistant}
  - {name: first, phrase: p99 ttft <= 1.5s over 30d where service=assistant}
"""


def told(state):
    """What a receiver is to be told of what fires, and what is kept of it."""
    with Session(state) as session:
        bodies = [json.loads(row.body) for row in session.scalars(select(OutboxRow))]
    page = next(each for each in bodies if each["event"] == "firing")
    return page, SqlLedger(state).diagnosed(page["alert_id"])


def test_a_page_says_the_cause_and_what_to_do_and_keeps_why(rehearsed, tmp_path):
    folder, end_s = rehearsed("queue")
    state = judged(folder, tmp_path / "state.db", StoreReader, end_s)
    page, kept = told(state)

    assert page["severity"] == "page"
    assert page["diagnosis"][0].startswith("B9, high: sudden load")
    assert page["next"] == "scale out or shed load"
    assert page["text"].count("Next:") == 1
    assert "Next: scale out or shed load." in page["text"]
    assert len(page["diagnosis"]) <= 3
    assert [lines(kept.first)[0], kept.first.at_s % 60] == [page["diagnosis"][0], 0]

    app = FastAPI()
    app.include_router(router(SqlLedger(state)))
    answer = TestClient(app).get(f"/api/v1/alerts/{page['alert_id']}").json()["diagnosis"]
    assert answer["first"]["causes"][0]["rule"] == "B9"
    state.dispose()


def test_a_diagnosis_that_fails_keeps_no_page_back_and_says_so(rehearsed, tmp_path, caplog):
    folder, end_s = rehearsed("queue")
    state = judged(folder, tmp_path / "state.db", Forgetful, end_s)
    page, kept = told(state)
    state.dispose()

    assert page["severity"] == "page"
    assert page["diagnosis"] == []
    assert "Queue carries" in page["text"]
    assert "could not be diagnosed" in caplog.text
    assert kept.first.trouble.startswith("RuntimeError: nobody remembers")


SEEN = """objectives:
  - name: seen
    phrase: p99 ttft <= 1s over 30d where service=assistant and source=client
"""


def test_a_slow_network_is_said_of_the_users_region_and_not_of_the_servers(rehearsed, tmp_path):
    folder, end_s = rehearsed("network")
    state = judged(folder, tmp_path / "state.db", StoreReader, end_s, promises=SEEN)
    page, _ = told(state)
    state.dispose()

    assert "Network carries" in page["text"]
    assert "worst in us-east-1 with" in page["text"]
    assert "in the median region" in page["text"]


def test_two_promises_of_a_service_have_each_their_own_answer(rehearsed, tmp_path):
    folder, end_s = rehearsed("queue")
    state = judged(folder, tmp_path / "state.db", StoreReader, end_s, promises=TWO)
    ledger = SqlLedger(state)
    answers = {
        each.objective_name: ledger.diagnosed(each.id).first
        for each in ledger.alerts()
        if each.severity is Severity.PAGE
    }
    state.dispose()

    first, tokens = answers["first"], answers["tokens"]
    assert (first.since_s, first.until_s) == (tokens.since_s, tokens.until_s)
    assert "the stage that grew most is decode" in contra_of(tokens, "B9")
    assert "the stage that grew most is decode" not in contra_of(first, "B9")


def contra_of(found, rule):
    return next(each.contra for each in found.causes if each.rule == rule)
