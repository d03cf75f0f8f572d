"""An agent's trace is many requests, a user's one; what was sent of it decides, not the order."""

from collections import Counter
from dataclasses import replace

import pytest

from domain.leg import ALONE, Leg, LegKind, Outcome
from domain.request import Stage, requests_of
from domain.telling import tell

AT_NS = 1_800_000_000_000_000_000
MS_NS = 1_000_000


def leg(kind, span_id, parent_id=b"", *, since_ms=0, until_ms=1000, **told):
    return Leg(
        **{
            "trace_id": b"t" * 16,
            "labels": (("replica", span_id.strip().decode()),),
            "start_at_ns": AT_NS + since_ms * MS_NS,
            "end_at_ns": AT_NS + until_ms * MS_NS,
            "kind": kind,
            "span_id": span_id.ljust(8),
            "parent_id": parent_id.ljust(8) if parent_id else b"",
            **told,
        }
    )


def call(number, *, above=b"agent", ttft_s=0.5, network_s=0.1):
    """A client beneath an agent's own span, an HTTP span beneath it, and the server it reached."""
    client, post, server = (
        f"{name}{number}".encode().ljust(8) for name in ("client", "post", "server")
    )
    times = {"since_ms": 2000 * number, "until_ms": 2000 * number + 1500}
    return [
        leg(LegKind.CLIENT, client, above, ttft_s=ttft_s + network_s, e2e_s=1.5, **times),
        leg(LegKind.LINK, post, client, **times),
        leg(LegKind.SERVER, server, post, ttft_s=ttft_s, e2e_s=1.4, **times),
    ]


def networks(legs):
    return sorted(round(each.value_s, 9) for each in tell(legs).values if each.metric == "network")


def test_an_agents_calls_are_requests_each_with_its_own_server():
    legs = [*call(1, network_s=0.1), *call(2, network_s=0.2), *call(3, network_s=0.3)]

    found = requests_of(legs)

    assert [round(request.network_s, 9) for request, _ in found] == [0.1, 0.2, 0.3]
    assert networks(legs) == [0.1, 0.2, 0.3]
    assert [len(group) for _, group in found] == [3, 3, 3]


def test_a_server_knows_no_network_until_the_span_between_has_come():
    """It may be any other call's: what is told is never taken back."""
    client, post, server = call(1)
    other = call(2)[0]

    assert networks([other, server]) == []
    assert networks([other, client, server]) == []
    assert networks([other, client, post, server]) == [0.1]


def test_the_only_client_of_a_trace_is_shown_with_the_only_server():
    """A gateway between them belongs to somebody who sends us nothing."""
    client, _, server = call(1)

    ((request, _),) = requests_of([client, server])

    assert request.network_s == pytest.approx(0.1)
    assert networks([client, server]) == []


def test_of_several_clients_the_one_that_counted_the_same_tokens_called_the_server():
    first, _, server = call(1, network_s=0.1)
    second = call(2, network_s=0.2)[0]
    counted = {"prompt_tokens": 100, "output_tokens": 7}
    legs = [replace(first, prompt_tokens=90, output_tokens=7), replace(second, **counted),
            replace(server, **counted)]  # fmt: skip

    found = requests_of(legs)

    assert [request.network_s for request, _ in found] == [None, pytest.approx(0.2)]


def test_a_client_at_the_root_of_its_trace_is_above_everything_in_it():
    client, _, server = call(1)
    root = replace(client, parent_id=b"")

    assert networks([root, server]) == [0.1]
    assert networks([replace(client, parent_id=ALONE), server]) == [0.1]


def test_a_call_within_a_call_is_one_request_of_the_outer_one():
    """One instrumentation within another: both wait, both say so."""
    outer = leg(LegKind.CLIENT, b"outer", b"app", ttft_s=0.7, e2e_s=1.6)
    client, post, server = call(1, above=b"outer")

    ((request, _),) = requests_of([outer, client, post, server])

    assert request.client_ttft_s == 0.7
    assert networks([outer, client, post, server]) == [0.1, 0.2]


def test_links_alone_are_no_request():
    assert requests_of([leg(LegKind.LINK, b"post"), leg(LegKind.LINK, b"other", b"post")]) == []


def half(kind, span_id, parent_id=b"", **told):
    prefill = kind is LegKind.PREFILL
    times = {"since_ms": 0, "until_ms": 100} if prefill else {"since_ms": 110, "until_ms": 610}
    own = {"ttft_s": 0.1, "e2e_s": 0.1, "queue_s": 0.02, "prefill_s": 0.07}
    if not prefill:
        own = {"ttft_s": 0.05, "e2e_s": 0.5, "queue_s": 0.01, "decode_s": 0.44}
    return leg(kind, span_id, parent_id, **{**times, **own, "prompt_tokens": 400, **told})


