"""An endpoint put together: its silence, its GPUs, and the wall that its calls run into."""

import json
from dataclasses import dataclass, field

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.endpoint import EndpointKey
from domain.endpoint_catalogue import CATALOGUE
from domain.endpoint_instance import ACCELERATORS, ACCELERATORS_NAMESPACE, accelerators_of
from domain.endpoint_metric import Meaning
from domain.endpoint_silence import counts_events, none_happened
from domain.endpoint_wall import LIMITS, Minute, wall_in, wall_of
from domain.managed_endpoint import managed
from tests.paths import RECORDED

VARIANT = {"EndpointName": "llm", "VariantName": "AllTraffic"}
API = {"ApiName": "llm", "Stage": "prod"}
WALL = json.loads((RECORDED / "cloudwatch" / "apigw_29s_wall.json").read_text())["values"]


@dataclass(frozen=True)
class Point:
    statistics: dict


@dataclass(frozen=True)
class Series:
    key: EndpointKey
    metric: str
    points: list
    service: str = "chat"
    level: str = "endpoint"


@dataclass
class World:
    series: list = field(default_factory=list)

    def told(self, namespace, name, metric, *statistics, dimensions=VARIANT, **more):
        key = EndpointKey(
            account="111122223333",
            region="us-east-1",
            namespace=namespace,
            name=name,
            dimensions=tuple(sorted(dimensions.items())),
        )
        self.series.append(Series(key, metric, [Point(each) for each in statistics], **more))
        return self


def seconds(milliseconds):
    return {name: value / 1e3 for name, value in milliseconds.items()}


def minutes(*slowest, middle=6.2):
    return [{"Maximum": each, "p50": middle} for each in slowest]


def test_what_counts_events_may_be_silent_and_what_measures_may_not():
    silent = {row.name for row in CATALOGUE if row.zero_if_silent}

    assert {"Invocations", "InvocationServerErrors", "HTTPCode_ELB_504_Count"} <= silent
    assert all(row.meaning is Meaning.EVENTS for row in CATALOGUE if row.zero_if_silent)
    assert counts_events("AWS/SageMaker", "ModelLatency", VARIANT) is None
    assert counts_events("AWS/SageMaker", "Invocations", {**VARIANT, "InstanceId": "i"}) is None
    assert counts_events("PromQL", "errors", {}) is None


@pytest.mark.parametrize("row", [row for row in CATALOGUE if row.zero_if_silent], ids=str)
def test_of_no_events_there_is_a_count_and_no_percentile(row):
    zero = none_happened(row)

    assert set(zero.values()) == {0.0}
    assert set(zero) == {"SampleCount", "Sum"} & set(row.statistics)


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("ml.g5.12xlarge", 4),
        ("ml.g5.16xlarge", 1),
        ("ml.g6e.48xlarge", 8),
        ("ml.p5.48xlarge", 8),
        ("ml.p5.4xlarge", 1),
        ("ml.p6e-gb200.36xlarge", 4),
        ("p4d.24xlarge", 8),
        ("ml.g7.48xlarge", None),
        ("ml.m5.large", None),
        ("", None),
    ],
)
def test_an_instance_type_has_so_many_gpus_or_nobody_knows(name, gpus):
    assert accelerators_of(name) == gpus


def test_every_gpu_instance_that_sagemaker_names_is_in_the_table_or_known_to_be_missing():
    model = botocore.session.get_session().get_service_model("sagemaker")
    types = model.shape_for("ProductionVariantInstanceType").enum
    gpu = {each for each in types if each.startswith(("ml.g", "ml.p"))}

    unknown = {each for each in gpu if accelerators_of(each) is None}

    assert {each.split(".")[1] for each in unknown} <= {"g7", "g7e"}, (
        "look up how many GPUs they have, and write it down"
    )
    assert len(gpu - unknown) >= 45


