"""What a span is, engine by engine: a request's leg, a piece of one, a link, or nobody's business."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector.series import SeriesIds
from collector.span_columns import Times
from collector.span_names import DECISIVE, ROWS
from collector.spans import SpanReader
from domain.labels import value_of
from domain.leg import LegKind, Outcome
from domain.request import requests_of
from tests.collector.storing import NOW_S, span, traces
from tests.paths import RECORDED

TIMES = Times(oldest_at_ns=0, newest_at_ns=int((NOW_S + 3600) * 1e9))
CLIENT, INTERNAL, SERVER = (
    Span.SPAN_KIND_CLIENT,
    Span.SPAN_KIND_INTERNAL,
    Span.SPAN_KIND_SERVER,
)


def read(request, *, roles=(), services=()):
    ids = SeriesIds(max_series=1000, max_label_values=1000)
    reader = SpanReader(ids, roles=dict(roles), services=dict(services))
    found = reader.read(request.SerializeToString(), TIMES)
    return found, [found.table.leg(row, ids.labels) for row in range(len(found.table))]


def named(name, kind=SERVER, *, number=1, **attributes):
    made = span(number, kind=kind, **attributes)
    made.name = name
    return made


def leg_of(made, **told):
    found, legs = read(traces(made), **told)
    assert not found.refused
    (leg,) = legs
    return leg


def recorded(name):
    return ExportTraceServiceRequest.FromString((RECORDED / name).read_bytes())


def test_sglang_says_its_queue_and_prefill_in_slices():
    """And not in `time_in_model_prefill`, which holds the queue (0.296 s)."""
    _, legs = read(recorded("engines/sglang-0.5.23-span-unified.bin"))

    ((request, group),) = requests_of(legs)
    root = next(leg for leg in legs if leg.kind is LegKind.SERVER)
    assert (request.queue_s, request.prefill_s) == (pytest.approx(0.194), pytest.approx(0.098))
    assert (request.ttft_s, request.e2e_s) == (0.3, 1.31)
    assert request.decode_s == pytest.approx(1.01)
    assert request.overhead_s == pytest.approx(1.31 - 0.194 - 0.098 - 1.01)
    assert (request.prompt_tokens, request.cached_tokens, request.output_tokens) == (512, 128, 64)
    assert (request.finish_reason, request.outcome) == ("length", Outcome.OK)
    assert value_of(request.labels, "model") == "Qwen/Qwen3-0.6B"
    assert (root.queue_s, root.prefill_s) == (None, None)
    assert len(group) == 3  # the root, waiting, prefill: the other slices tell nothing of ours


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (" Req 12ab34cd", LegKind.SERVER),
        ("Req 12ab34cd", LegKind.SERVER),
        ("unified Req 12ab34cd", LegKind.SERVER),
        ("prefill Req 12ab34cd", LegKind.PREFILL),
        ("decode Req 12ab34cd", LegKind.DECODE),
    ],
)
def test_sglang_says_its_role_in_the_name(name, kind):
    made = named(name, INTERNAL, rid="12ab34cd-0000", gen_ai__latency__e2e=1.0)

    leg = leg_of(made)

    assert leg.kind is kind
    assert value_of(leg.labels, "role") == ("" if kind is LegKind.SERVER else kind.value)


@pytest.mark.parametrize(
    ("told", "room"),
    [("0x1f", 31), ("1f", 31), ("", 0), ("no", 0), ("-1", 0), ("f" * 16, 0), ("f" * 300, 0)],
)
def test_a_room_is_a_number_of_63_bits_or_none(told, room):
    made = named("prefill Req 1", INTERNAL, rid="1", bootstrap_room=told, gen_ai__latency__e2e=1.0)

    assert leg_of(made).room == room


@pytest.mark.parametrize(("rank", "held"), [(None, True), (0, True), (1, False), (7, False)])
def test_slices_of_other_ranks_than_the_first_hang_on_nothing(rank, held):
    """Every rank of an SGLang writes the same slices: they count once."""
    root = named(" Req 1", INTERNAL, rid="1", gen_ai__latency__e2e=1.0)
    ranks = {} if rank is None else {"tp_rank": rank}
    thread = named(
        f"Scheduler [TP {rank}] (host:9f86d081 | pid:77)",
        INTERNAL,
        thread_label="Scheduler",
        **ranks,
    )
    thread.span_id, thread.parent_span_id = b"a thread", root.span_id
    piece = named("prefill_waiting", INTERNAL)
    piece.span_id, piece.parent_span_id = b"waiting ", thread.span_id

    _, legs = read(traces(root, thread, piece))

    ((request, _),) = requests_of(legs)
    assert request.queue_s == (2.0 if held else None)


def frontend(**told):
    said = {
        "request_id": "r",
        "model": "tiny",
        "uri": "/v1/chat/completions",
        "request__outcome": "success",
    }
    return named("http-request", INTERNAL, **{**said, **told})


def test_dynamo_s_frontend_writes_numbers_as_text_and_milliseconds():
    leg = leg_of(frontend(ttft_ms="92.49", input_tokens="635", output_tokens="23"))

    assert leg.kind is LegKind.FRONTEND
    assert (leg.ttft_s, leg.e2e_s) == (pytest.approx(0.09249), 2.0)
    assert leg.decode_s == pytest.approx(2.0 - 0.09249)
    assert (leg.prompt_tokens, leg.output_tokens) == (635, 23)
    assert (value_of(leg.labels, "model"), value_of(leg.labels, "role")) == ("tiny", "frontend")


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        ("success", Outcome.OK),
        ("cancelled", Outcome.CANCELLED),
        ("error", Outcome.FAILED),
        ("anything new", Outcome.FAILED),
    ],
)
def test_dynamo_s_frontend_says_how_it_ended(word, outcome):
    assert leg_of(frontend(request__outcome=word)).outcome is outcome


@pytest.mark.parametrize(
    "other", [{"uri": "/v1/embeddings"}, {"uri": "/v1/models"}, {"model": None}]
)
def test_other_requests_to_a_frontend_are_none_of_ours(other):
    told = {"uri": "/v1/chat/completions", "request_id": "r", "model": "tiny", **other}
    made = named("http-request", INTERNAL, **{k: v for k, v in told.items() if v is not None})

    assert read(traces(made))[1] == []


@pytest.mark.parametrize("component", ["prefill", "backend"])
def test_dynamo_s_workers_say_what_they_are_and_nothing_of_the_end(component):
    made = named("handle_payload", component=component, endpoint="generate", instance_id="1326")
    made.status.code = Status.STATUS_CODE_ERROR

    leg = leg_of(made)

    assert leg.kind is (LegKind.PREFILL if component == "prefill" else LegKind.DECODE)
    assert leg.outcome is Outcome.OK
    assert leg.prefill_s == (2.0 if component == "prefill" else None)
    assert leg.is_handler
    assert value_of(leg.labels, "replica") == "1326"


def test_a_worker_of_a_renamed_service_keeps_its_name_as_replica():
    made = named("handle_payload", component="backend", endpoint="generate", instance_id="1326")

    own = leg_of(made, services={"chat": "assistant"})
    _, (imported,) = read(traces(made, **{"stagewatch.service": "assistant"}))
    _, (told,) = read(traces(made, **{"service.instance.id": "gpu-7"}))

    assert (value_of(own.labels, "service"), value_of(own.labels, "replica")) == (
        "assistant",
        "chat",
    )
    assert imported.labels == own.labels
    assert value_of(told.labels, "replica") == "gpu-7"


def test_dynamo_s_router_is_nobodys_client():
    """Its spans are of kind CLIENT and say `request.outcome`."""
    made = named("kv_router.route_request", CLIENT, request__outcome="error", phase="Prefill")

    leg = leg_of(made)

    assert (leg.kind, leg.outcome) == (LegKind.LINK, Outcome.OK)


def test_a_worker_s_work_of_its_own_is_no_request():
    made = named("handle_payload", component="prefill", endpoint="worker_kv_query_source_1fc60f")

    found, legs = read(traces(made))

    assert legs == []
    assert found.counts["ignored_spans_total"] == 1


@pytest.mark.parametrize("kind", [CLIENT, INTERNAL])
@pytest.mark.parametrize("operation", ["chat", "text_completion", "generate_content"])
def test_a_genai_client_is_a_user(kind, operation):
    made = named(
        f"{operation} gpt-5",
        kind,
        gen_ai__operation__name=operation,
        gen_ai__provider__name="openai",
        gen_ai__request__model="gpt-5",
        gen_ai__usage__input_tokens=12,
        gen_ai__usage__output_tokens=7,
        gen_ai__response__time_to_first_chunk=0.5,
    )
    reasons = made.attributes.add(key="gen_ai.response.finish_reasons").value.array_value
    reasons.values.add(string_value="stop")

    leg = leg_of(made)

    assert leg.kind is LegKind.CLIENT
    assert (leg.ttft_s, leg.e2e_s, leg.decode_s) == (0.5, 2.0, 1.5)
    assert (leg.prompt_tokens, leg.output_tokens, leg.finish_reason) == (12, 7, "stop")
    assert value_of(leg.labels, "model") == "gpt-5"
    assert value_of(leg.labels, "source") == "client"


@pytest.mark.parametrize("kind", [CLIENT, INTERNAL, SERVER])
@pytest.mark.parametrize(
    "operation", ["embeddings", "execute_tool", "invoke_agent", "create_agent", "retrieval"]
)
def test_other_operations_are_no_requests(kind, operation):
    made = named(
        f"{operation} x",
        kind,
        gen_ai__operation__name=operation,
        gen_ai__request__model="m",
        gen_ai__usage__input_tokens=12,
        error__type="timeout",
    )

    assert read(traces(made))[1] == []


def test_an_older_client_that_names_no_operation_is_a_user():
    made = named("openai.chat", CLIENT, gen_ai__system="openai", gen_ai__request__model="m")

    assert leg_of(made).kind is LegKind.CLIENT


@pytest.mark.parametrize("method", ["http.request.method", "http.method"])
@pytest.mark.parametrize("kind", [CLIENT, SERVER])
def test_a_post_between_client_and_server_is_a_link(method, kind):
    made = named("POST", kind, error__type="500")
    made.attributes.add(key=method).value.string_value = "POST"
    made.status.code = Status.STATUS_CODE_ERROR

    leg = leg_of(made)

    assert (leg.kind, leg.outcome) == (LegKind.LINK, Outcome.OK)


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_other_http_is_nothing(method):
    assert read(traces(named(method, CLIENT, http__request__method=method)))[1] == []


@pytest.mark.parametrize("attribute", ["gen_ai__request__stream", "llm__is_streaming"])
@pytest.mark.parametrize(
    ("flag", "streamed", "ttft_s"), [("true", True, 0.5), ("false", False, None)]
)
def test_whoever_waits_for_the_whole_answer_sees_no_first_token(attribute, flag, streamed, ttft_s):
    made = named(
        "chat m",
        CLIENT,
        gen_ai__operation__name="chat",
        gen_ai__usage__output_tokens=5,
        gen_ai__response__time_to_first_chunk=0.5,
        stagewatch__itl_max_s=0.5,
        **{attribute: flag},
    )

    leg = leg_of(made)

    assert (leg.streamed, leg.ttft_s, leg.e2e_s) == (streamed, ttft_s, 2.0)
    assert (leg.tpot_s is None, leg.itl_max_s is None) == (not streamed, not streamed)


def test_a_server_s_first_token_is_told_of_unary_requests_too():
    made = span(gen_ai__latency__time_to_first_token=0.5, gen_ai__request__stream="false")

    assert leg_of(made).ttft_s == 0.5


def test_a_prefill_node_of_vllm_decodes_nothing():
    """Its span says 0.0 s."""
    request = recorded("engines/vllm-0.33.0-span-prefill-node.bin")

    _, (leg,) = read(request, roles={"vllm-prefill": "prefill"})

    assert (leg.kind, leg.decode_s, leg.tpot_s) == (LegKind.PREFILL, None, None)
    assert (leg.queue_s, leg.prefill_s) == (0.01, 0.2)


def test_a_gateway_is_a_frontend_where_the_settings_say_so():
    made = named("POST /v1/chat", gen_ai__operation__name="chat", gen_ai__usage__input_tokens=4)

    leg = leg_of(made, roles={"chat": "frontend"})

    assert (leg.kind, value_of(leg.labels, "role")) == (LegKind.FRONTEND, "frontend")
    assert leg.e2e_s == 2.0


def test_parents_are_kept_side_by_side_and_one_by_one():
    made = [span(n, gen_ai__latency__e2e=1.0) for n in range(1, 9)]
    for each in made[:6]:
        each.parent_span_id = b"parent" + bytes((0, each.trace_id[-1]))

    _, legs = read(traces(*made))

    found = {leg.trace_id: leg.parent_id for leg in legs}
    assert found == {each.trace_id: each.parent_span_id for each in made}


def test_a_parent_of_a_wrong_length_is_none():
    made = span(gen_ai__latency__e2e=1.0)
    made.parent_span_id = b"short"

    assert leg_of(made).parent_id == b""


def test_a_name_or_an_attribute_decides_each_row():
    """A row that fits everything would hide those below it."""
    for row in ROWS:
        assert row.name or row.pattern or row.needs or row.has_some_of
        assert row.needs.keys() <= DECISIVE


@pytest.mark.parametrize("kind", [Span.SPAN_KIND_UNSPECIFIED, INTERNAL, SERVER])
def test_a_request_of_vllm_is_one_whatever_a_pipeline_left_of_its_kind(kind):
    leg = leg_of(named("llm_request", kind, gen_ai__latency__e2e=1.0))

    assert (leg.kind, leg.e2e_s) == (LegKind.SERVER, 1.0)


def test_a_chat_without_a_kind_is_a_client_as_one_of_kind_internal_is():
    made = named("chat m", Span.SPAN_KIND_UNSPECIFIED, gen_ai__operation__name="chat")

    assert leg_of(made).kind is LegKind.CLIENT


@pytest.mark.parametrize("outcome", ["ok", "failed", "cancelled"])
def test_what_a_gateway_asks_for_is_no_users_call_and_has_no_outcome(outcome):
    made = [
        named("chat m", CLIENT, number=number, gen_ai__operation__name="chat", error__type="503")
        for number in range(1, 6)
    ]
    for each in made:
        each.attributes.add(key="stagewatch.outcome").value.string_value = outcome
    found, legs = read(traces(*made, **{"stagewatch.role": "frontend"}))

    assert not found.refused
    assert {(leg.kind, leg.outcome) for leg in legs} == {(LegKind.LINK, Outcome.OK)}
    assert leg_of(made[0], roles={"chat": "frontend"}).kind is LegKind.LINK
    assert leg_of(made[0]).kind is LegKind.CLIENT
