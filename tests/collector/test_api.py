"""The HTTP API answers in its fixed forms, and errors say where, what, and the way out."""

import threading
import time
import urllib.request
from contextlib import contextmanager

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from collector.api import router, unknown_router
from collector.importing import import_files
from collector.reader import StoreReader
from tests.collector.storing import NOW_S, OVERLOAD, gauge_of, metrics, writing

SINCE, UNTIL = "2026-11-29T15:20:00Z", "2026-11-29T15:30:00Z"
WINDOW = {"from": SINCE, "to": UNTIL}


def application(reader):
    app = FastAPI(docs_url=None, redoc_url=None)
    app.include_router(router(reader, now=lambda: NOW_S))
    app.include_router(unknown_router())
    return app


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    path = tmp_path_factory.mktemp("api")
    with writing(path) as writer:
        files = [OVERLOAD / "all-spans.bin", OVERLOAD / "client.jsonl"]
        list(import_files(files, writer, labels={"service": "vllm-tiny"}))
        for ago_s in (130, 120):
            waiting = gauge_of(
                Metric(name="stagewatch_requests_waiting"), ago_s / 10, at_s=NOW_S - ago_s
            )
            writer.metrics(metrics(waiting))
        writer.settle()
    reader = StoreReader(path, now=lambda: NOW_S)
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def client(reader):
    with TestClient(application(reader)) as client:
        yield client


def ask(client, path, **parameters):
    return client.get(f"/api/v1/{path}", params=WINDOW | parameters)


def test_a_quantile_in_the_fixed_form(client):
    answer = ask(client, "quantile", metric="ttft", q="0.99").json()
    (series,) = answer["series"]
    (point,) = series["points"]

    assert (answer["metric"], answer["q"], answer["unit"]) == ("ttft", 0.99, "s")
    assert series["labels"] == {}
    assert {"from", "to", "n", "value", "low", "high"} <= point.keys()
    assert (point["from"], point["to"], point["n"]) == (SINCE, UNTIL, 136)
    assert point["low"] <= 15.197201 <= point["high"]
    assert point["value"] == pytest.approx(15.197201, rel=0.00542)


def test_several_quantiles_behind_commas_or_repeated(client):
    commas = ask(client, "quantile", q="0.5,0.99").json()
    repeated = ask(client, "quantile", q=["0.5", "0.99"]).json()

    assert commas == repeated
    assert commas["q"] == [0.5, 0.99]
    assert [each["q"] for each in commas["series"]] == [0.5, 0.99]


def test_steps_groups_and_pairs(client):
    answer = ask(
        client,
        "quantile",
        step="10s",
        by=["service,source", "model"],
        where=["service=vllm-tiny", "source=client"],
    ).json()
    (series,) = answer["series"]

    assert series["labels"] == {"service": "vllm-tiny", "source": "client"}
    assert sum(point["n"] for point in series["points"]) == 134
    assert len(series["points"]) > 3


def test_relative_times_are_those_of_our_clock(client):
    answer = client.get("/api/v1/quantile", params={"from": "now-10m"}).json()

    assert answer["series"][0]["points"][0]["to"] == "2026-11-29T15:26:40Z"


def test_stages_sum_to_the_whole_and_say_what_is_missing(client):
    (series,) = ask(client, "stages", where="service=vllm-tiny").json()["series"]
    means = {each["stage"]: each["mean"] for each in series["stages"]}

    assert set(means) == {"network", "overhead", "queue", "prefill", "decode"}
    assert sum(v for name, v in means.items() if name != "network") == pytest.approx(
        series["e2e"]["mean"]
    )
    assert series["missing"] == []
    assert series["flow"]["cancelled"] == 10


def test_requests_newest_and_slowest(client):
    newest = ask(client, "requests", limit=5).json()["requests"]
    slowest = ask(client, "requests", limit=5, slowest_by="ttft").json()["requests"]

    assert [each["end"] for each in newest] == sorted((r["end"] for r in newest), reverse=True)
    assert slowest[0]["ttft_s"] == max(each["ttft_s"] for each in slowest)


def test_one_request_by_its_trace(client):
    one = ask(client, "requests", limit=1).json()["requests"][0]

    assert client.get(f"/api/v1/requests/{one['trace_id']}").json() == one


def test_a_request_that_is_not_kept_is_404_in_json(client):
    answer = client.get(f"/api/v1/requests/{'ab' * 16}")

    assert answer.status_code == 404
    assert "kept for" in answer.json()["remedy"]


def test_gauges_labels_freshness_and_health(client):
    gauges = ask(client, "gauges", metric="requests_waiting").json()
    labels = ask(client, "labels", label="service").json()
    fresh = ask(client, "freshness").json()
    health = client.get("/api/v1/health").json()

    assert gauges["series"][0]["points"][0]["value"] == 12.5
    assert labels == {"label": "service", "values": ["chat", "vllm-tiny"]}
    assert [each["service"] for each in fresh["services"]] == ["chat", "vllm-tiny"]
    assert health["stored_spans_total"] > 136


