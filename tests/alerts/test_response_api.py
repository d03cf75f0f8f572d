"""The HTTP API of acknowledgements and silences, as scripts and pages use it."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from alerts import api
from alerts.access import ACTING, Access
from alerts.access_settings import AuthSettings
from alerts.response_api import response_router
from alerts.tables import open_state
from tests.alerts.scene import Scene

HERE = {ACTING: "1"}
READER = ("10.0.0.7", 50000)


@pytest.fixture
def scene():
    state = open_state("sqlite://")
    yield Scene(state, bad=20).minutes(2)
    state.dispose()


def application(scene, **settings):
    app = FastAPI()
    app.state.access = Access(AuthSettings(**settings))
    app.include_router(api.router(scene.ledger))
    app.include_router(response_router(scene.state, scene.ledger, clock=lambda: scene.now_s))
    return app


@pytest.fixture
def ours(scene):
    base = "http://127.0.0.1:8400"
    return TestClient(application(scene), base_url=base, client=("127.0.0.1", 50000), headers=HERE)


def asked(**changes):
    return {
        "matchers": ["objective=chat"],
        "reason": "load test",
        "author": "ada",
        "duration_s": 600,
    } | changes


def test_an_alert_is_acknowledged_shown_so_and_let_go_again(ours, scene):
    path = f"/api/v1/alerts/{scene.alert.id}"

    taken = ours.post(f"{path}/ack", json={"author": "ada", "note": "mine", "duration_s": 600})
    shown = ours.get(path).json()
    let_go = ours.post(f"{path}/unack", json={"author": "grace"})

    assert taken.status_code == 200
    assert shown["acknowledged"] == {
        "by": "ada",
        "note": "mine",
        "at": "2026-03-01T08:02:11Z",
        "until": "2026-03-01T08:12:11Z",
    }
    assert shown["told"] == ["first", "second", "third"]
    assert let_go.json()["acknowledged"] is None
    assert [(each["event"], each["author"]) for each in let_go.json()["history"]] == [
        ("firing", ""),
        ("acknowledged", "ada"),
        ("unacknowledged", "grace"),
    ]


def test_a_silence_is_previewed_made_listed_and_ended_and_stays_listed(ours, scene):
    matched = ours.post("/api/v1/silences/preview", json={"matchers": ["objective=chat"]}).json()
    made = ours.post("/api/v1/silences", json=asked())
    path = f"/api/v1/silences/{made.json()['id']}"
    ended = ours.delete(path)

    assert matched["alerts"][0]["id"] == scene.alert.id
    assert matched["objectives"] == [{"id": "chat", "name": "chat", "whole": True}]
    assert (made.status_code, made.json()["state"]) == (201, "active")
    assert made.json()["ends_at"] == "2026-03-01T08:12:11Z"
    assert (ended.json()["state"], ended.json()["ended_by"]) == ("expired", "somebody here")
    assert ours.get("/api/v1/silences").json() == {"silences": [ours.get(path).json()]}
    assert ours.get(path).json()["reason"] == "load test"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"duration_s": None}, "has no end"),
        ({"ends_at": "2026-03-01T09:00:00Z"}, "not both"),
        ({"duration_s": None, "ends_at": "2026-03-01T08:00:00Z"}, "ends before it begins"),
        ({"duration_s": None, "ends_at": "2026-03-01T08:00:00"}, "timezone"),
        ({"duration_s": 31 * 86_400}, "less than or equal"),
        ({"matchers": ["service=~("]}, "no RE2 expression"),
        ({"matchers": []}, "at least 1 item"),
        ({"matchers": ["a=b"] * 21}, "at most 20 items"),
        ({"reason": " "}, "needs a reason"),
        ({"until": "tomorrow"}, "Extra inputs"),
    ],
)
def test_a_silence_that_cannot_be_is_refused_in_words(ours, changes, said):
    answer = ours.post("/api/v1/silences", json=asked(**changes))

    assert answer.status_code == 422
    assert said in answer.text
    assert ours.get("/api/v1/silences").json() == {"silences": []}


def test_what_is_not_there_or_over_says_so(ours, scene):
    alert_id = scene.alert.id
    scene.minutes(60)

    assert ours.post("/api/v1/alerts/nothing/ack", json={}).status_code == 404
    assert ours.delete("/api/v1/silences/nothing").status_code == 404
    assert ours.get("/api/v1/silences/nothing").status_code == 404
    over = ours.post(f"/api/v1/alerts/{alert_id}/ack", json={"author": "ada"})
    assert (over.status_code, "is over" in over.json()["detail"]) == (409, True)


@pytest.mark.parametrize("path", ["silences", "alerts/{}/ack", "alerts/{}/unack"])
def test_somebody_elsewhere_reads_and_previews_but_does_not_act(scene, path):
    theirs = TestClient(application(scene), client=READER, headers=HERE)
    path = path.format(scene.alert.id)

    assert theirs.get("/api/v1/silences").status_code == 200
    preview = theirs.post("/api/v1/silences/preview", json={"matchers": ["a=b"]})
    assert preview.status_code == 200
    assert theirs.post(f"/api/v1/{path}", json=asked()).status_code == 401
    assert scene.happened() == ["firing"]


def test_the_author_is_who_the_token_says(scene):
    token = {"token": "s3cret", "role": "responder", "name": "bot"}
    theirs = TestClient(
        application(scene, tokens=[token]),
        client=READER,
        headers={"Authorization": "Bearer s3cret"},
    )

    made = theirs.post("/api/v1/silences", json=asked())
    taken = theirs.post(f"/api/v1/alerts/{scene.alert.id}/ack", json={"author": "eve"})

    assert made.json()["author"] == "bot"
    assert taken.json()["acknowledged"]["by"] == "bot"
