"""What others read: standings, alerts, and the same words everywhere."""

import json

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.api import router
from alerts.evaluator import Evaluator
from alerts.receivers.preview import preview
from alerts.settings import AlertsSettings
from alerts.sql_ledger import SqlLedger
from alerts.tables import OutboxRow, open_state
from collector.query import Window
from tests.alerts.fleet import START_S, Fleet, chat, minute, outage
from tests.alerts.receivers.told import NOW_S, RECEIVERS
from tests.alerts.test_blame import on, stages

RECEIVER = {"name": "pager", "url": "http://127.0.0.1:9/", "allow_private": True}
TWO = "- {phrase: 'p99 ttft <= 1.5s', name: chat}\n- {phrase: 'p50 e2e <= 30s', name: slow}"
BURNT = Window(since_s=START_S + 3600 * 8, until_s=START_S + 3600 * 9)
EARLIER = Window(since_s=START_S, until_s=START_S + 3600 * 8)


class TwoServices(Fleet):
    """One promise is broken and one is kept."""

    def slices(self, indicator, window):
        found = super().slices(indicator, window)
        if indicator.metric == "ttft":
            return found
        return [minute((each.minute_at_s - START_S) // 60) for each in found]


@pytest.fixture
def burning(tmp_path):
    state = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    fleet = TwoServices(outage(480, 12))
    fleet.told_stages = [
        stages({"queue": 0.05, "prefill": 0.2}, window=EARLIER),
        stages({"queue": 2.1, "prefill": 0.2}, window=BURNT),
    ]
    for replica, queue_s in (("a", 0.1), ("b", 6.0), ("c", 0.2)):
        each = on(replica, queue_s)
        fleet.told_stages.append(stages({"queue": queue_s}, each.labels, BURNT))
    settings = AlertsSettings(receivers=(RECEIVER,), public_url="http://watch.example/")
    evaluator = Evaluator(fleet, chat(TWO), state, settings=settings)
    for index in range(470, 493):
        evaluator.tick(START_S + 60 * index + 11)
    yield state
    state.dispose()


@pytest.fixture
def api(burning):
    app = FastAPI(docs_url=None, redoc_url=None)
    app.include_router(router(SqlLedger(burning)))
    with TestClient(app) as client:
        yield client


def test_the_worst_promise_stands_first(burning):
    standings = SqlLedger(burning).standings()

    assert [(each.id, each.state.value) for each in standings] == [
        ("chat", "page"),
        ("slow", "healthy"),
    ]


def test_a_standing_carries_three_hours_of_minutes_without_gaps(burning):
    slices = SqlLedger(burning).standing("chat").slices

    assert len(slices) == 180
    assert slices[-1].minute_at_s == START_S + 60 * 491
    assert [each.good_low for each in slices[-13:]] == [600] + [0] * 12


def test_the_notification_the_page_and_the_api_say_the_same(burning, api):
    with Session(burning) as session:
        rows = [json.loads(row.body) for row in session.scalars(select(OutboxRow))]
    page = next(each for each in rows if each["severity"] == "page")
    history = api.get(f"/api/v1/alerts/{page['alert_id']}").json()["history"]

    assert history[0]["text"] == page["text"]
    assert (
        SqlLedger(burning).standing("chat").message
        == api.get("/api/v1/slos/chat").json()["message"]
    )


def test_the_notification_says_counts_stage_place_and_links(burning):
    with Session(burning) as session:
        rows = [json.loads(row.body) for row in session.scalars(select(OutboxRow))]
    page = next(each for each in rows if each["severity"] == "page")

    assert page["version"] == 1
    assert page["event"] == "firing"
    assert page["objective"] == "chat"
    assert page["counts"]["long"] == {
        "window_s": 3600,
        "bad": 5400,
        "bad_possible": 5400,
        "total": 36000,
    }
    assert page["stage"] == "queue"
    assert page["place"] == {"pool": "chat", "replica": "b"}
    assert page["not_measured"] == ["network", "overhead", "kv_transfer"]
    assert page["started_at"] == "2026-03-01T16:09:00Z"
    assert page["links"]["alert"] == f"http://watch.example/alerts/{page['alert_id']}"
    assert "5400 of 36000 requests" in page["text"]
    assert "Queue carries 100 % of what grew: now 2.1 s, 50 ms before" in page["text"]
    assert "worst on b (pool chat)" in page["text"]


def test_every_kind_of_receiver_shows_what_the_evaluation_found(burning):
    with Session(burning) as session:
        rows = [json.loads(row.body) for row in session.scalars(select(OutboxRow))]
    page = next(each for each in rows if each["severity"] == "page")

    assert page["labels"] == {}
    assert (page["stale"], page["diagnosis"], page["summary"]) == (False, [], "")
    for receiver in RECEIVERS.values():
        shown = preview(receiver, page, now_s=NOW_S)
        assert "5400 of 36000" in shown.replace("=\n", "")
        assert page["links"]["alert"] in shown.replace("=\n", "")


def test_the_list_of_objectives_is_json_with_doubt_and_without_nan(api):
    answer = api.get("/api/v1/slos")

    chat_, slow = answer.json()["slos"]
    assert chat_["state"] == "page"
    assert chat_["budget"]["remaining_low"] == chat_["budget"]["remaining_high"]
    assert chat_["burn"]["low"] == pytest.approx(20.0)
    assert slow["exhausted_in_s"] is None
    assert {rule["name"] for rule in chat_["rules"]} >= {"page-quick", "ticket-slow"}
    assert "NaN" not in answer.text


def test_alerts_are_listed_open_ones_first(api):
    alerts = api.get("/api/v1/alerts").json()["alerts"]

    assert {each["severity"] for each in alerts} == {"page", "ticket"}
    page = next(each for each in alerts if each["severity"] == "page")
    assert (page["state"], page["kind"], page["flaps"]) == ("firing", "burn", 1)
    assert page["why"][0].startswith("last 1 h: 7200 of 36000 bad")
    assert page["blame"]["stage"] == "queue"


@pytest.mark.parametrize("path", ["slos/none", "alerts/none"])
def test_what_is_not_there_is_404_with_the_way_out(api, path):
    answer = api.get(f"/api/v1/{path}")

    assert answer.status_code == 404
    assert "see /api/v1/" in answer.json()["detail"]


def test_an_objective_without_traffic_has_no_budget_figure(tmp_path):
    state = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    evaluator = Evaluator(Fleet([minute(index, 0, 0) for index in range(30)]), chat(), state)
    evaluator.tick(START_S + 30 * 60 + 11)

    (standing,) = SqlLedger(state).standings()
    state.dispose()

    assert standing.state == "no traffic"
    assert standing.budget.remaining_low is None
    assert standing.burn_low is None
    assert standing.exhausted_in_s is None
    assert standing.message == "chat had no traffic in the last 1 h."


def test_an_objective_that_nobody_observes_says_so(tmp_path):
    state = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    Evaluator(Fleet(), chat(), state).tick(START_S + 11)

    (standing,) = SqlLedger(state).standings()
    state.dispose()

    assert standing.state == "not observed"
    assert standing.data_age_s(START_S) is None
    assert standing.message == "chat is not observed."
