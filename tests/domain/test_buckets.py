"""Buckets and a sum become a pair that holds the truth, always, and adds up."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from domain.buckets import from_buckets, layout
from domain.distribution import add_all
from domain.grid import EDGES_S, OVER
from tests.strategies import (
    DYNAMO_TTFT_S,
    ENGINE_LAYOUTS_S,
    SGLANG_QUEUE_S,
    VLLM_QUEUE_S,
    VLLM_TTFT_S,
    close_layouts_s,
    cut,
    layouts_s,
    samples,
    scrape,
)

QUANTILES = (0.01, 0.5, 0.9, 0.95, 0.99, 1.0)
CELL = 2 ** (1 / 64)
scrapes = st.lists(st.tuples(samples, layouts_s), min_size=1, max_size=4)


def assert_quantiles_hold(pair, values_s):
    ordered = np.sort(values_s)
    for q in QUANTILES:
        truth = ordered[math.ceil(Fraction(str(q)) * len(ordered)) - 1]
        found = pair.quantile(q)
        assert found.low_s <= truth <= found.high_s


def assert_counts_hold(pair, values_s):
    """At every edge of the grid, give or take the one cell that snapping may move an edge."""
    surely, possibly = pair.high.cumsum()[:OVER], pair.low.cumsum()[:OVER]
    truth = np.searchsorted(np.sort(values_s), EDGES_S, side="right")

    assert (surely[:-1] <= truth[1:]).all()
    assert (possibly[1:] >= truth[:-1]).all()
    assert (surely <= possibly).all()


@given(scrapes)
def test_a_pair_of_any_layouts_holds_every_quantile_and_every_count(parts):
    pair = add_all(scrape(*part).distribution for part in parts)
    values_s = np.concatenate([values_s for values_s, _ in parts])

    assert pair.n == pair.high.sum() == len(values_s)
    assert_quantiles_hold(pair, values_s)
    assert_counts_hold(pair, values_s)


@given(st.lists(st.tuples(samples, close_layouts_s), min_size=1, max_size=2))
def test_a_pair_holds_the_truth_also_where_edges_are_closer_than_cells(parts):
    pair = add_all(scrape(*part).distribution for part in parts)
    values_s = np.concatenate([values_s for values_s, _ in parts])

    assert_quantiles_hold(pair, values_s)
    assert_counts_hold(pair, values_s)


@given(samples, layouts_s)
def test_a_pair_without_a_sum_holds_the_truth(values_s, edges_s):
    interval = scrape(values_s, edges_s, with_sum=False)

    assert_quantiles_hold(interval.distribution, values_s)
    assert_counts_hold(interval.distribution, values_s)
    assert interval.distribution.sum_s is None


@given(samples, layouts_s, st.floats(1e-8, 2e5))
def test_a_count_at_any_threshold_holds_the_truth_within_a_cell(values_s, edges_s, threshold_s):
    pair = scrape(values_s, edges_s).distribution

    surely, _ = pair.at_most(threshold_s / CELL)
    _, possibly = pair.at_most(threshold_s * CELL)

    assert surely <= (values_s <= threshold_s).sum() <= possibly


@given(samples, layouts_s)
def test_counts_at_the_sources_own_edges_are_exact(values_s, edges_s):
    pair = scrape(values_s, edges_s).distribution

    for edge_s in edges_s[:-1]:
        if edge_s <= EDGES_S[-1]:  # what the grid has no edge for is open
            assert pair.at_most(edge_s) == ((values_s <= edge_s).sum(),) * 2


@given(samples, samples, st.sampled_from(ENGINE_LAYOUTS_S), st.sampled_from(ENGINE_LAYOUTS_S))
def test_counts_at_edges_that_both_layouts_have_stay_exact_when_merged(one, other, first, second):
    merged = scrape(one, first).distribution + scrape(other, second).distribution
    both = np.concatenate((one, other))

    for edge_s in set(first[:-1]) & set(second[:-1]):
        assert merged.at_most(edge_s) == ((both <= edge_s).sum(),) * 2


@given(scrapes, st.floats(1e-4, 100))
def test_bounds_at_a_threshold_add_up_over_layouts(parts, threshold_s):
    pairs = [scrape(*part).distribution for part in parts]

    added = add_all(pairs).at_most(threshold_s)

    assert added == tuple(map(sum, zip(*(p.at_most(threshold_s) for p in pairs), strict=True)))


@given(st.floats(1e-8, 1e4), layouts_s)
def test_an_interval_with_one_request_gives_it_within_four_cells(value_s, edges_s):
    found = scrape(np.array([value_s]), edges_s).distribution.quantile(0.5)

    assert found.low_s <= value_s <= found.high_s
    assert found.high_s <= found.low_s * CELL**4 * (1 + 1e-12)


@given(samples)
def test_the_only_request_beyond_the_last_edge_is_at_least_what_the_sum_leaves_it(values_s):
    edges_s = (0.5, 1.0, math.inf)
    pair = scrape(np.append(values_s[values_s <= 1], 40.0), edges_s).distribution
    doubt_s = 0.5 * (values_s <= 0.5).sum() + 0.5 * ((values_s > 0.5) & (values_s <= 1)).sum()

    assert pair.quantile(1.0).low_s >= max(40 - doubt_s, 1) / CELL**3


def test_an_interval_that_never_waited_is_zero():
    for edges_s in ENGINE_LAYOUTS_S:
        found = scrape(np.zeros(30), edges_s).distribution.quantile(0.99)

        assert found.low_s == 0
        assert found.high_s < 2e-9


@given(samples, layouts_s)
def test_a_sum_never_makes_a_pair_wider(values_s, edges_s):
    plain = scrape(values_s, edges_s, with_sum=False).distribution
    tight = scrape(values_s, edges_s).distribution

    assert (tight.low.cumsum() <= plain.low.cumsum()).all()
    assert (tight.high.cumsum() >= plain.high.cumsum()).all()


@given(samples, layouts_s)
def test_the_sum_is_kept_and_so_is_the_mean(values_s, edges_s):
    interval = scrape(values_s, edges_s)

    assert interval.sum_used
    assert interval.distribution.mean_s == pytest.approx(values_s.mean(), rel=1e-12)


@given(samples, layouts_s, st.lists(st.floats(0, 1), min_size=1, max_size=3))
def test_running_sums_lose_no_truth_to_their_rounding(values_s, edges_s, at):
    """A page adds value by value to a float; the interval's sum is a difference of two."""
    sum_s = 1e6
    for part in cut(values_s, at):
        before_s = sum_s
        for value_s in part:
            sum_s += float(value_s)
        counts = np.bincount(np.searchsorted(edges_s, part), minlength=len(edges_s))
        noise_s = (2 + len(part)) * math.ulp(sum_s)

        interval = from_buckets(layout(edges_s), counts, sum_s - before_s, noise_s=noise_s)

        assert interval.sum_used
        if len(part):
            assert_quantiles_hold(interval.distribution, part)


