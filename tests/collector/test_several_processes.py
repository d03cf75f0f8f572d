"""Requests that several processes saw, in the store: the same tiles and rows in any order of arrival."""

import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.query import Selection, Window
from collector.reader import StoreReader
from tests.collector.storing import NOW_S, distribution, rows, span, tables, traces, writing

CLIENT, INTERNAL, SERVER = (
    Span.SPAN_KIND_CLIENT,
    Span.SPAN_KIND_INTERNAL,
    Span.SPAN_KIND_SERVER,
)
WINDOW = Window(since_s=int(NOW_S) - 3600, until_s=int(NOW_S))
TTFT = "gen_ai__latency__time_to_first_token"


def named(name, kind, span_id, parent_id=b"", *, trace=b"one agent's work", at_s=60.0, lasts_s=2.0,
          **attributes):  # fmt: skip
    made = span(kind=kind, end_s=NOW_S - at_s, lasts_s=lasts_s, **attributes)
    made.name, made.trace_id = name, trace
    made.span_id = span_id.ljust(8)
    made.parent_span_id = parent_id.ljust(8) if parent_id else b""
    return made


def agent():
    """An agent that calls a model three times, a tool, and an embedding; and who served it."""
    yield named("invoke_agent", INTERNAL, b"agent", gen_ai__operation__name="invoke_agent")
    yield named("execute_tool", INTERNAL, b"tool", b"agent", gen_ai__operation__name="execute_tool")
    yield named("embeddings", CLIENT, b"embed", b"agent", gen_ai__operation__name="embeddings",
                gen_ai__usage__input_tokens=4)  # fmt: skip
    for n in (1, 2, 3):
        at = {"at_s": 60.0 - 5 * n}
        client, post = f"chat {n}".encode(), f"post {n}".encode()
        yield named("chat m", CLIENT, client, b"agent", gen_ai__operation__name="chat",
                    gen_ai__response__time_to_first_chunk=0.5 + n / 10, **at)  # fmt: skip
        yield named("POST", CLIENT, post, client, http__request__method="POST", **at)
        yield named("llm_request", SERVER, f"llm {n}".encode(), post, **{TTFT: 0.5}, **at)


def stored(path, batches, *, restart=False):
    for batch in batches if restart else [batches]:
        with writing(path) as writer:
            for each in [batch] if restart else batch:
                assert writer.traces(each).rejected == 0
            writer.settle()
    return tables(path)[0]


def requests_in(path, **asked):
    reader = StoreReader(path, now=lambda: NOW_S)
    found = reader.requests(WINDOW, limit=1000, **asked)
    reader.close()
    return found


def test_an_agents_three_calls_are_three_requests_with_a_network_each(tmp_path):
    stored(tmp_path, [traces(*agent())])

    found = requests_in(tmp_path)

    assert [round(each.network_s, 9) for each in found] == [0.3, 0.2, 0.1]
    assert distribution(tmp_path, "network").n == 3
    assert distribution(tmp_path, "ttft", source="client").n == 3
    assert distribution(tmp_path, "ttft", source="span").n == 3


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.randoms(), cuts=st.lists(st.integers(1, 30), max_size=4), restart=st.booleans())
def test_an_agents_spans_in_any_order_and_batches_are_the_same_store(
    tmp_path_factory, order, cuts, restart
):
    every = [*agent(), *agent()]
    order.shuffle(every)
    edges = [0, *sorted(cut for cut in cuts if cut < len(every)), len(every)]
    batches = [traces(*every[a:b]) for a, b in pairwise(edges) if a < b]
    apart, together = (tmp_path_factory.mktemp(name) for name in ("apart", "together"))

    assert stored(apart, batches, restart=restart) == stored(together, [traces(*agent())])
    assert requests_in(apart) == requests_in(together)


def sglang():
    """A prefill and a decode engine that met in a room, each in a trace of its own, and slices."""
    said = {"rid": "12ab34cd", "bootstrap_room": "0x5eed"}
    one, two = {"trace": b"prefill's trace ", "at_s": 90.0}, {"trace": b"decode's trace  "}
    yield named("prefill Req 12ab34cd", INTERNAL, b"p", lasts_s=0.3, gen_ai__latency__e2e=0.3,
                **said, **one)  # fmt: skip
    for name, span_id, lasts_s in (
        ("prefill_waiting", b"waiting", 0.05),
        ("prefill_forward", b"forward", 0.125),
        ("prefill_transfer_kv_cache", b"transfer", 0.0625),
    ):
        yield named(name, INTERNAL, span_id, b"p", lasts_s=lasts_s, **one)
    yield named("decode Req 12ab34cd", INTERNAL, b"d", b"user", **said, **two,
                gen_ai__latency__e2e=2.0, gen_ai__latency__time_in_model_decode=1.5,
                **{TTFT: 0.5})  # fmt: skip
    yield named("chat m", CLIENT, b"user", gen_ai__operation__name="chat", **two,
                gen_ai__response__time_to_first_chunk=0.75)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("restart", [False, True])
