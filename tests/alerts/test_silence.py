"""Silences: they mute what begins, never the end of what somebody was told, and then it is told."""

import pytest
from sqlalchemy.orm import Session

from alerts.acknowledgement import Acknowledged
from alerts.matcher import matchers_of
from alerts.preview import preview
from alerts.silence import LONGEST_S, Silences, Wish, active, first_covering, subject
from alerts.tables import open_state
from domain.errors import InputError
from tests.alerts.fleet import START_S, chat
from tests.alerts.scene import Scene

DAY_S = 86_400


@pytest.fixture
def state():
    engine = open_state("sqlite://")
    yield engine
    engine.dispose()


def wish(**changes):
    asked = {
        "author": "ada",
        "reason": "load test",
        "matchers": matchers_of(["service=chat"]),
        "starts_at_s": START_S,
        "ends_at_s": START_S + 3600,
    }
    return Wish(**(asked | changes))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"author": "  "}, "needs an author"),
        ({"reason": ""}, "needs a reason"),
        ({"matchers": ()}, "matches nothing"),
        ({"matchers": matchers_of(["tenant="])}, "would silence everything"),
        ({"matchers": matchers_of(["service=~.*"])}, "would silence everything"),
        ({"matchers": matchers_of(["service!=chat"])}, "would silence everything"),
        ({"matchers": matchers_of(["severity=~.+", "tier=~.*"])}, "would silence everything"),
        ({"matchers": matchers_of(["objective=~.+"])}, "would silence everything"),
        ({"ends_at_s": START_S}, "ends before it begins"),
        ({"ends_at_s": START_S + LONGEST_S + 1}, "longer than 30 days"),
        ({"starts_at_s": START_S + 31 * DAY_S, "ends_at_s": START_S + 32 * DAY_S}, "begins more"),
    ],
)
def test_what_can_be_no_silence_is_refused_with_the_way_out(state, changes, problem):
    with pytest.raises(InputError, match=problem):
        Silences(state).create(wish(**changes), at_s=START_S)


def test_a_silence_of_thirty_days_is_the_longest(state):
    made = Silences(state).create(wish(ends_at_s=START_S + LONGEST_S), at_s=START_S)

    assert made.ends_at_s - made.starts_at_s == 30 * DAY_S


def test_a_silence_that_was_ended_stays_listed_and_stays_ended(state):
    silences = Silences(state)
    made = silences.create(wish(), at_s=START_S)

    silences.end(made.id, by="grace", at_s=START_S + 60)
    silences.end(made.id, by="eve", at_s=START_S + 120)

    (kept,) = Silences(state).all(at_s=START_S + 200)
    assert (kept.state(START_S + 59), kept.state(START_S + 60)) == ("active", "expired")
    assert (kept.ended_at_s, kept.ended_by, kept.ends_at_s) == (
        START_S + 60,
        "grace",
        START_S + 3600,
    )


def test_to_end_what_is_over_or_unknown_changes_nothing(state):
    silences = Silences(state)
    made = silences.create(wish(), at_s=START_S)

    assert silences.end(made.id, by="eve", at_s=START_S + 3600).ended_at_s is None
    assert silences.end("nothing", by="eve", at_s=START_S) is None


def test_those_in_force_are_listed_before_those_that_are_over(state):
    silences = Silences(state)
    over = silences.create(wish(ends_at_s=START_S + 60), at_s=START_S)
    long = silences.create(wish(ends_at_s=START_S + 900), at_s=START_S + 1)
    later = silences.create(
        wish(starts_at_s=START_S + 500, ends_at_s=START_S + 900), at_s=START_S + 2
    )

    found = silences.all(at_s=START_S + 100)

    assert [each.id for each in found] == [later.id, long.id, over.id]
    assert [each.state(START_S + 100) for each in found] == ["pending", "active", "expired"]


