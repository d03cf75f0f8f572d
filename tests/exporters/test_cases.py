"""Public failures of engines as pairs of pages: each with its right answer, from text to pairs."""

import json

import pytest

from domain.distribution import add_all
from exporters.engine.otlp import export_request
from tests.exporters.pages_of import (
    CASES,
    ENGINES,
    NOTHING_YET,
    increments,
    latency,
    level,
    scrapes,
)


def case(number, **target):
    """The reading of a case's second page; an empty first page is a target without families."""
    (first,) = CASES.glob(f"{number}-*.t0.prom")
    (second,) = CASES.glob(f"{number}-*.t1.prom")
    (reading,) = scrapes(first.read_text() or NOTHING_YET, second.read_text(), **target)
    return reading


def test_01_a_coarse_first_bucket_is_narrowed_by_its_sum():
    queue = latency(case("01"), "queue")
    median, last = queue.quantile(0.5), queue.quantile(0.99)

    assert queue.n == 100
    assert queue.mean_s == pytest.approx(0.005)
    assert median.low_s == 0
    assert 0.0099 <= median.high_s <= 0.0099 * 1.03
    assert 0.0019 <= last.low_s <= 0.002
    assert last.high_s == pytest.approx(0.25, rel=0.025)
    assert queue.at_most(0.1)[0] in (95, 96)
    assert queue.at_most(0.1)[1] == 100
    assert queue.at_most(0.3) == (100, 100)


def test_02_beyond_the_last_bucket_is_open_above():
    e2e = latency(case("02"), "e2e")

    assert e2e.n == 50
    assert e2e.mean_s == pytest.approx(120)
    assert e2e.at_most(10.0) == (0, 0)
    assert e2e.quantile(0.99).low_s >= 9.9
    assert e2e.quantile(0.99).high_s > 120


def test_03_no_traffic_is_no_pair():
    reading = case("03")

    assert reading.up
    assert not reading.latencies
    assert increments(reading, "requests_started") == 0


def test_04_a_restart_makes_the_whole_page_new():
    reading = case("04")
    ttft = latency(reading, "ttft")

    assert ttft.n == 4
    assert [ttft.at_most(edge) for edge in (0.1, 0.25, 0.5)] == [(2, 2), (3, 3), (4, 4)]
    assert ttft.sum_s == pytest.approx(0.9)
    assert increments(reading, "requests_started") == 4
    assert increments(reading, "counter_resets") == 1
    assert all(one.by >= 0 for one in reading.increments)


def test_06_a_sum_that_falls_by_the_hosts_uptime_is_dropped_and_counted():
    reading = case("06")
    queue = latency(reading, "queue")

    assert queue.n == 1
    assert queue.at_most(0.3) == (1, 1)
    assert queue.sum_s is None
    assert increments(reading, "refused_sums", by="reason") == {"queue": 1}
    assert increments(reading, "counter_resets") is None
    assert any("queue: the sum" in note for note in reading.notes)


def test_06_the_next_interval_is_right_again():
    first, second = (next(CASES.glob(f"06-*.{t}.prom")).read_text() for t in ("t0", "t1"))
    third = second.replace("} 10\n", "} 11\n").replace("-1000009.956", repr(-1000009.956 + 0.2))

    queue = latency(scrapes(first, second, third)[1], "queue")

    assert queue.n == 1
    assert queue.mean_s == pytest.approx(0.2, abs=1e-8)


def test_07_a_step_is_not_a_token():
    reading = case("07")
    itl = latency(reading, "itl")
    finished, tokens = (
        increments(reading, name) for name in ("requests_finished", "generation_tokens")
    )

    assert itl.n == 660
    assert itl.mean_s == pytest.approx(0.030)
    assert {one.sample for one in reading.latencies if one.metric == "itl"} == {"step"}
    assert (tokens - finished) / itl.n == pytest.approx(3.0)
    assert itl.sum_s / (tokens - finished) == pytest.approx(0.010)


def test_08_a_prefill_leg_feeds_neither_ttft_nor_itl_nor_decode():
    reading = case("08", role="prefill")

    assert {one.metric for one in reading.latencies} == set()
    assert increments(reading, "requests_started") is None