def test_halves_in_two_traces_are_one_request_in_any_order(tmp_path, seed, restart):
    every = list(sglang())
    random.Random(seed).shuffle(every)  # noqa: S311 - any order will do

    found = stored(tmp_path / "a", [traces(each) for each in every], restart=restart)
    right = stored(tmp_path / "b", [traces(*sglang())])

    assert found == right
    (request,) = requests_in(tmp_path / "a")
    assert (request.ttft_s, request.network_s, request.e2e_s) == (0.5, 0.25, 2.0)
    assert (request.queue_s, request.prefill_s) == (pytest.approx(0.05), 0.125)
    assert (request.kv_transfer_s, request.decode_s) == (0.0625, 1.5)
    for metric in ("ttft", "e2e", "queue", "prefill", "kv_transfer", "decode", "overhead"):
        assert distribution(tmp_path / "a", metric, source="span").n == 1, metric


@pytest.mark.parametrize("trace", [b"prefill's trace ", b"decode's trace  "])
def test_a_request_of_two_traces_is_found_by_either(tmp_path, trace):
    stored(tmp_path, [traces(*sglang())])
    reader = StoreReader(tmp_path, now=lambda: NOW_S)

    request = reader.request(trace)
    reader.close()

    assert request.ttft_s == 0.5
    assert request.prefill_s == 0.125


def dynamo(number, *, root=True, ttft_ms="500", at_s=200.0):
    trace = number.to_bytes(16, "big")
    told = {"trace": trace, "at_s": at_s}

    def own(name):
        return f"{name}{number}".encode()

    if root:
        yield named("http-request", INTERNAL, own("f"), request_id="r", model="m", ttft_ms=ttft_ms,
                    request__outcome="success", **told)  # fmt: skip
    for phase, component in (("p", "prefill"), ("d", "backend")):
        yield named("kv_router.route_request", CLIENT, own(f"r{phase}"), own("f"), **told)
        yield named("handle_payload", SERVER, own(phase), own(f"r{phase}"), component=component,
                    endpoint="generate", **told)  # fmt: skip


def test_a_request_without_its_root_is_shown_counted_and_not_ranked(tmp_path):
    """The frontend was stopped and lost the spans of the last seconds."""
    spans = [*dynamo(1), *dynamo(2, root=False), *dynamo(3, ttft_ms="900")]
    stored(tmp_path, [traces(*spans)])
    reader = StoreReader(tmp_path, now=lambda: NOW_S)

    found = {int.from_bytes(each.trace_id): each for each in reader.requests(WINDOW)}
    ranked = [reader.requests(WINDOW, slowest_by=by) for by in ("ttft", "prefill", "e2e")]
    health = reader.health()
    reader.close()

    assert {number: each.complete for number, each in found.items()} == {1: True, 2: False, 3: True}
    for rank in ranked:
        assert {int.from_bytes(each.trace_id) for each in rank} == {1, 3}
    assert health["incomplete_requests"] == 1
    assert distribution(tmp_path, "prefill").n == 2


def test_a_root_that_comes_late_completes_its_request(tmp_path):
    root, *workers = dynamo(1)
    stored(tmp_path, [traces(*workers)])
    assert [each.complete for each in requests_in(tmp_path)] == [False]

    stored(tmp_path, [traces(root)])

    assert [each.complete for each in requests_in(tmp_path)] == [True]
    assert distribution(tmp_path, "prefill").n == 1
    assert distribution(tmp_path, "decode").n == 1


def test_an_aborted_request_of_dynamo_counts_once(tmp_path):
    spans = list(dynamo(1))
    for each in spans[0].attributes:
        if each.key == "request.outcome":
            each.value.string_value = "cancelled"
    stored(tmp_path, [traces(*spans)])
    reader = StoreReader(tmp_path, now=lambda: NOW_S)
    (found,) = reader.stages(Selection(window=WINDOW))
    reader.close()

    assert found.flow.cancelled == 1
    assert not found.flow.failed
    assert found.ttft.n == 0


def test_links_make_no_service_of_their_own(tmp_path):
    link = named("POST", CLIENT, b"post", http__request__method="POST")
    stored(tmp_path, [traces(link, **{"service.name": "web shop"})])
    reader = StoreReader(tmp_path, now=lambda: NOW_S)

    assert reader.label_values("service", WINDOW) == []
    assert reader.requests(WINDOW) == []
    reader.close()


def test_a_trace_too_long_for_one_request_tells_each_legs_own(tmp_path):
    spans = [
        named("llm_request", SERVER, f"s{n}".encode(), b"nobody", **{TTFT: 0.5}) for n in range(200)
    ]
    stored(tmp_path, [traces(*part) for part in (spans[at : at + 50] for at in range(0, 200, 50))])

    assert distribution(tmp_path, "ttft").n == 200
    assert len(requests_in(tmp_path)) == 200
    assert rows(tmp_path, "SELECT sum(n) FROM segment") == [(200,)]