@pytest.mark.parametrize(
    ("matchers", "covers"),
    [
        (["service=chat"], True),
        (["service=chat", "severity=page"], True),
        (["objective=chat-ttft"], True),
        (["objective=~chat.*", "tier=page"], True),
        (["service=other"], False),
        (["service=chat", "severity=ticket"], False),
        (["service=chat", "replica=a"], False),
        (["service=cha"], False),
        (["service=~cha"], False),
    ],
)
def test_a_silence_covers_what_all_its_matchers_match(state, matchers, covers):
    made = Silences(state).create(wish(matchers=matchers_of(matchers)), at_s=START_S)
    about = subject((("service", "chat"),), objective_id="chat-ttft", severity="page", tier="page")

    with Session(state) as session:
        found = first_covering(active(session, START_S + 1), about)
        before = first_covering(active(session, START_S - 1), about)

    assert (found and found.id) == (made.id if covers else None)
    assert before is None


def test_what_is_silenced_when_it_begins_is_told_when_the_silence_ends(state):
    scene = Scene(state, bad=20)
    made = scene.silence("objective=chat", lasts_s=300)

    scene.minutes(4)
    assert scene.told() == []
    assert scene.alert.response.silence_id == made.id
    scene.minutes(4)

    assert scene.told() == ["firing"]
    assert scene.happened() == ["firing", "silenced", "unsilenced"]
    assert scene.alert.history[1].author == "ada"


def test_what_fires_on_when_its_silence_ends_is_told_again_under_the_same_key(state):
    scene = Scene(state, bad=20).minutes(2)
    scene.silence("severity=page", lasts_s=120)

    scene.minutes(5)

    assert scene.told() == ["firing", "renotified"]
    assert scene.happened() == ["firing", "silenced", "unsilenced", "renotified"]


def test_a_silence_never_swallows_the_end_of_what_somebody_was_told(state):
    scene = Scene(state, bad=1).minutes(2)
    scene.silence("objective=chat", lasts_s=DAY_S)

    scene.minutes(25)

    assert scene.told() == ["firing", "resolved"]


def test_what_began_and_ended_in_a_silence_wakes_nobody(state):
    scene = Scene(state, bad=1)
    scene.silence("objective=chat", lasts_s=DAY_S)

    scene.minutes(25)

    assert scene.told() == []
    assert scene.happened() == ["firing", "silenced", "resolved"]


def test_a_silence_ended_by_hand_lets_it_be_told_at_once_also_after_a_restart(state):
    scene = Scene(state, bad=20)
    made = scene.silence("objective=chat", lasts_s=DAY_S)
    scene.minutes(3)
    scene.silences.end(made.id, by="ada", at_s=int(scene.now_s))
    scene.restart()

    scene.minutes(1)

    assert scene.told() == ["firing"]


def test_of_two_silences_the_last_to_end_lets_it_be_told(state):
    scene = Scene(state, bad=20)
    scene.silence("objective=chat", lasts_s=120)
    scene.silence("severity=page", lasts_s=400)

    scene.minutes(5)
    assert scene.told() == []
    scene.minutes(5)

    assert scene.told() == ["firing"]
    assert scene.happened().count("silenced") == 1


def test_what_somebody_has_is_not_told_again_when_its_silence_ends(state):
    scene = Scene(state, bad=20).minutes(2)
    said = Acknowledged(by="ada")
    scene.acknowledgements.give(scene.alert.id, said, now_s=scene.now_s)
    scene.silence("objective=chat", lasts_s=60)

    scene.minutes(5)

    assert scene.told() == ["firing", "acknowledged"]


def test_a_silence_of_another_service_mutes_nothing(state):
    scene = Scene(state, bad=5)
    scene.silence("service=another")

    scene.minutes(2)

    assert scene.told() == ["firing"]


def test_a_preview_names_open_alerts_and_the_promises_that_could_alert(state):
    two = chat(
        "- {phrase: 'p99 ttft <= 1.5s over 30d where service=chat', name: chat}\n"
        "- {phrase: 'p99 e2e <= 9s over 30d where service=search', name: search}"
    )
    Scene(state, bad=5, definitions=two).minutes(2)

    whole = preview(state, matchers_of(["service=chat"]))
    pages = preview(state, matchers_of(["service=chat", "severity=page", "tier=page"]))
    nothing = preview(state, matchers_of(["service=elsewhere"]))

    assert whole.objectives == [("chat", "chat", True)]
    assert [name for _, name, _ in whole.alerts] == ["chat", "chat"]
    assert pages.objectives == [("chat", "chat", False)]
    assert [severity for _, _, severity in pages.alerts] == ["page"]
    assert (nothing.alerts, nothing.objectives) == ([], [])
