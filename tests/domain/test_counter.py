"""Counters grow or start anew; they never shrink."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.counter import increase

KEYS = ("stop", "length", "abort")
readings = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 10**6), max_size=3)
growth = st.lists(
    st.tuples(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 1000)), st.booleans()),
    max_size=20,
)


@given(st.one_of(st.none(), readings), readings, st.booleans())
def test_increases_are_never_negative(before, now, restarted):
    found = increase(before, now, restarted=restarted)

    assert all(value >= 0 for value in found.by.values())
    assert found.by.keys() == now.keys()


@given(growth)
def test_a_process_that_restarts_now_and_then_loses_nothing_it_showed(history):
    """Every step adds; a restart wipes first and is told by a newer start time."""
    shown: dict[str, int] = {}
    before = dict(shown)
    counted = dict.fromkeys(KEYS, 0)
    happened = dict.fromkeys(KEYS, 0)
    for grown, restarts in history:
        now = {} if restarts else dict(before)
        for key, value in grown.items():
            now[key] = now.get(key, 0) + value
            happened[key] += value
        for key, value in increase(before, now, restarted=restarts).by.items():
            counted[key] += value
        before = now

    assert counted == happened


def test_one_series_that_falls_resets_its_whole_family():
    found = increase({"stop": 100, "length": 5}, {"stop": 3, "length": 7})

    assert found.restarted
    assert found.by == {"stop": 3, "length": 7}


def test_a_series_that_appears_counts_from_zero():
    assert increase({"stop": 4}, {"stop": 4, "abort": 2}).by == {"stop": 0, "abort": 2}


def test_a_series_that_vanishes_is_no_restart():
    found = increase({"stop": 4, "abort": 2}, {"stop": 5})

    assert not found.restarted
    assert found.by == {"stop": 1}


def test_before_the_first_reading_nothing_is_known_to_have_grown():
    found = increase(None, {"stop": 1000})

    assert not found.restarted
    assert found.by == {"stop": 0}


def test_an_empty_first_reading_is_a_reading():
    assert increase({}, {"stop": 3}).by == {"stop": 3}


@pytest.mark.parametrize("now", [{"stop": 100}, {"stop": 120}])
def test_a_newer_start_time_is_a_restart_even_if_nothing_fell(now):
    found = increase({"stop": 100}, now, restarted=True)

    assert found.restarted
    assert found.by == now
