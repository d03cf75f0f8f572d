"""Minutes of an objective: exact where requests are kept, a range where only buckets are."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.importing import import_files
from collector.query import Window
from collector.reader import StoreReader
from collector.store import file_of
from domain.indicator import LatencyIndicator
from domain.labels import labels_of
from domain.slice import SliceState, tally
from tests.collector.storing import (
    NOW_S,
    OVERLOAD,
    gauge_of,
    histogram_of,
    legs_in,
    metrics,
    span,
    sum_of,
    traces,
    writing,
)
from tests.paths import RECORDED

T = int(NOW_S) // 3600 * 3600 - 3600
TTFT, E2E, TOKENS, OUT = (
    "gen_ai__latency__time_to_first_token",
    "gen_ai__latency__e2e",
    "gen_ai__usage__completion_tokens",
    "stagewatch__outcome",
)
RECORDING = Window(since_s=int(NOW_S) // 60 * 60 - 600, until_s=int(NOW_S) // 60 * 60)
THRESHOLDS = ("0.05", "0.1", "0.5", "1", "1.5", "2.5", "10.629435", "11", "15", "100")


def promise(threshold, metric="ttft", **where):
    return LatencyIndicator(metric=metric, threshold_s=Fraction(threshold), where=labels_of(where))


@pytest.fixture
def stored(tmp_path):
    with writing(tmp_path) as writer:
        reader = StoreReader(tmp_path, now=lambda: NOW_S)
        yield writer, reader
        reader.close()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("slices")
    with writing(path) as writer:
        labels = {"service": "vllm-tiny"}
        files = [OVERLOAD / "all-spans.bin", OVERLOAD / "client.jsonl"]
        list(import_files(files, writer, labels=labels))
        writer.settle()
    reader = StoreReader(path)
    yield path, reader
    reader.close()


def minute(reader, indicator, at_s=T):
    (found,) = reader.slices(indicator, Window(since_s=at_s, until_s=at_s + 60))
    return found


def page(values_low_s, values_high_s, at_s, **labels):
    """What an engine's buckets say of one scrape interval."""
    return [
        histogram_of(
            Metric(name="stagewatch_ttft_seconds"),
            values_s,
            start_s=at_s,
            end_s=at_s + 1,
            bound=bound,
            **labels,
        )
        for bound, values_s in (("low", values_low_s), ("high", values_high_s))
    ]


def up(value, at_s, **labels):
    return gauge_of(Metric(name="stagewatch_up"), value, at_s=at_s, **labels)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("metric", ["ttft", "e2e", "queue", "tpot", "overhead"])
