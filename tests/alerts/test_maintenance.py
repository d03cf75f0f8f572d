"""When maintenance is, by the clock on the wall and across its changes."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.maintenance import Maintenance
from tests.alerts.promises import windows

BERLIN = "Europe/Berlin"


def at_s(text, zone=BERLIN, fold=0):
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp())


def nightly(cron, duration_s=3600):
    return Maintenance(name="nightly", cron=cron, duration_s=duration_s, zone=BERLIN)


def test_a_window_holds_its_first_minute_and_not_its_last():
    window = nightly("0 2 * * SUN")
    begin_s = at_s("2026-03-01 02:00")

    assert [window.covers(begin_s + s) for s in (-60, 0, 3540, 3600)] == [False, True, True, False]


def test_a_window_may_cross_midnight_and_the_new_year():
    window = nightly("30 23 31 12 *", duration_s=2 * 3600)

    assert window.covers(at_s("2027-01-01 01:29"))
    assert not window.covers(at_s("2027-01-01 01:30"))


def test_two_oclock_stays_two_oclock_when_summer_begins_and_ends():
    window = nightly("0 4 * * *", duration_s=60)

    assert all(window.covers(at_s(f"2026-{day} 04:00")) for day in ("03-28", "03-29", "03-30"))
    assert all(window.covers(at_s(f"2026-{day} 04:00")) for day in ("10-24", "10-25", "10-26"))


def test_a_window_in_the_hour_that_does_not_exist_begins_at_its_end():
    begin_s, end_s = nightly("30 2 * * *").next(at_s("2026-03-29 00:00"))

    assert begin_s == at_s("2026-03-29 03:00")
    assert end_s - begin_s == 3600


def test_a_window_in_the_hour_that_comes_twice_comes_once():
    window = nightly("30 2 * * *", duration_s=600)
    first_s, second_s = (at_s("2026-10-25 02:30", fold=fold) for fold in (0, 1))

    assert second_s - first_s == 3600
    assert window.covers(first_s)
    assert not window.covers(second_s)
    assert window.next(first_s + 600)[0] == at_s("2026-10-26 02:30")


def test_what_has_begun_is_the_next_until_it_ends():
    window = nightly("0 2 * * SUN")
    begin_s = at_s("2026-03-01 02:00")

    assert window.next(begin_s + 1800) == (begin_s, begin_s + 3600)
    assert window.next(begin_s + 3600)[0] == at_s("2026-03-08 02:00")


def test_what_happens_once_does_not_happen_again():
    window = Maintenance(name="move", once_at_s=at_s("2026-03-01 02:00"), duration_s=3600)

    assert window.next(at_s("2026-01-01"))[0] == at_s("2026-03-01 02:00")
    assert window.next(at_s("2026-03-01 03:00")) is None


@given(windows, st.integers(28_000_000, 31_000_000))
def test_a_minute_is_covered_exactly_when_the_next_window_has_begun(window, minute):
    next_window = window.next(minute * 60)

    assert window.covers(minute * 60) == (next_window is not None and next_window[0] <= minute * 60)


@pytest.mark.parametrize("days", [1, 30])
def test_a_nightly_hour_is_an_hour_of_every_night(days):
    window, begin_s = nightly("0 2 * * *"), at_s("2026-05-01 00:00")
    minutes = range(begin_s, begin_s + days * 86_400, 60)

    assert sum(map(window.covers, minutes)) == days * 60
