"""How a minute counts: whole or by request, from the start on, never in maintenance."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.counting import Exclusion, budget_at, counted, maintenance_at, same_unit
from domain.slice import EmptySlice, SlicePolicy, tally
from tests.alerts.fleet import START_S, chat, minute

PLAIN = chat()[0]
PATCH = chat(
    "- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat, maintenance: "
    "[{name: patch, once: 2026-03-01T08:10:00Z, duration: 5min, reason: kernel}]}"
)[0]
LATER = chat("- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat, since: 2026-03-01T08:10:00Z}")[0]


@pytest.mark.parametrize(
    ("empty", "good", "total"),
    [(EmptySlice.GOOD, 57, 60), (EmptySlice.EXCLUDED, 47, 50), (EmptySlice.BAD, 47, 60)],
)
def test_an_empty_minute_counts_as_its_policy_says(empty, good, total):
    """W18, SL15: 60 slices, 3 bad, 10 empty."""
    policy = SlicePolicy(target=Fraction(95, 100), empty=empty)
    slices = [
        *(minute(index, 96, 100) for index in range(47)),
        *(minute(index, 90, 100) for index in range(47, 50)),
        *(minute(index, 0, 0) for index in range(50, 60)),
    ]

    found = tally(counted(PLAIN, each, policy) for each in slices)

    assert (found.good_low, found.total, found.observed_minutes) == (good, total, 60)


def test_what_was_before_the_start_is_as_if_nobody_had_looked():
    assert not counted(LATER, minute(9, 0), None).observed
    assert counted(LATER, minute(10, 0), None) == minute(10, 0)


def test_maintenance_leaves_nothing_to_judge_and_says_how_much_it_set_aside():
    inside = counted(PATCH, minute(12, 0, 600), None)

    assert (inside.total, inside.excluded, inside.observed) == (0, 600, True)
    assert counted(PATCH, minute(15, 0, 600), None).total == 600
    assert maintenance_at(PATCH, START_S + 60 * 14).reason == "kernel"
    assert maintenance_at(PLAIN, START_S) is None


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
def test_what_is_set_aside_within_two_windows_is_set_aside_within_both_together(a, b, c, d):
    first, last, begin, end = (60 * each for each in (*sorted((a, b)), *sorted((c, d))))
    away = Exclusion(name="patch", since_s=first, until_s=last)
    middle = (begin + end) // 120 * 60

    apart = away.minutes_within(begin, middle) + away.minutes_within(middle, end)

    assert apart == away.minutes_within(begin, end)


def test_a_budget_is_that_of_the_target_in_force():
    changing = chat(
        "- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat, "
        "changes: [{since: 2026-03-01T08:10:00Z, target: 99.5%}]}"
    )[0]

    assert budget_at(changing, START_S + 9 * 60) == Fraction(1, 100)
    assert budget_at(changing, START_S + 10 * 60) == Fraction(5, 1000)


def test_requests_are_not_added_to_gaps_or_minutes():
    requests, gaps, minutes = (
        chat(f"- {phrase}")[0].objective
        for phrase in (
            "p99 ttft <= 1.5s",
            "p99 itl <= 50ms",
            "p99 ttft <= 1.5s in 99% of minutes over 30d",
        )
    )

    assert same_unit(requests, chat("- 99.9% available over 30d")[0].objective)
    assert not same_unit(requests, gaps)
    assert not same_unit(requests, minutes)
