"""The table of metrics: real names, sound units, and a bill that fits."""

import json
import math

import pytest

from domain.endpoint_catalogue import CATALOGUE, KINDS, metric_of, of_kind, units_fit
from domain.endpoint_metric import BILLED_TOGETHER, Meaning, Tier
from tests.paths import RECORDED

NAMES = json.loads((RECORDED / "cloudwatch" / "metric_names.json").read_text())["namespaces"]
YOUNGER = {  # than the list of names, or not in it: from AWS's own pages
    "ConcurrentRequestsPerCopy",
    "ConcurrentRequestsPerModel",
    "FirstChunkLatency",
    "FirstChunkModelLatency",
    "FirstChunkOverheadLatency",
    "MidStreamErrors",
    "CacheReadInputTokens",
    "CacheWriteInputTokens",
    "node_gpu_memory_utilization",
    "node_gpu_utilization",
}


@pytest.mark.parametrize("row", CATALOGUE, ids=lambda row: f"{row.namespace} {row.name}")
def test_every_metric_is_spelt_as_aws_spells_it(row):
    known = NAMES.get(row.namespace)
    if known is None:
        assert row.namespace == "AWS/BedrockMantle"
    else:
        assert row.name in known["metrics"] or row.name in YOUNGER
        assert set(row.family.dimensions) <= set(known["dimensions"])


def test_no_metric_stands_twice_under_the_same_dimensions():
    keys = [(row.namespace, row.name, frozenset(row.family.dimensions)) for row in CATALOGUE]

    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_asked_of_a_metric_is_billed_as_one_with_a_threshold(kind):
    for row in of_kind(kind):
        room = BILLED_TOGETHER - (
            row.meaning is Meaning.LATENCY and "Maximum" not in row.statistics
        )
        assert len(row.statistics) <= room
        assert math.isfinite(row.per_unit)


def test_units_become_seconds():
    def seconds(namespace, name, dimensions, value):
        row, _ = metric_of(namespace, name, dimensions)
        return row.per_unit * value, row.our_unit

    variant = ("EndpointName", "VariantName")
    assert seconds("AWS/SageMaker", "ModelLatency", variant, 2.9e6) == (pytest.approx(2.9), "s")
    bedrock = seconds("AWS/Bedrock", "TimeToFirstToken", ("ModelId",), 3900)
    assert bedrock == (pytest.approx(3.9), "s")
    balancer = seconds("AWS/ApplicationELB", "TargetResponseTime", ("LoadBalancer",), 2.9)
    assert balancer == (2.9, "s")
    gpu = seconds("/aws/sagemaker/Endpoints", "GPUUtilization", variant, 350)
    assert gpu == (pytest.approx(3.5), "ratio")


def test_a_super_set_of_dimensions_is_a_drill_down_and_what_is_not_ours_is_nothing():
    deeper = ("EndpointName", "VariantName", "InstanceId")

    assert metric_of("AWS/SageMaker", "ModelLatency", deeper)[1] == (
        "EndpointName+InstanceId+VariantName"
    )
    assert metric_of("AWS/SageMaker", "ModelLatency", ("VariantName", "EndpointName"))[1] == (
        "endpoint"
    )
    assert metric_of("AWS/BedrockMantle", "Inferences", ())[1] == "account"
    assert metric_of("AWS/SageMaker", "ModelLatency", ("Flavour",)) is None
    assert metric_of("AWS/Nonsense", "ModelLatency", deeper) is None


def test_a_unit_that_contradicts_the_table_is_told_from_one_that_fits():
    latency, _ = metric_of("AWS/Bedrock", "TimeToFirstToken", ("ModelId",))
    count, _ = metric_of("AWS/Bedrock", "Invocations", ("ModelId",))

    assert units_fit(latency, "Milliseconds")
    assert not units_fit(latency, "Seconds")
    assert units_fit(count, "None")
    assert units_fit(count, "Count")
    assert not units_fit(count, "Milliseconds")


def test_the_objectives_of_bedrock_and_sagemaker_are_in_the_tier_of_objectives():
    soonest = {
        kind: {row.ours for row in of_kind(kind) if row.tier is Tier.OBJECTIVE}
        for kind in ("bedrock", "sagemaker")
    }

    assert soonest["bedrock"] == {"e2e", "invocations", "server_errors", "throttles", "ttft"}
    assert soonest["sagemaker"] == {"first_chunk", "invocations", "model_latency", "server_errors"}
