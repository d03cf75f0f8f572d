"""Metric Streams through Firehose: idempotent, guarded, and judged record by record (CW10, CW12)."""

import base64
import gzip
import json
from contextlib import contextmanager

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from collector.firehose import delivered, firehose_router
from collector.own_metrics import OwnMetrics
from collector.settings import CollectorSettings
from domain.errors import InputError
from tests.collector.endpoint_points import T0, kept, key, point
from tests.collector.serving import http_server, reading
from tests.collector.storing import writing
from tests.paths import RECORDED

SAMPLES = RECORDED / "cloudwatch"
ENVELOPE = json.loads((SAMPLES / "firehose_http_envelope.json").read_text())
RECORDS = (SAMPLES / "metric_stream_record.ndjson").read_text().splitlines()
KEY = "open sesame"
BODY = ENVELOPE["request"]["body"]


@contextmanager
def firehose(path, **settings):
    """`(deliver, metrics)`: what sends a body to a real server over a real store."""
    told = CollectorSettings(firehose_keys=[KEY], **settings)
    metrics = OwnMetrics()
    with writing(path, now=lambda: T0 + 600) as writer:
        app = FastAPI()
        now = lambda: T0 + 600.0  # noqa: E731 - a clock
        app.include_router(firehose_router(writer, told, metrics, now=now))
        with http_server(app) as url:

            def deliver(body, *, access_key=KEY, **headers):
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                wire = {**ENVELOPE["request"]["headers"], **headers}
                wire["X-Amz-Firehose-Access-Key"] = access_key
                return httpx.post(f"{url}/v1/firehose", content=content, headers=wire)

            yield deliver, metrics, writer


def envelope(*records, **more):
    lines = "\n".join(json.dumps(each) for each in records).encode()
    data = base64.b64encode(lines).decode()
    return {
        "requestId": "r1",
        "timestamp": T0 * 1000 + 200_000,
        "records": [{"data": data}],
        **more,
    }


def record(**changes):
    return {**json.loads(RECORDS[0]), **changes}


def test_the_recorded_delivery_is_the_recorded_records():
    told = base64.b64decode(BODY["records"][0]["data"]).decode().splitlines()

    assert [json.loads(line) for line in told] == [json.loads(line) for line in RECORDS]


def test_cw12_a_delivery_that_comes_twice_and_is_polled_too_is_one_row_each(tmp_path):
    with firehose(tmp_path) as (deliver, _, writer):
        answers = [deliver(BODY), deliver(BODY)]
        latency = {"SampleCount": 120.0, "Sum": 96.0, "p99": 2.9, "PR(:2)": 97.5}
        writer.endpoints([point(at_s=T0 + 300, statistics=latency)])
        writer.endpoints([point(at_s=T0 + 300, of=key("Invocations"), statistics={"Sum": 120.0})])

    for answer in answers:
        assert answer.status_code == ENVELOPE["response_ok"]["status"]
        assert answer.json()["requestId"] == BODY["requestId"]
        assert set(answer.json()) == set(ENVELOPE["response_ok"]["body"])
        assert answer.headers["content-type"] == "application/json"
    found = kept(tmp_path)
    assert {(name, at): (told[0], told[2]) for (_, name, at), told in found.items()} == {
        ("TimeToFirstToken", T0): (
            {
                "SampleCount": 42.0,
                "Sum": pytest.approx(33.6),
                "Maximum": pytest.approx(4.1),
                "Minimum": pytest.approx(0.31),
                "p50": pytest.approx(0.64),
                "p90": pytest.approx(1.5),
                "p99": pytest.approx(3.9),
            },
            1,
        ),
        ("ModelLatency", T0): (
            {**latency, "Maximum": pytest.approx(4.1), "Minimum": pytest.approx(0.21)},
            1,
        ),
        ("Invocations", T0): (
            {"SampleCount": 120.0, "Sum": 120.0, "Maximum": 1.0, "Minimum": 1.0},
            1,
        ),
    }


@pytest.mark.parametrize("key_", ["", "open sesam", "<shared secret>"])
def test_a_wrong_key_is_401_and_nothing_is_kept(tmp_path, key_):
    with firehose(tmp_path) as (deliver, metrics, _):
        answer = deliver(BODY, access_key=key_)
        refused = reading(
            metrics,
            "refused_exports_total",
            protocol="firehose",
            signal="endpoints",
            reason="unauthenticated",
        )

    assert answer.status_code == 401
    assert answer.json()["requestId"] == BODY["requestId"]
    assert "collector.firehose_keys" in answer.json()["errorMessage"]
    assert kept(tmp_path) == {}
    assert refused == 1


