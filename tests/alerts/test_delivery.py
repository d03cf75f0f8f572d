"""The outbox, emptied into real pagers that fail in the ways pagers fail."""

import json
import threading
import time

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.courier import Courier, backoff_s
from alerts.delivery import Delivery
from alerts.receivers.settings import WebhookSettings
from alerts.receivers.webhook import Webhook
from alerts.tables import AttemptRow, OutboxRow, open_state, writing
from tests.alerts.pager import Pager


@pytest.fixture
def state(tmp_path):
    engine = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    yield engine
    engine.dispose()


def receiver(pager, name="pager", **settings):
    return WebhookSettings(name=name, url=pager.url, allow_private=True, **settings)


def put(state, event="firing", *, name="pager", dedup_key="a", created_at_s=None):
    created_at_s = time.time() if created_at_s is None else created_at_s
    with writing(state) as session, session.begin():
        session.add(
            OutboxRow(
                key=f"{name}-{dedup_key}-{event}",
                receiver=name,
                dedup_key=dedup_key,
                body=json.dumps({"event": event, "dedup_key": dedup_key}),
                created_at_s=created_at_s,
                next_at_s=created_at_s,
                attempts=0,
                done_at_s=None,
                outcome="waiting",
            )
        )


def rows(state, table):
    with Session(state) as session:
        return list(session.scalars(select(table).order_by(table.id)))


class Running:
    """Couriers in threads for the time of a test."""

    def __init__(self, state, *receivers):
        self.delivery = Delivery(state, receivers)

    def __enter__(self):
        self.delivery.start()
        return self.delivery

    def __exit__(self, *_):
        self.delivery.close()


def test_a_notification_arrives_once_with_its_key(state):
    with Pager() as pager, Running(state, receiver(pager)) as delivery:
        put(state)
        delivery.wake()
        pager.wait_for(1)

    assert [post["key"] for post in pager.posts] == ["pager-a-firing"]


def test_what_was_put_in_while_nobody_ran_is_sent_at_the_start(state):
    put(state)
    with Pager() as pager, Running(state, receiver(pager)):
        assert pager.wait_for(1) == [{"event": "firing", "dedup_key": "a"}]


def test_a_pager_that_asks_for_two_seconds_gets_them(state):
    put(state)
    with Pager([(429, {"Retry-After": "2"})]) as pager, Running(state, receiver(pager)):
        pager.wait_for(1)

    first, second = pager.posts
    assert second["at_s"] - first["at_s"] >= 2
    assert first["key"] == second["key"]


def test_a_pager_that_is_broken_for_a_while_gets_exactly_one_page(state):
    put(state)
    with Pager([(500, {})] * 2) as pager, Running(state, receiver(pager)):
        pager.wait_for(1)

    assert [post["status"] for post in pager.posts] == [500, 500, 200]
    assert len(pager.accepted) == 1
    assert [each.outcome for each in rows(state, AttemptRow)] == ["retry", "retry", "delivered"]


def test_a_resolve_waits_for_its_page(state):
    put(state, "firing")
    put(state, "resolved")
    put(state, "firing", dedup_key="b")
    with Pager([(503, {})]) as pager, Running(state, receiver(pager)):
        accepted = pager.wait_for(3)

    assert [(each["dedup_key"], each["event"]) for each in accepted] == [
        ("b", "firing"),
        ("a", "firing"),
        ("a", "resolved"),
    ]


def test_a_receiver_that_hangs_delays_no_other(state):
    with Pager() as dead, Pager() as well:
        dead.hang.clear()
        put(state, name="dead")
        put(state, name="well")
        began_s = time.monotonic()
        with Running(state, receiver(dead, "dead"), receiver(well, "well")):
            well.wait_for(1)
            took_s = time.monotonic() - began_s

    assert len(well.accepted) == 1
    assert took_s < 5


def test_a_pager_that_says_no_is_not_asked_again(state):
    put(state)
    put(state, "resolved")
    with Pager([(400, {})]) as pager, Running(state, receiver(pager)):
        pager.wait_for(1)

    assert [row.outcome for row in rows(state, OutboxRow)] == ["refused", "delivered"]


def test_an_old_notification_is_given_up_and_the_next_one_goes(state):
    put(state, created_at_s=0.0)
    put(state, "resolved", created_at_s=90.0)
    with Pager([(500, {})]) as pager:
        webhook = Webhook(receiver(pager, give_up_after_s=60))
        Courier(state, webhook).deliver(lambda: 100.0)
        webhook.close()

    assert [row.outcome for row in rows(state, OutboxRow)] == ["given up", "delivered"]


def test_closing_does_not_wait_for_a_hanging_pager(state):
    put(state)
    with Pager() as pager:
        pager.hang.clear()
        delivery = Delivery(state, [receiver(pager, timeout_s=10)])
        delivery.start()
        began_s = time.monotonic()
        delivery.close(timeout_s=0.5)
        took_s = time.monotonic() - began_s
        pager.hang.set()
        for thread in threading.enumerate():
            if thread.name == "receiver pager":
                thread.join(10)

    assert took_s < 2


def test_nothing_secret_is_logged(state, caplog):
    put(state)
    with Pager([(400, {})]) as pager:
        webhook = Webhook(receiver(pager, headers={"Authorization": "Bearer s3cret"}))
        Courier(state, webhook).deliver(time.time)
        webhook.close()

    assert pager.posts[0]["headers"]["Authorization"] == "Bearer s3cret"
    assert "HTTP 400" in caplog.text
    assert "s3cret" not in caplog.text + repr(webhook.settings)


@pytest.mark.parametrize(
    ("attempts", "asked_s", "waits_s"),
    [(1, None, 1), (2, None, 2), (4, None, 8), (30, None, 60), (1, 30.0, 30), (7, 2.0, 60)],
)
def test_the_wait_doubles_up_to_a_minute_and_is_never_shorter_than_asked(
    attempts, asked_s, waits_s
):
    assert backoff_s(attempts, asked_s) == waits_s
