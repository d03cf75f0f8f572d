"""Silence is none only where the endpoint was there; GPUs and walls come with the answer."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.api import router
from collector.query import Window
from collector.reader import StoreReader
from domain.endpoint import PointState
from domain.endpoint_instance import ACCELERATORS, ACCELERATORS_NAMESPACE
from tests.collector.endpoint_points import T0, key, point
from tests.collector.storing import writing

NOW_S = T0 + 1800
SETTLED = {"settled_s": T0 + 300.0}
OTHER = {"EndpointName": "llm-prod", "VariantName": "green"}


def silent(name, at_s=T0, **more):
    return point(at_s, of=key(name, **more), statistics={}, **SETTLED)


def told(name, statistics, at_s=T0, **more):
    return point(at_s, of=key(name, **more), statistics=statistics, **SETTLED)


def readings(path, points, metric):
    """(state, statistics) of one metric by minute after T0."""
    with writing(path, now=lambda: NOW_S) as writer:
        writer.endpoints(points)
    reader = StoreReader(path, now=lambda: NOW_S)
    found = reader.endpoints(Window(since_s=T0, until_s=T0 + 600), metric=metric)
    reader.close()
    return {
        (point.since_s - T0) // 60: (point.state, dict(point.statistics))
        for series in found
        for point in series.points
    }


def test_errors_that_were_silent_while_requests_came_are_none(tmp_path):
    points = [
        told("Invocations", {"Sum": 5.0}),
        silent("Invocation5XXErrors"),
        silent("Invocation5XXErrors", T0 + 60),
        told("Invocation5XXErrors", {"Sum": 2.0}, T0 + 120),
    ]

    assert readings(tmp_path, points, "server_errors") == {
        0: (PointState.ZERO, {"Sum": 0.0}),
        1: (PointState.NO_DATA, {}),
        2: (PointState.VALUE, {"Sum": 2.0}),
    }


def test_an_instance_that_is_up_has_no_requests_where_none_are_told(tmp_path):
    up = told("CPUUtilization", {"Sum": 0.03}, namespace="/aws/sagemaker/Endpoints")

    found = readings(tmp_path, [up, silent("Invocations")], "invocations")

    assert found == {0: (PointState.ZERO, {"Sum": 0.0})}


@pytest.mark.parametrize(
    "beside",
    [
        [told("Invocations", {"Sum": 5.0}, **OTHER)],
        [told("Invocations", {"Sum": 5.0}, T0 + 60)],
        [point(T0, of=key("Invocations", period_s=20), statistics={"Sum": 5.0}, **SETTLED)],
        [silent("ModelLatency")],
        [],
    ],
    ids=["another variant", "another minute", "another period", "silence too", "nothing"],
)
def test_without_a_sign_of_the_endpoint_silence_stays_silence(tmp_path, beside):
    found = readings(tmp_path, [*beside, silent("Invocation5XXErrors")], "server_errors")

    assert found[0] == (PointState.NO_DATA, {})


def test_a_latency_that_was_silent_is_never_zero(tmp_path):
    points = [told("Invocations", {"Sum": 5.0}), silent("ModelLatency")]

    assert readings(tmp_path, points, "model_latency") == {0: (PointState.NO_DATA, {})}


def test_a_value_that_comes_late_stands_above_the_zero(tmp_path):
    points = [told("Invocations", {"Sum": 5.0}), silent("Invocation5XXErrors")]
    readings(tmp_path, points, "server_errors")
    late = told("Invocation5XXErrors", {"Sum": 3.0})

    assert readings(tmp_path, [late], "server_errors")[0] == (PointState.VALUE, {"Sum": 3.0})


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["told", "silent", "unknown"]), min_size=1, max_size=10), st.data())
def test_zeros_stand_exactly_where_silence_meets_a_sign(tmp_path_factory, errors, data):
    signs = [data.draw(st.booleans()) for _ in errors]
    points = []
    for minute, (error, sign) in enumerate(zip(errors, signs, strict=True)):
        at_s = T0 + 60 * minute
        if sign:
            points.append(told("Invocations", {"Sum": 1.0}, at_s))
        if error == "silent":
            points.append(silent("Invocation5XXErrors", at_s))
        elif error == "told":
            points.append(told("Invocation5XXErrors", {"Sum": 1.0}, at_s))

    found = readings(tmp_path_factory.mktemp("store"), points, "server_errors")

    zeros = {minute for minute, (state, _) in found.items() if state is PointState.ZERO}
    assert zeros == {
        minute
        for minute, (error, sign) in enumerate(zip(errors, signs, strict=True))
        if error == "silent" and sign
    }
    assert found.keys() == {n for n, error in enumerate(errors) if error != "unknown"}


@pytest.fixture
def answer(tmp_path):
    """What the API says of an hour of these points."""

    def ask(points, **parameters):
        with writing(tmp_path, now=lambda: NOW_S) as writer:
            writer.endpoints(points)
        reader = StoreReader(tmp_path, now=lambda: NOW_S)
        app = FastAPI()
        app.include_router(router(reader, now=lambda: NOW_S))
        with TestClient(app) as client:
            found = client.get("/api/v1/endpoints", params=parameters)
        reader.close()
        assert found.status_code == 200, found.text
        return found.json()

    return ask


def gpu(at_s=T0, number=4.0):
    known = key(ACCELERATORS, namespace=ACCELERATORS_NAMESPACE, period_s=3600)
    at_s = at_s // 3600 * 3600
    return point(
        at_s, of=known, statistics={"Last": number}, at_s=float(at_s + 60), settled_s=at_s + 60.0
    )


def test_a_sum_over_gpus_is_told_with_their_number_and_what_one_of_them_did(answer):
    busy = {"SampleCount": 2.0, "Sum": 5.8, "Maximum": 3.0}
    used = told("GPUUtilization", busy, namespace="/aws/sagemaker/Endpoints")

    without = answer([used], metric="gpu_utilization")["series"]
    days_ago = gpu(T0 - 40 * 3600)
    found = answer([days_ago])

    (alone,) = without
    (with_it,) = [each for each in found["series"] if each["metric"] == "gpu_utilization"]
    assert (alone["accelerators"], alone["per_accelerator"]) == (None, {})
    assert with_it["accelerators"] == 4
    assert with_it["per_accelerator"] == {
        "Average": pytest.approx(0.725),
        "Maximum": pytest.approx(0.75),
    }


def test_what_was_asked_of_aws_makes_nothing_look_settled(answer):
    found = answer([told("Invocations", {"Sum": 5.0}), gpu(NOW_S)])

    assert found["evaluated_at"] == "2026-05-28T20:28:00Z"
    (known,) = [each for each in found["series"] if each["metric"] == ACCELERATORS]
    assert known["settled_until"] is None


def test_a_wall_is_told_with_its_limit(answer):
    api = {"ApiName": "llm", "Stage": "prod", "namespace": "AWS/ApiGateway"}
    calls = {"SampleCount": 40.0, "Sum": 300.0, "Maximum": 29.01, "p50": 6.2, "p99": 29.0}
    points = [
        point(T0 + 60 * n, of=key("IntegrationLatency", **api), statistics=calls, **SETTLED)
        for n in range(2)
    ]
    failed = point(T0, of=key("5XXError", **api), statistics={"Sum": 3.0}, **SETTLED)

    (wall,) = answer([*points, failed])["walls"]

    assert (wall["at_s"], wall["minutes"], wall["of_minutes"], wall["errors"]) == (29.01, 2, 2, 3)
    assert "REST" in wall["limit"]
    assert wall["remedy"].startswith("Raise the integration timeout")
