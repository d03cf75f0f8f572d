"""A request's stages add up to the whole, and its legs tell the same in any order."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.leg import SLICES
from domain.request import (
    JOINED_LEGS_MAX,
    SERVER_STAGES,
    Leg,
    LegKind,
    Outcome,
    Stage,
    join,
    observations,
    requests_of,
)
from domain.telling import tell
from tests.strategies import exact_legs, families, legs

AT_NS = 1_800_000_000_000_000_000
MS_NS = 1_000_000
several_legs = st.lists(legs, min_size=1, max_size=6, unique_by=lambda leg: leg.span_id)


def leg(kind=LegKind.SERVER, *, since_ms=0, until_ms=1000, **told):
    span_id = told.pop("span_id", kind.value.encode()[:8].ljust(8))
    return Leg(
        trace_id=b"t" * 16,
        span_id=span_id,
        kind=kind,
        labels=told.pop("labels", (("replica", kind.value),)),
        start_at_ns=AT_NS + since_ms * MS_NS,
        end_at_ns=AT_NS + until_ms * MS_NS,
        **told,
    )


SERVER = leg(ttft_s=0.3, e2e_s=1.0, queue_s=0.1, prefill_s=0.15, decode_s=0.7, output_tokens=8)
CLIENT = leg(LegKind.CLIENT, ttft_s=0.35, e2e_s=1.1, itl_max_s=0.2, output_tokens=8)
PREFILL = leg(
    LegKind.PREFILL,
    until_ms=100,
    ttft_s=0.1,
    e2e_s=0.1,
    queue_s=0.02,
    prefill_s=0.07,
    decode_s=0.0,
    prompt_tokens=400,
    output_tokens=1,
)
DECODE = leg(
    LegKind.DECODE,
    since_ms=110,
    until_ms=610,
    ttft_s=0.05,
    e2e_s=0.5,
    queue_s=0.01,
    prefill_s=0.03,
    decode_s=0.44,
    prompt_tokens=400,
    output_tokens=12,
)
PAIR = (PREFILL, DECODE)


def told(*some_legs):
    """Metric → values, for reading."""
    values = {}
    for each in observations(some_legs):
        values.setdefault(each.metric, []).append(pytest.approx(each.value_s))
    return values


def multiset(some_legs):
    return Counter(observations(some_legs))


@given(exact_legs)
def test_the_stages_of_a_server_sum_to_its_e2e(exact_leg):
    request = join([exact_leg])

    known = [request.stage_s[stage] for stage in SERVER_STAGES if stage is not Stage.KV_TRANSFER]
    assert sum(known) == pytest.approx(request.e2e_s, abs=1e-9)


@given(several_legs)
def test_stages_sum_to_the_servers_e2e_whenever_all_are_known(some_legs):
    request = join(some_legs)
    stages = [request.stage_s[stage] for stage in SERVER_STAGES]
    # why the queue may be missing: no handler tells it, a frontend's wait is cut without it
    missing = request.unknown.keys() - {Stage.NETWORK, Stage.QUEUE}
    if request.e2e_s is not None and not missing:
        whole = sum(value for value in stages if value is not None)

        assert whole - request.e2e_s >= -1e-9
        assert whole - request.e2e_s <= 0.001 + 1e-9  # two clocks' tolerance, when overhead is 0
        if request.overhead_s > 0:
            assert whole == pytest.approx(request.e2e_s, abs=1e-9)


def test_the_stages_of_a_disaggregated_pair_sum_to_its_e2e():
    request = join(PAIR)

    assert request.e2e_s == pytest.approx(0.61)
    assert request.stage_s == {
        Stage.NETWORK: None,
        Stage.OVERHEAD: pytest.approx(0.02),
        Stage.QUEUE: pytest.approx(0.03),
        Stage.PREFILL: pytest.approx(0.07),
        Stage.KV_TRANSFER: pytest.approx(0.05),
        Stage.DECODE: pytest.approx(0.44),
    }


@given(several_legs, st.randoms())
def test_a_request_does_not_depend_on_the_order_of_its_legs(some_legs, random):
    shuffled = random.sample(some_legs, len(some_legs))

    assert join(some_legs) == join(shuffled)


@given(several_legs, st.randoms())
def test_what_legs_tell_does_not_depend_on_their_order(some_legs, random):
    shuffled = random.sample(some_legs, len(some_legs))

    assert multiset(some_legs) == multiset(shuffled)


@given(several_legs)
def test_another_leg_only_adds(some_legs):
    """So that nothing published is ever taken back, whichever leg comes late."""
    steps = [multiset(some_legs[:n]) for n in range(len(some_legs) + 1)]

    assert all(before <= after for before, after in pairwise(steps))


@given(families(), st.randoms())
def test_another_leg_only_adds_whatever_order_a_trace_comes_in(some_legs, random):
    shuffled = random.sample(some_legs, len(some_legs))
    steps = [tell(shuffled[:n]) for n in range(len(shuffled) + 1)]

    for before, after in pairwise(steps):
        assert Counter(before.values) <= Counter(after.values)
        assert before.doubts <= after.doubts
    assert Counter(steps[-1].values) == multiset(some_legs)


@given(families(), st.randoms())
def test_requests_of_a_trace_do_not_depend_on_the_order_of_its_legs(some_legs, random):
    shuffled = random.sample(some_legs, len(some_legs))

    found, again = requests_of(some_legs), requests_of(shuffled)

    assert [request for request, _ in found] == [request for request, _ in again]
    telling = [leg for leg in some_legs if leg.kind not in SLICES | {LegKind.LINK}]
    held = [leg for _, group in found for leg in group if leg in telling]
    assert sorted(held, key=lambda leg: leg.span_id) == telling


@given(several_legs)
def test_nothing_told_is_negative(some_legs):
    assert all(each.value_s >= 0 for each in observations(some_legs))


def test_an_engine_tells_its_stages_once():
    assert told(SERVER) == {
        "ttft": [0.3],
        "e2e": [1.0],
        "tpot": [0.1],
        "queue": [0.1],
        "prefill": [0.15],
        "decode": [0.7],
        "overhead": [0.05],
    }


def test_a_client_and_a_server_tell_the_network_between_them():
    both = told(CLIENT, SERVER)

    assert both["network"] == [0.05]
    assert both["ttft"] == [0.35, 0.3]
    assert join([CLIENT, SERVER]).network_s == pytest.approx(0.05)


def test_the_network_needs_no_clocks_that_agree():
    an_hour_ahead = replace(
        SERVER,
        start_at_ns=SERVER.start_at_ns + 3600 * 10**9,
        end_at_ns=SERVER.end_at_ns + 3600 * 10**9,
    )

    assert join([CLIENT, an_hour_ahead]).network_s == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("client_ttft_s", "network_s"), [(0.3, 0.0), (0.2995, 0.0), (0.2985, None), (0.1, None)]
)
def test_a_network_that_is_negative_beyond_tolerance_is_not_known(client_ttft_s, network_s):
    client = replace(CLIENT, ttft_s=client_ttft_s)

    assert join([client, SERVER]).network_s == network_s
    assert told(client, SERVER).get("network") == ([0.0] if network_s == 0 else None)


def test_a_disaggregated_pair_is_one_users_wait():
    values = told(*PAIR)

    assert values["ttft"] == [0.16]
    assert values["e2e"] == [0.61]
    assert values["tpot"] == [0.04]
    assert values["prefill"] == [0.07]
    assert values["decode"] == [0.44]
    assert values["kv_transfer"] == [0.05]
    assert values["queue"] == [0.02, 0.01]  # each engine's own, by role


@pytest.mark.parametrize("half", PAIR)
def test_half_a_pair_is_nobodys_wait(half):
    assert not told(half).keys() & {"ttft", "e2e", "network", "kv_transfer", "overhead"}


def test_a_prefill_engine_decodes_nothing():
    assert not told(PREFILL).keys() & {"decode", "tpot", "itl_max"}


def test_a_client_of_a_pair_knows_the_network_too():
    client = replace(CLIENT, ttft_s=0.2)

    assert told(client, *PAIR)["network"] == [0.04]
    assert join([client, *PAIR]).network_s == pytest.approx(0.04)


@pytest.mark.parametrize("handover_ms", [-300_000, -2, 60_001, 300_000])
def test_halves_that_do_not_follow_each_other_have_clocks_that_disagree(handover_ms):
    apart = replace(
        DECODE,
        start_at_ns=PREFILL.end_at_ns + handover_ms * MS_NS,
        end_at_ns=PREFILL.end_at_ns + (handover_ms + 500) * MS_NS,
    )
    request = join([PREFILL, apart])

    assert (request.kv_transfer_s, request.overhead_s, request.ttft_s, request.e2e_s) == (None,) * 4
    assert request.unknown[Stage.KV_TRANSFER] == "clocks disagree"
    assert request.prefill_s == PREFILL.prefill_s
    assert request.decode_s == DECODE.decode_s
    assert not told(PREFILL, apart).keys() & {"kv_transfer", "ttft", "e2e", "overhead"}
    assert tell([PREFILL, apart]).doubts["clock_disagreements_total"] == 1


@pytest.mark.parametrize("handover_ms", [-1, 0, 10, 60_000])
def test_halves_that_follow_each_other_are_cut_across_their_clocks(handover_ms):
    after = replace(
        DECODE,
        start_at_ns=PREFILL.end_at_ns + handover_ms * MS_NS,
        end_at_ns=PREFILL.end_at_ns + (handover_ms + 500) * MS_NS,
    )
    handover_s = max(handover_ms, 0) / 1000

    assert told(PREFILL, after)["ttft"] == [0.1 + handover_s + 0.05]
    assert told(PREFILL, after)["kv_transfer"] == [handover_s + 0.04]
    assert not +tell([PREFILL, after]).doubts


def test_a_client_tells_the_transfer_of_halves_whose_clocks_disagree():
    """With the network, which nobody can tell from it: a user's wait less what both halves took."""
    client = replace(CLIENT, ttft_s=0.2)
    apart = replace(
        DECODE,
        start_at_ns=DECODE.start_at_ns + 300_000 * MS_NS,
        end_at_ns=DECODE.end_at_ns + 300_000 * MS_NS,
    )
    before, after = join([client, *PAIR]), join([client, PREFILL, apart])

    assert after.kv_transfer_s == pytest.approx(before.kv_transfer_s + before.network_s)
    assert after.network_s is None
    assert after.unknown[Stage.NETWORK] == "clocks disagree"
    assert told(client, PREFILL, apart)["kv_transfer"] == [after.kv_transfer_s]


