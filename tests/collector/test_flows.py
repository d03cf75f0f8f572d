"""Requests in and out: never below zero, from one source, and None where nobody could count."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.query import Flow, Selection, Unmeasured, Window
from collector.reader import StoreReader
from domain.metric import METRICS
from domain.request import Stage
from tests.collector.storing import (
    NOW_S,
    gauge_of,
    histogram_of,
    metrics,
    span,
    sum_of,
    traces,
    writing,
)

T = int(NOW_S) // 3600 * 3600 - 3600
WINDOW = Window(since_s=T, until_s=T + 60)
TTFT, OUT = "gen_ai__latency__time_to_first_token", "stagewatch__outcome"
RUNNING = "requests_running"


@pytest.fixture
def stored(tmp_path):
    with writing(tmp_path) as writer:
        reader = StoreReader(tmp_path, now=lambda: NOW_S)
        yield writer, reader
        reader.close()


def counter(name, value, at_s, **labels):
    metric = Metric(name=METRICS[name].full_name)
    own = {f"stagewatch.{label}": text for label, text in labels.items()}
    return sum_of(metric, value, start_s=at_s - 1, end_s=at_s, **own)


def gauge(name, value, at_s, **labels):
    own = {f"stagewatch.{label}": text for label, text in labels.items()}
    return gauge_of(Metric(name=METRICS[name].full_name), value, at_s=at_s, **own)


def latency(name, values_s, at_s, **labels):
    own = {f"stagewatch.{label}": text for label, text in labels.items()}
    metric = Metric(name=METRICS[name].full_name, unit="s")
    return histogram_of(metric, values_s, start_s=at_s - 1, end_s=at_s, **own)


def push(writer, *found, replica="r0"):
    outcome = writer.metrics(metrics(*found, **{"service.instance.id": replica}))
    assert not outcome.rejected, outcome.message


def flow(reader, **selection):
    (found,) = reader.stages(Selection(**{"window": WINDOW} | selection))
    return found.flow


def counted(flow):
    return flow.failed, flow.cancelled, flow.rejected


def test_what_began_before_the_window_is_no_debt(stored):
    writer, reader = stored
    push(writer, gauge(RUNNING, 10, T - 2))
    push(writer, counter("requests_started", 3, T + 5), counter("requests_finished", 9, T + 5))

    found = flow(reader)

    assert (found.started, found.finished, found.in_flight_before) == (3, 9, 10)
    assert (found.unfinished_low, found.unfinished_high) == (0, 4)


def test_after_a_sidecars_first_scrape_the_difference_is_a_lower_bound(stored):
    writer, reader = stored
    push(writer, gauge(RUNNING, 8, T + 30))
    push(writer, counter("requests_started", 0, T + 31), counter("requests_finished", 8, T + 31))

    found = flow(reader)

    assert (found.unfinished_low, found.unfinished_high) == (0, None)


def test_one_replica_that_was_not_seen_at_the_beginning_leaves_the_upper_end_open(stored):
    writer, reader = stored
    for replica in ("a", "b"):
        if replica == "a":
            push(writer, gauge(RUNNING, 2, T - 2), replica=replica)
        push(
            writer,
            counter("requests_started", 5, T + 5),
            counter("requests_finished", 4, T + 5),
            replica=replica,
        )

    both, one = flow(reader), flow(reader, where=(("replica", "a"),))

    assert (both.unfinished_low, both.unfinished_high) == (2, None)
    assert (one.unfinished_low, one.unfinished_high) == (1, 3)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(-30, 55), st.integers(1, 60), st.booleans()), min_size=1, max_size=25
    )
)
def test_the_true_number_lies_between_the_bounds_whatever_happened(tmp_path_factory, requests):
    """The law. Each request: when its first token came, how long it went on, whether it was given up."""
    with writing(tmp_path_factory.mktemp("flow")) as writer:
        for second in range(-40, 60):
            at_s = T + second
            running = [r for r in requests if r[0] <= second < r[0] + r[1]]
            began = sum(first == second for first, _, _ in requests)
            ended = sum(first + lasts == second for first, lasts, up in requests if not up)
            push(
                writer,
                gauge(RUNNING, len(running), at_s),
                counter("requests_started", began, at_s),
                counter("requests_finished", ended, at_s),
            )
        reader = StoreReader(writer._store, now=lambda: NOW_S)
        found = flow(reader)
        reader.close()

    begun = [r for r in requests if r[0] < 60 and (r[0] >= 0 or r[0] + r[1] > 0)]
    ended = [r for r in begun if not r[2] and 0 <= r[0] + r[1] < 60]
    assert found.unfinished_low <= len(begun) - len(ended)
    if found.unfinished_high is not None:
        assert len(begun) - len(ended) <= found.unfinished_high + 1  # one may end on the edge


def test_a_page_cannot_count_what_was_given_up(stored):
    writer, reader = stored
    push(writer, counter("requests_started", 9, T + 5), counter("requests_finished", 7, T + 5))

    assert counted(flow(reader)) == (None, None, None)


def test_spans_of_an_engine_count_failures_and_no_aborts(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.5})))

    assert counted(flow(reader)) == (0, None, None)


def test_spans_that_say_what_was_given_up_are_believed(stored):
    writer, reader = stored
    given_up = span(2, end_s=T + 6, **{TTFT: 0.5, OUT: "cancelled"})
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.5}), given_up))

    assert counted(flow(reader)) == (0, 1, None)


def test_clients_count_all_three_also_where_spans_answer(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.5})))
    heard = span(1, end_s=T + 5, kind=Span.SPAN_KIND_CLIENT, stagewatch__itl_max_s=0.1)
    writer.traces(traces(heard))

    assert counted(flow(reader)) == (0, 0, 0)


def test_nobody_counted_is_not_zero():
    nobody = Flow(started=None, finished=3, failed=None, cancelled=None, rejected=None)

    assert nobody.unfinished_low is None
    assert nobody.unfinished_high is None


def test_starts_and_ends_come_from_one_source(stored):
    """A frontend that counts only ends must not be set against the workers' starts."""
    writer, reader = stored
    front = {"source": "frontend", "replica": "router"}
    push(writer, counter("requests_finished", 30, T + 5, **front))
    push(writer, counter("requests_started", 9, T + 5), counter("requests_finished", 7, T + 5))

    found = flow(reader)

    assert (found.started, found.finished) == (9, 7)


