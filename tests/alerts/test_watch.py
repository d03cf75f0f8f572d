"""A stalled engine pages within ten seconds, by what its own sidecar tells, and nothing but progress ends it."""

import json

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.incident import Event
from alerts.settings import AlertsSettings
from alerts.sql_ledger import SqlLedger
from alerts.tables import OutboxRow, open_state
from alerts.watch import Watch
from tests.alerts.engines import STALLED_AFTER_S, START_S, hang, sidecar

RECEIVER = {"name": "pager", "url": "http://127.0.0.1:9/", "allow_private": True}
STILL = {"up": 1, "requests_running": 1, "requests_waiting": 0, "generation_tokens": 0}


@pytest.fixture
def state(tmp_path):
    engine = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    yield engine
    engine.dispose()


@pytest.fixture
def told(tmp_path):
    with sidecar(tmp_path / "data") as found:
        yield found


def watch(told, state, **conditions):
    settings = AlertsSettings(receivers=(RECEIVER,), conditions=conditions)
    return Watch(told.reader, state, settings=settings)


def outbox(state):
    with Session(state) as session:
        rows = session.scalars(select(OutboxRow).order_by(OutboxRow.id))
        return [json.loads(row.body) for row in rows]


def stall(told, watching, *, seconds=12, moving=3):
    """An engine that moves, and then stands still; the changes by second."""
    changes = {}
    for t in range(moving + seconds):
        still = t >= moving
        stalled = int(t - moving + 1 >= STALLED_AFTER_S)
        grown = 0 if still else 40
        told.push(START_S + t, **{**STILL, "generation_tokens": grown}, engine_stalled=stalled)
        changes[t] = watching.tick(START_S + t + 0.2)
    return changes


def test_a_real_engine_that_hangs_pages_while_it_hangs_and_is_over_when_it_moves(told, state):
    watching = watch(told, state)
    events = {}
    sentences = {}
    for t, values in hang():
        told.push(START_S + t, **values)
        for change in watching.tick(START_S + t + 0.2):
            events.setdefault((change.incident.severity.value, change.event), t)
        sentences[t] = [each.message for each in SqlLedger(state).conditions()]

    assert 8 + STALLED_AFTER_S <= events["page", Event.FIRING] <= 8 + 10
    assert events["page", Event.RESOLVED] in (20, 21)
    (said,) = sentences[18]
    assert said.startswith("vllm-3 of chat has stood still for at least ")
    assert "1 request running, 0 waiting, no token after 10:00:" in said
    firing, resolved = (each for each in outbox(state) if each["severity"] == "page")
    assert (firing["stage"], firing["tier"]) == ("engine", "condition")
    assert firing["place"] == {"service": "chat", "replica": "vllm-3", "source": "page"}
    assert "restart its engine process" in firing["next"]
    assert resolved["event"] == "resolved"
    assert firing["dedup_key"] == resolved["dedup_key"]


def test_the_queue_right_after_a_stall_is_named_a_consequence(told, state):
    for t, values in hang():
        told.push(START_S + t, **values)
        if t == 21:
            break
    (over,) = told.reader.conditions(START_S + 21)

    assert over.over
    assert over.waiting == 23
    watching = watch(told, state)
    assert not watching.tick(START_S + 21.2)  # it is over before anybody looked: nobody is woken
    assert not outbox(state)


def test_a_killed_engine_is_down_and_nothing_ends_because_data_stopped(told, state):
    watching = watch(told, state, down_after_s=5)
    for t, values in hang():
        told.push(START_S + t, **values)
        watching.tick(START_S + t + 0.2)
    down = [each for each in outbox(state) if "target down" in each["objective"]]
    for later in (60, 600, 3600):
        watching.tick(START_S + 44 + later)

    assert [(each["event"], each["severity"]) for each in down] == [("firing", "ticket")]
    assert down[0]["text"].startswith("vllm-3 of chat has not answered since 10:00:32 UTC")
    assert ": refused." in down[0]["text"]
    (still,) = SqlLedger(state).conditions()
    assert still.stale
    assert "Stale: nothing has been heard of it since 10:00:44 UTC" in still.message


def test_a_stall_pages_five_seconds_after_the_sidecar_knows_at_the_latest(told, state):
    changes = stall(told, watch(told, state))

    first = next(t for t, found in changes.items() if found)
    assert first == 3 + STALLED_AFTER_S - 1


def test_a_stalled_engine_whose_page_vanishes_stays_and_says_stale(told, state):
    watching = watch(told, state)
    stall(told, watching)
    for later in (20, 60, 1200, 7200):
        assert not watching.tick(START_S + 15 + later)

    (alert,) = SqlLedger(state).conditions()
    assert alert.stale
    assert alert.open
    assert "Stale: nothing has been heard of it since 10:00:14 UTC" in alert.message
    assert [each["event"] for each in outbox(state)] == ["firing"]


