"""What a span says becomes a leg, as far as it can be believed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector import spans as spans_module
from collector.legs import KINDS, SECONDS, TOKENS
from collector.semantics import NUMBERS, STREAMED
from collector.series import SeriesIds
from collector.span_columns import Times
from collector.span_names import DECISIVE, ROWS
from collector.spans import SpanReader
from domain.labels import value_of
from domain.leg import LegKind, Outcome
from tests.collector.storing import NOW_S, OVERLOAD, span, traces
from tests.paths import RECORDED

TIMES = Times(oldest_at_ns=0, newest_at_ns=int((NOW_S + 300) * 1e9))
CLIENT = Span.SPAN_KIND_CLIENT
QUEUE = "gen_ai.latency.time_in_queue"


def read(request, *, roles=(), services=(), times=TIMES):
    ids = SeriesIds(max_series=1000, max_label_values=1000)
    found = SpanReader(ids, roles=dict(roles), services=dict(services)).read(
        request.SerializeToString(), times
    )
    return found, [found.table.leg(row, ids.labels) for row in range(len(found.table))]


def leg_of(*made, **kinds):
    found, legs = read(traces(*made), **kinds)
    assert not found.refused
    (leg,) = legs
    return leg


def test_a_real_span_of_vllm_is_read_whole():
    request = ExportTraceServiceRequest.FromString((OVERLOAD / "all-spans.bin").read_bytes())

    found, legs = read(request)

    first = next(leg for leg in legs if leg.trace_id.hex() == "df700a5f4aa279760fab53e5e5e61cd7")
    assert len(legs) == 136
    assert found.counts["ignored_spans_total"] == 12  # starting up is no request
    assert (first.ttft_s, first.e2e_s) == (0.0961771011352539, 0.49977850914001465)
    assert (first.queue_s, first.prefill_s) == (2.903299991885433e-05, 0.08862803600004554)
    assert (first.decode_s, first.output_tokens, first.prompt_tokens) == (
        0.4034234679998008,
        33,
        629,
    )
    assert (first.kind, first.outcome) == (LegKind.SERVER, Outcome.OK)
    assert value_of(first.labels, "service") == "vllm-tiny"
    assert value_of(first.labels, "source") == "span"


def test_a_real_zero_is_not_absent():
    assert leg_of(span(gen_ai__latency__time_in_queue=0.0)).queue_s == 0.0
    assert leg_of(span(gen_ai__latency__e2e=1.0)).queue_s is None


@pytest.mark.parametrize("bad", [-1e-9, -1_000_010.001, float("nan"), float("inf"), 130_000.0])
def test_a_stage_that_cannot_be_is_none_and_the_rest_is_kept(bad):
    found, (leg,) = read(traces(span(gen_ai__latency__time_in_queue=bad, gen_ai__latency__e2e=2.0)))

    assert (leg.queue_s, leg.e2e_s) == (None, 2.0)
    assert found.counts["rejected_values_total"] == 1


def test_an_engine_that_aborted_in_the_queue_says_nothing_of_its_stages():
    path = RECORDED / "engines" / "vllm-0.33.0-span-aborted-in-queue.bin"

    _, (leg,) = read(ExportTraceServiceRequest.FromString(path.read_bytes()))

    assert (leg.queue_s, leg.e2e_s, leg.outcome) == (None, 12.0, Outcome.CANCELLED)
    assert (leg.ttft_s, leg.prefill_s, leg.decode_s) == (None, None, None)


def test_numbers_sent_as_text_are_numbers():
    leg = leg_of(span(gen_ai__usage__completion_tokens="17", gen_ai__latency__e2e="0.5"))

    assert (leg.output_tokens, leg.e2e_s) == (17, 0.5)


def test_text_that_is_no_number_is_absent():
    assert leg_of(span(gen_ai__latency__e2e="soon")).e2e_s is None


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda s: setattr(s, "trace_id", b""), "id"),
        (lambda s: setattr(s, "trace_id", bytes(16)), "id"),
        (lambda s: setattr(s, "span_id", b"short"), "id"),
        (
            lambda s: setattr(s, "start_time_unix_nano", s.end_time_unix_nano + 1),
            "before it starts",
        ),
        (lambda s: setattr(s, "start_time_unix_nano", 0), "36 h"),
        (lambda s: setattr(s, "end_time_unix_nano", 2**63 + 5), "future"),
        (lambda s: setattr(s, "end_time_unix_nano", int((NOW_S + 3600) * 1e9)), "future"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_a_span_that_cannot_be_is_refused_with_its_reason(spoil, reason, alone):
    others = [] if alone else [span(n, gen_ai__latency__e2e=1.0) for n in range(2, 9)]
    made = span(1, gen_ai__latency__e2e=1.0)
    spoil(made)

    found, legs = read(traces(*others, made))

    assert sum(found.refused.values()) == 1
    assert reason in next(iter(found.refused))
    assert len(legs) == len(others)


def test_the_role_comes_from_the_span_the_resource_or_the_settings():
    own = leg_of(span(stagewatch__role="prefill", gen_ai__latency__e2e=1.0))
    _, (resource,) = read(traces(span(), **{"stagewatch.role": "decode"}))
    told = leg_of(span(), roles={"chat": "prefill"})

    assert [own.kind, resource.kind, told.kind] == [
        LegKind.PREFILL,
        LegKind.DECODE,
        LegKind.PREFILL,
    ]
    assert value_of(own.labels, "role") == "prefill"


def test_services_can_be_renamed_into_one():
    leg = leg_of(span(), services={"chat": "assistant"}, roles={"chat": "both"})

    assert value_of(leg.labels, "service") == "assistant"
    assert (leg.kind, value_of(leg.labels, "role")) == (LegKind.SERVER, "both")


def test_labels_of_the_span_go_before_those_of_the_resource():
    made = span(gen_ai__request__model="llama", stagewatch__use_case="search", http__route="/x")

    _, (leg,) = read(traces(made, **{"stagewatch.use_case": "chat", "cloud.region": "eu"}))

    assert dict(leg.labels) == {
        "model": "llama",
        "region": "eu",
        "service": "chat",
        "source": "span",
        "use_case": "search",
    }


def test_a_clients_span_is_as_long_as_the_request():
    made = span(kind=CLIENT, lasts_s=2.5, gen_ai__response__time_to_first_chunk=0.5)

    leg = leg_of(made)

    assert (leg.kind, leg.ttft_s, leg.e2e_s) == (LegKind.CLIENT, 0.5, 2.5)
    assert leg.decode_s == 2.0
    assert value_of(leg.labels, "source") == "client"


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [
        ({"error__type": "timeout"}, Outcome.FAILED),
        ({"error__type": "429"}, Outcome.FAILED),
        ({"error__type": "503"}, Outcome.FAILED),
        ({"error__type": "404"}, Outcome.REJECTED),
        ({"error__type": "openai.BadRequestError"}, Outcome.REJECTED),
        ({"error__type": "litellm.exceptions.AuthenticationError"}, Outcome.REJECTED),
        ({"error__type": "openai.UnprocessableEntityError"}, Outcome.REJECTED),
        ({"error__type": "openai.RateLimitError"}, Outcome.FAILED),
        ({"error__type": "499"}, Outcome.CANCELLED),
        ({"error__type": "concurrent.futures._base.CancelledError"}, Outcome.CANCELLED),
        ({"error__type": "AbortError"}, Outcome.CANCELLED),
        ({"error__type": "asyncio.CancelledError"}, Outcome.CANCELLED),
        ({"error__type": "rejected", "stagewatch__outcome": "ok"}, Outcome.OK),
        ({"stagewatch__outcome": "cancelled"}, Outcome.CANCELLED),
        ({"stagewatch__outcome": "rejected"}, Outcome.REJECTED),
        ({"stagewatch__outcome": "ok"}, Outcome.OK),
        ({"gen_ai__response__finish_reasons": "abort"}, Outcome.CANCELLED),
        ({"gen_ai__response__finish_reasons": '["abort"]'}, Outcome.CANCELLED),
        ({"gen_ai__response__finish_reasons": "error"}, Outcome.FAILED),
        ({"gen_ai__response__finish_reasons": "length"}, Outcome.OK),
        ({}, Outcome.OK),
    ],
)
def test_how_a_request_ended_is_what_the_client_says(attributes, outcome):
    made = span(kind=CLIENT, gen_ai__operation__name="chat", **attributes)

    assert leg_of(made).outcome is outcome


def test_an_error_status_is_a_failure():
    made = span(gen_ai__latency__e2e=1.0)
    made.status.code = Status.STATUS_CODE_ERROR

    assert leg_of(made).outcome is Outcome.FAILED


def test_spans_that_are_no_requests_are_ignored_and_counted():
    http = span(2, kind=CLIENT, http__route="/x")
    other = span(3)
    other.name = "GET /health"

    found, legs = read(traces(span(1, kind=Span.SPAN_KIND_INTERNAL), http, other))

    assert not legs
    assert found.counts["ignored_spans_total"] == 3


def test_gaps_between_tokens_travel_beside_the_leg():
    made = [span(n, kind=CLIENT, gen_ai__latency__e2e=1.0) for n in (1, 2)]
    values = made[1].attributes.add(key="stagewatch.itl_s").value.array_value.values
    for gap in (0.01, 0.5, -1.0):
        values.add(double_value=gap)

    found, legs = read(traces(*made))

    ((row, gaps),) = found.gaps.items()
    assert legs[row].trace_id == made[1].trace_id
    assert gaps.tolist() == [0.01, 0.5]


_numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from((0.0, 0, 1, 300, "7", "x", "")),
)
_attributes = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(sorted(NUMBERS)[:8]), _numbers),
        st.tuples(
            st.sampled_from(
                (
                    "stagewatch.use_case",
                    "error.type",
                    "gen_ai.request.id",
                    "http.route",
                    QUEUE,
                    *sorted(DECISIVE),
                    *sorted(STREAMED),
                    "bootstrap_room",
                    "instance_id",
                    "request.outcome",
                )
            ),
            st.sampled_from(
                ("", "a", "b" * 200, "\x12\x09!" * 5, "generate", "prefill", "chat", "POST", "true")
            ),
        ),
    ),
    max_size=6,
)
_spans = st.builds(
    lambda attributes, number, kind, parent, name, error: _span(
        attributes, number, kind=kind, parent=parent, name=name, error=error
    ),
    _attributes,
    st.integers(0, 2**40),
    st.sampled_from((1, 2, 2, 2, 3)),
    st.sampled_from((b"", b"parentid")),
    st.sampled_from(("llm_request", "other", *sorted({row.name for row in ROWS}), " Req 1")),
    st.sampled_from((False, False, False, True)),
)


def _span(attributes, number, *, kind, parent, name, error):
    made = span(number, kind=kind)
    made.parent_span_id, made.name = parent, name
    if error:
        made.status.code = Status.STATUS_CODE_ERROR
    for key, value in attributes:
        into = made.attributes.add(key=key).value
        match value:
            case str():
                into.string_value = value
            case int():
                into.int_value = value
            case _:
                into.double_value = value
    return made


def _sorted_columns(found):
    table = found.table
    order = np.argsort([table.trace_id(row) + table.span_id(row) for row in range(len(table))])
    return [
        [table.trace_id(row) for row in order],
        [table.parent_id(row) for row in order],
        table.streamed[order].tolist(),
        table.room[order].tolist(),
        *(table.seconds[name][order].tolist() for name in SECONDS),
        *(table.tokens[name][order].tolist() for name in TOKENS),
        [KINDS[kind] for kind in table.kind[order]],
        table.outcome[order].tolist(),
        [table.finish[row] for row in order],
        table.end_at_ns[order].tolist(),
    ]


@given(st.lists(_spans, min_size=1, max_size=4), st.integers(1, 6), st.randoms())
def test_reading_side_by_side_gives_what_reading_one_by_one_gives(shapes, copies, rng):
    made = [Span.FromString(shape.SerializeToString()) for shape in shapes for _ in range(copies)]
    for number, each in enumerate(made):
        each.trace_id = (number + 1).to_bytes(16, "big")
    rng.shuffle(made)
    request = traces(*made)

    together, legs = read(request)
    few, spans_module._FEW = spans_module._FEW, 10**9
    try:
        alone, legs_alone = read(request)
    finally:
        spans_module._FEW = few

    np.testing.assert_equal(_sorted_columns(together), _sorted_columns(alone))
    assert together.refused == alone.refused
    assert +together.counts == +alone.counts
    assert {leg.trace_id: leg.labels for leg in legs} == {
        leg.trace_id: leg.labels for leg in legs_alone
    }


def test_dozens_of_shapes_in_one_export_are_all_read():
    made = [
        span(n + 1, gen_ai__latency__e2e=1.0, stagewatch__tenant=f"t{n % 40}") for n in range(400)
    ]

    _, legs = read(traces(*made))

    assert len(legs) == 400
    assert {value_of(leg.labels, "tenant") for leg in legs} == {f"t{n}" for n in range(40)}


def test_the_recorded_disaggregated_run_has_both_roles():
    request = ExportTraceServiceRequest.FromString(
        (RECORDED / "vllm-disagg" / "all-spans.bin").read_bytes()
    )

    _, legs = read(
        request,
        roles={"vllm-prefill": "prefill", "vllm-decode": "decode"},
        times=Times(oldest_at_ns=0, newest_at_ns=int((NOW_S + 1000) * 1e9)),
    )

    kinds = [leg.kind for leg in legs]
    assert (kinds.count(LegKind.PREFILL), kinds.count(LegKind.DECODE)) == (40, 40)
