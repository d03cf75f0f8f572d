"""The whole way: real spans into the real store, its query door, the tick, and a page that is right."""

import os
import time

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from alerts.evaluator import Evaluator
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from collector.reader import StoreReader
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.writer import Writer
from tests.alerts.fleet import chat

LATENCIES = {
    "gen_ai.latency.time_to_first_token": lambda ttft_s: ttft_s,
    "gen_ai.latency.e2e": lambda _: 3.0,
    "gen_ai.latency.time_in_queue": lambda ttft_s: ttft_s - 0.1,
    "gen_ai.latency.time_in_model_prefill": lambda _: 0.05,
    "gen_ai.latency.time_in_model_decode": lambda ttft_s: 3.0 - ttft_s,
}


def export(at_s, ttft_s, count):
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    attribute = resource.resource.attributes.add(key="service.name")
    attribute.value.string_value = "chat"
    spans = resource.scope_spans.add().spans
    for _ in range(count):
        span = spans.add(
            name="llm_request",
            kind=Span.SPAN_KIND_SERVER,
            trace_id=os.urandom(16),
            span_id=os.urandom(8),
            start_time_unix_nano=(at_s - 3) * 10**9,
            end_time_unix_nano=at_s * 10**9,
        )
        for name, of in LATENCIES.items():
            span.attributes.add(key=name).value.double_value = of(ttft_s)
    return request


def test_a_slow_queue_pages_with_exact_counts_and_the_guilty_stage(tmp_path):
    end_s = int(time.time()) // 60 * 60
    store = open_store(tmp_path / "data")
    with Writer(store, CollectorSettings()) as writer:
        for ago in range(80, 0, -1):
            writer.traces(export(end_s - 60 * ago + 30, 2.5 if ago <= 12 else 0.3, 50))
    reader = StoreReader(tmp_path / "data")
    state = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    evaluator = Evaluator(reader, chat("- p99 ttft <= 1.5s over 30d where service=chat"), state)
    evaluator.tick(end_s - 20 * 60 + 11)
    evaluator.tick(end_s + 11)

    standing = SqlLedger(state).standing("chat-ttft")
    page = next(each for each in SqlLedger(state).alerts() if each.severity == "page")
    reader.close()
    store.close()
    state.dispose()

    assert standing.state == "page"
    assert (standing.last_hour.bad_low, standing.last_hour.total) == (600, 3000)
    assert (standing.budget.spent_high, standing.budget.total) == (600, 4000)
    assert "600 of 3000 requests in the last 1 h waited more than 1.5 s" in page.message
    assert "Queue carries 100 % of what grew: now 2.4 s, 200 ms before" in page.message
    assert "Not measured: network" in page.message