def test_real_requests_are_counted_exactly_at_any_threshold(recorded, metric, threshold):
    path, reader = recorded
    legs = [leg for leg in legs_in(path) if dict(leg.labels)["source"] == "span"]
    values = [(leg.end_at_ns // 60_000_000_000 * 60, getattr(leg, f"{metric}_s")) for leg in legs]
    limit_s = float(threshold)

    good = Counter(at_s for at_s, value_s in values if value_s is not None and value_s <= limit_s)
    total = Counter(at_s for at_s, value_s in values if value_s is not None)

    for each in reader.slices(promise(threshold, metric), RECORDING):
        assert each.good_low == each.good_high == good[each.minute_at_s]
        assert each.total == total[each.minute_at_s]


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_users_side_is_counted_exactly_as_its_file_says(recorded, threshold):
    _, reader = recorded
    rows = [json.loads(line) for line in (OVERLOAD / "client.jsonl").read_text().splitlines()]
    whole = [row for row in rows if row["status"] == 200 and not row.get("aborted")]
    slices = reader.slices(promise(threshold, source="client"), RECORDING)

    counted = tally(slices)

    assert counted.total == len(whole) == 134
    assert counted.good_low == counted.good_high
    assert counted.good_low == sum(row["ttft"] <= float(threshold) for row in whole)
    assert sum(each.excluded for each in slices) == 16


@pytest.mark.parametrize("threshold", ["0.002", "0.005981", "0.01", "0.03"])
def test_the_network_of_joined_legs_is_counted_exactly(recorded, threshold):
    path, reader = recorded
    limit_s = float(threshold)
    clients = {
        leg.trace_id: leg
        for leg in legs_in(path)
        if dict(leg.labels)["source"] == "client" and leg.outcome == "ok"
    }
    servers = {leg.trace_id: leg for leg in legs_in(path) if dict(leg.labels)["source"] == "span"}
    values = [clients[trace].ttft_s - servers[trace].ttft_s for trace in clients.keys() & servers]

    counted = tally(reader.slices(promise(threshold, "network"), RECORDING))

    assert counted.total == len(values) == 134
    assert counted.good_low == counted.good_high == sum(v <= limit_s for v in values)


def test_disaggregated_requests_are_counted_once_and_exactly(tmp_path):
    roles = {"vllm-prefill": "prefill", "vllm-decode": "decode"}
    services = dict.fromkeys(roles, "chat")
    with writing(tmp_path, roles=roles, services=services, now=lambda: NOW_S + 7200) as writer:
        spans = RECORDED / "vllm-disagg" / "all-spans.bin"
        list(import_files([spans], writer))
        writer.settle()
    halves = {}
    for leg in legs_in(tmp_path):
        halves.setdefault(leg.trace_id, {})[leg.kind] = leg
    ttfts = [
        (pair["decode"].start_at_ns - pair["prefill"].start_at_ns) / 1e9 + pair["decode"].ttft_s
        for pair in halves.values()
    ]
    ends = [leg.end_at_ns // 10**9 for leg in legs_in(tmp_path)]
    window = Window(since_s=min(ends) // 60 * 60, until_s=max(ends) // 60 * 60 + 60)
    reader = StoreReader(tmp_path)

    for threshold in ("0.1", "0.15", "0.2", "0.3", "0.5"):
        counted = tally(reader.slices(promise(threshold), window))
        assert counted.total == len(ttfts) == 40
        assert counted.good_low == counted.good_high
        assert counted.good_low == sum(ttft_s <= float(threshold) for ttft_s in ttfts)
    reader.close()


def test_a_request_exactly_at_the_threshold_is_good(stored):
    writer, reader = stored
    spans = [span(n, end_s=T + 5, **{TTFT: v}) for n, v in enumerate((0.1, 1.5, 1.5000001), 1)]
    writer.traces(traces(*spans))

    assert minute(reader, promise("1.5")).good_low == 2
    assert minute(reader, promise("0.1")).good_low == 1
    assert minute(reader, promise(Fraction(1, 10))).good_high == 1


def test_values_in_the_cell_of_the_threshold_are_told_apart(stored):
    writer, reader = stored
    values = [1.499, 1.4995, 1.5005, 1.501]
    writer.traces(traces(*(span(n, end_s=T + 5, **{TTFT: v}) for n, v in enumerate(values, 1))))

    found = minute(reader, promise("1.5"))

    assert (found.good_low, found.good_high, found.total) == (2, 2, 4)


def test_without_the_requests_the_cell_is_a_range(stored, tmp_path):
    writer, reader = stored
    values = [0.3, 1.499, 1.501, 9.0]
    writer.traces(traces(*(span(n, end_s=T + 5, **{TTFT: v}) for n, v in enumerate(values, 1))))
    with closing(sqlite3.connect(file_of(tmp_path))) as connection, connection:
        connection.execute("DELETE FROM segment")

    found = minute(reader, promise("1.5"))

    assert (found.good_low, found.good_high, found.total) == (1, 3, 4)


def test_another_leg_of_a_request_is_seen_although_the_minute_was_asked_before(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 1.499})))
    before = minute(reader, promise("1.5"))
    writer.traces(traces(span(2, end_s=T + 6, **{TTFT: 1.501})))

    after = minute(reader, promise("1.5"))

    assert (before.good_low, before.total) == (1, 1)
    assert (after.good_low, after.good_high, after.total) == (1, 1, 2)


def test_failed_requests_are_bad_and_in_the_total(stored):
    """W25: 50 of 1000 never got a first token."""
    writer, reader = stored
    good = [span(n, end_s=T + n % 60, **{TTFT: 0.1}) for n in range(1, 951)]
    lost = [span(n, end_s=T + n % 60, **{OUT: "failed"}) for n in range(951, 1001)]
    writer.traces(traces(*good, *lost))

    found = minute(reader, promise("1.5"))

    assert (found.good_low, found.good_high, found.total) == (950, 950, 1000)
    assert found.state is SliceState.BAD


def test_cancelled_and_rejected_requests_are_excluded_and_counted(stored):
    """SL14 with the policy that a client's cancel is no fault of ours."""
    writer, reader = stored
    good = [span(n, end_s=T + 5, kind=Span.SPAN_KIND_CLIENT, **{TTFT: 0.1}) for n in (1, 2, 3)]
    gone = [
        span(n, end_s=T + 5, kind=Span.SPAN_KIND_CLIENT, **{TTFT: 9.0, OUT: how})
        for n, how in ((4, "cancelled"), (5, "rejected"))
    ]
    writer.traces(traces(*good, *gone))

    found = minute(reader, promise("1.5"))

    assert (found.good_low, found.total, found.excluded) == (3, 3, 2)
    assert found.state is SliceState.GOOD


def test_no_error_yet_is_zero_bad(stored):
    """W20, SL4: 100 a minute, then the first 50 errors."""
    writer, reader = stored
    before = [span(n, end_s=T + 5, **{TTFT: 0.1}) for n in range(1, 101)]
    after = [
        span(n, end_s=T + 65, **({TTFT: 0.1} if n % 2 else {OUT: "failed"}))
        for n in range(101, 201)
    ]
    writer.traces(traces(*before, *after))

    slices = reader.slices(promise("1.5"), Window(since_s=T, until_s=T + 120))

    assert [each.total - each.good_low for each in slices] == [0, 50]


def test_a_busy_hour_weighs_by_its_requests(stored):
    """W12, a hundredth of it: 10 busy minutes with 5 % bad and 50 quiet ones."""
    writer, reader = stored
    spans, number = [], 0
    for at in range(60):
        busy = at < 10
        for nth in range(60 if busy else 1):
            number += 1
            slow = busy and nth % 20 == 0
            spans.append(span(number, end_s=T + at * 60 + 30, **{TTFT: 9.0 if slow else 0.1}))
    writer.traces(traces(*spans))

    counted = tally(reader.slices(promise("1.5"), Window(since_s=T, until_s=T + 3600)))

    assert (counted.bad_high, counted.total, counted.observed_minutes) == (30, 650, 60)


def test_five_minutes_without_traffic_poison_nothing(stored):
    """W13, SL2: watched, and nobody came."""
    writer, reader = stored
    writer.metrics(metrics(*(up(1, T + 30 + 60 * at) for at in range(10))))
    spans = [span(at + 1, end_s=T + 60 * at + 5, **{TTFT: 0.1}) for at in range(10) if at < 5]
    writer.traces(traces(*spans))

    slices = reader.slices(promise("1.5"), Window(since_s=T, until_s=T + 600))

    assert [each.state for each in slices] == [SliceState.GOOD] * 5 + [SliceState.NO_TRAFFIC] * 5
    assert tally(slices).bad_high == 0


def test_nobody_looking_is_not_the_same_as_nobody_coming(stored):
    """W14: the exporter goes with the service."""
    writer, reader = stored
    writer.metrics(metrics(up(1, T + 30), up(0, T + 90)))

    slices = reader.slices(promise("1.5", service="chat"), Window(since_s=T, until_s=T + 180))

    assert [each.state for each in slices] == [
        SliceState.NO_TRAFFIC,
        SliceState.NOT_OBSERVED,
        SliceState.NOT_OBSERVED,
    ]


def test_a_minute_observed_in_part_is_observed(stored):
    writer, reader = stored
    writer.metrics(metrics(up(0, T + 5), up(1, T + 6), up(0, T + 50)))

    assert minute(reader, promise("1.5")).state is SliceState.NO_TRAFFIC


def test_a_service_that_nobody_knows_is_not_observed(stored):
    writer, reader = stored
    writer.metrics(metrics(up(1, T + 5)))

    assert minute(reader, promise("1.5", service="other")).state is SliceState.NOT_OBSERVED


def test_traffic_of_another_kind_tells_that_somebody_watched(stored):
    writer, reader = stored
    chat = span(1, end_s=T + 5, **{TTFT: 0.1, "stagewatch__use_case": "chat"})
    batch = span(2, end_s=T + 65, **{TTFT: 0.1, "stagewatch__use_case": "batch"})
    writer.traces(traces(chat, batch))

    slices = reader.slices(promise("1.5", use_case="chat"), Window(since_s=T, until_s=T + 180))

    assert [each.state for each in slices] == [
        SliceState.GOOD,
        SliceState.NO_TRAFFIC,
        SliceState.NOT_OBSERVED,
    ]


def test_a_page_that_answers_says_nothing_about_the_users_side(stored):
    writer, reader = stored
    client = span(1, end_s=T + 5, kind=Span.SPAN_KIND_CLIENT, **{TTFT: 0.1})
    writer.traces(traces(client))
    writer.metrics(metrics(up(1, T + 65)))

    slices = reader.slices(promise("1.5", source="client"), Window(since_s=T, until_s=T + 120))

    assert [each.state for each in slices] == [SliceState.GOOD, SliceState.NOT_OBSERVED]


def test_buckets_give_a_range_off_their_edges_and_a_count_on_them(stored):
    """W8: edges 1.0 and 2.5, 9850 and 9960 of 10 000, promise 1.5 s."""
    writer, reader = stored
    low = [0.7] * 985 + [1.0110] * 11 + [2.52] * 4
    high = [1.0] * 985 + [2.47] * 11 + [5.0] * 4
    writer.metrics(metrics(*page(low, high, T + 5)))

    found = minute(reader, promise("1.5"))
    on_edge = minute(reader, promise("1"))

    assert (found.good_low, found.good_high, found.total) == (985, 996, 1000)
    assert on_edge.good_low == on_edge.good_high == 985
    assert reader.edges_around(promise("1.5"), Window(since_s=T, until_s=T + 60)) == (
        1,
        Fraction(5, 2),
    )


def test_spans_decide_every_threshold(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.1})))

    assert reader.edges_around(promise("1.5"), Window(since_s=T, until_s=T + 60)) is None


