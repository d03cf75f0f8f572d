"""Data points become pairs, counters and gauges; what contradicts itself is refused in words."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from domain.distribution import exact
from domain.metric import METRICS
from tests.collector.storing import (
    DELTA,
    NOW_S,
    distribution,
    gauge_of,
    histogram_of,
    metrics,
    number,
    rows,
    sum_of,
    writing,
)

CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
VALUES_S = [0.0, 0.02, 0.4, 0.41, 7.0]
AT_S = NOW_S - 60
TTFT = METRICS["ttft"].full_name


def stored(path, *exports, **settings):
    with writing(path, **settings) as writer:
        outcomes = [writer.metrics(export) for export in exports]
        counts = dict(writer.counts())
    return outcomes, counts


def exponential(values_s=VALUES_S, *, name=TTFT, unit="s", start_s=AT_S - 2, end_s=AT_S, **kind):
    return metrics(
        histogram_of(Metric(name=name, unit=unit), values_s, start_s=start_s, end_s=end_s, **kind)
    )


def explicit(counts, bounds, *, name=TTFT, unit="s", total=None, sum_s=None, temporality=DELTA,
             start_s=AT_S - 2, end_s=AT_S):  # fmt: skip
    metric = Metric(name=name, unit=unit)
    metric.histogram.aggregation_temporality = temporality
    point = metric.histogram.data_points.add(
        count=sum(counts) if total is None else total,
        bucket_counts=counts,
        explicit_bounds=bounds,
        start_time_unix_nano=int(start_s * 1e9),
        time_unix_nano=int(end_s * 1e9),
    )
    if sum_s is not None:
        point.sum = sum_s
    return metrics(metric)


def test_a_fine_histogram_is_exact(tmp_path):
    stored(tmp_path, exponential())

    found = distribution(tmp_path, "ttft")
    assert found.exact
    assert (found.low == exact(np.array(VALUES_S)).low).all()
    assert found.sum_s == pytest.approx(sum(VALUES_S))


@pytest.mark.parametrize("scale", [-2, 0, 3, 6, 9, 12])
def test_histograms_of_any_scale_hold_the_truth(tmp_path, scale):
    stored(tmp_path, exponential(scale=scale))

    found, true = distribution(tmp_path, "ttft"), exact(np.array(VALUES_S))
    assert (found.n, found.exact) == (5, scale >= 6)
    for q in (0.2, 0.5, 0.9):
        quantile, truth = found.quantile(q), true.quantile(q)
        assert quantile.low_s <= truth.value_s <= quantile.high_s


def test_the_two_sides_of_a_pair_are_one_observation(tmp_path):
    low, high = [0.1, 0.2], [0.15, 0.3]
    metric = Metric(name=TTFT, unit="s")
    histogram_of(metric, low, start_s=AT_S - 2, end_s=AT_S, bound="low")
    histogram_of(metric, high, start_s=AT_S - 2, end_s=AT_S, bound="high")

    stored(tmp_path, metrics(metric))

    found = distribution(tmp_path, "ttft")
    assert (found.n, found.exact) == (2, False)
    assert (found.low == exact(np.array(low)).low).all()
    assert (found.high == exact(np.array(high)).low).all()


def test_a_pair_without_a_sum_has_none(tmp_path):
    metric = Metric(name=TTFT, unit="s")
    for bound in ("low", "high"):
        histogram_of(metric, [0.1], start_s=AT_S - 2, end_s=AT_S, bound=bound, with_sum=False)

    stored(tmp_path, metrics(metric), exponential())

    assert distribution(tmp_path, "ttft").sum_s is None


def test_classic_buckets_become_a_pair_that_the_sum_narrows(tmp_path):
    stored(tmp_path, explicit([1, 0, 0], [0.3, 1.0], sum_s=0.05))

    quantile = distribution(tmp_path, "ttft").quantile(0.5)
    assert quantile.low_s <= 0.05 <= quantile.high_s
    assert quantile.high_s < 0.06


def test_milliseconds_are_seconds_in_the_store(tmp_path):
    stored(
        tmp_path,
        explicit([0, 2, 0], [40, 60], unit="ms", name="gen_ai.server.request.duration", sum_s=100),
        exponential([50.0], unit="ms", name="gen_ai.server.time_to_first_token"),
    )

    for metric in ("e2e", "ttft"):
        quantile = distribution(tmp_path, metric).quantile(0.5)
        assert quantile.low_s <= 0.05 <= quantile.high_s < 0.07


def test_names_of_the_conventions_are_ours_with_their_side(tmp_path):
    stored(
        tmp_path,
        exponential(name="gen_ai.client.operation.duration"),
        exponential(name="gen_ai.server.time_per_output_token"),
    )

    assert distribution(tmp_path, "e2e", source="client").n == 5
    assert distribution(tmp_path, "tpot", source="page").n == 5


def test_gaps_of_a_client_are_between_chunks(tmp_path):
    stored(
        tmp_path,
        exponential(name="gen_ai.client.operation.time_to_first_chunk"),
        exponential(name="gen_ai.client.operation.time_per_output_chunk"),
    )

    assert distribution(tmp_path, "ttft", source="client").n == 5
    assert distribution(tmp_path, "itl", source="client").n == 5


@pytest.mark.parametrize(("operation", "n"), [("chat", 5), ("embeddings", 0), ("invoke_agent", 0)])
def test_durations_of_other_operations_are_no_requests(tmp_path, operation, n):
    operation = {"gen_ai.operation.name": operation}

    stored(tmp_path, exponential(name="gen_ai.client.operation.duration", **operation))

    assert distribution(tmp_path, "e2e").n == n


def test_cumulative_buckets_are_differenced_and_the_first_reading_is_the_base(tmp_path):
    readings = [([5, 5, 0], 4.0), ([7, 5, 0], 4.2), ([7, 5, 0], 4.2), ([7, 6, 0], 4.7)]
    stored(
        tmp_path,
        *(
            explicit(
                c, [0.3, 1.0], sum_s=s, temporality=CUMULATIVE, start_s=AT_S - 9e4, end_s=AT_S + k
            )
            for k, (c, s) in enumerate(readings)
        ),
    )

    found = distribution(tmp_path, "ttft")
    assert found.n == 3
    assert found.sum_s == pytest.approx(0.7)


def test_cumulative_streams_survive_restarts_of_both_sides(tmp_path):
    def count(value, at_s, start_s):
        metric = Metric(name=METRICS["generation_tokens"].full_name)
        return metrics(sum_of(metric, value, start_s=start_s, end_s=at_s, temporality=CUMULATIVE))

    stored(tmp_path, count(1000, AT_S, AT_S - 9e4), count(1010, AT_S + 1, AT_S - 9e4))
    stored(tmp_path, count(1030, AT_S + 2, AT_S - 9e4))  # the collector was restarted
    stored(tmp_path, count(7, AT_S + 4, AT_S + 3))  # the engine was
    stored(tmp_path, count(7, AT_S + 4, AT_S + 3))  # sent again

    assert number(tmp_path, "generation_tokens") == (4, 37.0)
    assert number(tmp_path, "counter_resets") == (1, 1.0)


def test_cumulative_exponential_histograms_are_differenced(tmp_path):
    exports = []
    for k, values in enumerate(([0.1], [0.1, 0.2], [0.1, 0.2, 5.0, 0.0])):
        export = exponential(values, start_s=AT_S - 9e4, end_s=AT_S + k)
        found = export.resource_metrics[0].scope_metrics[0].metrics[0]
        found.exponential_histogram.aggregation_temporality = CUMULATIVE
        exports.append(export)

    stored(tmp_path, *exports)

    assert (distribution(tmp_path, "ttft").low == exact(np.array([0.2, 5.0, 0.0])).low).all()


def test_a_stream_that_just_began_has_told_all(tmp_path):
    metric = Metric(name=METRICS["generation_tokens"].full_name)
    sum_of(metric, 12, start_s=AT_S - 5, end_s=AT_S, temporality=CUMULATIVE)

    stored(tmp_path, metrics(metric))

    assert number(tmp_path, "generation_tokens") == (1, 12.0)


def test_gauges_keep_their_least_most_and_last(tmp_path):
    metric = Metric(name=METRICS["requests_waiting"].full_name)
    for at_s, value in ((AT_S + 2, 7.0), (AT_S, 3.0), (AT_S + 1, 9.0), (AT_S, 3.0)):
        gauge_of(metric, value, at_s=at_s)

    _, counts = stored(tmp_path, metrics(metric))

    assert rows(tmp_path, "SELECT n, sum, low, high, last FROM number_10") == [(3, 19, 3, 9, 7)]
    assert counts["duplicate_points_total"] == 1


def test_two_streams_that_we_show_as_one_are_both_counted(tmp_path):
    name = METRICS["generation_tokens"].full_name
    metric = Metric(name=name)
    sum_of(metric, 5, start_s=AT_S - 2, end_s=AT_S, http__route="/a")
    sum_of(metric, 6, start_s=AT_S - 2, end_s=AT_S, http__route="/b")

    stored(tmp_path, metrics(metric))

    assert number(tmp_path, "generation_tokens") == (2, 11.0)


def test_a_delta_sent_twice_or_in_part_counts_once(tmp_path):
    _, counts = stored(
        tmp_path,
        exponential(),
        exponential(),
        exponential([9.0], start_s=AT_S - 1, end_s=AT_S),  # inside what is counted
    )

    assert distribution(tmp_path, "ttft").n == 5
    assert counts["duplicate_points_total"] == 2


def test_metrics_nobody_here_knows_are_ignored_and_counted(tmp_path):
    ((outcome,), counts) = stored(tmp_path, exponential(name="http.server.duration"))

    assert outcome.rejected == 0
    assert counts["ignored_points_total"] == 1


@pytest.mark.parametrize(
    ("export", "reason"),
    [
        (explicit([1, 2], [0.1], total=7), "buckets hold 3, the point says 7"),
        (explicit([1, 2, 3], [0.1]), "3 counts do not fit 1 bounds"),
        (explicit([1, 2, 3], [0.5, 0.1]), "ascend"),
        (explicit([1, 2, 3], [-0.5, 0.1]), "below 0"),
        (explicit([1, 2, 3], [math.nan, 0.1]), "finite"),
        (explicit([1], [], temporality=0), "neither delta nor cumulative"),
        (exponential(end_s=NOW_S + 3600, start_s=NOW_S), "from the future"),
        (exponential(end_s=AT_S - 9), "ends before it starts"),
        (exponential(start_s=AT_S - 200_000), "longer than 36 h"),
        (exponential(end_s=1.0, start_s=0.5), "older than anything kept"),
        (exponential(unit="By"), "cannot be read"),
        (exponential(bound="middle"), "low or high"),
        (exponential(bound="low", scale=3), "scale 6 or finer"),
        (exponential(name=METRICS["requests_waiting"].full_name), "cannot be read"),
    ],
)
def test_a_point_that_cannot_be_is_refused_in_words(tmp_path, export, reason):
    ((outcome,), counts) = stored(tmp_path, export)

    assert outcome.rejected == 1
    assert reason in outcome.message
    assert counts["refused_points_total"] == 1
    assert rows(tmp_path, "SELECT count(*) FROM histogram_10") == [(0,)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_counter_that_cannot_be_is_refused_and_its_neighbours_are_kept(tmp_path, value):
    name = METRICS["prompt_tokens"].full_name
    bad = sum_of(Metric(name=name), value, start_s=AT_S - 2, end_s=AT_S)
    good = sum_of(Metric(name=name), 4, start_s=AT_S - 2, end_s=AT_S, model_name="b")

    ((outcome,), _) = stored(tmp_path, metrics(bad, good))

    assert outcome.rejected == 1
    assert number(tmp_path, "prompt_tokens") == (1, 4.0)


def test_a_sum_that_contradicts_its_counts_is_not_used_and_counted(tmp_path):
    stored(tmp_path, explicit([0, 3, 0], [0.3, 1.0], sum_s=100.0))

    found = distribution(tmp_path, "ttft")
    assert (found.n, found.sum_s) == (3, None)
    assert number(tmp_path, "refused_sums") == (1, 1.0)


@given(st.lists(st.floats(1e-4, 100), min_size=1, max_size=50), st.integers(0, 8))
def test_whatever_the_scale_the_quantiles_hold_the_truth(values, scale):
    from collector.histograms import exponential as read

    export = exponential(values, scale=scale)
    point = (
        export.resource_metrics[0].scope_metrics[0].metrics[0].exponential_histogram.data_points[0]
    )

    for unit_s in (1.0, 1e-3):
        found = read(point, unit_s)._distribution()
        true = exact(np.array(values) * unit_s)
        for q in (0.1, 0.5, 0.99):
            rank = max(math.ceil(q * len(values)), 1)
            truth_s = sorted(values)[rank - 1] * unit_s
            quantile = found.quantile(q)
            assert quantile.low_s * (1 - 1e-9) <= truth_s <= quantile.high_s * (1 + 1e-9)
        assert found.n == true.n
