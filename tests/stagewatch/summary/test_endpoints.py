"""Managed endpoints for a Prometheus: settled only, under their own minute, bounded."""

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from collector.reader import StoreReader
from stagewatch.summary.endpoints import endpoint_families
from stagewatch.summary.family import Family
from tests.collector.endpoint_points import T0, key, point
from tests.collector.storing import writing
from tests.stagewatch.summary.worlds import page_of

BEDROCK = {"ModelId": "sonnet"}


def bedrock(name):
    return key(name, namespace="AWS/Bedrock", **BEDROCK)


def told(path, points, *, most=20, now_s=T0 + 600):
    with writing(path, now=lambda: now_s) as writer:
        writer.endpoints(points)
    reader = StoreReader(path, now=lambda: now_s)
    try:
        return {each.name: each.samples for each in endpoint_families(reader, now_s, most)}
    finally:
        reader.close()


@pytest.fixture(scope="module")
def hour(tmp_path_factory):
    quiet = {"SampleCount": 10.0, "Sum": 20.0, "p99": 4.0, "Maximum": 9.0, "PR(:2)": 50.0}
    awful = {"SampleCount": 10.0, "Sum": 90.0, "p99": 9.0}
    points = [
        point(T0, statistics=quiet, settled_s=T0 + 240.0),
        point(T0 + 60, statistics=awful, at_s=T0 + 130),
        point(T0, of=bedrock("Invocations"), statistics={"Sum": 7.0}, settled_s=T0 + 240.0),
        point(T0, of=bedrock("InvocationThrottles"), statistics={}, settled_s=T0 + 240.0),
        point(T0, of=bedrock("InvocationLatency"), statistics={}, settled_s=T0 + 240.0),
    ]
    return told(tmp_path_factory.mktemp("hour"), points)


def values(samples, **labels):
    return {
        (dict(each.labels)["metric"], dict(each.labels)["statistic"]): (each.value, each.at_s)
        for each in samples
        if labels.items() <= dict(each.labels).items()
    }


def test_the_newest_settled_minute_is_told_under_its_end_and_no_younger_one(hour):
    assert values(hour["stagewatch_endpoint_latency_seconds"], kind="sagemaker") == {
        ("model_latency", "p99"): (4.0, T0 + 60),
        ("model_latency", "mean"): (2.0, T0 + 60),
        ("model_latency", "maximum"): (9.0, T0 + 60),
    }


def test_an_event_that_did_not_happen_is_zero_and_a_latency_of_nobody_is_absent(hour):
    assert values(hour["stagewatch_endpoint_events"], kind="bedrock") == {
        ("invocations", "sum"): (7.0, T0 + 60),
        ("throttles", "sum"): (0.0, T0 + 60),
    }
    assert not values(hour["stagewatch_endpoint_latency_seconds"], kind="bedrock")


def test_an_endpoint_is_named_by_its_dimensions_and_its_place(hour):
    (place,) = {
        tuple(pair for pair in each.labels if pair[0] not in ("metric", "statistic"))
        for each in hour["stagewatch_endpoint_latency_seconds"]
    }

    assert dict(place) == {
        "service": "chat",
        "endpoint": "llm-prod/AllTraffic",
        "kind": "sagemaker",
        "account": "111122223333",
        "region": "us-east-1",
    }


def test_what_is_older_than_a_prometheus_takes_is_not_told(tmp_path):
    found = told(tmp_path, [point(T0, settled_s=T0 + 240.0)], now_s=T0 + 3660)

    assert not found["stagewatch_endpoint_latency_seconds"]
    assert not found["stagewatch_endpoint_settled_timestamp_seconds"]


def test_a_thousand_endpoints_of_hostile_names_are_few_series_and_the_rest_is_counted(tmp_path):
    names = [f'"}}\n{n} {"x" * 200}' for n in range(1000)]
    points = [
        point(T0, of=key(EndpointName=name, VariantName="a"), settled_s=T0 + 240.0, service="s")
        for name in names
    ]

    found = told(tmp_path, points, most=100)
    page = page_of([*_families(found)])

    assert len(found["stagewatch_endpoint_latency_seconds"]) == 100
    assert found["stagewatch_answers_endpoints_left_out"][0].value == 900
    read = [sample for each in families(page) for sample in each.samples]
    assert len(read) == 201
    assert {each.labels["service"] for each in read if each.labels} == {"s"}


def _families(found):
    return (Family(name=name, help="", samples=samples) for name, samples in found.items())
