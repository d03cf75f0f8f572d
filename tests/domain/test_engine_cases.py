"""What real engines' pages have done to other tools, and what we say instead."""

import math

import pytest

from tests.pages import page_interval
from tests.paths import RECORDED

CASES = RECORDED / "cases-engines"
QUEUE = "vllm:request_queue_time_seconds"
TTFT = "vllm:time_to_first_token_seconds"
E2E = "vllm:e2e_request_latency_seconds"


def between(case, name):
    return page_interval(CASES / f"{case}.t0.prom", CASES / f"{case}.t1.prom", name)


def test_01_a_hundred_short_waits_in_one_wide_bucket_are_not_297_ms():
    pair = between("01-coarse-first-bucket", QUEUE).pair().distribution
    half, worst = pair.quantile(0.5), pair.quantile(0.99)

    assert pair.n == 100
    assert pair.mean_s == pytest.approx(0.005)
    assert (half.low_s, half.high_s) == (
        pytest.approx(0, abs=1e-9),
        pytest.approx(0.0100, rel=0.03),
    )
    assert worst.low_s <= 0.002
    assert worst.high_s == pytest.approx(0.250, rel=0.03)


def test_01_objectives_are_met_or_undecidable_by_counts():
    pair = between("01-coarse-first-bucket", QUEUE).pair().distribution

    assert pair.at_most(0.1) == (95, 100)
    assert pair.at_most(0.3) == (100, 100)


def test_01_without_the_sum_only_the_buckets_own_edge_can_be_promised():
    pair = between("01-coarse-first-bucket", QUEUE).pair(with_sum=False).distribution

    assert pair.at_most(0.1) == (0, 100)
    assert pair.at_most(0.293) == (0, 100)
    assert pair.at_most(0.3) == (100, 100)


def test_02_what_is_beyond_the_last_edge_is_never_shown_as_the_edge():
    pair = between("02-all-in-inf", E2E).pair().distribution
    found = pair.quantile(0.99)

    assert (pair.n, pair.mean_s) == (50, 120)
    assert pair.at_most(10.0) == (0, 0)
    assert found.value_s is None
    assert found.low_s == pytest.approx(10, rel=0.03)
    assert found.high_s > 120


def test_02_without_a_sum_it_is_open_above():
    pair = between("02-all-in-inf", E2E).pair(with_sum=False).distribution

    assert pair.quantile(0.99).high_s == math.inf


def test_03_nothing_happened_is_no_traffic_and_no_quantile():
    interval = between("03-no-traffic-nan", TTFT)
    pair = interval.pair()

    assert pair.sum_used
    assert pair.distribution.n == 0
    assert pair.distribution.quantile(0.99) is None
    assert pair.distribution.mean_s is None
    assert pair.distribution.at_most(0.1) == (0, 0)


def test_04_after_a_restart_the_interval_is_the_whole_new_page():
    interval = between("04-restart-reset", TTFT)
    pair = interval.pair().distribution

    assert interval.restarted
    assert (interval.counts >= 0).all()
    assert pair.n == 4
    assert [pair.at_most(edge_s) for edge_s in (0.1, 0.25, 0.5)] == [(2, 2), (3, 3), (4, 4)]
    assert pair.sum_s == 0.9


def test_06_a_sum_that_falls_by_an_uptime_costs_the_mean_and_not_the_count():
    interval = between("06-uptime-sized-sum", QUEUE)
    pair = interval.pair()

    assert not interval.restarted
    assert not pair.sum_used
    assert pair.distribution.n == 1
    assert pair.distribution.mean_s is None
    assert pair.distribution.at_most(0.3) == (1, 1)
    assert pair.distribution.quantile(0.5).high_s == pytest.approx(0.3, rel=0.03)
