"""A distribution adds like its values, and is never further off than it says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.distribution import EMPTY, Distribution, add_all, exact
from domain.grid import EDGES_S, OVER, RELATIVE_ERROR
from tests.strategies import VLLM_TTFT_S, cut, samples, scrape

shares = st.lists(st.floats(0, 1), max_size=4)
quantiles = st.sampled_from((0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0))


def same(one, other):
    return (one.low == other.low).all() and (one.high == other.high).all()


def true_quantile(values_s, q):
    return np.sort(values_s)[max(math.ceil(Fraction(str(q)) * len(values_s)), 1) - 1]


def assert_within_the_stated_error(distribution, values_s, q):
    truth = true_quantile(values_s, q)
    value = distribution.quantile(q).value_s

    assert abs(value - truth) <= RELATIVE_ERROR * truth


@given(samples, shares)
def test_adding_parts_gives_the_distribution_of_all_values(values_s, at):
    whole, parts = exact(values_s), [exact(part) for part in cut(values_s, at)]

    added = add_all(parts)

    assert same(added, whole)
    assert added.exact
    assert added.sum_s == pytest.approx(whole.sum_s)


@given(samples, shares, st.randoms())
def test_the_order_of_rolling_up_does_not_matter(values_s, at, random):
    parts = [scrape(part, VLLM_TTFT_S).distribution for part in cut(values_s, at)]
    whole = add_all(parts)

    while len(parts) > 1:
        random.shuffle(parts)
        parts.append(parts.pop() + parts.pop())

    assert same(parts[0], whole)
    assert parts[0].n == len(values_s)


@given(samples, shares, quantiles)
def test_any_quantile_of_any_merge_is_within_the_stated_error(values_s, at, q):
    merged = add_all(exact(part) for part in cut(values_s, at))

    assert_within_the_stated_error(merged, values_s, q)


@given(samples, quantiles)
def test_the_interval_of_an_exact_quantile_holds_the_truth(values_s, q):
    found = exact(values_s).quantile(q)

    assert found.low_s <= true_quantile(values_s, q) <= found.high_s


@given(samples, st.integers(0, OVER - 1))
def test_counts_at_the_edges_of_the_grid_are_exact(values_s, edge):
    threshold_s = EDGES_S[edge]

    assert exact(values_s).at_most(threshold_s) == ((values_s <= threshold_s).sum(),) * 2


@given(samples, st.floats(1e-8, 2e5))
def test_counts_at_any_threshold_lie_within_their_bounds(values_s, threshold_s):
    surely, possibly = exact(values_s).at_most(threshold_s)

    assert surely <= (values_s <= threshold_s).sum() <= possibly


def test_what_is_longer_than_the_grid_is_never_surely_good():
    assert exact(np.array([1e9, 1.0])).at_most(2e5) == (1, 2)


def test_zero_is_at_most_zero():
    assert exact(np.array([0.0, 0.0, 1.0])).at_most(0.0) == (2, 2)


def test_a_mixture_with_a_coarse_part_is_not_exact():
    coarse = scrape(np.array([0.3]), VLLM_TTFT_S).distribution

    mixed = coarse + exact(np.array([0.3]))

    assert not mixed.exact
    assert mixed.quantile(0.5).value_s is None


def test_an_interval_without_values_takes_no_exactness_away():
    nothing = scrape(np.array([]), VLLM_TTFT_S).distribution

    assert (nothing + exact(np.array([0.3]))).exact


@pytest.mark.parametrize(
    ("n", "q", "rank"),
    [
        (100, 0.99, 99),
        (1000, 0.999, 999),
        (3, 0.5, 2),
        (10, Fraction(9, 10), 9),
        (7, 0, 1),
        (100, 0.07, 7),
        (100, 0.55, 55),
    ],
)
def test_the_rank_is_the_ceiling_of_q_n_in_exact_arithmetic(n, q, rank):
    values_s = 2.0 ** np.arange(-20, -20 + n) if n < 20 else 1.02 ** np.arange(n) * 1e-8

    found = exact(values_s).quantile(q)

    assert found.low_s <= values_s[rank - 1] <= found.high_s


def test_nothing_has_no_quantile_and_no_mean():
    assert EMPTY.quantile(0.5) is None
    assert EMPTY.mean_s is None
    assert add_all([]).n == 0
    assert add_all([]).exact


@pytest.mark.parametrize("q", [-0.1, 1.01, math.nan])
def test_a_quantile_outside_0_and_1_is_refused(q):
    with pytest.raises(ValueError, match="between 0 and 1"):
        exact(np.array([1.0])).quantile(q)


@pytest.mark.parametrize("value_s", [-1e-9, math.nan, -math.inf])
def test_what_is_no_duration_is_refused(value_s):
    with pytest.raises(ValueError, match="a duration is"):
        exact(np.array([1.0, value_s]))


def test_a_mean_needs_every_sum():
    known, unknown = exact(np.array([1.0, 2.0])), exact(np.array([3.0]))
    unknown = Distribution(unknown.low, unknown.high, exact=True, sum_s=None)

    assert known.mean_s == 1.5
    assert (known + unknown).mean_s is None


def test_adding_leaves_the_parts_as_they_were():
    one, other = exact(np.array([1.0])), exact(np.array([2.0]))

    add_all((one, other))

    assert (one.n, other.n, EMPTY.n) == (1, 1, 0)
