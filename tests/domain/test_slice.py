"""A minute of an objective is good, bad, without traffic, or not observed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.slice import MINUTE_S, Slice, SliceState, Tally, tally


@st.composite
def slices(draw):
    at_s = draw(st.integers(0, 10**5)) * MINUTE_S
    if draw(st.booleans()):
        return Slice(minute_at_s=at_s, observed=False)
    total = draw(st.integers(0, 5000))
    good_high = draw(st.integers(0, total))
    good_low = draw(st.integers(0, good_high))
    return Slice(minute_at_s=at_s, good_low=good_low, good_high=good_high, total=total)


@given(st.lists(slices(), max_size=30), st.integers(0, 30))
def test_tallies_of_parts_add_up_to_the_tally_of_all(many, cut):
    whole, parts = tally(many), (tally(many[:cut]), tally(many[cut:]))

    for name in ("good_low", "good_high", "total", "minutes", "observed_minutes"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts)


@given(st.lists(slices(), max_size=30))
def test_surely_bad_never_exceeds_possibly_bad(many):
    counted = tally(many)

    assert 0 <= counted.bad_low <= counted.bad_high <= counted.total


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({"total": 10, "good_low": 10, "good_high": 10}, SliceState.GOOD),
        ({"total": 10, "good_low": 9, "good_high": 9}, SliceState.BAD),
        ({"total": 10, "good_low": 9, "good_high": 10}, SliceState.BAD),
        ({"total": 0}, SliceState.NO_TRAFFIC),
        ({"observed": False}, SliceState.NOT_OBSERVED),
    ],
)
def test_a_minute_is_one_of_four_things(told, state):
    assert Slice(minute_at_s=120, **told).state is state


def test_surely_bad_and_possibly_bad_are_what_is_not_possibly_and_not_surely_good():
    counted = tally([Slice(minute_at_s=0, good_low=5, good_high=8, total=10)])

    assert (counted.bad_low, counted.bad_high) == (2, 5)


def test_no_minutes_are_nothing_at_all():
    assert tally([]) == Tally()


def test_a_minute_that_nobody_observed_counts_as_a_minute_only():
    counted = tally([Slice(minute_at_s=0, observed=False), Slice(minute_at_s=60)])

    assert (counted.minutes, counted.observed_minutes, counted.total) == (2, 1, 0)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"good_low": 2, "good_high": 1, "total": 3}, "between 0 and total"),
        ({"good_low": 4, "good_high": 4, "total": 3}, "between 0 and total"),
        ({"good_low": -1, "total": 3}, "between 0 and total"),
        ({"minute_at_s": 61}, "begins on a minute"),
        ({"total": 1, "observed": False}, "nobody observed"),
    ],
)
def test_a_minute_that_cannot_be_is_refused(told, why):
    with pytest.raises(ValueError, match=why):
        Slice(**{"minute_at_s": 60, **told})
