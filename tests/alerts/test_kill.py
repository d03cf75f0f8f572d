"""kill -9 at any point of an incident: nothing is lost, nothing is told twice, all is in order."""

import json
import random
import signal
import subprocess
import sys

import pytest

from tests.alerts.pager import Pager
from tests.paths import ROOT

KILLS = 8
KILLS_IN_ALL = 200
LONGEST_S = 1.0


def start(place, url, *, module="tests.alerts.incident_process"):
    return subprocess.Popen(
        [sys.executable, "-m", module, str(place), url],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def told_in_order(accepted):
    """Each event once, each alert's in order; alerts do not wait for one another."""
    told = [(each["severity"], each["event"]) for each in accepted]
    assert sorted(told) == [("page", "firing"), ("page", "resolved"), ("ticket", "firing")]
    assert told.index(("page", "firing")) < told.index(("page", "resolved"))


@pytest.mark.slow
def test_a_process_killed_again_and_again_tells_each_event_once_and_in_order(tmp_path):
    chance = random.Random(7)  # noqa: S311 - traffic, no secret
    with Pager() as pager:
        for _ in range(KILLS):
            process = start(tmp_path / "alerts.db", pager.url)
            assert process.stdout.readline() == "ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, LONGEST_S))
            kill(process)
        process = start(tmp_path / "alerts.db", pager.url)
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "done\n"]
        accepted = pager.wait_for(3)
        kill(process)

    told_in_order(accepted)
    bodies = {}
    for post in pager.posts:
        assert bodies.setdefault(post["key"], post["body"]) == post["body"]


@pytest.mark.slow
def test_a_watch_killed_again_and_again_tells_of_a_stall_once_and_of_its_end_once(tmp_path):
    chance = random.Random(11)  # noqa: S311 - no secret
    with Pager() as pager:
        for _ in range(KILLS):
            process = start(tmp_path, pager.url, module="tests.alerts.stall_process")
            assert process.stdout.readline() == "ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, 0.4))
            kill(process)
        process = start(tmp_path, pager.url, module="tests.alerts.stall_process")
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "done\n"]
        accepted = pager.wait_for(3)
        kill(process)

    told_in_order(accepted)


def told_by_severity(accepted, objective):
    """What was told of an objective, in order; alerts do not wait for one another."""
    told = [each for each in accepted if each["objective"] == objective]
    return {
        severity: [each["event"] for each in told if each["severity"] == severity]
        for severity in ("page", "ticket")
    }


@pytest.mark.slow
def test_killed_at_two_hundred_statements_and_posts_each_page_and_each_end_is_told_once(tmp_path):
    command = [sys.executable, "-m", "tests.alerts.lives_process", str(tmp_path)]
    with Pager() as pager:
        ran = subprocess.run(
            [*command, pager.url, str(KILLS_IN_ALL), "5"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        accepted = pager.accepted
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)

    assert sum(said["killed"].values()) >= KILLS_IN_ALL
    assert set(said["killed"]) >= {"statement", "commit", "before a post", "after a post"}
    both = ["firing", "resolved"]
    last = said["incidents"] - 1
    for number in range(last):  # its ticket ends when the next one is promised in its place
        assert told_by_severity(accepted, f"chat{number}") == {"page": both, "ticket": both}
    assert told_by_severity(accepted, f"chat{last}") == {"page": both, "ticket": ["firing"]}
    assert len(pager.posts) > len(accepted)  # some were sent twice, under the same key
