"""A receiver that is out for ten minutes: it gets everything once, the others are not delayed."""

import threading
import time

import pytest
from sqlalchemy import event

from alerts.breaker import CLOSED, Breaker
from alerts.courier import Courier
from alerts.delivery import Delivery
from alerts.receivers.attempt import Attempt, Fate
from alerts.receivers.settings import WebhookSettings
from alerts.receivers.webhook import Webhook
from alerts.tables import AttemptRow, open_state
from tests.alerts.outbox import START_S, Clock, events, put, rows
from tests.alerts.pager import Pager

OUT_S = 600.0


@pytest.fixture
def state(tmp_path):
    engine = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    yield engine
    engine.dispose()


def settings(pager, name, **changes):
    return WebhookSettings(name=name, url=pager.url, allow_private=True, **changes)


class Outage:
    """A pager that answers so until its time is over by the clock of the test."""

    def __init__(self, pager, clock, answer):
        self.pager, self.clock, self.answer = pager, clock, answer
        self.asked_at_s = []

    def __len__(self):
        """As many answers as are asked for."""
        self.asked_at_s.append(self.clock())
        return int(self.clock() < START_S + OUT_S)

    def pop(self, _):
        return self.answer


def told(pager):
    return [(each["alert_id"], each["event"]) for each in pager.accepted]


@pytest.mark.parametrize(
    "answer",
    [(500, {}), (429, {"Retry-After": "45"})],
    ids=["500", "429 with Retry-After"],
)
def test_ten_minutes_out_and_then_everything_once(state, answer):
    clock = Clock()
    with Pager() as dead, Pager() as well:
        dead.answers = outage = Outage(dead, clock, answer)
        both = [settings(dead, "dead"), settings(well, "well")]
        couriers = [Courier(state, Webhook(each)) for each in both]
        firsts = {}

        def happen(number, kind):
            for name in ("dead", "well"):
                put(state, name, kind, alert=f"alert-{number}", now_s=clock())

        def note(number):
            firsts[number] = len(well.accepted)

        plan = []
        for number in range(12):
            plan += [(START_S + 30 * number, lambda n=number: happen(n, "firing"))]
            plan += [(START_S + 30 * number + 6.0, lambda n=number: note(n))]
            plan += [(START_S + 30 * number + 200, lambda n=number: happen(n, "resolved"))]
        clock.run(couriers, START_S + OUT_S + 130, at=plan, step_s=5.0)

    expected = {
        (f"alert-{number}", kind) for number in range(12) for kind in ("firing", "resolved")
    }
    assert sorted(told(dead)) == sorted(told(well)) == sorted(expected)
    assert len([post for post in dead.posts if post["status"] == 200]) == len(expected)
    for number in range(12):
        order = [event for alert, event in told(dead) if alert == f"alert-{number}"]
        assert order == ["firing", "resolved"]
    failed = [at_s for at_s in outage.asked_at_s if at_s < START_S + OUT_S]
    assert len(failed) <= 25  # an open circuit is not an attempt for each alert and second
    assert {row.outcome for row in rows(state)} == {"delivered"}
    assert all(firsts[number] > firsts.get(number - 1, 0) for number in range(12))


def test_who_says_when_to_come_back_is_left_in_peace_till_then(state):
    clock = Clock()
    with Pager([(429, {"Retry-After": "45"})]) as pager:
        courier = Courier(state, Webhook(settings(pager, "busy")))
        put(state, "busy", alert="one")
        put(state, "busy", alert="two")
        clock.run([courier], START_S + 44.9)
        posted_before = len(pager.posts)
        clock.run([courier], START_S + 50)

    assert posted_before == 1
    assert len(pager.accepted) == 2


def test_a_dead_receiver_costs_no_look_into_the_outbox(state):
    clock = Clock()
    with Pager([(500, {})] * 100) as pager:
        courier = Courier(state, Webhook(settings(pager, "dead")))
        for number in range(6):
            put(state, "dead", alert=f"alert-{number}")
        courier.deliver(clock)
        posted = len(pager.posts)
        looked = []
        event.listen(state, "before_cursor_execute", lambda *_: looked.append(1))
        clock.now_s += 5
        courier.deliver(clock)

    assert posted == 5
    assert courier.breaker.open
    assert not looked
    assert len(pager.posts) == posted


def test_the_log_says_that_it_is_left_in_peace(state):
    clock = Clock()
    with Pager([(500, {})] * 5) as pager:
        courier = Courier(state, Webhook(settings(pager, "dead")))
        put(state, "dead")
        clock.run([courier], START_S + 60)

    details = [row.detail for row in rows(state, AttemptRow)]
    assert details == [*["HTTP 500"] * 4, "HTTP 500 (left in peace for a while)", "HTTP 200"]
    assert courier.breaker == CLOSED


