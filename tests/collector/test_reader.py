"""What the query door answers about a real vLLM, and that any window is what its values say."""

import json
import math
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from collector.importing import import_files
from collector.query import Reader, Selection, Window
from collector.reader import StoreReader
from collector.schema import HISTOGRAMS
from collector.store import file_of
from domain.errors import InputError, StoreError
from domain.grid import RELATIVE_ERROR
from domain.request import Stage
from tests.collector.storing import (
    NOW_S,
    OVERLOAD,
    gauge_of,
    histogram_of,
    metrics,
    span,
    sum_of,
    traces,
    writing,
)
from tests.paths import RECORDED, ROOT

ALL = Window(since_s=int(NOW_S) - 600, until_s=int(NOW_S) + 60)
TRUTH = json.loads((RECORDED / "vllm" / "truth.json").read_text())
T = int(NOW_S) // 3600 * 3600 - 3600  # a whole hour
TTFT, TOKENS, OUT = (
    "gen_ai__latency__time_to_first_token",
    "gen_ai__usage__completion_tokens",
    "stagewatch__outcome",
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The overload's spans, and what its client saw."""
    path = tmp_path_factory.mktemp("recorded")
    with writing(path) as writer:
        labels = {"service": "vllm-tiny"}
        files = [OVERLOAD / "all-spans.bin", OVERLOAD / "client.jsonl"]
        list(import_files(files, writer, labels=labels))
        writer.settle()
    reader = StoreReader(path)
    yield reader
    reader.close()


@pytest.fixture
def stored(tmp_path):
    """A store of our own making: send, then ask."""
    with writing(tmp_path) as writer:
        reader = StoreReader(tmp_path, now=lambda: NOW_S)
        yield writer, reader
        reader.close()


def whole(reader, metric, **selection):
    (series,) = reader.latency(metric, Selection(**{"window": ALL, **selection}))
    (point,) = series.points
    return point


def test_the_reader_is_what_the_door_promises(recorded):
    door: Reader = recorded

    assert {name for name in vars(Reader) if not name.startswith("_")} <= set(dir(door))


@pytest.mark.parametrize("stage", ["ttft", "queue", "prefill", "decode", "e2e", "tpot"])
@pytest.mark.parametrize(("name", "q"), [("P50", 0.5), ("P95", 0.95), ("P99", 0.99)])
def test_quantiles_of_real_spans_are_right_within_the_stated_error(recorded, stage, name, q):
    truth = TRUTH["overload"]["spans_all_136"][stage]

    point = whole(recorded, stage, where=(("source", "span"),))
    found = point.distribution.quantile(q)

    assert point.distribution.n == truth["n"] == 136
    assert found.value_s == pytest.approx(truth[name], rel=RELATIVE_ERROR)
    assert found.low_s <= truth[name] <= found.high_s


def test_spans_answer_where_clients_saw_the_same_requests(recorded):
    (series,) = recorded.latency("ttft", Selection(window=ALL))

    assert series.sources == {"span"}
    assert series.points[0].distribution.n == 136


def test_the_users_side_answers_when_asked(recorded):
    point = whole(recorded, "ttft", where=(("source", "client"),))

    assert point.distribution.n == TRUTH["overload"]["client"]["ttft_whole"]["n"] == 134


def test_the_stages_of_real_requests_sum_to_their_whole(recorded):
    (found,) = recorded.stages(Selection(window=ALL))
    server = [each for each in found.stages if each.stage is not Stage.NETWORK]

    assert found.missing == ()
    assert sum(each.mean_s for each in server) == pytest.approx(found.e2e.mean_s, rel=1e-12)
    assert sum(each.share for each in server) == pytest.approx(1, rel=1e-12)
    assert max(server, key=lambda each: each.share).stage is Stage.QUEUE


def test_the_network_is_the_difference_of_the_two_sides(recorded):
    truth = TRUTH["overload"]["client_minus_span"]["ttft"]

    (found,) = recorded.stages(Selection(window=ALL))
    network = next(each for each in found.stages if each.stage is Stage.NETWORK)

    assert network.distribution.n == truth["n"] == 134
    assert network.mean_s == pytest.approx(truth["mean"], abs=1e-9)
    assert network.distribution.quantile(0.99).value_s == pytest.approx(truth["P99"], rel=0.00542)


def test_those_who_gave_up_stand_beside_the_survivors(recorded):
    (found,) = recorded.stages(Selection(window=ALL, where=(("source", "client"),)))

    assert (found.flow.cancelled, found.flow.rejected, found.flow.failed) == (10, 6, 0)
    assert found.flow.started is None
    assert found.flow.unfinished_low is None


def test_without_spans_of_clients_the_network_is_missing_and_kv_transfer_is_not_asked_for(stored):
    writer, reader = stored
    writer.traces(traces(span(1, **{TTFT: 0.5})))

    (found,) = reader.stages(Selection(window=ALL))

    assert Stage.NETWORK in found.missing
    assert Stage.KV_TRANSFER not in found.missing
    assert found.e2e.n == 0


def test_a_group_per_label_value(stored):
    writer, reader = stored
    for replica, ttft_s in (("a", 0.1), ("b", 0.2), ("b", 0.3)):
        one = span(int(ttft_s * 10), **{TTFT: ttft_s})
        writer.traces(traces(one, **{"service.instance.id": replica}))

    found = reader.latency("ttft", Selection(window=ALL, by=("replica",)))

    assert [(each.labels, each.points[0].distribution.n) for each in found] == [
        ((("replica", "a"),), 1),
        ((("replica", "b"),), 2),
    ]


def test_steps_without_values_are_absent_and_failures_are_in_the_denominator(stored):
    writer, reader = stored
    good = span(1, end_s=T + 65, **{TTFT: 0.5})
    bad = span(2, end_s=T + 245, **{OUT: "failed"})
    writer.traces(traces(good, bad))

    window = Window(since_s=T, until_s=T + 300)
    (found,) = reader.latency("ttft", Selection(window=window, step_s=60))

    assert [(p.since_s - T, p.distribution.n, p.failed) for p in found.points] == [
        (60, 1, 0),
        (240, 0, 1),
    ]
    assert found.points[-1].failed == 1
    assert [p.since_s for p in found.points[:1]] == [T + 60]


def test_nothing_stored_is_no_series(stored):
    _, reader = stored

    assert reader.latency("ttft", Selection(window=ALL)) == []
    assert reader.stages(Selection(window=ALL)) == []
    assert reader.watermark_s() is None
    assert reader.freshness(ALL) == []
    assert reader.requests(ALL) == []


def test_a_metric_that_is_no_latency_is_refused(stored):
    _, reader = stored

    with pytest.raises(InputError, match="Use one of ttft"):
        reader.latency("up", Selection(window=ALL))
    with pytest.raises(InputError, match="Use one of up"):
        reader.numbers("ttft", Selection(window=ALL))


def test_a_page_is_an_interval_that_contains_the_truth(stored):
    writer, reader = stored
    low = histogram_of(
        Metric(name="stagewatch_ttft_seconds"), [1.0, 1.1], start_s=T, end_s=T + 5, bound="low"
    )
    high = histogram_of(
        Metric(name="stagewatch_ttft_seconds"), [2.0, 2.4], start_s=T, end_s=T + 5, bound="high"
    )
    writer.metrics(metrics(low, high))

    point = whole(reader, "ttft", window=Window(since_s=T, until_s=T + 60))
    found = point.distribution.quantile(1)

    assert point.distribution.n == 2
    assert not point.distribution.exact
    assert found.value_s is None
    assert found.low_s <= 1.1
    assert found.high_s >= 2.4


def test_the_page_is_silent_beside_spans_and_answers_where_they_end(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.5})))
    page = [
        histogram_of(
            Metric(name="stagewatch_ttft_seconds"), [0.4], start_s=T + at_s, end_s=T + at_s + 1
        )
        for at_s in (4, 61, 200)
    ]
    writer.metrics(metrics(*page))
    window = Window(since_s=T, until_s=T + 300)

    point = whole(reader, "ttft", window=window)
    page_only = whole(reader, "ttft", window=window, where=(("source", "page"),))

    assert point.distribution.n == 2
    assert page_only.distribution.n == 3