def test_the_page_does_not_count_the_requests_of_spans_again(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.1})))
    writer.metrics(metrics(*page([0.05], [0.2], T + 3)))

    assert minute(reader, promise("1.5")).total == 1


def test_cancelled_requests_on_the_page_are_excluded(stored):
    writer, reader = stored
    gone = sum_of(Metric(name="stagewatch_requests_cancelled_total"), 3, start_s=T + 1, end_s=T + 2)
    writer.metrics(metrics(gone, *page([0.05], [0.2], T + 3)))

    found = minute(reader, promise("1.5"))

    assert (found.total, found.excluded) == (1, 3)


def test_a_minute_whose_tile_is_gone_is_not_observed(stored, tmp_path):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.1})))
    writer.settle()
    with closing(sqlite3.connect(file_of(tmp_path))) as connection, connection:
        for tier in (10, 60):
            connection.execute("INSERT INTO meta VALUES (?, ?)", (f"cutoff:{tier}", str(T + 3600)))
            connection.execute(f"DELETE FROM histogram_{tier}")  # noqa: S608 - a table of ours

    assert minute(reader, promise("1.5")).state is SliceState.NOT_OBSERVED


def test_only_whole_minutes_are_slices(stored):
    _, reader = stored

    slices = reader.slices(promise("1.5"), Window(since_s=T + 1, until_s=T + 239))

    assert [each.minute_at_s - T for each in slices] == [60, 120]
    assert reader.slices(promise("1.5"), Window(since_s=T + 1, until_s=T + 59)) == []


VALUES = st.lists(
    st.tuples(
        st.integers(0, 239),
        st.one_of(st.floats(0.001, 10), st.floats(1.48, 1.52), st.just(1.5), st.none()),
    ),
    max_size=40,
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(VALUES, st.sampled_from(["1.5", "1", "1.4999", "0.3"]))
def test_slices_are_what_their_requests_say(tmp_path_factory, values, threshold):
    path = tmp_path_factory.mktemp("law")
    with writing(path) as writer:
        spans = [
            span(n, end_s=T + at_s, lasts_s=0.001, **({OUT: "failed"} if v is None else {TTFT: v}))
            for n, (at_s, v) in enumerate(values, 1)
        ]
        writer.traces(traces(*spans))
        reader = StoreReader(path)
        slices = reader.slices(promise(threshold), Window(since_s=T, until_s=T + 240))
        reader.close()

    for place, each in enumerate(slices):
        mine = [v for at_s, v in values if at_s // 60 == place]
        good = sum(v is not None and v <= float(threshold) for v in mine)
        assert (each.good_low, each.good_high, each.total) == (good, good, len(mine))
