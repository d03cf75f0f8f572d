"""Silences given at an Alertmanager are honoured here: at a real one, and as its answers are read."""

import json
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from alerts.borrowed_silences import BorrowedSilences, silences_in
from alerts.receivers.body import read
from alerts.receivers.prometheus import alert
from alerts.receivers.settings import AlertmanagerSettings
from alerts.silence import LONGEST_S, subject
from alerts.tables import OutboxRow, open_state
from tests.alerts.fleet import START_S
from tests.alerts.receivers.alertmanager_process import BINARY, AlertmanagerProcess
from tests.alerts.scene import Scene

NOW_S = float(START_S)


def settings(url="http://127.0.0.1:9", **more):
    told = {
        "type": "alertmanager",
        "name": "am",
        "url": url,
        "allow_private": True,
        "silences_every_s": 5,
        **more,
    }
    return AlertmanagerSettings.model_validate(told)


def at(at_s):
    return (
        datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def matcher(name, value, *, regex=False, equal=True):
    return {"name": name, "value": value, "isRegex": regex, "isEqual": equal}


def said(*matchers, number=1, state="active", starts_s=NOW_S - 60, ends_s=NOW_S + 3600, **more):
    return {
        "id": f"silence-{number}",
        "status": {"state": state},
        "matchers": list(matchers),
        "startsAt": at(starts_s),
        "endsAt": at(ends_s),
        "createdBy": "grace",
        "comment": "a rollout",
        **more,
    }


@pytest.fixture
def state(tmp_path):
    return open_state(f"sqlite:///{tmp_path / 'alerts.db'}")


def read_one(*matchers, receiver=None, **more):
    found = silences_in(json.dumps([said(*matchers, **more)]), receiver or settings(), now_s=NOW_S)
    return next(iter(found.values()), None)


def test_a_silence_keeps_its_author_reason_and_times_and_says_where_it_comes_from():
    found = read_one(matcher("service", "chat"))

    assert found.author == "grace at Alertmanager (am)"
    assert found.reason == "a rollout"
    assert (found.starts_at_s, found.ends_at_s) == (START_S - 60, START_S + 3600)
    assert len(found.id) <= 32


ABOUT = subject(
    (("service", "chat"),),
    objective_id="chat-ttft",
    severity="page",
    tier="page",
    name="Chat, TTFT",
    dedup_key="chat-ttft/page/1",
)


@pytest.mark.parametrize(
    ("matchers", "covers"),
    [
        ([matcher("alertname", "Chat, TTFT")], True),
        ([matcher("objective", "Chat, TTFT")], True),
        ([matcher("objective", "chat-ttft")], False),
        ([matcher("dedup_key", "chat-ttft/page/1"), matcher("severity", "page")], True),
        ([matcher("service", "ch.*", regex=True)], True),
        ([matcher("service", "ch", regex=True)], False),
        ([matcher("service", "code", equal=False)], True),
        ([matcher("service", "ch.*", regex=True, equal=False)], False),
        ([matcher("instance", "")], True),
        ([matcher("team", "llm")], True),
        ([matcher("team", "llm"), matcher("service", "code")], False),
    ],
)
def test_matchers_mean_what_they_mean_there(matchers, covers):
    found = read_one(*matchers, receiver=settings(labels={"team": "llm"}))

    assert found.covers(ABOUT) is covers


def test_a_silence_for_another_value_of_a_label_that_all_get_is_none_of_ours():
    assert read_one(matcher("team", "web"), receiver=settings(labels={"team": "llm"})) is None


def test_an_expression_that_re2_does_not_know_is_left_there_and_said(caplog):
    assert read_one(matcher("service", "(?=x)", regex=True)) is None
    assert "left there" in caplog.text


def test_a_year_is_cut_to_what_a_silence_may_last():
    found = read_one(matcher("service", "chat"), ends_s=NOW_S + 365 * 86_400)

    assert found.ends_at_s == START_S + LONGEST_S


@pytest.mark.parametrize(
    "answer",
    ["", "{}", "[1]", "null", '[{"id": "x"}]', "[" * 5000, '[{"status": {"state": "active"}}]'],
)
def test_an_answer_that_is_none_is_not_used(answer):
    assert silences_in(answer, settings(), now_s=NOW_S) in (None, {})


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "status", "matchers", "startsAt", "state", "name", "value"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    )
)
def test_whatever_is_answered_nothing_falls_over(answer):
    found = silences_in(json.dumps([answer]), settings(), now_s=NOW_S)

    assert found is None or found == {}


class There:
    """What an Alertmanager would answer, without one."""

    def __init__(self, state, receiver=None):
        self.silences = BorrowedSilences(state, [receiver or settings()])
        (self.asked,) = self.silences._asked
        self.receiver = self.asked.settings
        self.silences.close()  # why at once: nobody is asked over the wire here, or in vain

    def say(self, *listed, now_s):
        self.silences._take_over(
            self.receiver, silences_in(json.dumps(listed), self.receiver, now_s=now_s), now_s
        )