def test_precedence_sees_spans_just_outside_the_window(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.5})))
    late = histogram_of(Metric(name="stagewatch_ttft_seconds"), [0.4], start_s=T + 15, end_s=T + 16)
    writer.metrics(metrics(late))

    found = reader.latency("ttft", Selection(window=Window(since_s=T + 10, until_s=T + 60)))

    assert found == []


def counter(name, value, at_s, **labels):
    return sum_of(
        Metric(name=f"stagewatch_{name}_total"), value, start_s=at_s, end_s=at_s + 1, **labels
    )


def gauge(name, value, at_s, **labels):
    return gauge_of(Metric(name=f"stagewatch_{name}"), value, at_s=at_s, **labels)


def test_a_counter_answers_with_its_increase(stored):
    writer, reader = stored
    writer.metrics(
        metrics(
            *(counter("requests_started", n, T + at_s) for n, at_s in ((3, 1), (4, 50), (5, 70)))
        )
    )

    window = Window(since_s=T, until_s=T + 120)
    (found,) = reader.numbers("requests_started", Selection(window=window, step_s=60))

    assert [(p.since_s - T, p.value, p.last) for p in found.points] == [(0, 7, 7), (60, 5, 5)]


def test_started_and_finished_come_from_the_page_also_beside_spans(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.5})))
    writer.metrics(metrics(counter("requests_started", 9, T), counter("requests_finished", 7, T)))
    window = Window(since_s=T, until_s=T + 60)

    (found,) = reader.stages(Selection(window=window, where=(("source", "span"),)))

    assert (found.flow.started, found.flow.finished, found.flow.unfinished_low) == (9, 7, 2)


