"""What fires says why; whatever is wrong with the diagnosis, the page goes out."""

import json

from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.definition import load
from alerts.evaluator import Evaluator
from alerts.receivers.settings import WebhookSettings
from alerts.settings import AlertsSettings
from alerts.tables import OutboxRow, open_state
from collector.reader import StoreReader
from tests.alerts.diagnosis.rehearsal import STARTED_S

PROMISE = (
    "objectives:\n  - name: first\n    phrase: p99 ttft <= 1.5s over 30d where service=assistant\n"
)
HOOK = {"name": "hook", "url": "http://127.0.0.1:9/", "allow_private": True}
SETTINGS = AlertsSettings(receivers=(WebhookSettings.model_validate(HOOK),))


class Forgetful(StoreReader):
    """A door that cannot say who was heard of, which only a diagnosis asks."""

    def freshness(self, window):
        raise RuntimeError(f"nobody remembers {window}")


def paged(folder, state_path, kind, end_s):
    """The bodies that a receiver is to be told."""
    reader = kind(folder, now=lambda: float(end_s))
    state = open_state(f"sqlite:///{state_path}")
    evaluator = Evaluator(reader, load(PROMISE), state, settings=SETTINGS)
    evaluator.tick(STARTED_S + 71.0)
    evaluator.tick(end_s + 61.0)
    with Session(state) as session:
        bodies = [json.loads(row.body) for row in session.scalars(select(OutboxRow))]
    reader.close()
    state.dispose()
    return [each for each in bodies if each["event"] == "firing"]


def test_a_page_says_the_cause_and_what_to_do(rehearsed, tmp_path):
    folder, end_s = rehearsed("queue")
    (page,) = paged(folder, tmp_path / "state.db", StoreReader, end_s)[:1]

    assert page["severity"] == "page"
    assert page["diagnosis"][0].startswith("B9, high: sudden load")
    assert "Next: scale out or shed load." in page["diagnosis"][0]
    assert len(page["diagnosis"]) <= 3


def test_a_diagnosis_that_fails_keeps_no_page_back(rehearsed, tmp_path, caplog):
    folder, end_s = rehearsed("queue")
    (page,) = paged(folder, tmp_path / "state.db", Forgetful, end_s)[:1]

    assert page["severity"] == "page"
    assert page["diagnosis"] == []
    assert "Queue carries" in page["text"]
    assert "could not be diagnosed" in caplog.text
