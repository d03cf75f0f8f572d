"""What changed: seen in labels, kept with promises, or reported by whoever changed it."""

from dataclasses import replace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from alerts.access import ACTING
from alerts.change import Change, report
from alerts.change_api import change_router
from alerts.changes import changes
from alerts.matcher import matchers_of
from alerts.silence import Silences, Wish
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from alerts.told_changes import ToldChanges
from collector.query import Replica, Window
from domain.errors import InputError
from domain.labels import labels_of
from tests.dashboard.memory import MemoryLedger, MemoryReader, Stream, World

NOW_S = 1_772_367_000
HOUR = Window(since_s=NOW_S - 3600, until_s=NOW_S)
DEPLOY = Change(at_s=NOW_S - 60, kind="deploy", title="v42 rolls out")
CHAT = labels_of({"service": "chat"})


def values(since_s, until_s, **labels):
    import numpy as np

    at_s = np.arange(since_s, until_s, 5.0)
    named = labels_of({"service": "chat"} | labels)
    return Stream(metric="ttft", labels=named, at_s=at_s, value_s=np.full(len(at_s), 0.3))


def seen(world, where=CHAT):
    reader = MemoryReader(world)
    found = changes(reader, MemoryLedger(reader), HOUR, where=where, now_s=NOW_S)
    return [(each.at_s - NOW_S, each.kind, each.title) for each in found]


def test_a_version_that_was_not_there_at_first_is_a_deploy():
    world = World(now_s=NOW_S, streams=[
        values(NOW_S - 3600, NOW_S, model_version="41"),
        values(NOW_S - 1200, NOW_S, model_version="42"),
    ])  # fmt: skip

    assert seen(world) == [(-1200, "version", "model version 42 first seen")]


def test_a_version_that_was_always_there_did_not_change():
    world = World(now_s=NOW_S, streams=[
        values(NOW_S - 7200, NOW_S, model_version="41"),
        values(NOW_S - 7200, NOW_S, model_version="42"),
    ])  # fmt: skip

    assert seen(world) == []


def replica(name, *, since_s, last_s, up=True):
    labels = labels_of({"service": "chat", "replica": name})
    return Replica(labels=labels, since_s=since_s, last_seen_at_s=last_s, up=up)


def test_replicas_that_come_and_go_while_the_service_goes_on_are_told_together():
    world = World(
        now_s=NOW_S,
        newest_at_s={"chat": NOW_S - 5},
        since_s={"chat": NOW_S - 3600},
        replicas={"chat": [
            replica("a", since_s=NOW_S - 3600, last_s=NOW_S - 5),
            replica("b", since_s=NOW_S - 1790, last_s=NOW_S - 5),
            replica("c", since_s=NOW_S - 1780, last_s=NOW_S - 5),
            replica("d", since_s=NOW_S - 3600, last_s=NOW_S - 600),
            replica("e", since_s=NOW_S - 3600, last_s=NOW_S - 600, up=None),
        ]},
    )  # fmt: skip

    assert seen(world) == [
        (-1800, "replica appeared", "2 replicas b, c first seen"),
        (-600, "replica vanished", "replica d last seen"),
    ]


def test_of_other_services_nothing_is_told():
    world = World(now_s=NOW_S, told=[DEPLOY], streams=[values(NOW_S - 900, NOW_S, replica="a")])

    assert seen(world, where=labels_of({"service": "other"})) == [(-60, "deploy", "v42 rolls out")]


@pytest.fixture
def state():
    return open_state("sqlite://")


def test_a_report_is_kept_once_however_often_it_is_sent(state):
    told = ToldChanges(state)
    first, new = told.add(DEPLOY)
    second, again = told.add(replace(DEPLOY, author="a retry"))

    assert (new, again) == (True, False)
    assert first == second
    assert told.between(NOW_S - 3600, NOW_S) == [first]


def test_a_pipeline_run_wild_pushes_out_the_oldest(state):
    told = ToldChanges(state, most=3)
    for number in range(5):
        told.add(replace(DEPLOY, at_s=NOW_S - 100 + number, title=f"v{number}"))

    assert [each.title for each in told.between(0, NOW_S)] == ["v2", "v3", "v4"]


