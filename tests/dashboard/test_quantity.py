"""Numbers that cannot be misread at night."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import quantity
from domain.buckets import from_buckets, layout
from domain.distribution import EMPTY, exact


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
        (0, "0 s"),
        (0.0000421, "42.1 µs"),
        (0.0412, "41.2 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (1.512, "1.51 s"),
        (12.34, "12.3 s"),
        (599, "599 s"),
        (720, "12 min"),
    ],
)
def test_a_duration_has_three_digits_and_the_unit_that_suits(value_s, text):
    assert quantity.seconds(value_s) == text


@given(st.floats(1e-6, 1e5))
def test_a_duration_is_never_shortened_by_more_than_half_a_percent(value_s):
    number, unit = quantity.seconds(value_s).split(" ")
    read_s = float(number) * {"µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60}[unit]

    assert read_s == pytest.approx(value_s, rel=0.006)


@pytest.mark.parametrize(
    ("low_s", "high_s", "text"),
    [
        (1.2, 1.9, "1.2–1.9 s"),
        (0.3, 1.9, "300 ms – 1.9 s"),
        (10, float("inf"), "≥ 10 s"),
        (0, 0.3, "≤ 300 ms"),
        (1.501, 1.502, "1.5 s"),
    ],
)
def test_a_range_shows_both_its_ends_or_the_one_it_has(low_s, high_s, text):
    assert quantity.seconds_range(low_s, high_s) == text


def test_a_quantile_of_an_exact_source_is_a_value():
    assert quantity.quantile_text(exact(np.full(10, 1.0)), Fraction(99, 100)) == "995 ms"


def test_a_quantile_of_a_coarse_source_is_a_range():
    counts = np.array([0, 10, 0])
    coarse = from_buckets(layout((0.5, 1.0, float("inf"))), counts, None).distribution

    assert quantity.quantile_text(coarse, Fraction(1, 2)) == "495 ms – 1.01 s"


def test_a_quantile_of_nothing_is_not_measured():
    assert quantity.quantile_text(EMPTY, Fraction(1, 2)) == "–"
    assert quantity.quantile_text(None, Fraction(1, 2)) == "–"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "–"),
        (Fraction(151, 1000), "15.1 %"),
        (Fraction(1), "100 %"),
        (Fraction(-1, 8), "−12.5 %"),
        (-25, "−2 500 %"),
        (0, "0 %"),
        (-0.0, "0 %"),
    ],
)
def test_a_share_is_a_percentage_and_keeps_its_sign(ratio, text):
    assert quantity.percent(ratio) == text


def test_a_range_of_shares_is_one_figure_where_both_ends_read_the_same():
    assert quantity.percent_range(0.5, 0.5) == "50 %"
    assert quantity.percent_range(0.58, 0.92) == "58–92 %"
    assert quantity.percent_range(-0.58, 0.12) == "−58 to 12 %"


@pytest.mark.parametrize(
    ("per_s", "text"), [(None, "–"), (0, "0 /s"), (1.352, "1.35 /s"), (0.05, "3 /min")]
)
def test_a_rare_event_is_counted_by_the_minute(per_s, text):
    assert quantity.rate(per_s) == text


@pytest.mark.parametrize(
    ("seconds_ago", "text"),
    [(-3, "0 s"), (12, "12 s"), (119, "119 s"), (240, "4 min"), (10_800, "3 h"), (200_000, "2 d")],
)
def test_an_age_has_one_unit(seconds_ago, text):
    assert quantity.age(seconds_ago) == text


@pytest.mark.parametrize(
    ("length_s", "text"),
    [(900, "15 min"), (3600, "1 h"), (86_400, "24 h"), (604_800, "7 d"), (61, "61 s")],
)
def test_a_window_is_named_by_its_length(length_s, text):
    assert quantity.span(length_s) == text
    assert quantity.window_text(length_s) == f"the last {text}"


def test_a_count_sets_thousands_apart_and_an_unknown_one_is_no_zero():
    assert quantity.count(4868) == "4\u2009868"
    assert quantity.count(None) == "–"
    assert quantity.count(0) == "0"


def test_one_unit_for_rates_that_stand_beside_each_other():
    unit = quantity.rate_unit([0.02, None, 3.5])

    assert [quantity.rate(each, unit=unit) for each in (0.02, None, 3.5)] == [
        "0.02 /s",
        "–",
        "3.5 /s",
    ]
    assert quantity.rate_unit([0.02, 0.01]) == "/min"
    assert quantity.rate_unit([]) == "/s"
