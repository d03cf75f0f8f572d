"""Times in the zone of whoever is woken."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from dashboard.url import View
from dashboard.viewer import Viewer, zone_of

NOON_S = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp())
BERLIN = Viewer(now_s=NOON_S, zone=ZoneInfo("Europe/Berlin"))


def test_a_time_is_the_readers_and_everybody_elses_on_hover():
    assert BERLIN.clock(NOON_S) == "13:00"
    assert BERLIN.utc(NOON_S) == "2026-03-01 12:00:00 UTC"


def test_a_time_of_another_day_says_which():
    assert BERLIN.clock(NOON_S - 86_400) == "28 Feb 13:00"


@pytest.mark.parametrize(
    ("name", "offset_min", "zone"),
    [
        ("Europe/Berlin", 60, ZoneInfo("Europe/Berlin")),
        ("Mars/Olympus", 330, timezone(timedelta(minutes=330))),
        ("../../etc/passwd", 60, timezone(timedelta(minutes=60))),
        ("", None, UTC),
        (None, 100_000, UTC),
        (7, "x", UTC),
        ("\0", 0, timezone(timedelta(0))),
    ],
)
def test_a_zone_nobody_knows_is_its_offset_or_utc(name, offset_min, zone):
    assert zone_of(name, offset_min) == zone


@pytest.mark.parametrize(
    ("zone", "word"),
    [
        (ZoneInfo("Europe/Berlin"), "Europe/Berlin (UTC+1)"),
        (ZoneInfo("Asia/Kolkata"), "Asia/Kolkata (UTC+5:30)"),
        (timezone(timedelta(hours=-3)), "UTC−3"),
        (UTC, "UTC"),
    ],
)
def test_the_page_says_whose_times_it_shows(zone, word):
    assert Viewer(now_s=NOON_S, zone=zone).zone_word() == word


def test_an_axis_is_given_the_instant_itself_since_the_browser_knows_its_own_zone():
    assert BERLIN.axis_ms(np.array([NOON_S, 0.0])).tolist() == [NOON_S * 1000, 0]


def test_a_link_works_behind_a_prefix():
    assert Viewer(now_s=0, prefix="/watch/").href(View(service="chat")) == "/watch/service/chat"


def test_a_browser_that_says_nothing_gets_a_page_all_the_same():
    viewer = Viewer.from_browser({}, now_s=NOON_S, prefix="/")

    assert (viewer.zone, viewer.host) == (UTC, "localhost")
