"""Alerts on a real PostgreSQL: the same as on SQLite, and of two processes one leads."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.orm import Session

from alerts.acknowledgement import Acknowledged
from alerts.courier import Courier
from alerts.leadership import DeposedError, Leadership, fenced
from alerts.receivers.settings import WebhookSettings
from alerts.receivers.webhook import Webhook
from alerts.tables import Base, MetaRow, open_state, writing
from domain.errors import StoreError
from tests.alerts.pager import Pager
from tests.alerts.postgres import cluster
from tests.alerts.scene import Scene
from tests.alerts.wire import Wire
from tests.paths import ROOT

STEPS = [{"after_s": 180, "receivers": ["second"]}]


@pytest.fixture(scope="module")
def server():
    with cluster() as url:
        yield url


@pytest.fixture
def url(server):
    """Nothing of another test is left."""
    yield server
    state = open_state(server)
    Base.metadata.drop_all(state)
    state.dispose()


@pytest.fixture
def state(url):
    engine = open_state(url)
    yield engine
    engine.dispose()


def lived(state, pager_url=None):
    """An incident with all that can happen to it; what was told, and what stands in its history."""
    scene = Scene(state, bad=12, escalation=STEPS).minutes(6)
    said = Acknowledged(by="ada", note="it is ours")
    scene.acknowledgements.give(scene.alert.id, said, now_s=scene.now_s)
    scene.minutes(1)
    scene.acknowledgements.withdraw(scene.alert.id, by="ada", now_s=scene.now_s)
    scene.silence("objective=~ch.*", lasts_s=90)
    scene.restart()
    scene.minutes(80)
    if pager_url is not None:
        _delivered(scene, pager_url)
    history = [(each.at_s, each.event, each.author) for each in scene.alert.history]
    return scene.told("first"), scene.told("second"), history, scene.ledger.standings(spark_s=0)


def _delivered(scene, url):
    for name in ("first", "second", "third"):
        settings = WebhookSettings(name=name, url=url, allow_private=True)
        Courier(scene.state, Webhook(settings)).deliver(lambda: scene.now_s)


def test_an_incident_on_postgresql_is_the_incident_on_sqlite(state):
    other = open_state("sqlite://")
    with Pager() as pager:
        there = lived(state, pager.url)
        told = [each["event"] for each in pager.accepted if each["severity"] == "page"]
    here = lived(other)
    other.dispose()

    assert there == here
    assert there[0][0] == "firing"
    assert there[0][-1] == "resolved"
    assert "escalated" in there[1]
    assert sorted(told) == sorted([*there[0], *there[1], *there[0]][: len(told)])


def test_processes_that_start_at_the_same_time_make_the_tables_once(url):
    opened, failed = [], []

    def begin():
        try:
            opened.append(open_state(url))
        except StoreError as error:
            failed.append(error)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for engine in opened:
        engine.dispose()

    assert (len(opened), failed) == (6, [])


def test_who_was_followed_by_another_cannot_commit(state):
    first, second = Leadership(state, lasts_s=2), Leadership(state, lasts_s=2)
    ours = first._take()
    assert second._take() is None
    run_out(state)
    assert second._take() == ours + 1
    late = fenced(state, ours)

    with pytest.raises(DeposedError), writing(late) as session, session.begin():
        session.add(MetaRow(key="late", value="1"))
    with writing(fenced(state, ours + 1)) as session, session.begin():
        session.add(MetaRow(key="now", value="1"))

    first.close()
    second.close()
    with Session(state) as session:
        assert session.get(MetaRow, "late") is None
        assert session.get(MetaRow, "now").value == "1"


def test_a_change_of_leader_waits_for_what_the_old_one_is_committing(state):
    first, second = Leadership(state), Leadership(state)
    ours = first._take()
    run_out(state)
    taken = []
    with writing(fenced(state, ours)) as session, session.begin():
        session.add(MetaRow(key="in time", value="1"))
        session.flush()
        successor = threading.Thread(target=lambda: taken.append(second._take()))
        successor.start()
        successor.join(0.3)
        assert taken == []
    successor.join()

    first.close()
    second.close()
    assert taken == [ours + 1]
    with Session(state) as session:
        assert session.get(MetaRow, "in time") is not None


def test_a_lease_is_renewed_while_the_leader_writes_and_is_lost_once_another_has_it(state):
    first, second = Leadership(state), Leadership(state)
    first._token = first._take()
    with writing(fenced(state, first._token)) as session, session.begin():
        session.add(MetaRow(key="x", value="1"))
        session.flush()
        assert first._renew() == first._token
    run_out(state)
    second._take()

    assert first._renew() is None
    first.close()
    second.close()


def run_out(state):
    with state.begin() as connection:
        connection.execute(text("UPDATE alert_lease SET expires_s = 0"))


class Process:
    """A process that wants to lead, and what it says of it."""

    def __init__(self, url, pager, begun_s):
        command = [sys.executable, "-m", "tests.alerts.leading_process", url, pager, str(begun_s)]
        self.popen = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.said = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.popen.stdout:
            self.said.append(line.strip())

    def wait_for(self, *said, timeout_s=30):
        until_s = time.monotonic() + timeout_s
        while list(said) != self.said[-len(said) :]:
            assert time.monotonic() < until_s, self.said
            assert self.popen.poll() is None
            time.sleep(0.02)

    def send(self, number):
        self.popen.send_signal(number)

    def end(self):
        self.popen.kill()
        self.popen.wait()
        self._reader.join()
        self.popen.stdout.close()


def pages(pager):
    return [each["event"] for each in pager.accepted if each["severity"] == "page"]


def wait_for_pages(pager, count, timeout_s=40):
    until_s = time.monotonic() + timeout_s
    while len(pages(pager)) < count:
        assert time.monotonic() < until_s, pages(pager)
        time.sleep(0.02)


@pytest.mark.slow
def test_of_two_processes_each_page_and_each_end_comes_once_whoever_is_stopped_or_cut_off(url):
    open_state(url).dispose()
    with ExitStack() as stack:
        pager = stack.enter_context(Pager())
        wire = stack.enter_context(Wire(make_url(url).port))
        begun_s = time.time() + 3
        first = Process(url, pager.url, begun_s)
        stack.callback(first.end)
        first.wait_for("ready", "leads")
        through = make_url(url).set(port=wire.port).render_as_string(hide_password=False)
        second = Process(through, pager.url, begun_s)
        stack.callback(second.end)
        second.wait_for("ready")

        wait_for_pages(pager, 1)
        first.send(signal.SIGSTOP)
        second.wait_for("leads")
        wait_for_pages(pager, 2)
        first.send(signal.SIGCONT)
        first.wait_for("follows")

        wait_for_pages(pager, 3)
        wire.cut()
        first.wait_for("leads")
        second.wait_for("follows")
        wait_for_pages(pager, 4)
        wire.mend()
        wait_for_pages(pager, 6)
        time.sleep(0.5)

        assert pages(pager)[:6] == ["firing", "resolved"] * 3
        assert second.said == ["ready", "leads", "follows"]
        assert first.said == ["ready", "leads", "follows", "leads"]
        told = [(each["alert_id"], each["event"]) for each in pager.accepted]
        assert len(told) == len(set(told))
