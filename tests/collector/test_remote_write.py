"""Remote-write's door, spoken to as its specification says, and as nobody should."""

import math
import os

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.intake import Overloaded
from collector.own_metrics import OwnMetrics
from collector.remote_write import PATH, remote_write_router
from collector.settings import CollectorSettings
from collector.snappy import unsnappy
from tests.collector.prometheus_wire import (
    STALE,
    message,
    native,
    request_1,
    request_2,
    series_1,
    snappy,
    varint,
)
from tests.collector.serving import RecordingIntake, http_server, reading

V1 = "application/x-protobuf"
V2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
AT_MS = 1_790_000_000_123
RUNNING = (("__name__", "vllm:num_requests_running"), ("instance", "a:8000"), ("job", "chat"))
NODE = (("__name__", "node_cpu_seconds_total"), ("cpu", "0"), ("instance", "n:9100"))


class Scrapes:
    """Wants what begins with `vllm:`; a handle is the series' own labels."""

    def __init__(self):
        self.taken = []
        self.room = True
        self.error = None

    def wanted(self, name):
        return name.startswith("vllm:")

    def series(self, labels):
        return labels if self.room else None

    def take(self, samples):
        if self.error:
            raise self.error
        self.taken += samples


@pytest.fixture(scope="module")
def door():
    scrapes, metrics = Scrapes(), OwnMetrics()
    chosen = CollectorSettings(
        max_body_bytes=200_000, max_decompressed_bytes=4_000_000, max_items=20_000
    )
    app = FastAPI()
    app.include_router(remote_write_router(scrapes, RecordingIntake(), chosen, metrics))
    with http_server(app) as url, httpx.Client(base_url=url) as client:
        yield client, scrapes, metrics


@pytest.fixture(autouse=True)
def nothing_taken_yet(door):
    _, scrapes, _ = door
    scrapes.taken, scrapes.room, scrapes.error = [], True, None


def post(client, body, *, content_type=V1, encoding="snappy", compress=snappy, **more):
    headers = {"content-type": content_type, "content-encoding": encoding, **more}
    return client.post(PATH, content=compress(body), headers=headers)


@pytest.mark.parametrize(
    ("value", "taken"),
    [(3.5, 3.5), (0.0, 0.0), (STALE, None), (float("inf"), float("inf")), (-1.0, -1.0)],
)
def test_a_sample_arrives_with_its_labels_and_its_time(door, value, taken):
    client, scrapes, _ = door
    body = request_1(series_1(RUNNING, [(AT_MS, value)]))

    for _ in range(3):  # why: from the second time on its labels are known by their bytes
        assert post(client, body).status_code == 204

    assert scrapes.taken == [(RUNNING, AT_MS, taken)] * 3


def test_a_nan_that_ends_nothing_is_no_number_and_no_end(door):
    client, scrapes, _ = door

    post(client, request_1(series_1(RUNNING, [(AT_MS, float("nan"))])))

    ((_, _, value),) = scrapes.taken
    assert math.isnan(value)


@pytest.mark.parametrize("at_ms", [1, 2**35, AT_MS, 2**42, 2**62, -5])
def test_any_time_is_read_as_it_is(door, at_ms):
    client, scrapes, _ = door

    for _ in range(2):
        post(client, request_1(series_1(RUNNING, [(at_ms, 2.0)])))

    assert [at for _, at, _ in scrapes.taken] == [at_ms, at_ms]


def test_several_samples_in_one_series_all_arrive(door):
    client, scrapes, _ = door

    post(client, request_1(series_1(RUNNING, [(AT_MS, 1.0), (AT_MS + 1, 0.0)])))

    assert [(at, value) for _, at, value in scrapes.taken] == [(AT_MS, 1.0), (AT_MS + 1, 0.0)]