def test_a_transfer_is_not_known_where_the_queue_is_not():
    assert join([PREFILL, replace(DECODE, queue_s=None)]).kv_transfer_s is None


@pytest.mark.parametrize(("decode_prompt", "waits"), [(400, 1), (401, 1), (402, 0), (None, 1)])
def test_two_halves_belong_together_by_their_prompt(decode_prompt, waits):
    values = told(PREFILL, replace(DECODE, prompt_tokens=decode_prompt))

    assert len(values.get("ttft", [])) == waits


def test_a_trace_of_two_disaggregated_calls_is_two_users_waits():
    """An agent calls twice, the second time with a longer prompt."""
    later_ns = 5 * 10**9
    second = [
        replace(
            half,
            span_id=half.span_id[::-1],
            prompt_tokens=900,
            start_at_ns=half.start_at_ns + later_ns,
            end_at_ns=half.end_at_ns + later_ns,
        )
        for half in PAIR
    ]

    assert told(*PAIR, *second)["ttft"] == [0.16, 0.16]


def test_a_retry_counts_both_attempts_and_is_shown_as_the_first():
    retry = replace(SERVER, span_id=b"retry   ", start_at_ns=AT_NS + 1, ttft_s=0.2)

    assert told(SERVER, retry)["ttft"] == [0.3, 0.2]
    assert told(retry, SERVER)["ttft"] == [0.2, 0.3]
    assert join([retry, SERVER]).ttft_s == 0.3