IMPOSSIBLE = {
    "falls": lambda low_s, _: low_s - 1_000_010.0,
    "is no number": lambda *_: math.nan,
    "is infinite": lambda *_: math.inf,
    "is infinitely small": lambda *_: -math.inf,
    "is too small": lambda low_s, _: low_s - 0.001,
    "is too large": lambda _, high_s: high_s + 0.001,
}


@pytest.mark.parametrize("how", IMPOSSIBLE)
@given(samples, st.sampled_from(ENGINE_LAYOUTS_S))
def test_a_sum_is_refused_that(how, values_s, edges_s):
    counts = np.bincount(np.searchsorted(edges_s, values_s), minlength=len(edges_s))
    assume(counts[-1] == 0 or how != "is too large")
    finite, each = np.array(edges_s[:-1]), counts[:-1]
    low_s = float(np.append(0.0, finite) @ counts)
    sum_s = IMPOSSIBLE[how](low_s, float(finite @ each))

    interval = from_buckets(layout(edges_s), counts, sum_s)

    assert not interval.sum_used
    assert interval.distribution.sum_s is None
    assert interval.distribution.mean_s is None
    assert_quantiles_hold(interval.distribution, values_s)


@pytest.mark.parametrize("noise_s", [None, 1e-9, 8 * math.ulp(1e6)])
@pytest.mark.parametrize("sum_s", [math.inf, math.nan, -math.inf])
def test_a_sum_that_is_no_duration_is_refused_whatever_its_noise(sum_s, noise_s):
    counts = np.array([3, 0, 1])

    interval = from_buckets(layout((1.0, 2.0, math.inf)), counts, sum_s, noise_s=noise_s)

    assert not interval.sum_used


def test_a_sum_of_nothing_is_refused():
    nothing = np.zeros(3, np.int64)

    interval = from_buckets(layout((1.0, 2.0, math.inf)), nothing, 0.5)

    assert not interval.sum_used
    assert interval.distribution.n == 0


def test_a_sum_on_the_very_bound_is_believed():
    """Every value at the top of its bucket, added up in floats."""
    values_s = np.full(1000, 0.3)

    assert scrape(values_s, VLLM_QUEUE_S).sum_used
    assert from_buckets(layout((0.3, math.inf)), np.array([1000, 0]), float(sum(values_s))).sum_used