def test_08_the_same_page_of_a_whole_engine_has_a_ttft():
    ttft = latency(case("08"), "ttft")

    assert ttft.n == 50
    assert ttft.mean_s == pytest.approx(0.215)
    assert 0.176 <= ttft.quantile(0.5).low_s <= 0.18
    assert 0.25 <= ttft.quantile(0.5).high_s <= 0.256


def test_09_a_renamed_family_goes_on_under_our_name():
    reading = case("09")
    itl = latency(reading, "itl")

    assert itl.n == 130
    assert itl.sum_s == pytest.approx(1.95)
    assert level(reading, "kv_cache_usage") == 0.5
    assert increments(reading, "schema_drift") is None
    assert any("is now called vllm:inter_token_latency_seconds" in note for note in reading.notes)


def test_09_a_name_in_no_table_is_drift_and_never_zero():
    first = next(CASES.glob("09-*.t0.prom")).read_text()
    renamed = first.replace("gpu_cache_usage_perc", "kv_cache_usage_ratio")

    at_once, later = scrapes(first, renamed, renamed)

    assert level(at_once, "kv_cache_usage") is None
    assert increments(at_once, "schema_drift", by="reason") == {"kv_cache_usage": 1}
    assert increments(later, "schema_drift") is None
    assert later.absent == ("kv_cache_usage",)


def test_11_two_engines_add_up_and_one_request_is_exact():
    reading = case("11")
    ttft = latency(reading, "ttft")
    longest, last = ttft.quantile(1), ttft.quantile(0.99)

    assert ttft.n == 100
    assert ttft.at_most(0.1)[0] == 99
    assert longest.low_s <= 2.0 <= longest.high_s
    assert longest.high_s / longest.low_s < 1.05
    assert last.low_s >= 0.049
    assert last.high_s <= 0.103


def test_13_one_true_gauge_and_seven_zeros():
    reading = case("13")

    assert level(reading, "kv_cache_usage") == pytest.approx(0.6530455880475035)
    assert not any("pid" in dict(one.labels) for one in reading.levels)


def test_15_a_torn_family_is_refused_and_counted():
    reading = case("15")

    assert latency(reading, "ttft") is None
    assert increments(reading, "refused_families", by="reason") == {"ttft": 1}


def test_15_what_the_torn_page_hid_is_counted_on_the_next_one():
    first, torn = (
        next(CASES.glob(f"15-*.{t}.prom")).read_text() or NOTHING_YET for t in ("t0", "t1")
    )
    mended = torn.replace('le="0.25"} 4', 'le="0.25"} 5')

    readings = scrapes(first, torn, mended)

    assert latency(readings[1], "ttft").n == 6 - (0 if first == NOTHING_YET else 5)


def test_17_a_creation_time_is_no_latency():
    reading = case("17")
    ttft = latency(reading, "ttft")
    only = ttft.quantile(0.5)

    assert ttft.n == 1
    assert ttft.sum_s == pytest.approx(0.05)
    assert only.low_s <= 0.05 <= only.high_s
    assert only.high_s / only.low_s < 1.04
    assert "1795965366" not in json.dumps([one.value for one in reading.levels])


@pytest.mark.parametrize("number", ["01", "04", "06", "07", "09", "11", "13", "17"])
def test_a_case_leaves_as_one_export_without_values_beyond_reason(number):
    reading = case(number)

    (resource,) = export_request(reading).resource_metrics
    points = [
        point
        for metric in resource.scope_metrics[0].metrics
        for point in (*metric.gauge.data_points, *metric.sum.data_points)
    ]

    assert all(0 <= point.as_double < 1e9 for point in points)


def test_10_two_data_parallel_ranks_give_the_same_counts_as_one_engine():
    one, two = (
        scrapes(NOTHING_YET, (ENGINES / f"vllm-0.33.0-{name}.prom").read_text())[0]
        for name in ("agg", "multi_engine")
    )

    for metric in ("ttft", "queue", "prefill", "decode", "e2e", "itl"):
        a, b = latency(one, metric), latency(two, metric)
        assert a.n == b.n
        assert a.sum_s == pytest.approx(b.sum_s)
        for edge in (0.3, 0.5, 1.0, 2.5):
            assert a.at_most(edge) == b.at_most(edge) or metric == "itl"
    assert add_all([latency(two, "ttft")]).n == 100
