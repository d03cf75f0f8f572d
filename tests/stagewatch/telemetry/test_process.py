"""The whole process tells of its own work while it does that of others."""

from tests.e2e.running import Stagewatch
from tests.stagewatch.telemetry.test_telemetry import receiving, spans, told


def test_a_process_tells_what_it_was_asked_and_what_it_looked_up(tmp_path):
    with receiving() as (url, taken):
        asked = {"ENDPOINT": url, "SAMPLE_RATIO": "1", "METRICS_INTERVAL_S": "1"}
        settings = {f"STAGEWATCH_TELEMETRY__{name}": value for name, value in asked.items()}
        with Stagewatch("up", "--data-dir", str(tmp_path), **settings) as ours:
            ours.get("/api/v1/quantile", metric="ttft", q="0.99", **{"from": "now-10m"})
            ours.interrupt()

    found = spans(taken)
    (question,) = [each for each in found if told(each).get("url.path") == "/api/v1/quantile"]
    of_it = {each.name for each in found if each.parent_span_id == question.span_id}
    assert told(question)["http.response.status_code"] == 200
    assert of_it == {"query latency"}
    assert "/v1/metrics" in {path for path, _, _ in taken}