def brute_force(values_s, edges_s):
    """Every rank by itself, in plain Python: the bounds of the module's docstring."""
    upper, lower = edges_s, (0.0, *edges_s[:-1])
    bucket = np.searchsorted(edges_s, values_s)
    count = np.bincount(bucket, minlength=len(edges_s)).tolist()
    sum_s = math.fsum(values_s)
    above_s = sum_s - math.fsum(bottom * c for bottom, c in zip(lower, count, strict=True))
    held_tops = [top * c for top, c in zip(upper, count, strict=True) if c]
    below_s = math.fsum(held_tops) - sum_s
    low, high = [], []
    for bottom, top, c in zip(lower, upper, count, strict=True):
        for k in range(1, c + 1):
            low.append(bottom if below_s == math.inf else max(bottom, top - below_s / k))
            high.append(min(top, bottom + above_s / k))
    return np.sort(low), np.sort(high)


@given(
    st.integers(0, 2**32),
    st.integers(600, 6000),
    st.floats(-5, 1),
    st.sampled_from(ENGINE_LAYOUTS_S),
)
def test_thousands_of_values_in_one_interval_are_bounded_as_if_each_were_looked_at(
    seed, n, middle, edges_s
):
    values_s = np.random.default_rng(seed).lognormal(middle, 0.6, n)
    pair = scrape(values_s, edges_s).distribution
    low_s, high_s = brute_force(values_s, edges_s)

    assert pair.n == pair.high.sum() == n
    assert_quantiles_hold(pair, values_s)
    assert_counts_hold(pair, values_s)
    for q in QUANTILES:
        rank = math.ceil(Fraction(str(q)) * n) - 1
        found = pair.quantile(q)
        assert found.low_s <= low_s[rank] * (1 + 1e-9)
        assert found.high_s >= high_s[rank] * (1 - 1e-9)


@pytest.mark.parametrize("edges_s", ENGINE_LAYOUTS_S)
@pytest.mark.parametrize("n", [511, 512, 513, 515, 516, 517, 1023, 40_000])
def test_grouped_ranks_cost_less_than_a_cell(n, edges_s):
    """A group's rank stands at most 1/128 from any of its members, less than a cell's 1/92."""
    values_s = np.random.default_rng(7).uniform(0.02, 0.09, n)
    pair = scrape(values_s, edges_s).distribution
    low_s, high_s = brute_force(values_s, edges_s)

    assert pair.n == pair.high.sum() == n
    for q in (0.25, 0.5, 0.9, 0.99):
        rank = math.ceil(Fraction(str(q)) * n) - 1
        found = pair.quantile(q)
        assert found.high_s <= high_s[rank] * CELL**3
        # the low side counts from the top of its bucket: a group moves what is left below it
        bucket_top_s = edges_s[np.searchsorted(edges_s, low_s[rank])]
        assert found.low_s >= (low_s[rank] - (bucket_top_s - low_s[rank]) / 128) / CELL**3


def test_a_million_values_in_one_interval_keep_their_number():
    edges = layout(VLLM_TTFT_S)
    counts = np.zeros(len(VLLM_TTFT_S), np.int64)
    counts[[3, 8, 9]] = 10**6, 3, 10**9

    interval = from_buckets(edges, counts, None)

    assert interval.distribution.n == interval.distribution.high.sum() == counts.sum()


@pytest.mark.parametrize(
    "edges_s",
    [
        (),
        (1.0, 2.0),
        (2.0, 1.0, math.inf),
        (1.0, 1.0, math.inf),
        (1.0, math.nan, math.inf),
        (-1.0, 1.0, math.inf),
        (1.0, -math.inf),
    ],
)
def test_edges_that_no_histogram_has_are_refused(edges_s):
    with pytest.raises(ValueError, match="bucket"):
        layout(edges_s)


@pytest.mark.parametrize("counts", [(-1, 0, 0), (5, -2, 0), (900, -2, 700)])
def test_a_negative_count_is_refused(counts):
    with pytest.raises(ValueError, match="0 values or more"):
        from_buckets(layout((1.0, 2.0, math.inf)), np.array(counts), 1.0)


def test_a_histogram_without_finite_edges_still_knows_its_mean():
    interval = scrape(np.array([1.0, 2.0, 3.0]), (math.inf,))

    assert interval.distribution.mean_s == 2
    assert_quantiles_hold(interval.distribution, np.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("top_s", [2e5, 1e9])
def test_edges_beyond_the_grid_are_open(top_s):
    values_s = np.array([1.0, 1.5e5, 1.2 * top_s])

    pair = scrape(values_s, (10.0, 1.4e5, top_s, math.inf)).distribution

    assert_quantiles_hold(pair, values_s)
    assert pair.quantile(1.0).high_s == math.inf


@pytest.mark.parametrize("edges_s", [SGLANG_QUEUE_S, DYNAMO_TTFT_S])
def test_a_first_edge_of_zero_counts_those_who_never_waited(edges_s):
    pair = scrape(np.array([0.0, 0.0, 0.0, 0.07]), edges_s).distribution

    assert pair.at_most(0.0) == (3, 3)
    assert pair.quantile(0.75).high_s < 2e-9


def test_a_layout_is_made_once():
    assert layout(VLLM_TTFT_S) is layout(tuple(VLLM_TTFT_S))
