"""The heartbeat: it beats after what really went through, and what stops that stops it."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import ValidationError
from sqlalchemy import update

from alerts.heartbeat import Heartbeat
from alerts.life_settings import HeartbeatSettings
from alerts.tables import OutboxRow, open_state, writing
from tests.alerts.scene import Scene


class Switch:
    """A dead man's switch on loopback."""

    def __init__(self):
        self.beats, self.status = [], 200
        switch = self

        class Handler(BaseHTTPRequestHandler):
            def _beat(self):
                switch.beats.append((self.command, self.path))
                self.send_response(switch.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST = _beat  # noqa: N815 - the base class's names

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
        return f"http://127.0.0.1:{self._server.server_port}/ping/s3cret"


@pytest.fixture
def switch():
    with Switch() as there:
        yield there


@pytest.fixture
def scene():
    state = open_state("sqlite://")
    yield Scene(state, bad=3).minutes(2)
    state.dispose()


def heartbeat(scene, switch, problems=(), **settings):
    asked = {"url": switch.url, "allow_private": True, "interval_s": 60} | settings
    return Heartbeat(
        HeartbeatSettings(**asked), scene.state, receivers=["first"], problems=problems
    )


def delivered(scene):
    with writing(scene.state) as session, session.begin():
        session.execute(update(OutboxRow).values(done_at_s=scene.now_s))


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_it_beats_once_an_interval_after_what_went_through(scene, switch, method):
    beating = heartbeat(scene, switch, method=method)

    beats = [beating.tick(scene.now_s + late_s) for late_s in (0, 30, 60, 61)]

    assert beats == [True, False, True, False]
    assert switch.beats == [(method, "/ping/s3cret")] * 2
    assert beating.problem() is None


def test_minutes_that_are_not_judged_hold_it_back_until_they_are(scene, switch):
    beating = heartbeat(scene, switch)
    late_s = scene.now_s + 600

    assert not beating.tick(late_s)
    assert "held back: chat has not been judged for 611 s" in beating.problem()
    scene.minutes(10)
    delivered(scene)
    assert beating.tick(late_s + 60)

    assert beating.problem() is None
    assert len(switch.beats) == 1


def test_a_notification_that_lies_undelivered_holds_it_back(scene, switch):
    beating = heartbeat(scene, switch, overdue_s=100)
    scene.minutes(3)

    assert not beating.tick(scene.now_s)
    assert "held back: 1 notifications are undelivered for 100 s" in beating.problem()
    delivered(scene)

    assert beating.tick(scene.now_s + 60)


def test_a_loop_that_does_not_work_holds_it_back(scene, switch):
    broken = ["the evaluator has ended"]
    beating = heartbeat(scene, switch, problems=[lambda: broken[0]])

    assert not beating.tick(scene.now_s)
    assert beating.problem() == "the heartbeat is held back: the evaluator has ended"
    assert switch.beats == []
    broken[0] = None
    assert beating.tick(scene.now_s + 60)


def test_a_beat_that_is_not_heard_is_said_tried_again_soon_and_never_shows_the_url(
    scene, switch, caplog
):
    beating = heartbeat(scene, switch)
    switch.status = 503

    assert not beating.tick(scene.now_s)
    assert beating.problem() == "the heartbeat does not get through: HTTP 503"
    switch.status = 200
    assert not beating.tick(scene.now_s + 9)
    assert beating.tick(scene.now_s + 10)

    assert beating.problem() is None
    assert "s3cret" not in caplog.text
    assert "HTTP 503" in caplog.text


def test_without_a_url_there_is_none(scene, switch):
    beating = heartbeat(scene, switch, url=None)

    assert not beating.tick(scene.now_s)
    assert switch.beats == []


def test_a_target_on_a_private_network_has_to_be_allowed(scene, switch):
    beating = heartbeat(scene, switch, allow_private=False)

    assert not beating.tick(scene.now_s)
    assert "set allow_private" in beating.problem()
    assert switch.beats == []


@pytest.mark.parametrize("url", ["ftp://x/y", "http://", "hc-ping.com/abc"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValidationError, match="begins with http"):
        HeartbeatSettings(url=url)
