"""What the delivery log says, by its functions and by the API; what is repeated and remembered."""

import json

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from alerts.courier import Courier
from alerts.delivery_api import router
from alerts.delivery_log import deliveries, receivers
from alerts.receivers.prometheus import Alertmanager
from alerts.receivers.settings import AlertmanagerSettings, SlackSettings, WebhookSettings
from alerts.receivers.slack import Slack
from alerts.receivers.webhook import Webhook
from alerts.tables import AlertRow, ReceiptRow, open_state, writing
from tests.alerts.outbox import START_S, Clock, put
from tests.alerts.pager import Pager
from tests.alerts.receivers.listening import Listening

ALERT = "chat-ttft-page-1"


@pytest.fixture
def state(tmp_path):
    engine = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    yield engine
    engine.dispose()


def hook(pager, name="pager"):
    return Webhook(WebhookSettings(name=name, url=pager.url, allow_private=True))


def test_every_attempt_is_in_the_log_newest_notification_first(state):
    with Pager([(500, {})]) as pager:
        put(state, "pager", "firing", alert=ALERT)
        put(state, "pager", "resolved", alert=ALERT)
        Clock().run([Courier(state, hook(pager))], START_S + 5)

    last, first = deliveries(state)
    assert (last.event, last.outcome, last.attempts) == ("resolved", "delivered", 1)
    assert (first.event, first.alert_id, first.attempts) == ("firing", ALERT, 2)
    assert [each.detail for each in first.tries] == ["HTTP 500", "HTTP 200"]


def test_the_log_can_be_asked_for_one_receiver_and_one_alert(state):
    put(state, "one", alert='a"b%')
    put(state, "two", alert='a"b%')
    put(state, "two", alert="another")

    assert [each.alert_id for each in deliveries(state, receiver="two")] == ["another", 'a"b%']
    assert [each.receiver for each in deliveries(state, alert_id='a"b%')] == ["two", "one"]
    assert len(deliveries(state, limit=1)) == 1


def test_how_a_receiver_is_doing(state):
    with Pager([(500, {})] * 9) as pager:
        put(state, "dead", alert="one")
        put(state, "dead", alert="two", now_s=START_S + 1)
        Courier(state, hook(pager, "dead")).deliver(Clock())
    put(state, "idle")

    dead, idle = receivers(state)
    assert (dead.waiting, dead.waiting_since_s, dead.delivered_at_s) == (2, START_S, None)
    assert dead.last.detail == "HTTP 500"
    assert (idle.waiting, idle.last) == (1, None)


def test_the_api_gives_both(state):
    with Pager() as pager:
        put(state, "pager", alert=ALERT)
        Courier(state, hook(pager)).deliver(Clock())
    app = FastAPI()
    app.include_router(router(state))

    with TestClient(app) as client:
        sent = client.get("/api/v1/deliveries", params={"receiver": "pager", "limit": 5}).json()
        doing = client.get("/api/v1/receivers").json()
        wrong = client.get("/api/v1/deliveries", params={"limit": 0})

    assert sent["deliveries"][0]["tries"] == [
        {"at": "2026-03-01T12:09:00.000Z", "outcome": "delivered", "detail": "HTTP 200"}
    ]
    assert doing["receivers"][0]["state"] == "well"
    assert wrong.status_code == 422


def test_what_slack_calls_its_message_is_remembered_until_the_end(state):
    posted = (200, {}, json.dumps({"ok": True, "channel": "C0AB", "ts": "1.5"}))
    with Listening(usual=posted) as service:
        settings = SlackSettings(
            name="chat",
            type="slack",
            bot_token="xoxb-1",  # noqa: S106 - an invented one
            channel="C0AB",
            api_url=service.url,
            allow_private=True,
        )
        for kind in ("firing", "resolved"):
            put(state, "chat", kind, alert=ALERT)
            Courier(state, Slack(settings)).deliver(Clock())  # a courier of a later process

    assert [post["path"] for post in service.posts] == [
        *("/chat.postMessage", "/chat.update", "/chat.postMessage")
    ]
    with Session(state) as session:
        assert session.get(ReceiptRow, ("chat", ALERT)).receipt == "C0AB:1.5"


def fire(state, alert=ALERT):
    """An open alert, as the evaluation keeps it."""
    with writing(state) as session, session.begin():
        session.add(
            AlertRow(
                id=alert,
                objective_id="chat-ttft",
                objective_name="chat-ttft",
                tier="page",
                severity="page",
                dedup_key=f"key of {alert}",
                started_at_s=int(START_S),
                resolved_at_s=None,
                told=True,
                inhibited=False,
                stale=False,
                message="",
                why="[]",
                blame="null",
            )
        )


def end(state, alert=ALERT):
    with writing(state) as session, session.begin():
        session.get_one(AlertRow, alert).resolved_at_s = int(START_S) + 100


def test_alertmanager_is_told_again_what_fires_until_it_is_over_and_nobody_else_is(state):
    clock = Clock()
    with Listening() as service, Pager() as pager:
        settings = AlertmanagerSettings(
            name="am", type="alertmanager", url=service.url, allow_private=True, again_s=30
        )
        couriers = [Courier(state, Alertmanager(settings)), Courier(state, hook(pager))]
        fire(state)
        put(state, "am", alert=ALERT)
        put(state, "pager", alert=ALERT)
        clock.run(couriers, START_S + 95, step_s=2.0)
        posted = len(service.posts)
        end(state)
        put(state, "am", "resolved", alert=ALERT)
        clock.run(couriers, START_S + 200, step_s=2.0)

    ends = [post["json"][0]["endsAt"] for post in service.posts]
    assert posted == 5  # at once, and again at 0, 30, 60 and 90 s
    assert len(service.posts) == posted + 1
    assert ends[:posted] == sorted(ends[:posted])
    assert ends[-1] < ends[0]
    assert len(pager.posts) == 1
