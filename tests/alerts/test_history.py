"""The minutes in memory: any window is the sum of its slices, whatever came late."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.budget import Budget
from alerts.history import History, Spending
from domain.slice import Slice, tally
from tests.alerts.fleet import START_S, minute

counted = st.tuples(st.integers(0, 900), st.integers(0, 900), st.integers(0, 900), st.booleans())


def made(index, parts):
    low, doubt, bad, observed = parts
    if not observed:
        return minute(index, total=None)
    return minute(index, low, low + doubt + bad, high=low + doubt)


def filled(slices, minutes=60):
    history = History(minutes, START_S)
    for each in slices:
        history.extend(each)
    return history


@given(st.lists(counted, min_size=1, max_size=300), st.integers(1, 60))
def test_any_window_is_the_sum_of_its_slices(parts, length):
    slices = [made(index, each) for index, each in enumerate(parts)]

    found = filled(slices).tally(60 * length, START_S + 60 * len(slices))

    expected = tally(slices[-length:])
    assert (found.good_low, found.good_high, found.total, found.observed_minutes) == (
        expected.good_low,
        expected.good_high,
        expected.total,
        expected.observed_minutes,
    )


@given(
    st.lists(counted, min_size=60, max_size=60),
    st.dictionaries(st.integers(0, 59), counted),
)
def test_late_minutes_leave_what_would_have_been_there_in_time(parts, late):
    slices = [made(index, each) for index, each in enumerate(parts)]
    changed = {index: made(index, each) for index, each in late.items()}
    history = filled(slices)
    history.amend(changed.values())

    in_time = filled([changed.get(index, each) for index, each in enumerate(slices)])

    for length in (1, 5, 30, 60):
        assert history.tally(60 * length, history.end_s) == in_time.tally(
            60 * length, in_time.end_s
        )


def test_a_minute_can_be_read_back():
    history = filled([minute(0, 3, 10, high=5), minute(1, total=None)])

    assert history.at(START_S) == minute(0, 3, 10, high=5)
    assert history.at(START_S + 60) == minute(1, total=None)


def test_what_lies_before_the_first_minute_was_not_observed():
    found = filled([minute(0)]).tally(3600, START_S + 60)

    assert (found.minutes, found.observed_minutes) == (60, 1)


def test_a_minute_from_before_all_memory_is_left_alone():
    history = filled([minute(0)])
    history.amend([minute(-1000)])

    assert history.tally(3600, history.end_s).total == 600


def test_minutes_come_in_order_and_without_gaps():
    history = filled([minute(0)])

    with pytest.raises(ValueError, match="the next minute"):
        history.extend(minute(2))
    with pytest.raises(ValueError, match="not kept"):
        history.at(START_S + 60)


def test_memory_stays_bounded_over_a_long_run():
    history = filled([minute(index, index % 7, 7) for index in range(1000)])

    assert history.tally(600, history.end_s).total == 70
    assert history.end_s - history.begin_s <= 60 * (60 + 15 + 61)


def test_what_leaves_the_period_is_unspent():
    spending = Spending()
    each = Slice(minute_at_s=0, good_low=90, good_high=95, total=100)
    spending.add(each, Fraction(1, 100))
    assert (spending.allowed, spending.spent_low, spending.spent_high) == (1, 5, 10)

    spending.add(each, Fraction(1, 100), sign=-1)

    assert spending == Spending()


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.sampled_from([Fraction(1, 100), Fraction(1, 20)])),
        min_size=1,
    ),
    st.integers(1, 2000),
)
def test_what_is_left_in_integers_is_what_the_budget_says_in_fractions(minutes, counted_s):
    spending, period_s = Spending(), 1000
    for bad, share in minutes:
        spending.add_counts(100 - bad, 100 - bad, 100, share)
    budget = Budget(
        allowed=spending.allowed,
        spent_low=spending.spent_low,
        spent_high=spending.spent_high,
        total=spending.total,
        period_s=period_s,
        counted_since_s=0,
        at_s=counted_s,
    )

    left, whole = spending.left(counted_s, period_s)

    assert Fraction(left, whole) == budget.of_period_low


def test_without_traffic_there_is_no_budget_to_have_any_left_of():
    assert Spending().left(60, 3600) == (0, 0)
