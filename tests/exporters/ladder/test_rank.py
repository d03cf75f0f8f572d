"""Quantiles by rank: the rule is exact, and failed requests are in n."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.ladder.rank import QUANTILES, ranked, spread

values = st.lists(st.floats(0, 1e3), min_size=1, max_size=300).map(np.array)
shares = st.sampled_from([*QUANTILES.values(), Fraction(1), Fraction(1, 1000)])


@given(values, shares)
def test_at_least_the_share_lies_at_or_below_and_less_than_it_below(values, q):
    found = ranked(values, q)

    assert np.count_nonzero(values <= found.value_s) >= q * len(values)
    assert np.count_nonzero(values < found.value_s) < q * len(values)
    assert found.value_s in values


@given(values, shares, st.integers(1, 300))
def test_failed_requests_rank_after_all_others(values, q, never):
    found = ranked(values, q, never=never)
    slow = ranked(np.append(values, np.full(never, 1e6)), q)

    assert (found.rank, found.n) == (slow.rank, slow.n)
    assert (found.value_s is None) == (slow.value_s == 1e6)
    assert found.value_s is None or found.value_s == slow.value_s


@pytest.mark.parametrize(
    ("n", "rank", "is_maximum"), [(1, 1, True), (99, 99, True), (100, 99, False), (101, 100, False)]
)
def test_below_a_hundred_requests_the_p99_is_the_maximum(n, rank, is_maximum):
    found = ranked(np.arange(1.0, n + 1), QUANTILES["p99"])

    assert (found.rank, found.value_s, found.is_maximum) == (rank, float(rank), is_maximum)


def test_a_float_would_have_taken_the_wrong_rank():
    # 0.95 * 20 is 19.0 as a number, and 0.07 * 100 is 7.000000000000001 as a float
    assert ranked(np.arange(1.0, 101), Fraction(7, 100)).rank == 7
    assert math.ceil(0.07 * 100) == 8


def test_nothing_has_no_quantile_and_only_failures_have_one_that_never_came():
    assert ranked(np.zeros(0), QUANTILES["p50"]) is None
    assert ranked(np.zeros(0), QUANTILES["p50"], never=3).value_s is None


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e3)), min_size=1, max_size=7))
def test_the_median_is_one_of_the_runs_and_lies_between_the_ends(runs):
    found = spread(runs)

    assert found.median in runs
    assert found.runs == len(runs)
    if None not in runs:
        assert found.low <= found.median <= found.high
    else:
        assert found.high is None


def test_one_run_of_three_that_failed_does_not_hide_and_does_not_decide():
    found = spread([0.2, None, 0.1])

    assert (found.median, found.low, found.high) == (0.2, 0.1, None)
    assert spread([0.2, None, None]).median is None
    assert spread([]).median is None
