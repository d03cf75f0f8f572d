"""Acknowledgement and escalation: nobody is called for what somebody has, everybody for the rest."""

import json

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.acknowledgement import Acknowledged, OverError
from alerts.definition import load
from alerts.tables import OutboxRow, open_state
from domain.errors import InputError
from tests.alerts.scene import Scene

STEPS = [{"after_s": 180, "receivers": ["second"]}, {"after_s": 360, "receivers": ["third"]}]


@pytest.fixture
def state():
    engine = open_state("sqlite://")
    yield engine
    engine.dispose()


def acknowledge(scene, by="ada", **said):
    said = Acknowledged(by=by, **said)
    return scene.acknowledgements.give(scene.alert.id, said, now_s=scene.now_s)


def keys(state):
    with Session(state) as session:
        return list(session.scalars(select(OutboxRow.key)))


def test_an_acknowledgement_stands_on_the_alert_and_receivers_that_know_of_it_hear_so(state):
    scene = Scene(state, bad=20).minutes(2)

    assert acknowledge(scene, note="drain gpu-3")

    taken = scene.alert.response.acknowledgement
    assert (taken.by, taken.note, taken.until_s) == ("ada", "drain gpu-3", None)
    assert scene.happened() == ["firing", "acknowledged"]
    assert (scene.alert.history[1].author, scene.alert.history[1].text) == (
        "ada",
        "Acknowledged by ada: drain gpu-3.",
    )
    assert scene.told("first") == scene.told("second") == ["firing", "acknowledged"]


def test_who_takes_an_alert_over_has_it(state):
    scene = Scene(state, bad=20).minutes(2)
    acknowledge(scene)

    acknowledge(scene, by="grace")

    assert scene.alert.response.acknowledgement.by == "grace"
    assert scene.told() == ["firing", "acknowledged", "acknowledged"]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"by": " "}, "needs an author"),
        ({"note": "x" * 1001}, "has a note of more"),
        ({"until_s": 0}, "runs out before"),
    ],
)
def test_what_is_no_acknowledgement_is_refused(state, said, problem):
    scene = Scene(state, bad=20).minutes(2)

    with pytest.raises(InputError, match=problem):
        acknowledge(scene, **said)


def test_what_is_over_cannot_be_taken_and_what_is_unknown_is_not_there(state):
    scene = Scene(state, bad=1).minutes(25)

    with pytest.raises(OverError, match="is over"):
        acknowledge(scene)
    said = Acknowledged(by="ada")
    assert not scene.acknowledgements.give("nothing", said, now_s=scene.now_s)
    assert not scene.acknowledgements.withdraw("nothing", by="ada", now_s=scene.now_s)


def test_what_nobody_acknowledges_is_told_to_further_receivers_step_by_step(state):
    scene = Scene(state, bad=30, escalation=STEPS)

    scene.minutes(10)

    assert scene.told("second") == ["escalated"]
    assert scene.told("third") == ["escalated"]
    assert scene.told("first") == ["firing"]
    texts = [each.text for each in scene.alert.history if each.event == "escalated"]
    assert texts == [
        "Nobody acknowledged for 3 min; told: second.",
        "Nobody acknowledged for 6 min; told: third.",
    ]


def test_who_was_called_later_hears_of_the_end_too_and_who_was_not_does_not(state):
    called = Scene(state, bad=5, escalation=STEPS).minutes(60)
    other = open_state("sqlite://")
    quiet = Scene(other, bad=1, escalation=[{"after_s": 7200, "receivers": ["second"]}]).minutes(25)

    assert called.told("second") == ["escalated", "resolved"]
    assert quiet.told("second") == []
    assert quiet.told("first") == ["firing", "resolved"]
    other.dispose()


def test_somebody_is_told_at_once_even_if_all_are_to_be_told_later(state):
    all_later = [{"after_s": 7200, "receivers": ["first", "second", "third"]}]
    scene = Scene(state, bad=30, escalation=all_later).minutes(2)

    assert scene.told("first") == scene.told("third") == ["firing"]


def test_an_acknowledgement_stops_the_escalation(state):
    scene = Scene(state, bad=30, escalation=STEPS).minutes(2)
    acknowledge(scene)

    scene.minutes(10)

    assert scene.told("second") == []


def test_an_acknowledgement_that_is_withdrawn_or_runs_out_begins_the_wait_anew(state):
    scene = Scene(state, bad=40, escalation=STEPS[:1]).minutes(2)
    acknowledge(scene, until_s=int(scene.now_s) + 120)

    scene.minutes(4)
    assert scene.told("second") == []
    scene.minutes(2)
    assert scene.told("second") == ["escalated"]
    scene.acknowledgements.withdraw(scene.alert.id, by="ada", now_s=scene.now_s)
    acknowledge(scene, by="grace")
    scene.acknowledgements.withdraw(scene.alert.id, by="grace", why="no idea", now_s=scene.now_s)
    scene.minutes(4)

    assert scene.told("second") == ["escalated", "acknowledged", "escalated"]
    assert [each.text for each in scene.alert.history if each.event == "unacknowledged"] == [
        "The acknowledgement of ada has run out.",
        "Unacknowledged by grace: no idea",
    ]


def test_a_promise_has_an_escalation_of_its_own_and_only_pages_take_the_common_one(state):
    own = load(
        "- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat, no_data: off,"
        " receivers: [first], escalation: [{after: 2min, receivers: [second]}]}"
    )
    scene = Scene(state, bad=30, definitions=own, escalation=STEPS)

    scene.minutes(5)

    assert scene.told("first") == ["firing"]
    assert scene.told("second") == ["escalated"]
    assert scene.told("second", severity="ticket") == []


def test_an_escalation_is_not_repeated_by_a_process_that_starts_again(state):
    scene = Scene(state, bad=30, escalation=STEPS).minutes(5)
    before = keys(state)

    for _ in range(3):
        scene.restart()
        scene.caretaker.tick(scene.now_s)

    assert keys(state) == before


def test_a_step_whose_notification_cannot_be_written_is_not_taken(state):
    scene = Scene(state, bad=30, escalation=STEPS).minutes(2)
    with state.connect() as connection:
        connection.exec_driver_sql("ALTER TABLE outbox RENAME TO elsewhere")
        connection.commit()
    with pytest.raises(Exception, match="no such table"):
        scene.caretaker.tick(scene.now_s + 200)
    with state.connect() as connection:
        connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO outbox")
        connection.commit()
    assert scene.alert.response.escalated == 0

    scene.caretaker.tick(scene.now_s + 200)

    assert scene.told("second") == ["escalated"]


def test_a_silence_pauses_the_escalation(state):
    scene = Scene(state, bad=40, escalation=STEPS[:1]).minutes(1)
    scene.silence("objective=chat", lasts_s=600)

    scene.minutes(9)
    assert scene.told("second") == []
    scene.minutes(6)

    assert scene.told("second") == ["escalated"]
    assert scene.told("first") == ["firing", "renotified"]


def test_the_body_says_who_has_it_and_keeps_its_key(state):
    scene = Scene(state, bad=30).minutes(2)
    acknowledge(scene, until_s=int(scene.now_s) + 60)

    with Session(state) as session:
        firing, taken = (
            json.loads(row.body)
            for row in session.scalars(select(OutboxRow).where(OutboxRow.receiver == "first"))
        )
    assert taken["dedup_key"] == firing["dedup_key"]
    assert taken["idempotency_key"] != firing["idempotency_key"]
    assert taken["acknowledged"] == {"by": "ada", "note": "", "until": "2026-03-01T08:03:11Z"}