def test_without_keys_nobody_may_deliver(tmp_path):
    with writing(tmp_path) as writer:
        app = FastAPI()
        app.include_router(firehose_router(writer, CollectorSettings(), OwnMetrics()))
        with http_server(app) as url:
            headers = {"X-Amz-Firehose-Access-Key": ""}
            assert httpx.post(f"{url}/v1/firehose", json=BODY, headers=headers).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        {**BODY, "records": [{"data": BODY["records"][0]["data"][:-3]}]},
        {**BODY, "records": [{"data": "§§§"}]},
        {**BODY, "records": [{}]},
        {**BODY, "records": ["x"]},
        {**BODY, "records": None},
        {**BODY, "timestamp": "now"},
        {**BODY, "timestamp": True},
        [],
        b"{",
        b"[" * 5000,
    ],
    ids=repr,
)
def test_a_delivery_that_cannot_be_read_is_400_and_nothing_is_kept(tmp_path, body):
    with firehose(tmp_path) as (deliver, _, _):
        answer = deliver(body)

    assert answer.status_code in (400, 413)
    assert answer.json()["errorMessage"]
    assert kept(tmp_path) == {}


def test_cw10_a_record_whose_unit_contradicts_the_table_is_refused_and_counted(tmp_path):
    wrong = record(unit="Seconds")
    with firehose(tmp_path) as (deliver, metrics, _):
        answer = deliver(envelope(wrong, record(timestamp=T0 * 1000)))
        rejected = reading(metrics, "rejected_points_total", protocol="firehose")

    assert answer.status_code == 200, "sent again it would be refused again"
    assert rejected == 1
    assert len(kept(tmp_path)) == 1
    told = delivered(json.dumps(envelope(wrong)).encode())
    assert told.refused == {"AWS/Bedrock TimeToFirstToken in 'Seconds' and not in Milliseconds": 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"timestamp": T0 * 1000 + 1}, "no whole minute"),
        ({"timestamp": None}, "no whole minute"),
        ({"value": {"count": "many"}}, "no measurement"),
        ({"value": 7}, "no object"),
        ({"value": {}}, "no value"),
        ({"value": {"count": -1}}, "fewer than no samples"),
        ({"value": {"sum": -1}}, "below nothing"),
        ({"value": {"count": 10**400}}, "no measurement"),
        ({"value": {"count": 1e308}}, "no measurement"),
        ({"value": {"count": float("nan")}}, "no measurement"),
        ({"timestamp": 10**400}, "no whole minute"),
        ({"timestamp": -60_000}, "not on the clock's grid"),
        ({"dimensions": {"ModelId": "x" * 100_000}}, "empty or too long"),
        ({"account_id": ""}, "empty or too long"),
        ({"dimensions": []}, "no object"),
    ],
)
def test_a_record_that_cannot_be_is_counted_and_the_others_are_kept(changes, reason):
    told = delivered(json.dumps(envelope(record(**changes), record())).encode())

    assert len(told.points) == 1
    assert told.refused.total() == 1
    assert reason in next(iter(told.refused))


def test_a_metric_that_is_not_ours_is_left_alone():
    told = delivered(json.dumps(envelope(record(namespace="AWS/EC2"), record())).encode())

    assert (told.ignored, len(told.points), told.refused.total()) == (1, 1, 0)


def test_a_compressed_delivery_is_taken_and_another_encoding_is_not(tmp_path):
    packed = gzip.compress(json.dumps(BODY).encode())
    with firehose(tmp_path) as (deliver, _, _):
        taken = deliver(packed, **{"Content-Encoding": "gzip"})
        refused = deliver(packed, **{"Content-Encoding": "br"})

    assert taken.status_code == 200
    assert refused.status_code == 415
    assert len(kept(tmp_path)) == 3


def test_a_delivery_that_is_too_large_is_413(tmp_path):
    with firehose(tmp_path, max_body_bytes=1000) as (deliver, _, _):
        assert deliver(BODY).status_code == 413


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (gzip.compress(b"0" * 50_000_000), 413),
        (gzip.compress(json.dumps(BODY).encode())[:-9], 400),
        (gzip.compress(json.dumps({**BODY, "timestamp": 10**400}).encode()), 400),
        (gzip.compress(json.dumps({**BODY, "records": [{}] * 1_000_000}).encode()), 413),
    ],
    ids=["a bomb", "cut off", "a time stamp of 400 digits", "a million records of nothing"],
)
def test_a_packed_delivery_that_is_hostile_is_refused_and_the_next_one_is_taken(
    tmp_path, body, status
):
    with firehose(tmp_path) as (deliver, _, _):
        refused = deliver(body, **{"Content-Encoding": "gzip"})
        taken = deliver(BODY)

    assert (refused.status_code, taken.status_code) == (status, 200)
    assert set(refused.json()) == {"requestId", "timestamp", "errorMessage"}
    assert len(kept(tmp_path)) == 3


def test_more_records_than_a_delivery_has_are_refused_as_a_whole():
    body = envelope()
    body["records"] = [{"data": base64.b64encode(b"7\n" * 50_001).decode()}]

    with pytest.raises(InputError, match="more than 50000 records"):
        delivered(json.dumps(body).encode())


@given(st.recursive(st.none() | st.text() | st.floats() | st.integers(), st.lists, max_leaves=5))
def test_whatever_a_record_holds_it_is_counted_or_kept(noise):
    body = json.dumps(envelope(noise, record(value=noise), record())).encode()

    told = delivered(body)

    assert len(told.points) == 1
    assert told.refused.total() == 2


@given(st.binary(max_size=100))
def test_no_bytes_break_the_reader(noise):
    try:
        told = delivered(noise)
    except InputError:
        return
    assert told.points == []