def test_of_a_try_that_was_broken_off_and_one_that_answered_the_answer_speaks():
    given_up = replace(
        SERVER, span_id=b"given up", outcome=Outcome.CANCELLED, finish_reason="abort", ttft_s=None
    )
    retry = replace(SERVER, span_id=b"retry   ", start_at_ns=AT_NS + 1, finish_reason="stop")
    request = join([given_up, retry])

    assert (request.ttft_s, request.finish_reason, request.output_tokens) == (0.3, "stop", 8)


def test_a_server_without_stages_above_an_engine_is_its_gateway():
    gateway = leg(until_ms=1050, ttft_s=0.33, span_id=b"gateway ")
    engine = replace(SERVER, parent_id=gateway.span_id)
    request = join([engine, gateway])

    assert request.measured_by == "frontend"
    assert (request.ttft_s, request.e2e_s) == (0.33, 1.05)
    assert (request.queue_s, request.prefill_s, request.decode_s) == (0.1, 0.15, 0.7)
    assert request.overhead_s == pytest.approx(0.1)
    assert request.labels == SERVER.labels
    assert len(requests_of([engine, gateway])) == 1


def test_a_client_who_had_its_answer_before_the_halves_did_proves_their_clocks_wrong():
    late = replace(
        DECODE,
        start_at_ns=DECODE.start_at_ns + 10_000 * MS_NS,
        end_at_ns=DECODE.end_at_ns + 10_000 * MS_NS,
    )
    request = join([CLIENT, PREFILL, late])

    assert request.ttft_s is request.e2e_s is request.overhead_s is None
    assert request.unknown[Stage.OVERHEAD] == request.unknown[Stage.NETWORK] == "clocks disagree"
    assert request.kv_transfer_s == pytest.approx(CLIENT.ttft_s - PREFILL.length_s - DECODE.queue_s)


def test_a_whole_engines_leg_speaks_before_halves():
    request = join([SERVER, *PAIR])

    assert request.ttft_s == 0.3
    assert request.kv_transfer_s is None
    assert request.labels == SERVER.labels


