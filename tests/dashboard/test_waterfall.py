"""A request's stages as bars: in order, true to length, and never a zero for what is not known."""

import pytest
from hypothesis import given

from dashboard.waterfall import first_token_s, pieces, waterfall, who_saw_it
from domain.labels import labels_of
from domain.leg import Leg, LegKind
from domain.request import Stage, join, requests_of
from tests.dashboard.told import told_of as to_json
from tests.strategies import families

S = 10**9
TRACE = b"t" * 16


def leg(kind=LegKind.SERVER, *, start_s=100.0, lasts_s=4.0, span=b"a" * 8, **more):
    labels = labels_of({"service": "chat", "replica": f"r-{kind}", **more.pop("labels", {})})
    return Leg(
        trace_id=TRACE,
        span_id=span,
        kind=kind,
        labels=labels,
        start_at_ns=int(start_s * S),
        end_at_ns=int((start_s + lasts_s) * S),
        **more,
    )


def engine(**more):
    told = {"ttft_s": 1.5, "e2e_s": 4.0, "queue_s": 1.0, "prefill_s": 0.5, "decode_s": 2.4}
    return leg(**(told | more))


@given(families())
def test_no_stage_is_left_out_and_none_is_invented(legs):
    for request, _ in requests_of(legs):
        found, whole_s = pieces(request)

        assert [each.stage for each in found] == list(Stage)
        for each in found:
            assert each.seconds == request.stage_s[each.stage]
            assert (each.seconds is None) == bool(each.why)
            if each.seconds is not None:
                assert each.begin_s >= 0
                assert each.begin_s + each.seconds <= whole_s * (1 + 1e-9) + 1e-9


def test_known_stages_follow_each_other():
    found, whole_s = pieces(join([engine()]))

    at = {each.stage: (each.begin_s, each.seconds) for each in found if each.seconds is not None}
    assert whole_s == pytest.approx(4.0)
    assert at[Stage.QUEUE] == pytest.approx((0.1, 1.0))
    assert at[Stage.PREFILL] == pytest.approx((1.1, 0.5))
    assert at[Stage.DECODE] == pytest.approx((1.6, 2.4))


def test_decoding_ends_at_the_end_where_something_before_it_is_not_known():
    found, _ = pieces(join([engine(prefill_s=None)]))

    (decode,) = (each for each in found if each.stage is Stage.DECODE)
    assert decode.begin_s == pytest.approx(1.6)
    assert next(each for each in found if each.stage is Stage.PREFILL).why == "not in any span"


def test_what_was_not_measured_is_named_with_the_way_out_and_has_no_bar():
    told = to_json(waterfall(join([engine(queue_s=None)])))

    assert "piece stage-queue" not in told
    assert "was not measured: not in any span" in told
    assert "was not measured: no client told. Next: send client spans" in told
    assert "no part of this request: one engine did it all" in told


def test_a_pair_shows_the_hand_over_and_both_halves():
    legs = [
        leg(LegKind.PREFILL, lasts_s=1.0, span=b"p" * 8, ttft_s=1.0, e2e_s=1.0, queue_s=0.2,
            prefill_s=0.8, output_tokens=1, labels={"pool": "fill"}),
        leg(LegKind.DECODE, start_s=101.1, lasts_s=3.0, span=b"d" * 8, parent_id=b"p" * 8,
            ttft_s=0.1, e2e_s=3.0, queue_s=0.05, prefill_s=0.05, decode_s=2.9, output_tokens=30,
            labels={"pool": "speak"}),
    ]  # fmt: skip
    ((request, own),) = requests_of(legs)

    told, table = to_json(waterfall(request)), to_json(who_saw_it(request, own))

    assert request.kv_transfer_s is not None
    assert "piece stage-kv_transfer" in told
    assert [name in table for name in ("fill", "speak", "r-prefill", "r-decode")] == [True] * 4


def test_a_client_says_when_the_first_token_was_there():
    client = leg(LegKind.CLIENT, start_s=99.9, lasts_s=4.2, span=b"c" * 8, ttft_s=1.7, e2e_s=4.2)
    request = join([client, engine(parent_id=b"c" * 8)])

    assert first_token_s(request) == 1.7
    assert request.network_s == pytest.approx(0.2)
    assert "first token" in to_json(waterfall(request))


def test_a_request_of_no_length_is_drawn_without_dividing_by_it():
    request = join([leg(lasts_s=0.0, queue_s=0.0)])

    assert "0 s" in to_json(waterfall(request))
