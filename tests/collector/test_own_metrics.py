"""The collector's own health as Prometheus, a load balancer and a probe see it."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from collector.own_metrics import OwnMetrics, health_router


def client_of(metrics, problem=lambda: None):
    app = FastAPI()
    app.include_router(health_router(metrics, problem))
    return TestClient(app)


def test_the_page_names_every_counter_before_the_first_export():
    page = client_of(OwnMetrics(version="1.2.3")).get("/metrics")

    families = {family.name: family for family in text_string_to_metric_families(page.text)}
    assert page.headers["content-type"].startswith("text/plain")
    assert families["stagewatch_build_info"].samples[0].labels == {"version": "1.2.3"}
    assert {
        "stagewatch_collector_received_spans",
        "stagewatch_collector_received_points",
        "stagewatch_collector_refused_exports",
        "stagewatch_collector_export_duration_seconds",
        "stagewatch_collector_exports_in_flight",
    } <= set(families)


def test_what_another_part_counts_is_asked_for_at_each_scrape():
    metrics = OwnMetrics()
    readings = {"late_total": 3, "queue_bytes": 7.5}
    metrics.watch(lambda: readings)
    client = client_of(metrics)
    client.get("/metrics")
    readings["late_total"] = 4

    page = client.get("/metrics").text

    assert "# TYPE stagewatch_collector_late_total counter" in page
    assert "stagewatch_collector_late_total 4.0" in page
    assert "# TYPE stagewatch_collector_queue_bytes gauge" in page
    assert "stagewatch_collector_queue_bytes 7.5" in page


def test_a_name_that_is_ours_already_gets_no_second_prefix():
    metrics = OwnMetrics()
    metrics.watch(lambda: {"stagewatch_store_bytes": 1.0})

    assert "\nstagewatch_store_bytes 1.0" in client_of(metrics).get("/metrics").text


def test_watching_asks_nothing_before_the_first_scrape():
    def not_started():
        raise AssertionError("asked too early")

    OwnMetrics().watch(not_started)


def test_openmetrics_is_spoken_to_who_asks_for_it():
    page = client_of(OwnMetrics()).get(
        "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
    )

    assert page.headers["content-type"].startswith("application/openmetrics-text")
    assert page.text.endswith("# EOF\n")


def test_two_collectors_in_one_process_do_not_share_counters():
    one, other = OwnMetrics(), OwnMetrics()
    one.received_spans.labels("http").inc()

    assert 'received_spans_total{protocol="http"}' not in client_of(other).get("/metrics").text
    assert not [m for m in REGISTRY.collect() if m.name.startswith("stagewatch")]


def test_alive_is_not_ready():
    client = client_of(OwnMetrics(), problem=lambda: "the disk is full")

    assert client.get("/healthz").json() == {"status": "alive"}
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not ready", "reason": "the disk is full"}


def test_ready_once_nothing_is_in_the_way():
    answer = client_of(OwnMetrics()).get("/readyz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_health_is_read_and_never_written(path):
    assert client_of(OwnMetrics()).post(path).status_code == 405