def test_a_trace_that_never_ends_joins_nothing_any_more():
    many = [replace(SERVER, span_id=n.to_bytes(8, "big")) for n in range(JOINED_LEGS_MAX)]

    assert len(told(CLIENT, *many[1:])["network"]) == JOINED_LEGS_MAX - 1
    assert "network" not in told(CLIENT, *many)
    assert len(told(CLIENT, *many)["ttft"]) == JOINED_LEGS_MAX + 1


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CANCELLED, Outcome.REJECTED])
@pytest.mark.parametrize("some_legs", [(CLIENT,), (SERVER,), PAIR])
def test_requests_that_did_not_end_well_are_in_no_latency(outcome, some_legs):
    assert told(*(replace(each, outcome=outcome) for each in some_legs)) == {}


def test_a_server_that_ended_well_is_heard_although_its_client_hung_up():
    assert told(replace(CLIENT, outcome=Outcome.CANCELLED), SERVER) == told(SERVER)


def test_a_one_token_answer_has_no_gap():
    assert replace(SERVER, output_tokens=1).tpot_s is None
    assert replace(SERVER, output_tokens=0).tpot_s is None
    assert replace(SERVER, output_tokens=None).tpot_s is None
    assert replace(SERVER, output_tokens=2).tpot_s == 0.7
    assert "tpot" not in told(replace(SERVER, output_tokens=1))


@pytest.mark.parametrize("missing", ["queue_s", "prefill_s", "decode_s", "e2e_s"])
def test_overhead_is_not_known_where_a_part_is_missing(missing):
    partial = replace(SERVER, **{missing: None})

    assert partial.overhead_s is None
    assert join([partial]).overhead_s is None
    assert "overhead" not in told(partial)


def test_zero_is_told_and_none_is_not():
    values = told(replace(SERVER, queue_s=0.0, prefill_s=None))

    assert values["queue"] == [0.0]
    assert "prefill" not in values


def test_parts_that_exceed_the_whole_leave_no_overhead_to_know():
    assert replace(SERVER, e2e_s=0.9).overhead_s is None
    assert replace(SERVER, e2e_s=0.9495).overhead_s == 0


@pytest.mark.parametrize(
    ("outcomes", "seen"),
    [
        ({LegKind.SERVER: Outcome.OK, LegKind.CLIENT: Outcome.FAILED}, Outcome.FAILED),
        ({LegKind.SERVER: Outcome.FAILED, LegKind.CLIENT: Outcome.OK}, Outcome.OK),
        ({LegKind.PREFILL: Outcome.OK, LegKind.DECODE: Outcome.FAILED}, Outcome.FAILED),
        ({LegKind.PREFILL: Outcome.CANCELLED, LegKind.DECODE: Outcome.OK}, Outcome.CANCELLED),
        ({LegKind.SERVER: Outcome.OK}, Outcome.OK),
    ],
)
def test_the_users_side_knows_best_how_it_ended(outcomes, seen):
    assert join([leg(kind, outcome=outcome) for kind, outcome in outcomes.items()]).outcome is seen


def test_a_request_reaches_from_its_first_to_its_last_leg():
    request = join([DECODE, PREFILL])

    assert request.start_at_ns == PREFILL.start_at_ns
    assert request.end_at_ns == DECODE.end_at_ns
    assert (request.prompt_tokens, request.output_tokens) == (400, 12)


def test_a_request_ends_as_its_decode_engine_says():
    prefill, decode = (
        replace(PREFILL, finish_reason="length"),
        replace(DECODE, finish_reason="stop"),
    )

    assert join([prefill, decode]).finish_reason == "stop"
    assert join([prefill]).finish_reason == ""


def test_a_lone_client_is_a_request_without_a_server():
    request = join([CLIENT])

    assert (request.client_ttft_s, request.client_e2e_s, request.itl_max_s) == (0.35, 1.1, 0.2)
    assert request.ttft_s is None
    assert set(request.stage_s.values()) == {None}


def test_a_request_has_a_leg():
    with pytest.raises(ValueError, match="at least one leg"):
        join([])


def test_a_span_that_ends_before_it_starts_is_refused():
    with pytest.raises(ValueError, match="end before it starts"):
        leg(until_ms=-1)


@pytest.mark.parametrize("value_s", [-0.001, float("nan"), float("inf")])
@pytest.mark.parametrize(
    "name", ["ttft_s", "e2e_s", "queue_s", "prefill_s", "decode_s", "itl_max_s"]
)
def test_what_is_no_duration_is_refused(name, value_s):
    with pytest.raises(ValueError, match=f"{name} must be a finite duration"):
        leg(**{name: value_s})
