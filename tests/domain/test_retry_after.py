"""Retry-After: what a server may ask for, and what it may not do to us."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.retry_after import asked_s

NOW_S = 1_772_352_000  # Sun, 01 Mar 2026 08:00:00 GMT


@pytest.mark.parametrize(
    ("header", "waits_s"),
    [
        (None, None),
        ("", None),
        ("2", 2),
        (" 2 ", 2),
        ("0", 0),
        ("-5", None),
        ("86400", 3600),
        ("9" * 400, 3600),
        ("1.5", None),
        ("\x00", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("Sun, 01 Mar 2026 08:00:30 GMT", 30),
        ("Sun, 01 Mar 2026 08:00:30 -0000", 30),
        ("Sun, 01 Mar 2020 08:00:30 GMT", 0),
        ("Sun, 01 Mar 99999999999999999999 08:00:30 GMT", None),
        ("Sun, 01 Mar 2026 08:00:30 +99999999999999999999", None),
        ("Sun, 01 Mar 9999 23:59:59 -2359", 3600),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0),
    ],
)
def test_it_is_seconds_or_a_date(header, waits_s):
    assert asked_s(header, now_s=NOW_S, most_s=3600) == waits_s


@given(st.text() | st.from_regex(r"Sun, \d{1,30} Mar \d{1,30} \d\d:\d\d:\d\d [+-]\d{1,30}"))
def test_whatever_a_server_says_nothing_breaks(header):
    wait_s = asked_s(header, now_s=NOW_S, most_s=300)

    assert wait_s is None or (math.isfinite(wait_s) and 0 <= wait_s <= 300)
