"""PromQL is taken for what it counts, and for nothing else."""

from fractions import Fraction

import pytest

from alerts.promql import FAMILIES, by_bad, by_good, by_value
from domain.errors import ConfigError
from domain.indicator import AvailabilityIndicator, LatencyIndicator, LevelIndicator
from domain.metric import LATENCIES
from exporters.engine.engines import ENGINES

COUNT = "sum(rate(vllm:time_to_first_token_seconds_count[5m]))"
BUCKET = 'sum(rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m]))'
FAILED, FINISHED = (
    f"sum(increase(stagewatch_requests_{end}_total[5m]))" for end in ("failed", "finished")
)
TTFT = LatencyIndicator(metric="ttft", threshold_s=Fraction(5, 2))


@pytest.mark.parametrize(
    ("bad", "total", "counted"),
    [
        (f"({COUNT} - {BUCKET})", COUNT, TTFT),
        (f"{COUNT}\n-\n{BUCKET}".replace("5m", "{{.window}}"), COUNT.replace("5m", "1h"), TTFT),
        (
            f"{COUNT} - {BUCKET}".replace("[", '{model_name="a"}[', 1).replace(
                '{le="2.5"}', '{le="2.5", model_name="a"}'
            ),
            COUNT.replace("[", '{model_name="a"}['),
            LatencyIndicator(metric="ttft", threshold_s=Fraction(5, 2), where=(("model", "a"),)),
        ),
        (FAILED, f"{FAILED} + {FINISHED}", AvailabilityIndicator()),
    ],
)
def test_bad_of_total_is_recognised(bad, total, counted):
    assert by_bad(bad, total) == counted


@pytest.mark.parametrize(
    ("good", "total", "counted"),
    [
        (BUCKET, COUNT, TTFT),
        (BUCKET, BUCKET.replace("2.5", "+Inf"), TTFT),
        (
            'stagewatch_itl_seconds_bucket{le="0.1",pool="a"}',
            'stagewatch_itl_seconds_count{pool="a"}',
            LatencyIndicator(metric="itl", threshold_s=Fraction(1, 10), where=(("pool", "a"),)),
        ),
        (FINISHED, f"{FINISHED} + {FAILED}", AvailabilityIndicator()),
    ],
)
def test_good_of_total_is_recognised(good, total, counted):
    assert by_good(good, total) == counted


@pytest.mark.parametrize(
    ("bad", "total", "why"),
    [
        ('sum(rate(http_requests_total{code=~"5.."}[5m]))', COUNT, "code is not compared with ="),
        (f"{COUNT} - {BUCKET}", BUCKET, "does not take the good ones from the same total"),
        (f"{COUNT} - {BUCKET} or vector(0)", COUNT, "only sums of rates"),
        (f"{COUNT} - on() {BUCKET}", COUNT, "match series in a way of their own"),
        (f"{COUNT} - {BUCKET}".replace("2.5", "+Inf"), COUNT, "no bucket of the histogram"),
        (f"{COUNT} - {BUCKET}".replace("first", "second"), COUNT, "the same total"),
        (
            f"{COUNT} - {BUCKET}".replace('le="2.5"', 'le="2.5",model_name="a"'),
            COUNT,
            "it selects other requests than total",
        ),
        (f"sum by (job) (rate(a[5m])) - {BUCKET}", COUNT, "not what is counted here"),
        (FAILED, FINISHED, "is availability"),
        ("sum_over_time((count(a < 0.75))[5m:])", COUNT, "only sums of rates"),
        ("sum(rate(a[5m] offset 1h))", COUNT, "another time"),
        ("sum(rate({job='a'}[5m]))", COUNT, "by its name"),
        ("sum(rate(", COUNT, "it is no PromQL"),
        ("a" * 5000, COUNT, "5000 characters long"),
    ],
)
def test_what_counts_something_else_is_not_guessed(bad, total, why):
    with pytest.raises(ConfigError) as caught:
        by_bad(bad, total)

    assert why in str(caught.value)
    assert "by hand" in caught.value.remedy
    assert len(str(caught.value)) < 400


def test_a_quantile_is_a_share_of_each_minute():
    query = (
        "histogram_quantile(0.99, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))"
    )

    assert by_value(query, Fraction(5, 2), at_most=True) == (TTFT, Fraction(99, 100))


def test_a_gauge_of_ours_is_a_level_where_the_worst_place_decides():
    worst, best = (f"{op}(stagewatch_kv_cache_usage_ratio)" for op in ("max", "min"))

    assert by_value(worst, Fraction(9, 10), at_most=True)[0] == LevelIndicator(
        metric="kv_cache_usage", at_most=Fraction(9, 10)
    )
    assert by_value(best, Fraction(1, 10), at_most=False)[0] == LevelIndicator(
        metric="kv_cache_usage", at_least=Fraction(1, 10)
    )


@pytest.mark.parametrize(
    "query",
    [
        "sum(stagewatch_kv_cache_usage_ratio)",
        "avg(stagewatch_kv_cache_usage_ratio)",
        "min(stagewatch_kv_cache_usage_ratio)",
        "max(node_load1)",
        "histogram_quantile(0.99, rate(vllm:time_to_first_token_seconds_bucket[5m]))",
        "histogram_quantile(0.99, sum by (le, job) (rate(stagewatch_ttft_seconds_bucket[5m])))",
        "histogram_quantile(0.99, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))",
        "max(stagewatch_kv_cache_usage_ratio or up)",
    ],
)
def test_another_value_is_not_guessed(query):
    with pytest.raises(ConfigError, match="is not recognised"):
        by_value(query, Fraction(1), at_most=True)


def test_families_of_engines_are_those_that_the_exporter_reads():
    read = {
        f"{prefix}{family.name}": row.metric
        for engine in ENGINES
        for row in engine.rows
        if row.metric in LATENCIES
        for family in row.families
        for prefix in engine.prefixes
    }
    engines = {name: metric for name, metric in FAMILIES.items() if ":" in name}

    assert engines == {name: read.get(name) for name in engines}
