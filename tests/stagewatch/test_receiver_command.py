"""`stagewatch alerts preview | test-receiver | deliveries`, and receivers as a configuration has them."""

import json
from pathlib import Path

import pytest

from alerts.tables import open_state
from stagewatch.__main__ import main
from stagewatch.config import load
from tests.alerts.outbox import put
from tests.alerts.receivers.listening import Listening
from tests.alerts.receivers.told import ROUTING_KEY

OBJECTIVE = """objectives:
  - {name: voice, phrase: p99 ttft <= 300ms over 30d, runbook: 'https://wiki.example/voice'}
"""


@pytest.fixture
def config(tmp_path):
    """Writes a configuration with these receivers; its path."""

    def write(receivers, more=""):
        path = tmp_path / "stagewatch.yaml"
        lines = [f"  - {json.dumps(each)}" for each in receivers]
        path.write_text("\n".join(["receivers:", *lines, more]))
        return str(path)

    return write


def pagerduty(**changes):
    return {"name": "pd", "type": "pagerduty", "routing_key": ROUTING_KEY} | changes


def test_a_preview_prints_what_would_be_sent_and_no_secret(config, capsys):
    code = main(["alerts", "preview", "pd", "--config", config([pagerduty()])])

    said = json.loads(capsys.readouterr().out)
    assert (code, said["event_action"]) == (0, "trigger")
    assert ROUTING_KEY not in json.dumps(said)


def test_a_preview_of_another_event_of_a_promise_in_its_own_words(config, capsys):
    path = config([pagerduty()], OBJECTIVE)
    argv = ["alerts", "--config", path, "preview", "pd", "--event", "resolved"]

    assert main([*argv, "--objective", "voice"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["event_action"] == "resolve"
    assert said["payload"]["group"] == "voice"
    assert {"href": "https://wiki.example/voice", "text": "Runbook"} in said["links"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["preview", "pdd"], "there is no receiver 'pdd'. There are: pd."),
        (["preview", "pd", "--objective", "x"], "there is no objective 'x'. There are: voice."),
        (["test-receiver", "nobody"], "there is no receiver 'nobody'"),
    ],
)
def test_what_is_not_there_is_one_clear_error(config, capsys, argv, said):
    assert main(["alerts", *argv, "--config", config([pagerduty()], OBJECTIVE)]) == 2
    assert said in capsys.readouterr().err


def test_who_is_not_told_of_it_is_said_beside_the_preview(config, capsys):
    path = config([pagerduty(severities=["ticket"])])

    assert main(["alerts", "preview", "pd", "--config", path]) == 0
    assert "pd is not told of a page" in capsys.readouterr().err


