"""Acknowledgements from PagerDuty's REST API, and ours to its Events API: both on loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.acknowledgement import Acknowledged
from alerts.courier import Courier
from alerts.pagerduty_sync import Incident, PagerDutySync, incident_of
from alerts.receivers.pagerduty import PagerDuty
from alerts.receivers.settings import PagerDutySettings
from alerts.tables import open_state
from tests.alerts.fleet import START_S
from tests.alerts.scene import Scene

KEY = "rest-s3cret"
USER = {"id": "P1", "type": "user_reference", "summary": "Sarah Chen"}
SERVICE = {"id": "S1", "type": "service_reference", "summary": "Stagewatch"}


class Account:
    """An account on loopback: events change its incidents, people acknowledge there."""

    def __init__(self):
        self.incidents, self.asked, self.status = {}, [], 200
        account = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                account.take(said)
                self._answer(202, {"status": "success", "dedup_key": said.get("dedup_key")})

            def do_GET(self):
                account.asked.append((self.path, self.headers["Authorization"]))
                asked = parse_qs(urlsplit(self.path).query)
                found = account.incidents.get(asked["incident_key"][0])
                listed = [found] if found and found["status"] in asked["statuses[]"] else []
                self._answer(account.status, {"incidents": listed, "limit": 3, "more": False})

            def _answer(self, status, said):
                text = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def incident(self):
        (only,) = [each for each in self.incidents.values() if each["page"]]
        return only

    def take(self, said):
        key, action = said["dedup_key"], said["event_action"]
        page = said.get("payload", {}).get("severity") == "critical"
        new = {"incident_key": key, "status": "triggered", "acknowledgements": [], "page": page}
        incident = self.incidents.setdefault(key, new)
        if action == "acknowledge":
            self.acknowledge(incident, SERVICE, START_S)
        elif action == "resolve":
            incident["status"] = "resolved"

    def acknowledge(self, incident, who, at_s):
        incident["status"] = "acknowledged"
        at = f"2026-03-01T08:{(int(at_s) - START_S) // 60:02}:{int(at_s) % 60:02}Z"
        incident["acknowledgements"].append({"at": at, "acknowledger": who})


@pytest.fixture
def account():
    with Account() as there:
        yield there


class Paged(Scene):
    """A scene with a PagerDuty in it, whose notifications are delivered each minute."""

    def __init__(self, account, state):
        self.receiver = PagerDutySettings(
            name="first",
            type="pagerduty",
            routing_key="k" * 32,
            url=account.url,
            api_key=KEY,
            api_url=account.url,
            allow_private=True,
        )
        super().__init__(state, bad=30)
        self.courier = Courier(state, PagerDuty(self.receiver))
        self.sync = PagerDutySync(state, [self.receiver])

    def minutes(self, count):
        for _ in range(count):
            super().minutes(1)
            self.courier.deliver(lambda: self.now_s)
            self.sync.tick(self.now_s)
        return self

    @property
    def held_by(self):
        taken = self.alert.response.acknowledgement
        return taken and taken.by


@pytest.fixture
def scene(account):
    state = open_state("sqlite://")
    yield Paged(account, state).minutes(2)
    state.dispose()


def test_an_acknowledgement_there_is_one_here(scene, account):
    account.acknowledge(account.incident, USER, scene.now_s)

    scene.minutes(1)

    assert scene.held_by == "Sarah Chen at PagerDuty"
    assert scene.alert.history[-1].author == "Sarah Chen at PagerDuty"
    assert scene.told("first") == ["firing"]  # it was said there, so it need not be told there
    assert scene.told("second") == ["firing", "acknowledged"]
    assert account.asked[0][1] == f"Token token={KEY}"


def test_an_acknowledgement_here_is_one_there_and_does_not_come_back(scene, account):
    said = Acknowledged(by="ada")
    scene.acknowledgements.give(scene.alert.id, said, now_s=scene.now_s)

    scene.minutes(3)

    assert account.incident["status"] == "acknowledged"
    assert scene.held_by == "ada"
    assert scene.happened().count("acknowledged") == 1


def test_what_is_triggered_there_again_is_nobodys_here_again(scene, account):
    account.acknowledge(account.incident, USER, scene.now_s)
    scene.minutes(1)
    account.incident["status"] = "triggered"

    scene.minutes(1)

    assert scene.held_by is None
    assert scene.happened()[-1] == "unacknowledged"


def test_what_is_withdrawn_here_is_not_taken_over_again_until_somebody_takes_it_anew(
    scene, account
):
    account.acknowledge(account.incident, USER, scene.now_s)
    scene.minutes(1)
    scene.acknowledgements.withdraw(scene.alert.id, by="ada", now_s=scene.now_s)

    scene.minutes(2)
    assert scene.held_by is None
    account.acknowledge(account.incident, USER | {"summary": "Grace"}, scene.now_s)
    scene.minutes(1)

    assert scene.held_by == "Grace at PagerDuty"


def test_an_api_that_does_not_answer_changes_nothing_and_shows_no_key(scene, account, caplog):
    account.acknowledge(account.incident, USER, scene.now_s)
    account.status = 401

    scene.minutes(1)

    assert scene.held_by is None
    assert "HTTP 401" in caplog.text
    assert KEY not in caplog.text


def test_without_a_key_nobody_is_asked(scene, account):
    plain = scene.receiver.model_copy(update={"api_key": None})
    before = len(account.asked)

    PagerDutySync(scene.state, [plain]).tick(scene.now_s)

    assert len(account.asked) == before


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "incidents",
                        "incident_key",
                        "status",
                        "acknowledgements",
                        "acknowledger",
                        "at",
                    ]
                ),
                inner,
            )
        ),
    )
)
def test_whatever_is_answered_is_an_incident_or_none(said):
    found = incident_of(json.dumps(said), "k")

    assert found is None or isinstance(found, Incident)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"incidents": 3}',
        '{"incidents": [{"incident_key": "k", "status": "acknowledged", "acknowledgements": [{"at": "never", "acknowledger": {"type": "user_reference"}}]}]}',
    ],
)
def test_what_is_no_answer_is_none(text):
    assert incident_of(text, "k") is None