def test_a_sidecar_that_restarts_beside_a_hung_engine_does_not_end_the_page(told, state):
    watching = watch(told, state)
    stall(told, watching)
    for t in range(15, 25):
        told.push(START_S + t, **STILL, engine_stalled=int(t >= 20))
        watching.tick(START_S + t + 0.2)

    assert [each["event"] for each in outbox(state)] == ["firing"]


def test_an_engine_restarted_with_nothing_to_do_ends_it(told, state):
    watching = watch(told, state)
    stall(told, watching)
    told.push(START_S + 15, **{**STILL, "requests_running": 0}, engine_stalled=0)
    watching.tick(START_S + 15.2)

    assert [each["event"] for each in outbox(state)] == ["firing", "resolved"]


def test_progress_that_was_missed_ends_it_when_somebody_looks_again(told, state):
    stall(told, watch(told, state))
    for t in range(1800, 1815):
        told.push(START_S + t, **{**STILL, "generation_tokens": 50}, engine_stalled=0)

    watch(told, state).tick(START_S + 1815.2)

    assert [each["event"] for each in outbox(state)] == ["firing", "resolved"]


def test_a_restart_at_every_second_tells_each_event_once(told, state):
    for t, values in hang():
        told.push(START_S + t, **values)
        watch(told, state, target_down="off").tick(START_S + t + 0.2)

    assert [each["event"] for each in outbox(state)] == ["firing", "resolved"]


def test_a_second_stall_is_a_second_page_under_the_same_key(told, state):
    watching = watch(told, state)
    stall(told, watching)
    for t in range(15, 18):
        told.push(START_S + t, **{**STILL, "generation_tokens": 9}, engine_stalled=0)
        watching.tick(START_S + t + 0.2)
    for t in range(18, 30):
        told.push(START_S + t, **STILL, engine_stalled=int(t >= 23))
        watching.tick(START_S + t + 0.2)

    found = outbox(state)
    assert [each["event"] for each in found] == ["firing", "resolved", "firing"]
    assert len({each["dedup_key"] for each in found}) == 1
    assert len({each["alert_id"] for each in found}) == 2


def test_a_replica_that_nobody_has_heard_of_for_a_day_ends_and_says_why(told, state):
    watching = watch(told, state, forget_after_s=600)
    stall(told, watching)
    watching.tick(START_S + 15 + 601)

    last = outbox(state)[-1]
    assert last["event"] == "resolved"
    assert "nobody has heard of it" in last["text"]
    assert not SqlLedger(state).conditions()


def test_what_is_switched_off_ends_its_alert(told, state):
    stall(told, watch(told, state))

    watch(told, state, engine_stalled="off").tick(START_S + 16)

    assert "no longer watched" in outbox(state)[-1]["text"]
    assert not SqlLedger(state).conditions()


def test_a_target_that_misses_one_scrape_wakes_nobody(told, state):
    watching = watch(told, state)
    for t in range(60):
        told.push(START_S + t, up=int(t != 20), reason="" if t != 20 else "timeout")
        watching.tick(START_S + t + 0.2)

    assert not outbox(state)


def test_a_target_that_answers_again_is_over(told, state):
    watching = watch(told, state)
    for t in range(90):
        down = 20 <= t < 70
        told.push(START_S + t, up=int(not down), reason="timeout" if down else "")
        watching.tick(START_S + t + 0.2)

    found = outbox(state)
    assert [each["event"] for each in found] == ["firing", "resolved"]
    assert found[-1]["text"].startswith("vllm-3 of chat answers again, after 5")


def test_two_replicas_that_stand_still_are_two_alerts(told, state):
    watching = watch(told, state)
    for t in range(12):
        for replica in ("a", "b", "c"):
            stalled = int(t >= 6 and replica != "c")
            grown = 20 if replica == "c" else 0
            values = {**STILL, "generation_tokens": grown, "engine_stalled": stalled}
            told.push(START_S + t, replica=replica, **values)
        watching.tick(START_S + t + 0.2)

    assert sorted(each["place"]["replica"] for each in outbox(state)) == ["a", "b"]


def test_a_look_that_fails_is_tried_again_and_loses_nothing(told, state):
    watching = watch(told, state)
    stall(told, watching, seconds=4)
    told.push(START_S + 8, **STILL, engine_stalled=1)
    working, watching._reader = watching._reader, None

    with pytest.raises(AttributeError):
        watching.tick(START_S + 8.2)
    watching._reader = working
    watching.tick(START_S + 9.2)

    assert [each["event"] for each in outbox(state)] == ["firing"]