def halves(number, above, **told):
    return [
        half(LegKind.PREFILL, f"prefill{number}".encode(), above, **told),
        half(LegKind.DECODE, f"decode{number}".encode(), above, **told),
    ]


def ttfts(legs):
    return [each for each in tell(legs).values if each.metric == "ttft"]


def test_equal_prompts_of_several_calls_are_not_mixed_up():
    """Best of three: the same prompt, each call with its own pair."""
    legs = [each for n in (1, 2, 3) for each in halves(n, f"call {n}".encode())]

    assert len(ttfts(legs)) == 3
    assert [len(group) for _, group in requests_of(legs)] == [2, 2, 2]


def test_halves_beneath_hops_of_a_proxy_are_one_request():
    proxy = leg(LegKind.LINK, b"proxy", b"nobody")
    hops = [leg(LegKind.LINK, name, b"proxy") for name in (b"hop 1", b"hop 2")]
    pair = [half(LegKind.PREFILL, b"p", b"hop 1"), half(LegKind.DECODE, b"d", b"hop 2")]

    assert len(ttfts([proxy, *hops, *pair])) == 1
    assert len(ttfts([*hops, *pair])) == 1  # both say who is above them, though it never came
    assert len(ttfts(pair)) == 0


def test_the_only_halves_of_a_trace_are_shown_as_one_request():
    pair = [half(LegKind.PREFILL, b"p", b"hop 1"), half(LegKind.DECODE, b"d", b"hop 2")]

    ((request, _),) = requests_of(pair)

    assert request.ttft_s == pytest.approx(0.16)


def met(kind, span_id, trace, **told):
    return half(kind, span_id, trace_id=trace, room=77, prompt_tokens=None, **told)


def test_halves_that_met_in_a_room_are_one_request_of_two_traces():
    """SGLang: both are asked at once, so decode's own durations hold everything."""
    prefill = met(LegKind.PREFILL, b"p", b"1" * 16, queue_s=None, prefill_s=None)
    decode = met(LegKind.DECODE, b"d", b"2" * 16, ttft_s=0.3, e2e_s=0.8, queue_s=None,
                 since_ms=-300_000, until_ms=-299_200)  # fmt: skip
    pieces = [
        leg(kind, name, b"p", trace_id=b"1" * 16, since_ms=since_ms, until_ms=until_ms)
        for kind, name, since_ms, until_ms in (
            (LegKind.QUEUE_SLICE, b"waiting", 10, 60),
            (LegKind.PREFILL_SLICE, b"forward", 60, 160),
            (LegKind.TRANSFER_SLICE, b"transfer", 160, 200),
        )
    ]

    ((request, _),) = requests_of([prefill, decode, *pieces])

    assert (request.ttft_s, request.e2e_s) == (0.3, 0.8)
    assert request.stage_s == {
        Stage.NETWORK: None,
        Stage.QUEUE: pytest.approx(0.05),
        Stage.PREFILL: pytest.approx(0.1),
        Stage.KV_TRANSFER: pytest.approx(0.04),
        Stage.DECODE: 0.44,
        Stage.OVERHEAD: pytest.approx(0.8 - 0.05 - 0.1 - 0.04 - 0.44),
    }
    told = Counter(each.metric for each in tell([prefill, decode, *pieces]).values)
    assert told == Counter(("ttft", "e2e", "queue", "prefill", "kv_transfer", "decode", "overhead"))
    assert not +tell([prefill, decode]).doubts


def test_halves_of_other_rooms_are_other_requests():
    pair = [met(LegKind.PREFILL, b"p", b"t" * 16),
            replace(met(LegKind.DECODE, b"d", b"t" * 16), room=78)]  # fmt: skip

    assert len(requests_of(pair)) == 2
    assert ttfts(pair) == []


def dynamo(*, outcome=Outcome.OK, ttft_s=0.5):
    """A frontend, its routes, and two handlers that overlap."""
    return {
        "frontend": leg(LegKind.FRONTEND, b"front", b"user", ttft_s=ttft_s, e2e_s=1.0,
                        decode_s=1.0 - ttft_s, outcome=outcome),
        "to prefill": leg(LegKind.LINK, b"route p", b"front", since_ms=10, until_ms=420),
        "to decode": leg(LegKind.LINK, b"route d", b"front", since_ms=11, until_ms=999),
        "prefill": leg(LegKind.PREFILL, b"p", b"route p", since_ms=20, until_ms=410,
                       prefill_s=0.39),
        "decode": leg(LegKind.DECODE, b"d", b"route d", since_ms=21, until_ms=998),
    }  # fmt: skip


def told(legs):
    return {
        (each.metric, dict(each.labels)["replica"]): round(each.value_s, 9)
        for each in tell(legs).values
    }