def test_a_level_adds_over_replicas_and_averages_over_time(stored):
    writer, reader = stored
    for replica, values in (("a", (2, 4)), ("b", (10, 10))):
        found = [gauge("requests_waiting", v, T + 2 + 10 * n) for n, v in enumerate(values)]
        writer.metrics(metrics(*found, **{"service.instance.id": replica}))

    (found,) = reader.numbers(
        "requests_waiting", Selection(window=Window(since_s=T, until_s=T + 20))
    )
    (point,) = found.points

    assert (point.value, point.low, point.high, point.last) == (13, 12, 14, 14)


def test_a_replica_that_was_replaced_is_not_counted_beside_its_successor(stored):
    writer, reader = stored
    for replica, at_s in (("old", 2), ("new", 132)):
        found = [gauge("requests_waiting", 5, T + at_s + 10 * n) for n in range(3)]
        writer.metrics(metrics(*found, **{"service.instance.id": replica}))

    (found,) = reader.numbers(
        "requests_waiting", Selection(window=Window(since_s=T, until_s=T + 200))
    )

    assert [(p.value, p.last) for p in found.points] == [(5, 5)]


def test_a_ratio_averages_and_never_adds(stored):
    writer, reader = stored
    for replica, value in (("a", 0.2), ("b", 0.6)):
        writer.metrics(
            metrics(gauge("kv_cache_usage_ratio", value, T + 2), **{"service.instance.id": replica})
        )

    (found,) = reader.numbers("kv_cache_usage", Selection(window=Window(since_s=T, until_s=T + 10)))
    (point,) = found.points

    assert (point.value, point.low, point.high) == (pytest.approx(0.4), 0.2, 0.6)
    assert point.last == pytest.approx(0.4)