def test_a_test_opens_and_closes_an_incident_and_says_how_long_it_took(config, capsys):
    with Listening(usual=(202, {}, "{}")) as service:
        path = config([pagerduty(url=service.url, allow_private=True)])
        code = main(["alerts", "test-receiver", "pd", "--config", path])

    first, last = capsys.readouterr().out.splitlines()
    assert code == 0
    assert first.startswith("pd: test delivered (HTTP 202), ")
    assert last.startswith("pd: resolved delivered (HTTP 202), ")
    opened, closed = service.said(0), service.said(1)
    assert (opened["event_action"], closed["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == closed["dedup_key"]
    assert opened["payload"]["severity"] == "info"


def test_a_test_that_does_not_arrive_ends_with_one(config, capsys):
    with Listening((400, {}, "")) as service:
        path = config([pagerduty(url=service.url, allow_private=True)])
        code = main(["alerts", "test-receiver", "pd", "--config", path])

    assert code == 1
    assert "refused (HTTP 400)" in capsys.readouterr().out


def test_the_delivery_log_on_the_command_line(tmp_path, capsys):
    state = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    put(state, "pager")
    state.dispose()

    assert main(["alerts", "deliveries", "--data-dir", str(tmp_path)]) == 0
    line = capsys.readouterr().out
    assert main(["alerts", "deliveries", "--data-dir", str(tmp_path), "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert "pager" in line
    assert "not tried yet" in line
    assert said["deliveries"][0]["outcome"] == "waiting"


def test_a_folder_without_state_is_one_clear_error(tmp_path, capsys):
    assert main(["alerts", "deliveries", "--data-dir", str(tmp_path)]) == 2
    assert "holds no state of alerts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("receiver", "said"),
    [
        ({"name": "x", "type": "pager"}, "no such type of receiver; known: webhook, pagerduty"),
        (pagerduty(routing_key="short"), "a routing key has 32 letters and digits"),
        ({"name": "x", "type": "pagerduty"}, "receivers.0.routing_key"),
        (pagerduty(regoin="eu"), "there is no setting 'regoin' here. Did you mean 'region'?"),
        (pagerduty(title="{{ objektive }}"), "asks for 'objektive'"),
        ({"name": "x", "type": "slack"}, "by url (a webhook) or by bot_token and channel"),
        (
            {"name": "x", "type": "slack", "bot_token": "xoxb-1", "channel": "#pages"},
            "a bot needs the channel's id",
        ),
        ({"name": "x", "type": "slack", "url": "https://a.example", "mention": "@all"}, "mention"),
        ({"name": "x", "type": "sns", "topic_arn": "pages"}, "topic_arn looks like"),
        (
            {
                "name": "x",
                "type": "email",
                "host": "h",
                "sender": "a@b.c",
                "to": ["a@b.c\nBcc: d@e.f"],
            },
            "receivers.0.to.0",
        ),
        (
            {
                "name": "x",
                "type": "email",
                "host": "h",
                "sender": "a@b.c",
                "to": ["a@b.c"],
                "security": "none",
                "username": "a",
                "password": "b",
            },
            "a password is not sent in the clear",
        ),
        ({"name": "x", "type": "alertmanager", "url": "am:9093"}, "http://"),
        (
            {"name": "x", "type": "alertmanager", "url": "http://am", "ends_after_s": 100},
            "at least four times again_s",
        ),
        ({"name": "x", "url": "https://a.example", "headers": {"A B": "c"}}, "no name of a header"),
        ({"name": "x", "url": "https://a.example", "headers": {"A": "b\nC: d"}}, "no header may"),
    ],
)
def test_a_receiver_that_cannot_work_is_refused_with_its_line(config, capsys, receiver, said):
    assert main(["check-config", config([receiver])]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert "stagewatch.yaml:2 (receivers.0" in error


def test_a_promise_that_names_a_receiver_which_is_not_there_is_refused(config, capsys):
    promise = "objectives:\n  - {phrase: p99 ttft <= 1s over 30d, name: chat, receivers: [pagr]}\n"

    assert main(["check-config", config([pagerduty(name="pager")], promise)]) == 1
    assert "there is no receiver 'pagr'. Did you mean 'pager'?" in capsys.readouterr().err


def test_a_promise_whose_summary_cannot_work_is_refused(config, capsys):
    promise = "objectives:\n  - {phrase: p99 ttft <= 1s over 30d, name: chat, summary: '{{ x }}'}\n"

    assert main(["check-config", config([pagerduty()], promise)]) == 1
    assert "slo 'chat', summary: the template asks for 'x'" in capsys.readouterr().err


def test_no_secret_of_any_receiver_is_ever_printed(config, monkeypatch):
    monkeypatch.setenv("PD_KEY", ROUTING_KEY)
    monkeypatch.setenv("HUSH", "https://hush.example/s3cret")
    mail = {"name": "m", "type": "email", "host": "h", "sender": "a@b.c", "to": ["a@b.c"]}
    path = config(
        [
            pagerduty(routing_key="${PD_KEY}"),
            {"name": "s", "type": "slack", "url": "${HUSH}"},
            {"name": "b", "type": "slack", "bot_token": "xoxb-s3cret", "channel": "C0AB"},
            mail | {"username": "a", "password": "s3cret"},
            {"name": "a", "type": "alertmanager", "url": "${HUSH}", "headers": {"X": "s3cret"}},
            {"name": "o", "type": "apprise", "urls": ["tgram://s3cret/1"]},
        ]
    )

    loaded = load(Path(path))

    told = repr(loaded) + str(loaded.receivers) + loaded.model_dump_json()
    assert loaded.receivers[0].routing_key.get_secret_value() == ROUTING_KEY
    assert "s3cret" not in told
    assert ROUTING_KEY not in told