def test_the_number_of_gpus_stands_beside_what_sums_over_them():
    world = World().told("/aws/sagemaker/Endpoints", "GPUUtilization", "gpu_utilization", {})
    (without,) = managed(world.series)
    world.told(ACCELERATORS_NAMESPACE, ACCELERATORS, ACCELERATORS, {"Last": 4.0})
    (with_it,) = managed(world.series)

    assert (without.accelerators, with_it.accelerators) == (None, 4)
    assert with_it.kind == "sagemaker"


def test_who_calls_a_metric_of_theirs_accelerators_changes_nothing():
    world = World().told("PromQL", ACCELERATORS, ACCELERATORS, {"Last": 400.0})

    assert managed(world.series)[0].accelerators is None


def test_deeper_levels_and_other_places_are_not_put_together():
    world = World()
    world.told("AWS/SageMaker", "Invocations", "invocations", {"Sum": 3.0}, {}, {"Sum": 4.0})
    world.told("AWS/SageMaker", "Invocations", "invocations", {"Sum": 70.0}, level="InstanceId")
    other = {**VARIANT, "VariantName": "green"}
    world.told("AWS/SageMaker", "Invocations", "invocations", {}, dimensions=other)

    blue, green = managed(world.series)

    assert (blue.total("invocations"), green.total("invocations")) == (7.0, None)
    assert blue.total("server_errors") is None


def gateway(latency, *, errors=3.0, kind="rest_api"):
    return wall_in(kind, {"integration_latency": latency, "server_errors": [{"Sum": errors}]})


def test_the_recorded_29_seconds_in_two_minutes_are_a_wall():
    latency = [seconds(WALL["IntegrationLatency"])] * 2 + minutes(8.1)

    wall = gateway(latency, errors=WALL["5XXError"]["Sum"] * 2)

    assert (wall.at_s, wall.minutes, wall.of_minutes, wall.errors) == (29.011, 2, 3, 6)
    assert wall.middle_s == 6.2
    assert "default for REST APIs" in wall.limit.of
    assert "stream" in wall.limit.remedy


def test_where_the_integration_says_nothing_the_whole_latency_shows_the_wall():
    told = {
        "integration_latency": minutes(6.0, 7.0),
        "gateway_latency": [seconds(WALL["Latency"])] * 2,
        "server_errors": [{"Sum": 3.0}],
    }

    assert wall_in("rest_api", told).at_s == 29.035


@pytest.mark.parametrize(
    ("latency", "errors"),
    [
        (minutes(29.0), 3.0),  # once
        (minutes(29.0, 29.01), 0.0),  # nothing failed
        (minutes(29.0, 29.01, middle=25.0), 3.0),  # it is just slow
        (minutes(28.6, 30.9), 3.0),  # it moves
        (minutes(20.0, 35.0, 50.0), 3.0),
        ([], 3.0),
    ],
)
def test_what_only_looks_like_a_wall_is_none(latency, errors):
    assert gateway(latency, errors=errors) is None


def test_a_wall_that_somebody_moved_is_found_where_it_stands():
    wall = gateway(minutes(120.01, 120.02, 120.0))

    assert (wall.at_s, wall.limit) == (120.01, None)


def test_a_container_has_60_seconds_and_the_99th_percentile_must_do_where_no_maximum_is_asked():
    told = {
        "model_latency": [{"p99": 60.01, "p50": 2.0}, {"p99": 60.02, "p50": 2.1}],
        "model_errors": [{"Sum": 4.0}],
    }

    assert wall_in("sagemaker", told).limit is LIMITS["sagemaker"]
    assert wall_in("bedrock", told) is None


@given(st.lists(st.floats(0.01, 28.4), max_size=30), st.integers(1, 100))
def test_calls_that_end_before_the_limit_never_make_its_wall(slowest, errors):
    found = wall_of(
        [Minute(slowest_s=each, middle_s=None) for each in slowest],
        errors=errors,
        limit=LIMITS["rest_api"],
    )

    assert found is None or found.limit is None
