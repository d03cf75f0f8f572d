"""What leaves the sidecar: one export per scrape, in OTLP's words."""

import numpy as np
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from domain.exponential import from_exponential
from exporters.engine import otlp as ours
from exporters.engine.failure import ScrapeError
from exporters.engine.target import TargetState
from tests.exporters.pages_of import ENGINES, NOTHING_YET, SECOND_NS, latency, page, scrapes
from tests.exporters.test_target import histogram

TARGET = {"role": "decode", "pool": "p", "region": "eu", "zone": "eu-1", "use_case": "chat"}


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    for name in ("OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)
    ours._resource.cache_clear()
    yield
    ours._resource.cache_clear()


def agg(**target):
    return scrapes(NOTHING_YET, (ENGINES / "vllm-0.33.0-agg.prom").read_text(), **target)[0]


def metrics_of(reading):
    request = ours.export_request(reading)
    again = ExportMetricsServiceRequest.FromString(request.SerializeToString())
    (resource,) = again.resource_metrics
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def attributes(owner):
    return {pair.key: pair.value.string_value for pair in owner.attributes}


def test_a_pair_is_two_points_of_one_metric():
    reading = agg()

    points = metrics_of(reading)["stagewatch_ttft_seconds"].exponential_histogram.data_points

    assert [attributes(point)["stagewatch.bound"] for point in points] == ["low", "high"]
    assert {point.count for point in points} == {100}
    assert {point.scale for point in points} == {6}
    assert {point.sum for point in points} == {latency(reading, "ttft").sum_s}
    assert {(p.start_time_unix_nano, p.time_unix_nano) for p in points} == {
        (SECOND_NS, 2 * SECOND_NS)
    }


@pytest.mark.parametrize("metric", ["ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode"])
def test_what_is_sent_can_be_read_back_cell_by_cell(metric):
    reading = agg()
    pair = latency(reading, metric)
    name = f"stagewatch_{metric}_seconds"

    points = metrics_of(reading)[name].exponential_histogram.data_points

    for point, side in zip(points, (pair.low, pair.high), strict=True):
        read = from_exponential(
            scale=point.scale,
            zero_count=point.zero_count,
            offset=point.positive.offset,
            counts=point.positive.bucket_counts,
            sum_s=point.sum,
        )
        assert np.array_equal(read.low, side)
        assert point.count == point.zero_count + sum(point.positive.bucket_counts)


def test_everything_cumulative_is_sent_as_a_delta():
    for metric in metrics_of(agg()).values():
        kind = metric.WhichOneof("data")
        if kind == "sum":
            assert metric.sum.is_monotonic
            assert metric.sum.aggregation_temporality == otlp.AGGREGATION_TEMPORALITY_DELTA
        elif kind == "exponential_histogram":
            temporality = metric.exponential_histogram.aggregation_temporality
            assert temporality == otlp.AGGREGATION_TEMPORALITY_DELTA


def test_names_units_and_kinds_are_those_of_our_table():
    kinds = {name: metric.WhichOneof("data") for name, metric in metrics_of(agg()).items()}

    assert kinds["stagewatch_up"] == "gauge"
    assert kinds["stagewatch_kv_cache_usage_ratio"] == "gauge"
    assert kinds["stagewatch_requests_finished_total"] == "sum"
    assert kinds["stagewatch_queue_seconds"] == "exponential_histogram"
    assert metrics_of(agg())["stagewatch_queue_seconds"].unit == "s"
    assert list(kinds) == sorted(kinds)


def test_a_sum_that_was_not_believed_is_absent_and_not_zero():
    (reading,) = scrapes(histogram([]), histogram([0.2], total=-5.0))

    points = metrics_of(reading)["stagewatch_ttft_seconds"].exponential_histogram.data_points

    assert not any(point.HasField("sum") for point in points)


def test_nothing_happened_sends_no_latency_and_a_zero_counter():
    (reading,) = scrapes(histogram([0.2]), histogram([0.2]))
    metrics = metrics_of(reading)

    assert "stagewatch_ttft_seconds" not in metrics
    (started,) = metrics["stagewatch_requests_started_total"].sum.data_points
    assert started.as_double == 0


def test_the_target_stands_in_the_resource_and_the_series_on_the_point():
    request = ours.export_request(agg(**TARGET))
    resource = attributes(request.resource_metrics[0].resource)
    (running,) = metrics_of(agg(**TARGET))["stagewatch_requests_running"].gauge.data_points

    assert resource["service.name"] == "chat"
    assert resource["service.instance.id"] == "r0"
    assert resource["cloud.region"] == "eu"
    assert resource["cloud.availability_zone"] == "eu-1"
    assert (resource["stagewatch.role"], resource["stagewatch.pool"]) == ("decode", "p")
    assert resource["stagewatch.use_case"] == "chat"
    assert set(attributes(running)) == {
        "stagewatch.engine",
        "stagewatch.model",
        "stagewatch.source",
    }
    assert attributes(running)["stagewatch.source"] == "page"


def test_itl_says_that_a_sample_is_a_step():
    points = metrics_of(agg())["stagewatch_itl_seconds"].exponential_histogram.data_points

    assert {attributes(point)["stagewatch.sample"] for point in points} == {"step"}


def test_finish_reasons_are_points_of_one_metric():
    points = metrics_of(agg())["stagewatch_requests_finished_total"].sum.data_points

    found = {attributes(point)["stagewatch.finish_reason"]: point.as_double for point in points}
    assert found["length"] + found["stop"] == 100


def test_resource_attributes_of_the_environment_are_honoured(monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "cloud.region=us,service.name=wrong,team=llm")

    resource = attributes(ours.export_request(agg()).resource_metrics[0].resource)

    assert resource["cloud.region"] == "us"
    assert resource["team"] == "llm"
    assert resource["service.name"] == "chat"


def test_a_failed_scrape_is_sent_as_down_with_its_reason():
    state = TargetState((("replica", "r0"), ("service", "chat")))
    reading = state.failed(ScrapeError("timeout", "late", where="x", remedy="y"), SECOND_NS)
    metrics = metrics_of(reading)

    (up,) = metrics["stagewatch_up"].gauge.data_points
    assert up.as_double == 0
    assert attributes(up)["stagewatch.reason"] == "timeout"
    (failed,) = metrics["stagewatch_failed_scrapes_total"].sum.data_points
    assert failed.as_double == 1
    assert failed.start_time_unix_nano < failed.time_unix_nano


def test_a_good_scrape_has_no_reason():
    (up,) = metrics_of(agg())["stagewatch_up"].gauge.data_points

    assert up.as_double == 1
    assert "stagewatch.reason" not in attributes(up)


def test_the_first_page_says_only_that_the_engine_is_up_and_what_it_cannot_tell():
    state = TargetState((("service", "chat"),))

    metrics = metrics_of(state.observe(page(NOTHING_YET), SECOND_NS))

    assert set(metrics) == {"stagewatch_up", "stagewatch_not_reported"}
