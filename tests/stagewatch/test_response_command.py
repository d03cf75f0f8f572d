"""`stagewatch alerts list | ack | silence …` against a running server."""

import json
import threading

import pytest
import uvicorn
from fastapi import FastAPI

from alerts import api
from alerts.access import Access
from alerts.access_settings import AuthSettings
from alerts.response_api import response_router
from alerts.tables import open_state
from stagewatch.__main__ import main
from stagewatch.sockets import listen
from tests.alerts.scene import Scene


@pytest.fixture
def scene(monkeypatch):
    """A server whose token for responders is known here as `s3cret`."""
    state = open_state("sqlite://")
    played = Scene(state, bad=20).minutes(2)
    app = FastAPI()
    tokens = [{"token": "s3cret", "role": "responder", "name": "bot"}, "sender"]
    played.access = app.state.access = Access(AuthSettings())
    played.strict = Access(AuthSettings(tokens=tokens))
    app.include_router(api.router(played.ledger))
    app.include_router(response_router(state, played.ledger, clock=lambda: played.now_s))
    played.app = app
    with listen("127.0.0.1", 0, setting="test") as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        host, port = listener.getsockname()
        monkeypatch.setenv("STAGEWATCH_URL", f"http://{host}:{port}")
        monkeypatch.delenv("STAGEWATCH_TOKEN", raising=False)
        yield played
        server.should_exit = True
        thread.join()
    state.dispose()


def run(capsys, *arguments):
    code = main(["alerts", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_an_alert_is_listed_taken_and_let_go(scene, capsys):
    alert_id = scene.alert.id

    _, listed, _ = run(capsys, "list")
    code, taken, _ = run(
        capsys, "ack", alert_id, "--author", "ada", "--note", "mine", "--for", "2h"
    )
    _, let_go, _ = run(capsys, "unack", alert_id)

    assert listed.startswith(f"firing    {alert_id} (page): chat pages since 08:01 UTC")
    assert code == 0
    assert "(page, acknowledged by ada):" in taken
    assert "acknowledged" not in let_go.partition(":")[0]


def test_a_silence_is_previewed_made_listed_and_ended(scene, capsys):
    _, matched, _ = run(capsys, "silence", "objective=chat", "--preview")
    code, made, _ = run(
        capsys, "silence", "objective=chat", "severity=page", "--for", "30m", "--reason", "test"
    )
    _, listed, _ = run(capsys, "silences", "--format", "json")
    (kept,) = json.loads(listed)["silences"]
    _, ended, _ = run(capsys, "unsilence", kept["id"])

    assert matched.splitlines()[0] == "matches now:"
    assert f"  open alert {scene.alert.id} (page)" in matched.splitlines()
    assert "  objective chat" in matched.splitlines()
    assert code == 0
    assert made.startswith(f"active   {kept['id']} until 2026-03-01T08:32:11Z: objective=chat")
    assert "  objective chat (some of its alerts)" in made.splitlines()
    assert ended.startswith("expired")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["silence", "a=b", "--reason", "x"], "needs --for"),
        (["silence", "a=b", "--for", "1h"], "needs --reason"),
        (["silence", "a=b", "--for", "soon", "--reason", "x"], "'soon' is no time"),
        (["silence", "a", "--for", "1h", "--reason", "x"], "is no matcher"),
        (["silence", "a=b", "--for", "31d", "--reason", "x"], "duration_s: "),
        (["ack", "no thing?x"], "there is no alert"),
        (["unsilence", "nothing"], "there is no silence"),
    ],
)
@pytest.mark.usefixtures("scene")
def test_what_cannot_be_done_is_said_with_the_way_out(capsys, arguments, said):
    code, out, err = run(capsys, *arguments)

    assert (code, out) == (1, "")
    assert said in err


def test_a_token_is_taken_from_the_environment_and_its_lack_is_said(scene, capsys, monkeypatch):
    scene.app.state.access = scene.strict
    refused = run(capsys, "ack", scene.alert.id)
    monkeypatch.setenv("STAGEWATCH_TOKEN", "s3cret")
    code, out, _ = run(capsys, "ack", scene.alert.id, "--author", "eve")

    assert refused[0] == 1
    assert "STAGEWATCH_TOKEN" in refused[2]
    assert (code, "acknowledged by bot" in out) == (0, True)


def test_a_server_that_is_not_there_is_named(capsys):
    code, _, err = run(capsys, "list", "--url", "http://127.0.0.1:9")

    assert code == 1
    assert "http://127.0.0.1:9: gives no answer" in err
