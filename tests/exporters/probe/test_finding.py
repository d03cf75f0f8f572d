"""Cuts, lumps and cold starts by their numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.request import Outcome
from exporters.probe.exchange import Exchange
from exporters.probe.finding import LIMITS, cold_by_time, finding, late, lumps, where_lumps_begin


def exchange(**changes):
    return Exchange(**{"url": "http://here", "started_at_ns": 1, **changes})


def cut(lasted_s, idle_s, **changes):
    told = {"outcome": Outcome.FAILED, "reason": "cut_off", "trouble": "broke off"}
    return finding(exchange(lasted_s=lasted_s, idle_s=idle_s, **{**told, **changes})).reason


def streamed(gaps_s, **changes):
    return exchange(ttft_s=0.1, gaps_s=tuple(gaps_s), **changes)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.seconds} s")
def test_each_limit_is_named_where_it_counts_from(limit):
    named = f"cut_{limit.seconds}s"

    assert (cut(limit.seconds + 0.04, 0.01) == named) is limit.whole
    assert (cut(5000.0, limit.seconds + 0.04) == named) is limit.idle


@pytest.mark.parametrize(("lasted_s", "named"), [(29.2, "cut_29s"), (29.9, "cut_30s")])
def test_29_and_30_are_told_apart(lasted_s, named):
    assert cut(lasted_s, lasted_s) == named


@pytest.mark.parametrize("lasted_s", [0.1, 5.0, 14.0, 27.0, 29.5, 45.0, 63.0, 110.0, 1000.0])
def test_other_times_are_nobodys_limit(lasted_s):
    assert cut(lasted_s, 0.001) == "cut_off"


def test_the_closer_of_two_readings_is_told():
    found = exchange(
        lasted_s=30.4, idle_s=30.01, outcome=Outcome.FAILED, reason="cut_off", trouble="x"
    )

    assert "30.01 s after the last byte" in finding(found).sentence


@pytest.mark.parametrize("status", [408, 502, 503, 504, 524])
def test_a_gateways_answer_at_its_limit_is_a_cut(status):
    assert cut(29.02, 29.02, status=status, reason=f"http_{status}") == "cut_29s"


def test_our_own_timeout_and_a_quick_refusal_are_no_cuts():
    assert cut(30.0, 30.0, reason="timeout") == "timeout"
    assert cut(0.02, 0.02, status=503, reason="http_503") == "http_503"
    assert cut(30.0, 30.0, status=400, reason="http_400", outcome=Outcome.REJECTED) == "http_400"


def test_an_answer_that_is_well_has_no_finding():
    assert finding(streamed([0.01] * 9, e2e_s=29.0, lasted_s=29.0, status=200)) is None


def test_a_steady_stream_has_as_many_lumps_as_chunks():
    found = lumps(streamed([0.01] * 19))

    assert (found.chunks, found.lumps, found.held) == (20, 20, False)


def test_an_answer_that_comes_at_once_is_held():
    found = lumps(streamed([0.0] * 19))

    assert (found.lumps, found.held) == (1, True)
    assert "all 20 chunks came at once" in found.sentence


def test_lumps_of_several_chunks_are_held_back():
    gaps_s = ([0.0] * 7 + [0.25]) * 4

    found = lumps(streamed(gaps_s))

    assert (found.chunks, found.lumps, found.held) == (33, 5, True)
    assert "33 chunks came in 5 lumps, about 0.25 s apart" in found.sentence


def test_a_hiccup_of_ours_is_not_a_proxys():
    gaps_s = [0.01] * 20 + [0.2] + [0.0] * 15 + [0.01] * 30

    assert lumps(streamed(gaps_s)).held is False


def test_lumps_while_we_stood_in_line_ourselves_are_not_told():
    gaps_s = ([0.0] * 7 + [0.25]) * 4

    assert lumps(streamed(gaps_s, waited_s=0.01)).held
    assert lumps(streamed(gaps_s, waited_s=0.5)).held is None


def test_a_server_quicker_than_any_engine_is_not_said_to_hold_anything_back():
    at_once = exchange(ttft_s=0.003, gaps_s=(0.0001,) * 63)
    held = exchange(ttft_s=0.5, gaps_s=(0.0001,) * 63)

    assert lumps(at_once).held is None
    assert lumps(held).held is True


def test_bursts_of_a_few_milliseconds_are_jitter_and_no_proxys():
    gaps_s = ([0.0] * 5 + [0.004]) * 10

    assert lumps(streamed(gaps_s)).held is None


def test_chunks_of_many_tokens_are_made_by_who_writes_the_events():
    found = lumps(streamed([0.2] * 3, chunk_tokens=(16, 16, 16, 16)))

    assert found.held
    assert "64 tokens came in 4 chunks: who writes the events gathers tokens" in found.sentence


def test_speculative_decoding_is_no_lump():
    assert lumps(streamed([0.03] * 15, chunk_tokens=(4,) * 16)).held is False


@pytest.mark.parametrize("gaps_s", [[], [0.0] * 6])
def test_of_a_few_tokens_nothing_is_said(gaps_s):
    assert lumps(streamed(gaps_s)).held is None


def test_of_an_answer_without_tokens_nothing_is_said():
    assert lumps(exchange(status=500)).held is None


@given(st.lists(st.floats(0, 2), max_size=60))
def test_there_are_at_least_one_lump_and_at_most_as_many_as_chunks(gaps_s):
    found = lumps(streamed(gaps_s))

    assert 1 <= found.lumps <= found.chunks == len(gaps_s) + 1


@given(st.lists(st.sampled_from(["steady", "held", "short"]), min_size=1, max_size=5))
def test_the_place_is_the_first_that_holds_and_only_after_one_that_tells(kinds):
    gaps_s = {"steady": [0.01] * 19, "held": [0.0] * 19, "short": [0.01]}
    hops = [
        Exchange(url=f"http://{place}", started_at_ns=1, ttft_s=0.1, gaps_s=tuple(gaps_s[kind]))
        for place, kind in enumerate(kinds)
    ]

    begins = where_lumps_begin(hops)

    if "held" not in kinds:
        assert begins == ""
        return
    first = kinds.index("held")
    known = first == 0 or kinds[first - 1] == "steady"
    assert begins == (f"http://{first}" if known else "")


@pytest.mark.parametrize(
    ("first_s", "next_s", "usual_s", "cold"),
    [
        (4.0, 0.2, None, True),
        (4.0, 3.5, None, False),
        (0.9, 0.05, None, False),
        (4.0, 0.2, 3.9, False),
        (1.3, 0.2, 0.2, True),
    ],
)
def test_a_first_token_is_cold_when_it_is_late_against_the_next_and_the_usual(
    first_s, next_s, usual_s, cold
):
    found = cold_by_time(exchange(ttft_s=first_s), exchange(ttft_s=next_s), usual_s)

    assert (found is not None) is cold


def test_without_a_token_nothing_is_said_of_cold_starts():
    assert cold_by_time(exchange(), exchange(ttft_s=1.0), None) is None


@given(st.floats(0, 100), st.floats(0, 100))
def test_what_is_late_is_later_by_more_than_a_second_and_threefold(ttft_s, usual_s):
    assert late(ttft_s, usual_s) is (ttft_s >= 3 * usual_s and ttft_s >= usual_s + 1.0)