def test_a_frontend_that_counts_both_counts_each_request_once(stored):
    writer, reader = stored
    front = {"source": "frontend", "replica": "router"}
    push(
        writer,
        counter("requests_finished", 14, T + 5, **front),
        counter("requests_started", 18, T + 5, **front),
    )
    for replica in ("a", "b"):
        push(
            writer,
            counter("requests_started", 9, T + 5),
            counter("requests_finished", 7, T + 5),
            replica=replica,
        )

    found = flow(reader)
    by_replica = {
        dict(each.labels).get("replica"): each.flow.started
        for each in reader.stages(Selection(window=WINDOW, by=("replica",)))
    }

    assert (found.started, found.finished) == (18, 14)
    assert by_replica == {"router": 18, "a": 9, "b": 9}


def test_the_frontend_answers_for_what_it_saw_and_its_workers_for_the_rest(stored):
    writer, reader = stored
    front = {"source": "frontend", "replica": "router"}
    push(writer, latency("ttft", [0.5] * 3, T + 5, **front))
    for replica in ("a", "b"):
        push(
            writer,
            latency("ttft", [0.1] * 3, T + 5),
            latency("queue", [0.01] * 3, T + 5),
            replica=replica,
        )

    (whole,) = reader.stages(Selection(window=WINDOW))
    (front_only,) = reader.latency("ttft", Selection(window=WINDOW))
    by_replica = {
        dict(each.labels)["replica"]: each.points[0].distribution.n
        for each in reader.latency("ttft", Selection(window=WINDOW, by=("replica",)))
    }

    assert front_only.sources == {"frontend"}
    assert whole.ttft.n == 3
    assert [each.distribution.n for each in whole.stages if each.stage is Stage.QUEUE] == [6]
    assert by_replica == {"router": 3, "a": 3, "b": 3}