@pytest.mark.parametrize(
    ("path", "parameters", "where", "says"),
    [
        ("quantile", {"metric": "tftt"}, "metric", "Use one of ttft"),
        ("quantile", {"q": "99"}, "q", "0.99"),
        ("quantile", {"q": "fast"}, "q", "Use numbers"),
        ("quantile", {"q": ""}, "q", "Use numbers"),
        ("quantile", {"from": "yesterday"}, "from", "RFC 3339"),
        ("quantile", {"from": UNTIL, "to": SINCE}, "to", "later than"),
        ("quantile", {"where": "service"}, "where", "label=value"),
        ("quantile", {"where": "srvice=chat"}, "where", "Did you mean 'service'"),
        ("quantile", {"by": "replcia"}, "by", "Did you mean 'replica'"),
        ("quantile", {"step": "often"}, "step", "such as 90s"),
        ("quantile", {"step": "1", "from": "now-30d"}, "step", "step of 236 s"),
        ("stages", {"q": "1.5"}, "q", "Use numbers"),
        ("requests", {"limit": "0"}, "limit", "Ask for 1 to"),
        ("requests", {"limit": "many"}, "limit", "openapi"),
        ("requests", {"slowest_by": "price"}, "slowest_by", "Use one of"),
        ("requests/nonsense", {}, "trace_id", "32 hexadecimal"),
        ("quantile", {"q": ",".join(f"{n / 1000}" for n in range(1, 102))}, "q", "up to 100"),
        ("quantile", {"to": "9999-12-31T23:59:59Z"}, "to", "RFC 3339"),
        ("quantile", {"from": "0001-01-01T00:00:00+14:00"}, "from", "RFC 3339"),
        ("requests", {"from": "0", "to": "32503679999"}, "to", "RFC 3339"),
        ("gauges", {}, "metric", "openapi"),
        ("gauges", {"metric": "ttft"}, "metric", "Use one of up"),
        ("labels", {"label": "colour"}, "label", "Labels: service"),
        ("labels", {"label": ""}, "label", "openapi"),
    ],
)
def test_a_wrong_question_is_400_and_says_the_way_out(client, path, parameters, where, says):
    answer = ask(client, path, **parameters)
    told = answer.json()

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert told["where"] == where
    assert says in told["remedy"]
    assert told["problem"]
    assert told["detail"]


@pytest.mark.parametrize("path", ["/api/v1/quantiles", "/api/v2/quantile", "/api/"])
def test_an_unknown_path_is_404_in_json(client, path):
    answer = client.get(path)

    assert answer.status_code == 404
    assert answer.json()["where"] == path


def test_a_known_path_with_a_wrong_method_stays_405(client):
    assert client.post("/api/v1/quantile").status_code == 405


def test_a_store_that_fails_is_503(tmp_path):
    (tmp_path / "telemetry.db").write_bytes(b"no database " * 1000)
    with TestClient(application(StoreReader(tmp_path))) as client:
        answer = client.get("/api/v1/quantile")

    assert answer.status_code == 503
    assert "readable" in answer.json()["remedy"]


def test_every_path_stands_in_openapi_with_its_answer(client):
    document = client.get("/openapi.json").json()
    paths = document["paths"]
    point = document["components"]["schemas"]["QuantilePoint"]

    assert set(paths) == {
        f"/api/v1/{name}"
        for name in (
            "quantile",
            "endpoints",
            "stages",
            "requests",
            "requests/{trace_id}",
            "gauges",
            "labels",
            "freshness",
            "conditions",
            "gpus",
            "health",
        )
    }
    assert all("400" in each["get"]["responses"] for each in paths.values())
    assert {"from", "to", "n", "value", "low", "high"} <= set(point["required"])
    assert {each["name"] for each in paths["/api/v1/quantile"]["get"]["parameters"]} == {
        "metric",
        "q",
        "where",
        "by",
        "from",
        "to",
        "step",
    }


def test_answers_keep_what_openapi_promises(client):
    document = client.get("/openapi.json").json()
    answer = ask(client, "quantile", q="0.5,0.99", step="60").json()
    declared = document["components"]["schemas"]

    assert answer.keys() == set(declared["QuantileAnswer"]["properties"])
    for series in answer["series"]:
        assert series.keys() <= set(declared["QuantileSeries"]["properties"])
        for point in series["points"]:
            assert set(declared["QuantilePoint"]["required"]) <= point.keys()


@contextmanager
def serving(app):
    """A real server on a free port."""
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    until_s = time.monotonic() + 20
    while not server.started and time.monotonic() < until_s:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_a_real_server_answers_the_same(reader, client):
    path = f"/api/v1/quantile?metric=e2e&from={SINCE}&to={UNTIL}"
    with serving(application(reader)) as url, urllib.request.urlopen(url + path) as answer:  # noqa: S310 - loopback
        over_the_wire = answer.read()

    assert over_the_wire == client.get(path).content
