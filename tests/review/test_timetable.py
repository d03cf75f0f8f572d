"""When the review is due, by people's clocks, and what a restart remembers of it."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import ConfigError, StoreError
from review.timetable import Cron, Standing, Timetable

MONDAY_S = datetime(2026, 11, 30, 6, 0, tzinfo=ZoneInfo("UTC")).timestamp()
WEEK_S = 7 * 86_400
WEEKLY = Cron(line="0 6 * * MON")


def test_the_instants_around_another_are_the_last_and_the_next():
    assert WEEKLY.last(MONDAY_S) == MONDAY_S
    assert WEEKLY.last(MONDAY_S - 1) == MONDAY_S - WEEK_S
    assert WEEKLY.after(MONDAY_S) == MONDAY_S + WEEK_S


def test_six_in_the_morning_stays_six_when_clocks_change():
    berlin = Cron(line="0 6 * * *", zone="Europe/Berlin")
    before_s = datetime(2026, 3, 28, 6, 0, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()

    assert berlin.after(before_s) == before_s + 23 * 3600


@given(st.integers(1_700_000_000, 1_900_000_000), st.sampled_from(["UTC", "America/New_York"]))
def test_no_instant_lies_between_the_last_and_the_next(at_s, zone):
    cron = Cron(line="30 2 * * SUN", zone=zone)

    last_s, next_s = cron.last(at_s), cron.after(at_s)

    assert last_s <= at_s < next_s
    assert cron.after(last_s) == next_s


@pytest.mark.parametrize(
    ("line", "zone"),
    [("never", "UTC"), ("0 6 * *", "UTC"), ("0 6 * * * *", "UTC"), ("61 6 * * MON", "UTC"),
     ("0 6 * * MON", "Mars/Olympus"), ("0 6 * * MON", "../../etc/passwd")],
)  # fmt: skip
def test_what_is_no_schedule_is_refused_with_the_way_out(line, zone):
    with pytest.raises(ConfigError, match="Write"):
        Cron(line=line, zone=zone)


def test_a_first_start_waits_for_its_monday_and_a_later_one_remembers(tmp_path):
    table = Timetable(tmp_path / "reviews")

    first = table.begin(WEEKLY, MONDAY_S + 3 * 86_400)
    again = table.begin(WEEKLY, MONDAY_S + 8 * 86_400)

    assert (first.ran_for_s, first.next_s) == (MONDAY_S, MONDAY_S + WEEK_S)
    assert again.ran_for_s == MONDAY_S
    assert WEEKLY.last(MONDAY_S + 8 * 86_400) > again.ran_for_s  # missed: it is due now


def test_a_run_that_was_cut_off_runs_no_more_and_a_failure_stays(tmp_path):
    table = Timetable(tmp_path)
    table.write(
        Standing(ran_for_s=MONDAY_S, running="chat: 3P:1D", done=3, of=20, failed="no disk")
    )

    assert table.read().says() == "running: chat: 3P:1D, 3 of 20"
    assert table.begin(WEEKLY, MONDAY_S + 60).says() == "the last scheduled review failed: no disk"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[1]", b'{"ran_for_s": "x"}', b"{" * 100_000])
def test_a_torn_file_is_named(tmp_path, content):
    (tmp_path / "schedule.state").write_bytes(content)

    with pytest.raises(StoreError, match=r"schedule\.state"):
        Timetable(tmp_path).read()
