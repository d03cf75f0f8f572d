"""Single requests: joined whatever segment their legs lie in, newest or slowest first, streamed."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.importing import import_files
from collector.query import Window
from collector.reader import StoreReader
from collector.request_rows import ORDERS
from domain.errors import InputError
from domain.request import Outcome
from tests.collector.storing import NOW_S, OVERLOAD, span, traces, writing
from tests.paths import RECORDED

T = int(NOW_S) // 3600 * 3600 - 3600
HOUR = Window(since_s=T, until_s=T + 3600)
CLIENT = Span.SPAN_KIND_CLIENT
TTFT, QUEUE, E2E = (
    "gen_ai__latency__time_to_first_token",
    "gen_ai__latency__time_in_queue",
    "gen_ai__latency__e2e",
)


@pytest.fixture
def stored(tmp_path):
    with writing(tmp_path) as writer:
        reader = StoreReader(tmp_path)
        yield writer, reader
        reader.close()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("requests")
    with writing(path) as writer:
        files = [OVERLOAD / "all-spans.bin", OVERLOAD / "client.jsonl"]
        list(import_files(files, writer, labels={"service": "vllm-tiny"}))
    reader = StoreReader(path)
    yield reader
    reader.close()


RECORDING = Window(since_s=int(NOW_S) - 600, until_s=int(NOW_S) + 60)


def test_both_sides_of_a_real_request_are_one(recorded):
    found = recorded.requests(RECORDING, limit=1000)
    joined = [each for each in found if each.network_s is not None]

    assert len(found) == 152  # 150 of the load, 2 after it that no client file names
    assert len(joined) == 134
    assert all(each.client_ttft_s >= each.ttft_s for each in joined)
    assert sum(each.outcome is Outcome.CANCELLED for each in found) == 10
    assert sum(each.outcome is Outcome.REJECTED for each in found) == 6


def test_the_stages_of_each_real_request_sum_to_its_whole(recorded):
    whole = [
        each for each in recorded.requests(RECORDING, limit=1000) if each.overhead_s is not None
    ]

    assert len(whole) == 136
    for each in whole:
        server = [v for stage, v in each.stage_s.items() if stage != "network" and v is not None]
        assert sum(server) == pytest.approx(each.e2e_s, abs=1e-12)


def test_halves_of_real_disaggregated_requests_are_joined(tmp_path):
    roles = {"vllm-prefill": "prefill", "vllm-decode": "decode"}
    with writing(tmp_path, roles=roles, now=lambda: NOW_S + 7200) as writer:
        list(import_files([RECORDED / "vllm-disagg" / "all-spans.bin"], writer))
    reader = StoreReader(tmp_path)

    found = reader.requests(Window(since_s=int(NOW_S) - 7200, until_s=int(NOW_S) + 7200))

    assert len(found) == 40
    assert all(each.kv_transfer_s is not None for each in found)
    for each in found:
        server = [v for stage, v in each.stage_s.items() if stage != "network"]
        assert sum(server) == pytest.approx(each.e2e_s, abs=1e-9)
    reader.close()


def test_a_request_is_found_by_its_trace(recorded):
    one = recorded.requests(RECORDING, limit=1)[0]

    assert recorded.request(one.trace_id) == one
    assert recorded.request(bytes(15) + b"x") is None


def test_newest_first_and_no_more_than_asked_for(recorded):
    found = recorded.requests(RECORDING, limit=10)
    every = recorded.requests(RECORDING, limit=1000)
    ends = [each.end_at_ns for each in every]

    assert found == every[:10]
    assert ends == sorted(ends, reverse=True)


@pytest.mark.parametrize("order", ["ttft", "e2e", "queue", "network", "client_ttft", "overhead"])
def test_slowest_first(recorded, order):
    every = recorded.requests(RECORDING, limit=1000)
    values = sorted(
        (v for r in every if (v := getattr(r, ORDERS[order])) is not None), reverse=True
    )

    found = recorded.requests(RECORDING, limit=7, slowest_by=order)

    assert [getattr(each, ORDERS[order]) for each in found] == values[:7]


def test_an_unknown_order_is_refused(recorded):
    with pytest.raises(InputError, match="Use one of ttft"):
        recorded.requests(RECORDING, slowest_by="price")


def test_where_matches_any_leg(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.5}), **{"service.instance.id": "a"}))
    writer.traces(
        traces(
            span(1, end_s=T + 5, kind=CLIENT, **{TTFT: 0.6}), span(2, end_s=T + 6, **{TTFT: 1.0})
        )
    )

    assert [r.ttft_s for r in reader.requests(HOUR, where=(("replica", "a"),))] == [0.5]
    assert [r.ttft_s for r in reader.requests(HOUR, where=(("source", "client"),))] == [0.5]
    assert reader.requests(HOUR, where=(("replica", "b"),)) == []


def test_a_request_stands_in_the_window_of_its_last_leg(stored):
    writer, reader = stored
    writer.traces(
        traces(
            span(1, end_s=T + 59, **{TTFT: 0.5}), span(1, end_s=T + 61, kind=CLIENT, **{TTFT: 0.6})
        )
    )

    before = reader.requests(Window(since_s=T, until_s=T + 60))
    (after,) = reader.requests(Window(since_s=T + 60, until_s=T + 120))

    assert before == []
    assert after.network_s == pytest.approx(0.1)


def test_legs_on_both_sides_of_an_hour_are_one_request(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T - 1, **{TTFT: 0.5})))
    writer.traces(traces(span(1, end_s=T + 1, kind=CLIENT, **{TTFT: 0.6})))

    (found,) = reader.requests(Window(since_s=T - 60, until_s=T + 60))

    assert (found.ttft_s, found.client_ttft_s) == (0.5, 0.6)


def test_export_streams_everything_in_order_of_the_end(stored):
    writer, reader = stored
    ends = [7, 3, 2000, 3599, 1200, 900]
    writer.traces(traces(*(span(n, end_s=T + at, **{TTFT: 0.5}) for n, at in enumerate(ends, 1))))

    found = [each.end_at_ns // 10**9 - T for each in reader.export(HOUR)]

    assert found == sorted(ends)


def test_an_export_that_is_given_up_returns_its_connection(stored):
    writer, reader = stored
    writer.traces(traces(*(span(n, end_s=T + n, **{TTFT: 0.5}) for n in range(1, 10))))

    for _ in range(40):
        stream = reader.export(HOUR)
        next(stream)
        stream.close()

    assert len(list(reader.export(HOUR))) == 9


def test_what_arrives_later_is_seen_although_segments_are_remembered(stored):
    writer, reader = stored
    writer.traces(traces(span(1, end_s=T + 5, **{TTFT: 0.5})))
    assert len(reader.requests(HOUR)) == 1

    writer.traces(traces(span(2, end_s=T + 6, **{TTFT: 0.5})))
    writer.settle()

    assert len(reader.requests(HOUR)) == 2


TIMES = st.lists(
    st.tuples(st.integers(0, 3599), st.floats(0.001, 100), st.booleans()), min_size=1, max_size=40
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(TIMES, st.integers(0, 3000), st.integers(1, 3600), st.integers(1, 10))
def test_any_window_has_its_requests_newest_and_slowest_first(
    tmp_path_factory, times, start, length, limit
):
    path = tmp_path_factory.mktemp("any")
    with writing(path) as writer:
        for number, (at_s, ttft_s, seen) in enumerate(times, 1):
            legs = [span(number, end_s=T + at_s, lasts_s=0, **{TTFT: ttft_s})]
            if seen:
                legs.append(
                    span(number, end_s=T + at_s, lasts_s=0, kind=CLIENT, **{TTFT: ttft_s * 2})
                )
            writer.traces(traces(*legs))
    window = Window(since_s=T + start, until_s=T + start + length)
    inside = [
        (at_s, ttft_s, seen) for at_s, ttft_s, seen in times if start <= at_s < start + length
    ]
    reader = StoreReader(path)

    newest = [each.end_at_ns // 10**9 - T for each in reader.requests(window, limit=limit)]
    slow = [each.ttft_s for each in reader.requests(window, limit=limit, slowest_by="ttft")]
    felt = [
        each.client_ttft_s
        for each in reader.requests(window, limit=limit, slowest_by="client_ttft")
    ]

    reader.close()
    assert newest == sorted((at for at, _, _ in inside), reverse=True)[:limit]
    assert slow == sorted((v for _, v, _ in inside), reverse=True)[:limit]
    assert felt == sorted((v * 2 for _, v, seen in inside if seen), reverse=True)[:limit]