def test_a_report_without_a_service_concerns_all_and_one_with_it_only_that(state):
    told = ToldChanges(state)
    told.add(DEPLOY)
    told.add(replace(DEPLOY, title="v43", labels=CHAT))

    other = told.between(0, NOW_S, where=labels_of({"service": "code"}))
    assert [each.title for each in other] == ["v42 rolls out"]
    assert len(told.between(0, NOW_S, where=CHAT)) == 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"title": " \n "}, "title is 1 to 200"),
        ({"title": "x" * 201}, "title is 1 to 200"),
        ({"title": "\u202egnp.exe"}, "printable"),
        ({"kind": "De ploy!"}, "kind is a short word"),
        ({"at_s": NOW_S + 86_401}, "at lies at most"),
        ({"at_s": 0}, "at lies at most"),
        ({"labels": (("colour", "blue"),)}, "'colour'; known are"),
        ({"labels": (("service", "x" * 257),)}, "256 characters"),
        ({"link": "javascript:alert(1)"}, "http(s) address"),
        ({"link": "https://[bad"}, "no address"),
        ({"link": "https://a b"}, "http(s) address"),
        ({"link": "https://bank.example@evil.example/"}, "without a user"),
        ({"labels": (("service", "chat\u202e"),)}, "printable"),
        ({"labels": (("service", "a\nb"),)}, "printable"),
    ],
)
def test_a_report_that_cannot_be_is_refused_in_words(changed, said):
    with pytest.raises(InputError) as refused:
        report(replace(DEPLOY, **changed), now_s=NOW_S)

    assert said in str(refused.value)


@given(st.text(max_size=250), st.text(max_size=250))
def test_what_is_taken_can_be_shown(title, link):
    try:
        taken = report(replace(DEPLOY, title=title, link=link), now_s=NOW_S)
    except InputError:
        return
    assert taken.title.isprintable()
    assert taken.link == "" or taken.link.startswith(("http://", "https://", "HTTP", "Http"))


@pytest.fixture
def api(state):
    app = FastAPI()
    reader = MemoryReader(World(now_s=NOW_S))
    app.include_router(change_router(state, reader, SqlLedger(state), clock=lambda: NOW_S))
    return TestClient(
        app, base_url="http://127.0.0.1", client=("127.0.0.1", 5), headers={ACTING: "1"}
    )


def test_a_pipeline_reports_its_deploy_and_everybody_lists_it(api):
    asked = {"title": "v42 rolls out", "labels": {"service": "chat"}, "author": "ci"}
    made = api.post("/api/v1/events", json=asked)
    again = api.post("/api/v1/events", json=asked)

    assert (made.status_code, again.status_code) == (201, 200)
    assert made.json() == again.json()
    listed = api.get("/api/v1/events", params={"where": "service=chat"}).json()["events"]
    assert listed == [made.json()]
    assert listed[0]["at"] == "2026-03-01T12:10:00Z"
    assert api.get("/api/v1/events", params={"kind": "scaling"}).json()["events"] == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"title": ""}, "at least 1"),
        ({"at": "2026-03-01T08:00:00"}, "timezone"),
        ({"at": "1999-01-01T00:00:00Z"}, "at lies"),
        ({"labels": {f"l{i}": "x" for i in range(11)}}, "at most 10"),
        ({"colour": "blue"}, "Extra inputs"),
    ],
)
def test_a_wrong_report_says_what_is_wrong(api, changed, said):
    answer = api.post("/api/v1/events", json={"title": "v42"} | changed)

    assert answer.status_code == 422
    assert said in answer.text


@pytest.mark.parametrize(
    "query", ["from=2025-01-01T00:00:00Z", "where=colour%3Dblue", "where=service"]
)
def test_a_wrong_question_says_what_is_wrong(api, query):
    assert api.get(f"/api/v1/events?{query}").status_code == 422


def test_who_may_not_act_reports_nothing(api):
    foreign = {"Origin": "http://evil.example"}

    assert api.post("/api/v1/events", json={"title": "x"}, headers=foreign).status_code == 403


def test_silences_and_incidents_of_a_promise_are_among_what_changed(state):
    from tests.alerts.scene import Scene

    scene = Scene(state, bad=20)
    scene.minutes(10)
    Silences(state).create(
        Wish(
            author="ada", reason="load test", matchers=tuple(matchers_of(["objective=chat"])),
            starts_at_s=int(scene.now_s), ends_at_s=int(scene.now_s) + 600,
        ),
        at_s=int(scene.now_s),
    )  # fmt: skip
    window = Window(since_s=int(scene.now_s) - 3600, until_s=int(scene.now_s) + 1)
    reader = MemoryReader(World(now_s=int(scene.now_s)))
    found = changes(reader, scene.ledger, window, now_s=int(scene.now_s))

    kinds = {each.kind for each in found}
    assert {"incident", "silence"} <= kinds
    silence = next(each for each in found if each.kind == "silence")
    assert (silence.title, silence.author) == ("silenced: load test", "ada")
    assert "chat pages" in {each.title for each in found if each.kind == "incident"}