def test_a_frontends_wait_is_cut_on_the_critical_path():
    legs = list(dynamo().values())

    ((request, _),) = requests_of(legs)

    assert (request.measured_by, request.ttft_s, request.e2e_s) == ("frontend", 0.5, 1.0)
    assert request.stage_s == {
        Stage.NETWORK: None,
        Stage.OVERHEAD: pytest.approx(0.02),
        Stage.QUEUE: None,
        Stage.PREFILL: 0.39,
        Stage.KV_TRANSFER: pytest.approx(0.09),
        Stage.DECODE: 0.5,
    }
    assert request.unknown == {
        Stage.NETWORK: "no client told",
        Stage.QUEUE: "not in any span",
    }
    assert told(legs) == {
        ("ttft", "front"): 0.5,
        ("e2e", "front"): 1.0,
        ("prefill", "p"): 0.39,
        ("decode", "d"): 0.5,
        ("kv_transfer", "d"): 0.09,
        ("overhead", "d"): 0.02,
    }


@pytest.mark.parametrize("off_ms", [-300_000, -50, 450, 300_000])
def test_a_handler_with_a_clock_of_its_own_is_laid_into_the_middle_of_its_route(off_ms):
    legs = dynamo()
    off = replace(
        legs["prefill"],
        start_at_ns=legs["prefill"].start_at_ns + off_ms * MS_NS,
        end_at_ns=legs["prefill"].end_at_ns + off_ms * MS_NS,
    )

    ((request, _),) = requests_of([*({**legs, "prefill": off}.values())])

    assert request.overhead_s == pytest.approx(0.02)
    assert request.kv_transfer_s == pytest.approx(0.09)
    assert tell([*({**legs, "prefill": off}.values())]).doubts["clock_disagreements_total"] == 1


def test_a_first_token_before_the_end_of_prefill_knows_no_transfer():
    legs = list(dynamo(ttft_s=0.4).values())

    ((request, _),) = requests_of(legs)

    assert request.kv_transfer_s is None
    assert request.unknown[Stage.KV_TRANSFER] == "legs overlap"
    assert "kv_transfer" not in {each.metric for each in tell(legs).values}
    assert tell(legs).doubts["overlapping_transfers_total"] == 1


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CANCELLED, Outcome.REJECTED])
def test_workers_of_a_request_that_did_not_end_well_tell_nothing(outcome):
    legs = list(dynamo(outcome=outcome).values())

    ((request, _),) = requests_of(legs)

    assert request.outcome is outcome
    assert told(legs) == {}


def test_workers_without_their_frontend_are_an_incomplete_request():
    """It lost its last spans when it was stopped."""
    legs = [each for name, each in dynamo().items() if name != "frontend"]

    ((request, _),) = requests_of(legs)

    assert not request.complete
    assert (request.ttft_s, request.e2e_s) == (None, None)
    assert told(legs) == {}


def test_workers_whose_route_is_missing_are_shown_beneath_the_only_frontend():
    legs = [each for each in dynamo().values() if each.kind is not LegKind.LINK]

    ((request, _),) = requests_of(legs)

    assert request.complete
    assert (request.prefill_s, request.decode_s) == (0.39, 0.5)
    assert request.kv_transfer_s is None  # by whose clock the handler began is not known


@pytest.mark.parametrize(("outcome", "complete"), [(Outcome.OK, False), (Outcome.CANCELLED, True)])
def test_what_was_prefilled_well_is_decoded_by_somebody(outcome, complete):
    ((request, _),) = requests_of([half(LegKind.PREFILL, b"p", outcome=outcome)])

    assert request.complete is complete


def test_a_decode_engine_may_do_it_alone():
    ((request, _),) = requests_of([half(LegKind.DECODE, b"d")])

    assert request.complete


def test_a_frontend_above_whole_engines_is_the_server_and_the_rest_is_overhead():
    front = leg(LegKind.FRONTEND, b"front", ttft_s=0.4, e2e_s=1.2, decode_s=0.8)
    engine = leg(LegKind.SERVER, b"engine", b"front", ttft_s=0.3, e2e_s=1.0, queue_s=0.1,
                 prefill_s=0.2, decode_s=0.7)  # fmt: skip

    ((request, _),) = requests_of([front, engine])

    assert (request.measured_by, request.ttft_s, request.e2e_s) == ("frontend", 0.4, 1.2)
    assert request.overhead_s == pytest.approx(0.2)


def test_parents_that_go_round_in_circles_lead_nowhere():
    legs = [leg(LegKind.CLIENT, b"one", b"two"), leg(LegKind.SERVER, b"two", b"one"),
            leg(LegKind.LINK, b"self", b"self")]  # fmt: skip

    assert sum(len(group) for _, group in requests_of(legs)) == 2
    tell(legs)