def test_what_ends_there_ends_here_and_what_is_ended_here_stays_ended(state):
    scene = Scene(state)
    there, one, two = (
        There(state),
        said(matcher("service", ".*", regex=True)),
        said(matcher("alertname", "chat"), number=2),
    )
    there.say(one, two, now_s=NOW_S)
    first, second = sorted(
        scene.silences.all(at_s=NOW_S), key=lambda each: str(each.matchers[0]), reverse=True
    )
    scene.silences.end(second.id, by="ada", at_s=START_S + 5)
    there.say(one, two, now_s=NOW_S + 10)
    assert scene.silences.one(first.id).state(NOW_S + 10) == "active"
    assert scene.silences.one(second.id).ended_by == "ada"
    there.say(two, now_s=NOW_S + 20)

    assert scene.silences.one(first.id).state(NOW_S + 20) == "expired"
    assert scene.silences.one(first.id).ended_by == "Alertmanager (am)"
    assert scene.silences.one(second.id).ended_by == "ada"


def test_one_that_is_made_longer_there_lasts_longer_here(state):
    scene, there = Scene(state), There(state)
    there.say(said(matcher("service", "chat")), now_s=NOW_S)
    there.say(said(matcher("service", "chat"), ends_s=NOW_S + 7200), now_s=NOW_S + 10)

    (found,) = scene.silences.all(at_s=NOW_S + 20)
    assert found.ends_at_s == START_S + 7200


def test_silences_of_other_peoples_alerts_stay_there(state):
    Scene(state)
    there = There(state)
    there.say(
        said(matcher("alertname", "NodeDown")),
        said(matcher("instance", "db-1"), number=2),
        said(matcher("alertname", "chat"), number=3),
        now_s=NOW_S,
    )

    (kept,) = Scene(state).silences.all(at_s=NOW_S)
    assert [str(each) for each in kept.matchers] == ["alertname=chat"]


def test_nothing_is_written_where_nothing_has_changed(state):
    Scene(state)
    there, written = There(state), []

    def note(_connection, _cursor, statement, *_):
        if "silence" in statement and statement.startswith(("INSERT", "UPDATE")):
            written.append(statement)

    event.listen(state, "before_cursor_execute", note)
    counts = []
    for now_s in (NOW_S, NOW_S + 600, NOW_S + 1200, NOW_S + 3700):
        there.say(
            said(matcher("service", "chat"), ends_s=NOW_S + 86_400),
            said(matcher("service", "code"), number=2, ends_s=NOW_S + 1e8),
            now_s=now_s,
        )
        counts.append(len(written))

    assert counts[0] > 0
    assert counts[:3] == [counts[0]] * 3
    assert counts[3] == counts[0] + 1, "the one of years is renewed by the hour"


def test_nobody_is_asked_unless_the_receiver_says_so(state):
    quiet = settings(silences_every_s=None)

    assert BorrowedSilences(state, [quiet])._asked == []


def test_an_alertmanager_that_does_not_answer_ends_nothing(state, caplog):
    scene, there = Scene(state), There(state)
    there.say(said(matcher("service", "chat")), now_s=NOW_S)
    with closing(BorrowedSilences(state, [there.receiver])) as silences:
        silences.tick(NOW_S + 10)

    (found,) = scene.silences.all(at_s=NOW_S + 10)
    assert found.state(NOW_S + 10) == "active"
    assert "no answer" in caplog.text


@pytest.mark.skipif(BINARY is None, reason="there is no Alertmanager on this machine")
def test_the_silence_button_of_a_real_borrowed_silences_our_page_and_its_end_tells_it_again(
    state, tmp_path
):
    scene = Scene(state, bad=40)
    scene.minutes(3)
    assert scene.told() == ["firing"]
    with Session(state) as session:
        row = session.scalars(select(OutboxRow).order_by(OutboxRow.id)).first()
    with ExitStack() as stack, AlertmanagerProcess(tmp_path, "http://127.0.0.1:9/hook") as there:
        receiver = settings(there.url, labels={"team": "llm"})
        labels = alert(read(row.body), receiver, now_s=scene.now_s)["labels"]
        asked = {
            "matchers": [matcher(name, value) for name, value in labels.items()],
            "startsAt": at(time.time()),
            "endsAt": at(time.time() + 3600),
            "createdBy": "grace",
            "comment": "we know",
        }
        given = httpx.post(f"{there.url}/api/v2/silences", json=asked).json()["silenceID"]
        silences = stack.enter_context(closing(BorrowedSilences(state, [receiver])))
        # why as at their time: the scene plays at another hour than the Alertmanager's clock
        found = httpx.get(f"{there.url}/api/v2/silences").json()
        shift_s = scene.now_s - time.time()
        for each in found:
            each["startsAt"], each["endsAt"] = at(scene.now_s - 1), at(time.time() + 3600 + shift_s)
        silences._take_over(
            receiver, silences_in(json.dumps(found), receiver, now_s=scene.now_s), scene.now_s
        )
        scene.minutes(1)
        silenced = scene.alert.response.silence_id
        known = scene.silences.one(silenced)
        httpx.delete(f"{there.url}/api/v2/silence/{given}").raise_for_status()
        silences.tick(scene.now_s)
        scene.minutes(1)

    assert known.author == "grace at Alertmanager (am)"
    assert "silenced" in scene.happened()
    assert scene.alert.response.silence_id is None
    assert scene.happened()[-2:] == ["unsilenced", "renotified"]
