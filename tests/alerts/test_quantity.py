"""Numbers as people write them, and back, without a digit lost."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts import quantity
from domain.errors import ConfigError
from tests.alerts.promises import instants, minutes, targets, thresholds

DAY_S = 86_400


@given(thresholds)
def test_a_duration_reads_back_as_it_was(value_s):
    assert quantity.duration_s(quantity.duration_text(value_s), at="f") == value_s


@given(targets)
def test_a_share_reads_back_as_it_was(share):
    assert quantity.target(quantity.share_text(share), at="f") == share


@given(st.integers(1, 90 * 24))
def test_a_period_reads_back_as_it_was(hours):
    assert quantity.period_s(quantity.period_text(hours * 3600), at="f") == hours * 3600


@given(minutes)
def test_a_waiting_time_reads_back_as_it_was(value_s):
    assert quantity.seconds(quantity.seconds_text(value_s), at="f") == value_s


@given(instants)
def test_an_instant_reads_back_as_it_was(at_s):
    assert quantity.instant_s(quantity.instant_text(at_s), at="f") == at_s


@given(st.fractions(0, 10**6, max_denominator=10**6))
def test_a_decimal_is_exact_or_a_fraction(value):
    assert Fraction(quantity.decimal_text(value)) == value


@pytest.mark.parametrize(
    ("text", "per_s"),
    [("500/s", 500), ("30000/min", 500), ("5 / h", Fraction(1, 720)), ("0.5/s", Fraction(1, 2))],
)
def test_a_rate_is_per_second(text, per_s):
    assert quantity.rate_per_s(text, at="f") == per_s


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.9", Fraction(9, 10)), ("90%", Fraction(9, 10)), ("25", 25), ("90 %", Fraction(9, 10))],
)
def test_a_level_is_a_number_or_a_share(text, value):
    assert quantity.level(text, at="f") == value


@pytest.mark.parametrize("text", ["", "s", "500", "500/d", "-5/s", "1e3/s", "nan/s", "5//s"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ConfigError, match="Write 500/s"):
        quantity.rate_per_s(text, at="f")


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e9", "-1", "1,5", "0x10", "٣"])
def test_what_is_no_level_is_refused(text):
    with pytest.raises(ConfigError, match="is no number"):
        quantity.level(text, at="f")


@pytest.mark.parametrize("text", ["Europe/Berlin", "UTC", "Asia/Kolkata"])
def test_a_zone_is_known_by_its_name(text):
    assert quantity.zone(text, at="f") == text


@pytest.mark.parametrize("text", ["", "Mars", "/etc/passwd", "../UTC", "Europe", "a\0b", "x" * 500])
def test_what_is_no_zone_is_refused(text):
    with pytest.raises(ConfigError, match="is no zone"):
        quantity.zone(text, at="f")


def test_midnight_is_that_of_the_zone():
    utc = quantity.instant_s("2026-07-01", at="f")

    assert utc - quantity.instant_s("2026-07-01", zone_name="Europe/Berlin", at="f") == 7200
    assert quantity.instant_s("2026-07-01T00:00:00Z", zone_name="Europe/Berlin", at="f") == utc


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31T23:59:00-12:00", "tomorrow", ""])
def test_an_instant_that_is_none_is_refused(text):
    with pytest.raises(ConfigError):
        quantity.instant_s(text, at="f")


def test_a_suggestion_names_what_was_meant_or_the_first_of_many():
    assert quantity.suggestion("TTFT", ("ttft", "itl")) == "Did you mean 'ttft'?"
    assert quantity.suggestion("zzz", ("ttft", "itl")) == "Use one of ttft, itl."
    assert quantity.suggestion("zzz", map(str, range(1000))).endswith("23, ….")
