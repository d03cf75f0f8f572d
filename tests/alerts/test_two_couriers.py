"""Two processes on one outbox: each notification is carried by one of them."""

import threading

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.courier import Courier
from alerts.receivers.attempt import Attempt, Fate
from alerts.receivers.settings import WebhookSettings
from alerts.receivers.webhook import Webhook
from alerts.tables import OutboxRow, open_state, writing
from tests.alerts.pager import Pager

NOW_S = 1_000_000.0


@pytest.fixture
def state(tmp_path):
    engine = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    with writing(engine) as session, session.begin():
        session.add(
            OutboxRow(
                key="one",
                receiver="pager",
                dedup_key="chat",
                body="{}",
                created_at_s=NOW_S,
                next_at_s=NOW_S,
                attempts=0,
                done_at_s=None,
                outcome="waiting",
            )
        )
    yield engine
    engine.dispose()


def courier(state, pager):
    settings = WebhookSettings(name="pager", url=pager.url, allow_private=True, timeout_s=10)
    return Courier(state, Webhook(settings))


def test_what_one_process_is_sending_no_other_sends(state):
    with Pager() as pager:
        pager.hang.clear()
        first = threading.Thread(target=courier(state, pager).deliver, args=(lambda: NOW_S,))
        first.start()
        with Session(state) as session:
            while session.scalar(select(OutboxRow.next_at_s)) == NOW_S:
                session.rollback()
        courier(state, pager).deliver(lambda: NOW_S + 1)
        pager.hang.set()
        first.join()
        courier(state, pager).deliver(lambda: NOW_S + 60)

        assert [post["key"] for post in pager.posts] == ["one"]


def test_what_a_killed_process_was_sending_is_sent_again(state):
    with Pager() as pager:
        assert courier(state, pager)._claim(NOW_S) is not None  # and then it is killed

        courier(state, pager).deliver(lambda: NOW_S + 5)
        assert pager.posts == []
        courier(state, pager).deliver(lambda: NOW_S + 11)

        assert [post["key"] for post in pager.posts] == ["one"]


class Broken:
    """A receiver that answers 500 until an instant, and counts what it took from then on."""

    def __init__(self, until_s):
        self.settings = WebhookSettings(name="pager", url="https://pager.example")
        self.until_s, self.taken = until_s, []

    def send(self, body, *, key, now_s, receipt=""):
        del body, receipt
        if now_s < self.until_s:
            return Attempt(fate=Fate.RETRY, detail="HTTP 500")
        self.taken.append(key)
        return Attempt(fate=Fate.DELIVERED, detail="HTTP 200")


def test_two_processes_and_a_receiver_that_is_broken_for_ten_seconds_make_one_page(state):
    """SL9."""
    receiver, now_s = Broken(NOW_S + 10), NOW_S
    couriers = [Courier(state, receiver), Courier(state, receiver)]
    while now_s < NOW_S + 120:
        now_s += min(each.deliver(lambda now_s=now_s: now_s) for each in couriers)

    assert receiver.taken == ["one"]
