"""What the writer stores of the recorded runs, and that one bad export harms no other."""

import json
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.importing import import_files
from collector.intake import Overloaded
from collector.legs import KINDS
from collector.observing import joined_only, observe
from collector.schema import TIERS_S
from collector.writer import _Task
from domain.distribution import exact
from domain.metric import METRICS
from domain.request import Outcome, join, observations
from tests.collector.storing import (
    NOW_S,
    OVERLOAD,
    distribution,
    legs_in,
    number,
    overload,
    rows,
    span,
    traces,
    writing,
)
from tests.collector.test_segment import table_of
from tests.paths import RECORDED
from tests.strategies import families, legs

CLIENT = Span.SPAN_KIND_CLIENT
TRUTH = {  # tests/recorded/vllm/README.md: P50, P95, P99 of all 136 spans
    "ttft": (10.629435, 14.936470, 15.197201),
    "queue": (10.573695, 14.791591, 15.117908),
    "prefill": (0.057660, 0.104780, 0.109597),
    "decode": (1.062273, 1.991986, 2.293647),
    "e2e": (11.915649, 16.330797, 16.710286),
    "tpot": (0.007798, 0.011134, 0.014718),
    "overhead": (0.012030, 0.071201, 0.088766),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("overload")
    with writing(path) as writer:
        for export in overload():
            assert writer.traces(export).rejected == 0
        writer.settle()
    return path


@pytest.mark.parametrize("tier", TIERS_S)
@pytest.mark.parametrize("metric", TRUTH)
def test_every_tier_answers_within_the_bound_of_the_recorded_run(stored, metric, tier):
    found = distribution(stored, metric, tier)

    assert (found.n, found.exact) == (136, True)
    for q, true_s in zip((0.5, 0.95, 0.99), TRUTH[metric], strict=True):
        assert found.quantile(q).value_s == pytest.approx(true_s, rel=0.00542 + 1e-4)


def test_the_mean_is_that_of_the_spans(stored):
    truth = json.loads((RECORDED / "vllm" / "truth.json").read_text())

    assert distribution(stored, "ttft", 86_400).mean_s == pytest.approx(9.182770, abs=1e-6)
    assert truth  # the unrounded figures lie beside


def test_the_stages_of_every_stored_request_sum_to_its_e2e(stored):
    requests = [join([leg]) for leg in legs_in(stored)]

    assert len(requests) == 136
    for request in requests:
        stages = [s for s in request.stage_s.values() if s is not None]
        assert sum(stages) == pytest.approx(request.e2e_s, abs=1e-9)


def test_after_settling_no_tile_is_out_of_date(stored):
    assert rows(stored, "SELECT * FROM dirty") == []


@pytest.mark.parametrize("client_first", [True, False])
def test_clients_and_spans_of_the_same_requests_give_a_network_stage(tmp_path, client_first):
    files = [OVERLOAD / "client.jsonl", OVERLOAD / "all-spans.bin"]
    with writing(tmp_path) as writer:
        list(import_files(files if client_first else files[::-1], writer))
        writer.settle()

    network = distribution(tmp_path, "network", 86_400)
    assert network.n == 134
    assert network.mean_s == pytest.approx(0.008589, abs=5e-6)
    assert network.quantile(0.5).value_s == pytest.approx(0.005981, rel=0.0055)
    assert network.quantile(0.99).value_s == pytest.approx(0.038470, rel=0.0055)
    assert network.quantile(1).value_s == pytest.approx(0.102, rel=0.01)


def test_forty_disaggregated_requests_are_forty_not_eighty(tmp_path):
    body = (RECORDED / "vllm-disagg" / "all-spans.bin").read_bytes()
    request = ExportTraceServiceRequest.FromString(body)
    with writing(
        tmp_path,
        now=lambda: NOW_S + 900,
        roles={"vllm-prefill": "prefill", "vllm-decode": "decode"},
        services={"vllm-prefill": "chat", "vllm-decode": "chat"},
    ) as writer:
        writer.traces(request)
        writer.settle()

    ttft = distribution(tmp_path, "ttft", 86_400, service="chat")
    assert ttft.n == 40
    assert distribution(tmp_path, "e2e").n == 40
    assert distribution(tmp_path, "kv_transfer").n == 40
    assert distribution(tmp_path, "queue").n == 80  # both engines have one
    assert distribution(tmp_path, "decode", role="prefill").n == 0
    # client TTFT 0.216434 on average, of which a part of the proxy's 0.028 s is the client's own
    assert 0.1884 < ttft.mean_s < 0.2165


def test_a_failed_request_is_in_the_denominator_and_gives_no_value(tmp_path):
    with writing(tmp_path) as writer:
        writer.traces(
            traces(
                span(1, kind=CLIENT, gen_ai__latency__e2e=1.0),
                span(2, kind=CLIENT, gen_ai__latency__e2e=1.0, error__type="502"),
                span(3, kind=CLIENT, gen_ai__latency__e2e=1.0, stagewatch__outcome="cancelled"),
                span(4, kind=CLIENT, gen_ai__latency__e2e=1.0, stagewatch__outcome="rejected"),
            )
        )

    failed = rows(
        tmp_path, "SELECT metric, sum(n), sum(failed) FROM histogram_10 GROUP BY 1 ORDER BY 1"
    )
    assert failed == [(1, 0, 1), (2, 0, 1), (4, 0, 1), (5, 1, 1)]
    for counter in ("requests_failed", "requests_cancelled", "requests_rejected"):
        assert number(tmp_path, counter) == (1, 1.0)
    assert sorted(leg.outcome for leg in legs_in(tmp_path)) == sorted(Outcome)
    assert all(leg.e2e_s == 1.0 for leg in legs_in(tmp_path))


def test_legs_of_one_trace_join_over_exports_within_the_window_only(tmp_path):
    def pair(number, apart_s):
        client = span(number, kind=CLIENT, gen_ai__response__time_to_first_chunk=0.5)
        server = span(number, end_s=NOW_S - 30 - apart_s, gen_ai__latency__time_to_first_token=0.4)
        return client, server

    with writing(tmp_path, join_window_s=120) as writer:
        for number, apart_s in ((1, 1), (2, 119), (3, 121)):
            for each in pair(number, apart_s):
                writer.traces(traces(each))

    assert distribution(tmp_path, "network").n == 2


def test_legs_join_across_a_restart(tmp_path):
    client = span(1, kind=CLIENT, gen_ai__response__time_to_first_chunk=0.5)
    server = span(1, gen_ai__latency__time_to_first_token=0.4)
    with writing(tmp_path) as writer:
        writer.traces(traces(server))
    with writing(tmp_path) as writer:
        writer.traces(traces(client))

    assert distribution(tmp_path, "network").sum_s == pytest.approx(0.1)


def test_several_server_spans_in_one_trace_are_all_counted(tmp_path):
    calls = [span(n, gen_ai__latency__e2e=1.0) for n in range(1, 6)]
    for call in calls:  # an agent's five calls share a trace
        call.trace_id = b"agent-trace-0001"
    with writing(tmp_path) as writer:
        for call in calls:
            writer.traces(traces(call))

    assert distribution(tmp_path, "e2e").n == 5


def test_many_senders_at_once_lose_nothing(tmp_path):
    with writing(tmp_path) as writer:

        def send(sender):
            for n in range(20):
                writer.traces(traces(span(1000 * sender + n + 1, gen_ai__latency__e2e=1.0)))

        senders = [threading.Thread(target=send, args=(k,)) for k in range(8)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()

    assert distribution(tmp_path, "e2e").n == 160


def test_a_full_queue_says_so_and_keeps_nothing(tmp_path):
    with writing(tmp_path, queue_bytes=100) as writer:
        waiting = _task(traces(span(1, gen_ai__latency__e2e=1.0)))
        with writer._changed:  # the writer's thread cannot take anything now
            writer._put(waiting)
            with pytest.raises(Overloaded, match="try again"):
                writer.traces(traces(span(2, gen_ai__latency__e2e=1.0)))
        assert waiting.done.result(timeout=10).rejected == 0
        assert writer.counts()["overloaded_total"] == 1

    assert distribution(tmp_path, "e2e").n == 1


def test_an_export_larger_than_the_queue_is_taken_when_nothing_waits(tmp_path):
    with writing(tmp_path, queue_bytes=1) as writer:
        assert writer.traces(traces(span())).rejected == 0


def test_a_closed_writer_takes_nothing(tmp_path):
    with writing(tmp_path) as writer:
        pass

    with pytest.raises(Overloaded):
        writer.traces(traces(span()))
    assert writer.problem() == "the writer is not running"


def test_an_export_that_breaks_the_writer_breaks_no_other(tmp_path, monkeypatch):
    with writing(tmp_path) as writer:
        read = writer._ingest._spans.read

        def breaking(body, times):
            if b"poison" in body:
                raise ZeroDivisionError
            return read(body, times)

        monkeypatch.setattr(writer._ingest._spans, "read", breaking)
        bad = traces(span(1, stagewatch__tenant="poison"))
        group = [_task(bad), _task(traces(span(2, gen_ai__latency__e2e=1.0)))]
        with writer._changed:
            writer._queue.extend(group)
            writer._changed.notify_all()
        with pytest.raises(ZeroDivisionError):
            group[0].done.result(timeout=10)
        assert group[1].done.result(timeout=10).rejected == 0

    assert distribution(tmp_path, "e2e").n == 1


def _task(request):
    body = request.SerializeToString()
    return _Task(body, len(body))


def test_what_is_refused_is_told_in_words(tmp_path):
    with writing(tmp_path) as writer:
        outcome = writer.traces(traces(span(1, end_s=NOW_S + 4000), span(2)))

    assert outcome.rejected == 1
    assert outcome.message == "1 span refused: it ends in the future"


def test_late_spans_are_taken_and_counted(tmp_path):
    with writing(tmp_path, lateness_s=600) as writer:
        writer.traces(traces(span(1, end_s=NOW_S - 599), span(2, end_s=NOW_S - 1200)))
        assert writer.counts()["late_spans_total"] == 1
        assert writer.counts()["stored_spans_total"] == 2


def test_counts_outlive_a_restart(tmp_path):
    for n in (1, 2):
        with writing(tmp_path) as writer:
            writer.traces(traces(span(n), span(9)))

    assert rows(tmp_path, "SELECT value FROM counts WHERE name = 'stored_spans_total'") == [(3,)]
    assert rows(tmp_path, "SELECT value FROM counts WHERE name = 'duplicate_spans_total'") == [(1,)]


def test_a_hundred_thousand_label_values_are_bounded_and_every_request_counts(tmp_path):
    with writing(tmp_path, max_label_values=500, max_series=400) as writer:
        for at in range(0, 100_000, 5000):
            spans = []
            for n in range(at, at + 5000):
                made = span(n + 1, gen_ai__latency__e2e=1.0)
                made.attributes.add(key="stagewatch.tenant").value.string_value = f"tenant-{n}"
                spans.append(made)
            assert writer.traces(traces(*spans)).rejected == 0
        assert writer.counts()["bounded_labels_total"] > 0
        held = len(writer._ingest._ids._asked)

    assert held <= 1000
    assert rows(tmp_path, "SELECT count(*) FROM series")[0][0] <= 402
    assert rows(tmp_path, "SELECT sum(n) FROM histogram_10 WHERE metric = 5") == [(100_000,)]


class _Values:
    """Takes what legs add, value by value."""

    def __init__(self):
        self.found = []

    def add_values(self, metric, at_ns, series_id, values_s):
        for at, series, value in zip(at_ns, series_id, values_s, strict=True):
            self.found.append((metric, int(at), int(series), float(value)))

    def add_failed(self, *_):
        pass

    def add_number(self, *_):
        pass


@given(st.one_of(st.lists(legs, min_size=1, max_size=6), families()))
def test_columns_give_the_very_values_that_legs_give_one_by_one(made):
    sink = _Values()
    observe(table_of(made), {}, sink)

    expected = [
        (METRICS[told.metric].number, told.at_ns, 7, told.value_s)
        for leg in made
        if leg.outcome is Outcome.OK
        for told in observations([leg])
    ]
    assert sorted(sink.found) == sorted(expected)


@given(st.one_of(st.lists(legs, max_size=4, unique_by=lambda leg: leg.span_id), families()))
def test_alone_and_joined_is_all_that_legs_tell(made):
    fine = [leg for leg in made if leg.outcome is Outcome.OK]
    alone = [told for leg in fine for told in observations([leg])]

    together = list(joined_only(fine).elements())

    assert sorted(map(repr, alone + together)) == sorted(map(repr, observations(fine)))


def test_spans_from_all_over_the_ages_cost_no_query_each(tmp_path):
    spans = [span(n + 1, end_s=NOW_S - 60 - 86_400 * (n % 900), gen_ai__latency__e2e=1.0)
             for n in range(1800)]  # fmt: skip
    with writing(tmp_path) as writer:
        for _ in range(2):
            assert writer.traces(traces(*spans)).rejected == 0
        assert writer.counts()["duplicate_spans_total"] == 1800

    assert len(legs_in(tmp_path)) == 1800


def test_a_writer_that_could_not_write_is_ready_again_once_it_can(tmp_path):
    with writing(tmp_path) as writer:
        writer._problem = "the disk was full"
        writer._upkeep_at_s = 0.0
        writer.retain()  # any work wakes the writer

        assert writer.problem() is None


def test_one_tile_grows_no_further_than_its_cells(tmp_path):
    values = np.random.default_rng(1).lognormal(0, 2, 6000)
    with writing(tmp_path) as writer:
        for at in range(0, len(values), 50):
            spans = [
                span(at + k + 1, gen_ai__latency__e2e=float(value))
                for k, value in enumerate(values[at : at + 50])
            ]
            writer.traces(traces(*spans))

    (length,) = rows(tmp_path, "SELECT max(length(exact)) FROM histogram_10")[0]
    assert length < 60_000
    found = distribution(tmp_path, "e2e")
    assert (found.low == exact(values).low).all()


def test_kinds_are_kept_as_places_in_a_fixed_order():
    assert [kind.value for kind in KINDS] == [
        "client",
        "server",
        "prefill",
        "decode",
        "frontend",
        "link",
        "queue_slice",
        "prefill_slice",
        "transfer_slice",
    ]