def test_what_nobody_wants_is_taken_and_counted_as_ignored(door):
    client, scrapes, metrics = door
    before = reading(metrics, "remote_write_ignored_series_total")
    upper = (("Zone", "a"), *NODE)  # sorts before the name
    body = request_1(
        series_1(NODE, [(AT_MS, 1.0)]),
        series_1(upper, [(AT_MS, 1.0)]),
        series_1((("__name__", "x" * 300),), [(AT_MS, 1.0)]),
        metadata=2,
    )

    assert post(client, body).status_code == 204
    assert scrapes.taken == []
    assert reading(metrics, "remote_write_ignored_series_total") == before + 3


def test_metadata_alone_and_nothing_at_all_are_fine(door):
    client, _, _ = door

    assert post(client, request_1(metadata=3)).status_code == 204
    assert post(client, b"").status_code == 204


def test_exemplars_are_counted_and_let_go(door):
    client, scrapes, metrics = door
    before = reading(metrics, "remote_write_exemplars_total")

    assert post(client, request_1(series_1(RUNNING, exemplars=2))).status_code == 204
    assert scrapes.taken == []
    assert reading(metrics, "remote_write_exemplars_total") == before + 2


def test_version_2_says_how_much_of_it_was_taken(door):
    client, scrapes, _ = door
    histogram = native(AT_MS, count=3, total=1.5, positive=[(0, 2)], deltas=[1, 1])
    body = request_2(
        {"labels": RUNNING, "samples": [(AT_MS, 4.0)], "metadata": True, "exemplars": 1},
        {"labels": NODE, "samples": [(AT_MS, 1.0), (AT_MS + 1, 2.0)]},
        {"labels": (("__name__", "vllm:x"), *RUNNING[1:]), "histograms": [histogram]},
    )

    answer = post(client, body, content_type=V2, **{"x-prometheus-remote-write-version": "2.0.0"})

    assert answer.status_code == 204
    assert {name: value for name, value in answer.headers.items() if name.endswith("-written")} == {
        "x-prometheus-remote-write-samples-written": "3",
        "x-prometheus-remote-write-histograms-written": "1",
        "x-prometheus-remote-write-exemplars-written": "1",
    }
    assert scrapes.taken[0] == (RUNNING, AT_MS, 4.0)
    assert scrapes.taken[1][2].buckets == ((0, 1), (1, 2))


def test_version_1_has_no_such_headers(door):
    client, _, _ = door

    answer = post(client, request_1(series_1(RUNNING, [(AT_MS, 1.0)])))

    assert not [name for name in answer.headers if name.endswith("-written")]


@pytest.mark.parametrize(
    "series",
    [
        {"labels": RUNNING, "samples": [(AT_MS, 4.0)], "created_ms": 5000},
        {"labels": RUNNING, "samples": [(AT_MS, 4.0, 5000)]},
    ],
)
def test_when_a_series_began_becomes_the_gauge_that_says_so(door, series):
    client, scrapes, _ = door

    post(client, request_2(series), content_type=V2)

    created = tuple(
        sorted({**dict(RUNNING), "__name__": "vllm:num_requests_running_created"}.items())
    )
    assert scrapes.taken == [(RUNNING, AT_MS, 4.0), (created, AT_MS, 5.0)]


@pytest.mark.parametrize(
    ("content_type", "encoding", "status"),
    [
        ("application/x-protobuf;proto=prometheus.WriteRequest", "snappy", 204),
        ("", "", 204),  # as the first senders did
        ("application/json", "snappy", 415),
        ("application/x-protobuf;proto=io.prometheus.write.v3.Request", "snappy", 415),
        (V1, "gzip", 415),
        (V1, "zstd", 415),
    ],
)
def test_what_is_sent_is_told_by_its_headers(door, content_type, encoding, status):
    client, _, _ = door
    body = request_1(series_1(RUNNING, [(AT_MS, 1.0)]))

    assert post(client, body, content_type=content_type, encoding=encoding).status_code == status


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_another_method_is_told_to_use_post(door, method):
    client, _, _ = door

    answer = client.request(method, PATH)

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "body",
    [
        b"not snappy at all",
        b"",
        b"\xff\xff\xff\xff\xff\xff",
        snappy(os.urandom(200)),
        snappy(request_1(series_1(RUNNING, [(AT_MS, 1.0)])))[:-4],
        snappy(message(9, b"fields that nobody knows")),
        snappy(request_1(b"\x0a\xff\x01vllm:")),
    ],
)
def test_what_cannot_be_is_400_and_says_so_in_plain_text(door, body):
    client, scrapes, _ = door

    answer = post(client, body, compress=bytes)

    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")
    assert "POST /api/v1/write" in answer.text
    assert scrapes.taken == []


