"""Endpoints over HTTP: settled unless asked otherwise, sums that add, availability that is labelled."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import TypeAdapter

from collector.api import router
from collector.endpoint_answer import EndpointsAnswer
from collector.query import Window
from collector.reader import StoreReader
from collector.store import open_store
from tests.collector.endpoint_points import T0, key, point
from tests.collector.storing import writing

MODEL = {"ModelId": "sonnet"}


def bedrock(name):
    return key(name, namespace="AWS/Bedrock", **MODEL)


@pytest.fixture
def asked(tmp_path):
    """A question to a store of an hour of one SageMaker endpoint and one Bedrock model."""
    with writing(tmp_path, now=lambda: T0 + 600) as writer:
        quiet = {"SampleCount": 1000.0, "Sum": 99.0, "p99": 0.2, "PR(:2)": 99.0}
        awful = {"SampleCount": 10.0, "Sum": 90.0, "p99": 9.0, "PR(:2)": 0.0}
        writer.endpoints(
            [
                point(T0 - 120, statistics=quiet, settled_s=T0 + 120.0),
                point(T0 - 60, statistics=awful, settled_s=T0 + 180.0),
                point(T0, statistics={"SampleCount": 1.0}, at_s=T0 + 70),
                point(T0 - 180, statistics={}, settled_s=T0 + 60.0),
            ]
        )
        counts = {"Invocations": 90.0, "InvocationServerErrors": 10.0, "InvocationThrottles": 100.0}
        for name, value in counts.items():
            told = {"statistics": {"Sum": value}, "service": "assistant", "settled_s": T0 + 180.0}
            writer.endpoints([point(T0 - 60, of=bedrock(name), **told)])
    reader = StoreReader(tmp_path, now=lambda: T0 + 240)
    app = FastAPI()
    app.include_router(router(reader, now=lambda: T0 + 240))
    with TestClient(app) as client:

        def ask(**parameters):
            answer = client.get("/api/v1/endpoints", params=parameters)
            assert answer.status_code == 200, answer.text
            return TypeAdapter(EndpointsAnswer).validate_python(answer.json(), strict=True)

        yield ask
    reader.close()


def test_cw5_a_question_without_a_time_is_of_what_has_settled_and_names_the_instant(asked):
    told = asked(service="chat")

    assert told["evaluated_at"] == told["to"] == "2026-05-28T20:27:00Z"
    (series,) = told["series"]
    assert series["settled_until"] == told["evaluated_at"]
    assert [p["statistics"].get("SampleCount") for p in series["points"]] == [None, 1000, 10]
    assert not any(p["provisional"] for p in series["points"])


def test_asked_for_a_time_provisional_points_come_and_say_so(asked):
    told = asked(service="chat", to=str(T0 + 60), **{"from": str(T0)})

    ((told_point,),) = [series["points"] for series in told["series"]]
    assert told_point["provisional"] is True
    assert told_point["revision"] == 1
    assert told_point["state"] == "value"


def test_cw8_good_counts_add_to_98_02_percent_and_no_percentile_is_made_of_others(asked):
    (series,) = asked(service="chat", metric="model_latency")["series"]

    good = series["good"]["PR(:2)"]
    assert (good["low"], good["high"], good["total"]) == (990, 990, 1010)
    assert round(100 * good["low"] / good["total"], 2) == 98.02
    assert series["total"] == {
        "SampleCount": 1010.0,
        "Sum": 189.0,
        "Average": pytest.approx(189 / 1010),
    }


def test_silence_is_told_as_silence(asked):
    (series,) = asked(service="chat", metric="ModelLatency")["series"]

    assert series["points"][0]["state"] == "no data"
    assert series["points"][0]["statistics"] == {}


def test_cw9_availability_is_told_under_both_definitions(asked):
    told = asked(service="assistant")["availability"]

    assert [(each["definition"], round(100 * each["share"], 1)) for each in told] == [
        ("Invocations are successes only", 45.0),
        ("Invocations are accepted, failed ones included", 42.1),
    ]


def test_units_and_dimensions_are_told(asked):
    (series,) = asked(metric="model_latency")["series"]

    assert (series["unit"], series["level"], series["period_s"]) == ("s", "endpoint", 60)
    assert series["dimensions"] == {"EndpointName": "llm-prod", "VariantName": "AllTraffic"}


def test_a_service_that_nobody_knows_has_no_series(asked):
    assert asked(service="nobody")["series"] == []
    assert asked(service="nobody")["availability"] == []


def test_a_store_of_before_there_were_endpoints_has_none(tmp_path):
    store = open_store(tmp_path)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE endpoint_point")
        connection.exec_driver_sql("DROP TABLE endpoint_series")
    store.close()
    reader = StoreReader(tmp_path)

    assert reader.endpoints(Window(since_s=T0, until_s=T0 + 60)) == []
    reader.close()
