"""Instants, durations and pairs are read as people type them, or refused with the way out."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.query import Window
from collector.times import duration_s, instant_s, label_names, labels_asked, rfc3339, window
from domain.errors import InputError

NOW_S = 1_795_966_000.5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", NOW_S),
        ("now-5m", NOW_S - 300),
        ("now-1h30m", NOW_S - 5400),
        ("now+10s", NOW_S + 10),
        ("now-90", NOW_S - 90),
        ("1795966000", 1_795_966_000),
        ("1795966000.25", 1_795_966_000.25),
        ("2026-11-29T15:26:40Z", 1_795_966_000),
        ("2026-11-29T17:26:40+02:00", 1_795_966_000),
        ("2026-11-29 15:26:40.500Z", 1_795_966_000.5),
        (" now ", NOW_S),
    ],
)
def test_an_instant_is_absolute_relative_or_in_seconds(text, seconds):
    assert instant_s(text, now_s=NOW_S) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "now-",
        "now-1y",
        "nowish",
        "-5",
        "nan",
        "inf",
        "1795966000000",
        "2026-13-01T00:00:00Z",
    ],
)
def test_what_is_no_instant_is_refused_with_an_example(text):
    with pytest.raises(InputError, match="from: "):
        instant_s(text, now_s=NOW_S, name="from")


def test_a_time_without_a_zone_is_refused_because_it_is_two_times():
    with pytest.raises(InputError, match=r"in which zone\. Append Z"):
        instant_s("2026-11-29T15:26:40", now_s=NOW_S)


@given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)), st.integers(-14 * 60, 14 * 60))  # noqa: DTZ001
def test_an_instant_is_the_same_in_every_zone(moment, offset_min):
    moment = moment.replace(tzinfo=UTC)
    away = moment.astimezone(UTC) + timedelta(minutes=offset_min)
    sign = "+" if offset_min >= 0 else "-"
    hours, minutes = divmod(abs(offset_min), 60)
    there = f"{away:%Y-%m-%dT%H:%M:%S}{sign}{hours:02d}:{minutes:02d}"

    assert instant_s(there, now_s=0) == int(moment.timestamp())


@given(st.integers(0, 7_999_999_999))
def test_what_we_write_we_can_read(at_s):
    assert instant_s(rfc3339(at_s), now_s=0) == at_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("5m", 300),
        ("1h", 3600),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
    ],
)
def test_a_duration_has_a_unit_or_is_in_seconds(text, seconds):
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5m", "1.5h", "5 m", "1M", "m", "٣", "9" * 30])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(InputError, match="is no duration"):
        duration_s(text, name="step")


def test_a_window_is_widened_to_whole_seconds():
    assert window("now-10s", "now", now_s=NOW_S) == Window(
        since_s=1_795_965_990, until_s=1_795_966_001
    )


def test_a_window_that_ends_before_it_begins_is_refused():
    with pytest.raises(InputError, match="ends at 2026-11-29T14:26:41Z"):
        window("now", "now-1h", now_s=NOW_S)


def test_pairs_are_sorted_and_an_empty_value_asks_for_absence():
    assert labels_asked(["use_case=chat", "model=llama=3", "role="]) == (
        ("model", "llama=3"),
        ("role", ""),
        ("use_case", "chat"),
    )


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        (["chat"], "is no pair"),
        (["usecase=chat"], "Did you mean 'use_case'"),
        (["zzz=1"], "Labels: service"),
        (["model=a", "model=b"], "asked for twice"),
    ],
)
def test_a_wrong_pair_is_refused_with_what_was_probably_meant(pairs, says):
    with pytest.raises(InputError, match=says):
        labels_asked(pairs)


def test_the_same_pair_twice_is_asked_once():
    assert labels_asked(["model=a", "model=a"]) == (("model", "a"),)


def test_names_may_stand_behind_commas_and_count_once():
    assert label_names(["replica,model", "replica", ""]) == ("replica", "model")


def test_a_wrong_name_is_refused():
    with pytest.raises(InputError, match=r"by: 'replicas' is no label\. Did you mean 'replica'"):
        label_names(["replicas"])


@pytest.mark.parametrize("text", ["now-100w", "now-80w", "0"])
def test_no_instant_lies_before_1970(text):
    assert instant_s(text, now_s=40_000_000) == 0