@pytest.mark.parametrize(
    ("series", "symbols", "problem"),
    [
        ({"references": [1, 99]}, ["", "__name__"], "symbol 99 of 2"),
        ({"references": [1, 2**32 - 1]}, ["", "__name__"], "symbol"),
        ({"references": [1, 0, 1]}, ["", "__name__"], "a name and no value"),
        ({"references": []}, ["x", "__name__"], "do not begin with the empty one"),
    ],
)
def test_wrong_references_of_version_2_are_400(door, series, symbols, problem):
    client, scrapes, _ = door
    body = request_2({**series, "samples": [(AT_MS, 1.0)]}, symbols=symbols)

    answer = post(client, body, content_type=V2)

    assert answer.status_code == 400
    assert problem in answer.text
    assert scrapes.taken == []


def test_a_body_of_one_version_called_the_other_is_400(door):
    client, _, _ = door
    one = request_1(series_1(RUNNING, [(AT_MS, 1.0)]))
    two = request_2({"labels": RUNNING, "samples": [(AT_MS, 1.0)]})

    assert post(client, one, content_type=V2).status_code == 400
    assert post(client, two, content_type=V1).status_code == 400


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize(
    "labels",
    [
        (("job", "chat"),),
        (("__name__", ""),),
        (("__name__", "vllm:x"), ("", "y")),
        (("__name__", "vllm:x"), ("job", "a"), ("job", "b")),
    ],
)
def test_a_series_that_cannot_be_is_refused_and_the_others_are_kept(door, labels, version):
    client, scrapes, _ = door
    if version == V1:
        body = request_1(series_1(labels, [(AT_MS, 1.0)]), series_1(RUNNING, [(AT_MS, 2.0)]))
    else:
        body = request_2(
            {"labels": labels, "samples": [(AT_MS, 1.0)]},
            {"labels": RUNNING, "samples": [(AT_MS, 2.0)]},
        )

    answer = post(client, body, content_type=version)

    assert answer.status_code == 400
    assert scrapes.taken == [(RUNNING, AT_MS, 2.0)]
    if version == V2:
        assert answer.headers["x-prometheus-remote-write-samples-written"] == "1"


@pytest.mark.parametrize(
    "histogram",
    [
        native(AT_MS, count=2**63, total=1.0, positive=[(0, 1)], deltas=[2**62]),
        native(AT_MS, count=3, total=1.0, positive=[(0, 2)], deltas=[1]),
        native(AT_MS, count=3, total=1.0, positive=[(0, 2**32 - 1)], deltas=[3]),
        native(AT_MS, count=3, total=1.0, positive=[(2**31 - 1, 1), (5, 1)], deltas=[1, 1]),
        native(AT_MS, count=3, total=1.0, positive=[(0, 1), (-3, 1)], deltas=[1, 1]),
        native(AT_MS, count=3, total=1.0, positive=[(0, 2)], deltas=[2, -3]),
        native(AT_MS, count=4, total=1.0, positive=[(0, 1)], deltas=[3]),
        native(AT_MS, count=2, total=1.0, positive=[(0, 1)], deltas=[3]),
        native(AT_MS, count=3, total=1.0, schema=9, positive=[(0, 1)], deltas=[3]),
        native(AT_MS, count=3, total=1.0, schema=-53, positive=[(2, 1)], deltas=[3], custom=[1.0]),
        native(AT_MS, count=0, total=0.0, schema=-53, custom=[2.0, 1.0]),
        native(AT_MS, count=0, total=0.0, custom=[1.0]),
        native(AT_MS, count=0, total=0.0, threshold=float("nan")),
        native(
            AT_MS, count=float("nan"), total=1.0, positive=[(0, 1)], counts=[1.0], is_float=True
        ),
        native(AT_MS, count=1.0, total=1.0, positive=[(0, 1)], deltas=[1], is_float=True),
    ],
)
def test_a_native_histogram_that_cannot_be_is_refused_and_named(door, histogram):
    client, scrapes, metrics = door
    before = reading(metrics, "remote_write_refused_histograms_total")
    body = request_1(series_1(RUNNING, histograms=[histogram]), series_1(RUNNING, [(AT_MS, 2.0)]))

    answer = post(client, body)

    assert answer.status_code == 400
    assert "a native histogram is refused" in answer.text
    assert scrapes.taken == [(RUNNING, AT_MS, 2.0)]
    assert reading(metrics, "remote_write_refused_histograms_total") == before + 1