def test_freshness_names_every_replica_and_what_it_says_of_itself(stored):
    writer, reader = stored
    now_s = int(NOW_S)
    for replica, value in (("a", 1), ("b", 0)):
        one = gauge("up", value, now_s - 20)
        writer.metrics(metrics(one, **{"service.instance.id": replica}))
    writer.traces(traces(span(1, end_s=now_s - 8, **{TTFT: 0.5}), **{"service.instance.id": "a"}))

    (found,) = reader.freshness(Window(since_s=now_s - 900, until_s=now_s))

    assert found.service == "chat"
    assert found.newest_at_s == (now_s - 8) // 10 * 10
    assert [(dict(r.labels)["replica"], r.up, r.last_seen_at_s) for r in found.replicas] == [
        ("a", True, (now_s - 8) // 10 * 10),
        ("b", False, now_s - 20),
    ]


def test_a_service_that_went_silent_is_still_named(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=NOW_S - 7200, **{TTFT: 0.5})))

    (found,) = reader.freshness(Window(since_s=int(NOW_S) - 900, until_s=int(NOW_S)))

    assert (found.newest_at_s, list(found.replicas)) == (None, [])


def test_the_watermark_waits_for_the_slowest_page_that_still_answers(stored):
    writer, reader = stored
    now_s = int(NOW_S)
    for replica, ago_s in (("fast", 2), ("slow", 14), ("dead", 300)):
        one = gauge("up", 1, now_s - ago_s)
        writer.metrics(metrics(one, **{"service.instance.id": replica}))

    assert reader.watermark_s() == now_s - 14


def test_a_clock_ahead_of_ours_does_not_move_the_watermark_beyond_now(stored):
    writer, reader = stored
    writer.metrics(metrics(gauge("up", 1, NOW_S + 200)))

    assert reader.watermark_s() <= NOW_S


def test_labels_are_those_of_the_window(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=NOW_S - 30, **{TTFT: 0.5}), model_name="new"))
    writer.traces(traces(span(2, end_s=NOW_S - 7200, **{TTFT: 0.5}), model_name="old"))

    assert reader.label_values("model", ALL) == ["new"]
    assert reader.label_values("model", Window(since_s=0, until_s=int(NOW_S))) == ["new", "old"]
    assert reader.label_values("tenant", ALL) == []


def test_health_tells_what_the_collector_counted(tmp_path):
    with writing(tmp_path) as writer:
        writer.traces(traces(span(1, **{TTFT: 0.5})))
    reader = StoreReader(tmp_path)

    found = reader.health()

    reader.close()
    assert found["stored_spans_total"] == 1
    assert found["series"] == 1
    assert found["store_bytes"] > 0


def test_a_store_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(StoreError, match="there is no store here"):
        StoreReader(tmp_path)


def test_a_file_that_is_no_store_is_said_so(tmp_path):
    (tmp_path / "telemetry.db").write_bytes(b"not a database at all" * 100)
    reader = StoreReader(tmp_path)

    with pytest.raises(StoreError, match="cannot be read"):
        reader.latency("ttft", Selection(window=ALL))


def test_a_reader_never_writes(stored):
    _, reader = stored

    with reader._snapshots.open() as snapshot, pytest.raises(sqlite3.OperationalError):
        snapshot.rows("DELETE FROM series")


def test_one_answer_sees_one_instant(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.5})))

    with reader._snapshots.open() as before:
        writer.traces(traces(span(2, end_s=T + 5, **{TTFT: 0.5})))
        seen = before.rows("SELECT sum(n) FROM histogram_10 WHERE metric = 1")

    assert seen == [(1,)]
    assert whole(reader, "ttft", window=Window(since_s=T, until_s=T + 60)).distribution.n == 2


def test_many_threads_may_ask_at_once(recorded):
    answers = []

    def ask():
        answers.append(whole(recorded, "ttft").distribution.n)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [136] * 16


