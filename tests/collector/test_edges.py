"""The thresholds that a coarse source decides are offered as people write them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.edges import decided_around
from domain.distribution import add_all, exact
from tests.strategies import VLLM_QUEUE_S, VLLM_TTFT_S, scrape

RNG = np.random.default_rng(3)
SPREAD_S = RNG.lognormal(0, 1.5, 5000)


def decided(threshold, values_s=SPREAD_S, edges_s=VLLM_TTFT_S, *, with_sum=False):
    part = scrape(np.array(values_s), edges_s, with_sum=with_sum).distribution
    return decided_around([part], Fraction(threshold))


@pytest.mark.parametrize(
    ("threshold", "below", "above"),
    [
        ("1.5", "1", "2.5"),
        ("0.3", "0.25", "0.5"),
        ("0.07", "0.06", "0.08"),
        ("6", "5", "7.5"),
        ("0.015", "0.01", "0.02"),
    ],
)
def test_the_edges_of_a_real_engine_are_found_again(threshold, below, above):
    assert decided(threshold) == (Fraction(below), Fraction(above))


def test_a_threshold_on_an_edge_is_its_own_answer():
    assert decided("2.5") == (Fraction("2.5"), Fraction("2.5"))


def test_an_exact_source_decides_everything():
    assert decided_around([exact(SPREAD_S)], Fraction("1.5")) is None
    assert decided_around([], Fraction("1.5")) is None


def test_below_the_first_edge_only_the_edge_above_is_decided():
    assert decided("0.1", SPREAD_S, VLLM_QUEUE_S) == (Fraction("0.3"), Fraction("0.3"))


def test_above_the_top_edge_only_the_edge_below_is_decided():
    """SL13: what lies in +Inf may be anything."""
    values_s = [*SPREAD_S[SPREAD_S < 4], 11.0, 12.0]

    assert decided("15", values_s, (0.5, 1.0, 5.0, 10.0, np.inf)) == (10, 10)


def test_one_exact_part_does_not_make_the_rest_exact():
    parts = [exact(SPREAD_S[:100]), scrape(SPREAD_S, VLLM_TTFT_S, with_sum=False).distribution]

    assert decided_around(parts, Fraction("1.5")) == (Fraction(1), Fraction("2.5"))


@given(
    st.lists(st.floats(0.002, 500), min_size=1, max_size=200),
    st.fractions(Fraction(1, 100), 100, max_denominator=1000),
    st.booleans(),
)
def test_what_is_offered_is_decided(values_s, threshold, with_sum):
    part = scrape(np.array(values_s), VLLM_TTFT_S, with_sum=with_sum).distribution

    found = decided_around([part], threshold)

    if found is not None:
        for offered in found:
            surely, possibly = add_all([part]).at_most(float(offered))
            assert surely == possibly == sum(v <= float(offered) for v in values_s)