def test_a_hang_of_two_seconds_in_real_time_delays_no_other_and_everything_comes_once(state):
    with Pager() as dead, Pager() as well:
        dead.hang.clear()
        both = [settings(dead, "dead", timeout_s=0.3), settings(well, "well")]
        delivery = Delivery(state, both)
        for name in ("dead", "well"):
            for kind in ("firing", "resolved"):
                put(state, name, kind, now_s=time.time())
        delivery.start()
        began_s = time.monotonic()
        well.wait_for(2)
        took_s = time.monotonic() - began_s
        threading.Timer(1.0, dead.hang.set).start()
        dead.wait_for(2)
        delivery.close()

    assert took_s < 3
    assert delivery.warning() is None
    assert delivery.counts()["stagewatch_alerts_receivers"] == 2
    assert (
        told(dead)
        == told(well)
        == [
            ("chat-ttft-page-1", "firing"),
            ("chat-ttft-page-1", "resolved"),
        ]
    )


def test_the_others_are_told_of_a_receiver_that_cannot_be_told_and_of_its_return(state):
    clock = Clock()
    with Pager() as dead, Pager() as well:
        dead.answers = Outage(dead, clock, (500, {}))
        both = [settings(dead, "dead"), settings(well, "well")]
        couriers = [
            Courier(state, Webhook(both[0]), [both[1]]),
            Courier(state, Webhook(both[1]), [both[0]]),
        ]
        put(state, "dead")
        clock.run(couriers, START_S + OUT_S + 130, step_s=10.0)

    fired, over = well.accepted
    assert (fired["event"], over["event"]) == ("firing", "resolved")
    assert fired["dedup_key"] == over["dedup_key"]
    assert fired["tier"] == "receiver"
    assert "Receiver dead could not be told: HTTP 500" in fired["text"]
    assert fired["links"]["runbook"].endswith("/runbook#receiver")
    assert "151 of 1000" in fired["text"]
    assert over["text"] == "Receiver dead can be told again."
    assert [each["tier"] for each in dead.accepted] == ["page"]


def test_a_notification_that_is_refused_is_told_to_another_at_once(state):
    clock = Clock()
    with Pager([(400, {})]) as picky, Pager() as well:
        both = [settings(picky, "picky"), settings(well, "well", severities=["ticket"])]
        put(state, "picky")
        Courier(state, Webhook(both[0]), [both[1]]).deliver(clock)
        Courier(state, Webhook(both[1]), [both[0]]).deliver(clock)

    assert events(state, "picky") == [("page", "firing", "refused")]
    assert "it was given up" in well.accepted[0]["text"]


def test_there_is_no_alarm_about_an_alarm(state):
    clock = Clock()
    with Pager([(400, {})] * 9) as one, Pager([(400, {})] * 9) as two:
        both = [settings(one, "one"), settings(two, "two")]
        put(state, "one")
        couriers = [Courier(state, Webhook(a), [b]) for a, b in (both, both[::-1])]
        clock.run(couriers, START_S + 5)

    assert events(state, "one") == [("page", "firing", "refused")]
    assert events(state, "two") == [("receiver", "firing", "refused")]


def test_a_receiver_alone_has_nobody_to_tell(state):
    with Pager([(400, {})]) as pager:
        put(state, "only")
        Courier(state, Webhook(settings(pager, "only"))).deliver(Clock())

    assert events(state, "only") == [("page", "firing", "refused")]


RETRY = Attempt(fate=Fate.RETRY, detail="HTTP 500")


def failed(times, breaker=CLOSED, now_s=0.0):
    for _ in range(times):
        breaker = breaker.after(RETRY, now_s)
    return breaker


def test_five_failures_in_a_row_open_it_and_one_answer_closes_it():
    four, five = failed(4), failed(5)

    assert (four.open, four.allows(0.0)) == (False, True)
    assert (five.open, five.allows(0.0), five.allows(10.0)) == (True, False, True)
    assert five.after(Attempt(fate=Fate.DELIVERED, detail=""), 11.0) == CLOSED
    assert five.after(Attempt(fate=Fate.REFUSED, detail=""), 11.0) == CLOSED


@pytest.mark.parametrize(("times", "wait_s"), [(5, 10), (6, 20), (7, 40), (8, 60), (500, 60)])
def test_an_open_one_asks_ever_more_rarely_but_once_a_minute(times, wait_s):
    assert failed(times).until_s == wait_s


def test_who_asks_for_more_gets_it_and_the_first_failure_is_remembered():
    asked = Attempt(fate=Fate.RETRY, detail="HTTP 429", retry_after_s=300.0)
    breaker = failed(3, now_s=7.0).after(asked, 8.0)

    assert breaker == Breaker(failures=4, since_s=7.0, until_s=308.0, detail="HTTP 429")