def test_another_process_reads_while_one_writes(stored, tmp_path):
    writer, _ = stored
    writer.traces(traces(span(1, **{TTFT: 0.5})))
    program = (
        "from pathlib import Path; from collector.reader import StoreReader;"
        "from collector.query import Selection, Window;"
        f"reader = StoreReader(Path({str(tmp_path)!r}));"
        f"window = Window(since_s={ALL.since_s}, until_s={ALL.until_s});"
        "print(reader.latency('ttft', Selection(window=window))[0].points[0].distribution.n)"
    )

    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert told.stdout.strip() == "1"


def test_a_dirty_tile_is_not_believed(stored, tmp_path):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.5})))
    writer.settle()
    with closing(sqlite3.connect(file_of(tmp_path))) as connection, connection:
        for tier in (60, 3600, 86_400):
            table = HISTOGRAMS[tier].name
            connection.execute(f"UPDATE {table} SET n = 99 WHERE metric = 1")  # noqa: S608 - ours
        connection.executemany(
            "INSERT INTO dirty VALUES (?, 1, ?)",
            [(tier, T // tier * tier) for tier in (60, 3600, 86_400)],
        )

    point = whole(reader, "ttft", window=Window(since_s=T, until_s=T + 3600))

    assert point.distribution.n == 1


SPREAD_S = st.lists(
    st.tuples(st.integers(0, 3 * 3600 - 1), st.floats(0.001, 100)), min_size=1, max_size=60
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    SPREAD_S,
    st.lists(st.tuples(st.integers(0, 10_800), st.integers(1, 10_800)), min_size=1, max_size=5),
    st.sampled_from([None, 30, 60, 600, 3600]),
)
def test_any_window_is_what_its_values_say(tmp_path_factory, values, windows, step_s):
    path = tmp_path_factory.mktemp("any")
    with writing(path) as writer:
        spans = [
            span(n, end_s=T - 7200 + at_s, lasts_s=0.001, **{TTFT: value_s})
            for n, (at_s, value_s) in enumerate(values, 1)
        ]
        half = len(spans) // 2
        writer.traces(traces(*spans[half:]))
        writer.settle()
        writer.traces(traces(*spans[:half]))
        reader = StoreReader(path)
        at = np.array([T - 7200 + at_s for at_s, _ in values])
        value = np.array([value_s for _, value_s in values])
        for start, length in windows:
            window = Window(since_s=T - 7200 + start, until_s=T - 7200 + start + length)
            found = reader.latency("ttft", Selection(window=window, step_s=step_s))
            points = [point for series in found for point in series.points]
            inside = (at >= window.since_s // 10 * 10) & (at < -(-window.until_s // 10) * 10)

            assert sum(point.distribution.n for point in points) == inside.sum()
            for point in points:
                here = np.sort(value[(at >= point.since_s) & (at < point.until_s)])
                assert point.distribution.n == len(here)
                for q in (0.5, 0.99):
                    truth = here[math.ceil(q * len(here)) - 1]
                    assert point.distribution.quantile(q).value_s == pytest.approx(
                        truth, rel=RELATIVE_ERROR
                    )
        reader.close()


def test_the_beginning_of_a_replicas_data_is_known_also_within_a_coarse_tile(stored):
    """A rate over six hours must not be divided by hours in which nobody watched."""
    writer, reader = stored
    since_s = T - 4 * 3600
    for replica, first_s in (("early", since_s - 600), ("late", since_s + 1500)):
        for at_s in range(first_s, T, 300):
            writer.metrics(
                metrics(gauge("up", 1, at_s), **{"service.instance.id": replica}),
            )
    writer.settle()

    (found,) = reader.freshness(Window(since_s=since_s, until_s=T))
    begins = {dict(each.labels)["replica"]: each.since_s - since_s for each in found.replicas}

    assert begins == {"early": 0, "late": 1500}
    assert found.since_s == since_s
    assert {each.sources for each in found.replicas} == {frozenset({"page"})}