def test_spans_of_the_engines_come_before_any_page(stored):
    writer, reader = stored
    front = {"source": "frontend", "replica": "router"}
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.25})))
    push(writer, latency("ttft", [0.5] * 3, T + 5, **front), latency("ttft", [0.1] * 3, T + 5))

    (found,) = reader.latency("ttft", Selection(window=WINDOW))

    assert found.sources == {"span"}
    assert found.points[0].distribution.n == 1


def test_a_stage_that_is_missing_says_why(stored):
    writer, reader = stored
    push(
        writer,
        latency("ttft", [0.5], T + 5),
        latency("queue", [0.1], T + 5),
        gauge("not_reported", 1, T + 5, reason="prefill"),
        gauge("not_reported", 0, T + 5, reason="decode"),
    )

    (found,) = reader.stages(Selection(window=WINDOW))

    assert found.reasons == {
        Stage.NETWORK: Unmeasured.NO_CLIENT,
        Stage.OVERHEAD: Unmeasured.NO_SPANS,
        Stage.PREFILL: Unmeasured.NOT_REPORTED,
        Stage.DECODE: Unmeasured.NOT_TOLD,
    }
    assert set(found.reasons) == set(found.missing)


def usage(reader, **selection):
    (found,) = reader.numbers("kv_cache_usage", Selection(**{"window": WINDOW} | selection))
    return found


@pytest.mark.parametrize(
    ("shares", "sizes", "together"),
    [((0.4, 0.4), (1000, 1000), 0.4), ((0.2, 0.8), (1000, 3000), 0.65)],
    ids=["equal ones", "one three times as large"],
)
def test_caches_are_averaged_by_what_they_hold(stored, shares, sizes, together):
    """Case EN8: two pods at 40 % are not at 80 %."""
    writer, reader = stored
    for replica, share, size in zip("ab", shares, sizes, strict=True):
        push(
            writer,
            gauge("kv_cache_usage", share, T + 5),
            gauge("kv_cache_capacity", size, T + 5),
            replica=replica,
        )

    found = usage(reader)

    assert found.points[0].value == pytest.approx(together)
    assert found.points[0].last == pytest.approx(together)
    assert (found.points[0].low, found.points[0].high) == (min(shares), max(shares))
    assert found.weighted_by == "kv_cache_capacity"


def test_where_one_does_not_say_how_much_it_holds_it_is_the_plain_mean(stored):
    writer, reader = stored
    push(writer, gauge("kv_cache_usage", 0.2, T + 5), gauge("kv_cache_capacity", 9, T + 5))
    push(writer, gauge("kv_cache_usage", 0.8, T + 5), replica="b")

    assert usage(reader).points[0].value == pytest.approx(0.5)
    assert usage(reader).weighted_by == ""


def test_blocks_are_not_weighed_against_tokens(stored):
    writer, reader = stored
    for replica, engine, size in (("a", "vllm", 100), ("b", "sglang", 9000)):
        push(
            writer,
            gauge("kv_cache_usage", 0.2 if replica == "a" else 0.8, T + 5, engine=engine),
            gauge("kv_cache_capacity", size, T + 5, engine=engine),
            replica=replica,
        )

    assert usage(reader).points[0].value == pytest.approx(0.5)
    assert usage(reader).weighted_by == ""


def test_the_capacity_may_stand_on_the_replica_and_the_usage_on_its_model(stored):
    writer, reader = stored
    for replica, share, size in (("a", 0.2, 1000), ("b", 0.8, 3000)):
        push(
            writer,
            gauge("kv_cache_usage", share, T + 5, model="llama"),
            gauge("kv_cache_capacity", size, T + 5),
            replica=replica,
        )

    assert usage(reader).points[0].value == pytest.approx(0.65)
