"""Numbers that no engine measures: refused, or doubted, and every question is answered after them."""

from fractions import Fraction

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from collector.histograms import MOST_VALUES
from collector.query import Selection, Window
from collector.reader import StoreReader
from domain.indicator import LatencyIndicator
from domain.metric import METRICS
from tests.collector.storing import (
    DELTA,
    NOW_S,
    SECOND_NS,
    gauge_of,
    histogram_of,
    metrics,
    rows,
    sum_of,
    writing,
)

SLOW = LatencyIndicator(metric="ttft", threshold_s=Fraction(1))
MINUTE_AT_S = (int(NOW_S) - 600) // 60 * 60
WINDOW = Window(since_s=MINUTE_AT_S, until_s=MINUTE_AT_S + 60)
START_S = MINUTE_AT_S + 1


def named(metric):
    return Metric(name=METRICS[metric].full_name, unit=METRICS[metric].unit)


def side(bound, *values_s):
    point = histogram_of(
        named("ttft"), values_s, start_s=START_S, end_s=START_S + 1, bound=bound, with_sum=False
    )
    return metrics(point)


def classic(*counts, temporality=DELTA, at_s=START_S + 1):
    metric = named("ttft")
    metric.histogram.aggregation_temporality = temporality
    metric.histogram.data_points.add(
        count=sum(counts),
        bucket_counts=counts,
        explicit_bounds=[1.0],
        start_time_unix_nano=START_S * SECOND_NS,
        time_unix_nano=at_s * SECOND_NS,
    )
    return metrics(metric)


def told_of(path):
    """The minute's slice, and its quantiles as intervals; every question is asked."""
    reader = StoreReader(path, now=lambda: NOW_S)
    try:
        (minute,) = reader.slices(SLOW, WINDOW)
        reader.stages(Selection(window=WINDOW))
        reader.edges_around(SLOW, WINDOW)
        series = reader.latency("ttft", Selection(window=WINDOW))
        found = [point.distribution.quantile(0.5) for each in series for point in each.points]
        return minute, [(each.low_s, each.high_s) for each in found if each]
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("exports", "expected"),
    [
        ([side("high", 0.5, 0.6, 2.0)], (0, 0, 0)),
        ([side("low", 0.5, 0.6, 2.0)], (0, 2, 3)),
        ([side("low", 0.5, 2.0), side("high", 0.5, 0.6, 0.7, 2.0)], (1, 2, 2)),
        ([side("low", 5.0), side("high", 0.5)], (0, 1, 1)),
    ],
    ids=["only high", "only low", "high counts more", "low lies above high"],
)
def test_sides_that_belie_each_other_leave_doubt_and_never_an_error(tmp_path, exports, expected):
    with writing(tmp_path) as writer:
        for export in exports:
            assert writer.metrics(export).rejected == 0

    minute, intervals = told_of(tmp_path)

    assert (minute.good_low, minute.good_high, minute.total) == expected
    assert minute.observed
    assert all(low <= high for low, high in intervals)


@pytest.mark.parametrize("count", [MOST_VALUES + 1, 1 << 40, (1 << 53) + 1, (1 << 64) - 1])
def test_more_values_than_an_interval_can_hold_are_refused_and_the_rest_is_kept(tmp_path, count):
    export = classic(count, 0)
    export.MergeFrom(side("", 0.5))
    with writing(tmp_path) as writer:
        outcome = writer.metrics(export)

    minute, _ = told_of(tmp_path)

    assert outcome.rejected == 1
    assert "cannot be" in outcome.message
    assert (minute.good_low, minute.total) == (1, 1)


def test_counts_beyond_one_word_are_counted_exactly(tmp_path):
    bad = (1 << 20) + 7
    with writing(tmp_path) as writer:
        writer.metrics(classic(MOST_VALUES - bad, bad))

    minute, _ = told_of(tmp_path)

    assert (minute.good_low, minute.good_high) == (MOST_VALUES - bad, MOST_VALUES - bad)
    assert minute.total == MOST_VALUES


@pytest.mark.parametrize("value", [1e19, 1e308, float("inf"), float("nan")])
@pytest.mark.parametrize("metric", ["requests_cancelled", "requests_failed"])
def test_a_counter_that_would_overflow_is_refused(tmp_path, metric, value):
    with writing(tmp_path) as writer:
        outcomes = [
            writer.metrics(metrics(sum_of(named(metric), value, start_s=at_s, end_s=at_s + 1)))
            for at_s in (START_S, START_S + 1)
        ]
        writer.metrics(side("", 0.5))

    minute, _ = told_of(tmp_path)

    assert [each.rejected for each in outcomes] == [1, 1]
    assert (minute.total, minute.excluded) == (1, 0)


@pytest.mark.parametrize("value", [1e19, -1e308, float("-inf"), float("nan")])
def test_a_gauge_that_would_overflow_is_refused(tmp_path, value):
    with writing(tmp_path) as writer:
        outcome = writer.metrics(metrics(gauge_of(named("requests_running"), value, at_s=START_S)))

    assert outcome.rejected == 1
    assert rows(tmp_path, "SELECT count(*) FROM number_10") == [(0,)]