def test_a_stale_native_histogram_ends_its_series(door):
    client, scrapes, _ = door

    post(client, request_1(series_1(RUNNING, histograms=[native(AT_MS, count=0, total=STALE)])))

    assert scrapes.taken == [(RUNNING, AT_MS, None)]


def test_a_bomb_is_refused_by_the_length_it_declares(door):
    client, _, _ = door
    bomb = varint(1 << 30) + bytes(1000)

    answer = post(client, bomb, compress=bytes)

    assert answer.status_code == 413
    assert "once decompressed" in answer.text


def test_a_body_is_inflated_to_what_it_declares_and_no_further():
    body = snappy(bytes(1_000_000))

    with pytest.raises(Exception, match="not whole snappy"):
        unsnappy(varint(10) + body[3:], limit_bytes=4_000_000, where="here")
    assert unsnappy(body, limit_bytes=1_000_000, where="here") == bytes(1_000_000)


def test_too_much_at_once_is_413(door):
    client, _, _ = door

    assert post(client, request_1(*[b""] * 600_000)).status_code == 413
    assert post(client, os.urandom(300_000)).status_code == 413


def test_more_than_there_is_room_for_is_503_and_comes_again(door):
    client, scrapes, _ = door
    scrapes.error = Overloaded(2.5)

    answer = post(client, request_1(series_1(RUNNING, [(AT_MS, 1.0)])))

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "3")


def test_a_series_without_room_does_not_fail_the_others(door):
    client, scrapes, _ = door
    scrapes.room = False
    unknown = (("__name__", "vllm:unheard_of"), *RUNNING[1:])
    body = request_1(series_1(unknown, [(AT_MS, 1.0)]), series_1(RUNNING, [(AT_MS, 2.0)]))
    scrapes.room = False
    first = post(client, body)
    scrapes.room = True
    again = post(client, body)

    assert (first.status_code, again.status_code) == (204, 204)
    assert (unknown, AT_MS, 1.0) not in scrapes.taken[:-2]
    assert scrapes.taken[-2:] == [(unknown, AT_MS, 1.0), (RUNNING, AT_MS, 2.0)]


def test_without_a_token_nothing_is_taken():
    scrapes = Scrapes()
    app = FastAPI()
    secret = CollectorSettings(tokens=("swordfish",))
    app.include_router(remote_write_router(scrapes, RecordingIntake(), secret, OwnMetrics()))
    body = request_1(series_1(RUNNING, [(AT_MS, 1.0)]))

    with http_server(app) as url, httpx.Client(base_url=url) as client:
        refused = post(client, body)
        taken = post(client, body, authorization="Bearer swordfish")

    assert (refused.status_code, taken.status_code) == (401, 204)
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert len(scrapes.taken) == 1


@given(st.binary(max_size=300), st.sampled_from([V1, V2]))
@settings(deadline=None)
def test_no_body_whatsoever_is_an_error_of_ours(door, body, version):
    client, _, _ = door

    assert post(client, body, content_type=version).status_code in (204, 400, 413)
    assert post(client, body, content_type=version, compress=bytes).status_code in (204, 400, 413)
