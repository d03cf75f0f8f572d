"""A live page does not look alive when nothing arrives any more."""

from dataclasses import replace

import pytest

from collector.query import Freshness, Window
from dashboard.unheard import Unheard
from dashboard.url import ALERTS, View
from dashboard.viewer import Viewer
from tests.dashboard.conftest import NOW_S
from tests.dashboard.reading import text

LIVE = View(alone=ALERTS)


class Heard:
    """A reader that heard each service last so many seconds ago; None: not within any window."""

    def __init__(self, *ages_s):
        self.ages_s = ages_s
        self.asked = 0

    def freshness(self, window):
        self.asked += 1
        at_s = [None if age is None else NOW_S - age for age in self.ages_s]
        return [
            Freshness(service=f"s{n}", newest_at_s=None if at is None or at < window.since_s else at,
                      replicas=())
            for n, at in enumerate(at_s)
        ]  # fmt: skip


def banner(*ages_s, view=LIVE, now_s=NOW_S):
    return Unheard(Heard(*ages_s)).banner(view, Viewer(now_s=now_s))


@pytest.mark.parametrize("ages_s", [(0,), (89,), (7000, 30), (), (None,), (100_000,)])
def test_nothing_is_said_while_anything_arrives_or_where_nothing_ever_did(ages_s):
    assert banner(*ages_s) is None


@pytest.mark.parametrize("ages_s", [(91,), (4000, 600)])
def test_silence_is_said_with_its_length_and_its_end(ages_s):
    said = text(banner(*ages_s))

    assert "Nothing arrives any more" in said
    assert Viewer(now_s=NOW_S).clock(NOW_S - min(ages_s), seconds=True) in said
    assert "collector" in said


def test_a_window_of_the_past_is_not_live_and_lacks_nothing():
    past = replace(LIVE, fixed=Window(since_s=NOW_S - 7200, until_s=NOW_S - 3600))

    assert banner(600, view=past) is None


def test_many_pages_ask_once():
    reader = Heard(5)
    asked = Unheard(reader)
    for number in range(50):
        asked.banner(LIVE, Viewer(now_s=NOW_S + number % 5))

    assert reader.asked == 1


def test_the_banner_goes_when_something_arrives():
    reader = Heard(600)
    asked = Unheard(reader)
    assert asked.banner(LIVE, Viewer(now_s=NOW_S)) is not None

    reader.ages_s = (-20,)
    assert asked.banner(LIVE, Viewer(now_s=NOW_S + 30)) is None
