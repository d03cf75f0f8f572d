"""Groups of a long trace: whoever can tell something of another stands in its group."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from domain.family import Family
from domain.kin import kin
from domain.leg import LegKind
from domain.request import JOINED_LEGS_MAX, requests_of
from domain.telling import tell
from tests.domain.test_request import CLIENT, DECODE, PREFILL, SERVER
from tests.strategies import families, legs

several_legs = st.lists(legs, max_size=8, unique_by=lambda leg: (leg.trace_id, leg.span_id))
UNSEEN = b"an agent"


def named(leg, number, parent=b"", **told):
    return replace(leg, span_id=number.to_bytes(8, "big"), parent_id=parent, **told)


def ids(groups):
    return [[leg.span_id for leg in group] for group in groups]


@given(st.one_of(several_legs, families()))
def test_every_leg_stands_in_one_group(found):
    assert sorted(id(leg) for group in kin(found) for leg in group) == sorted(map(id, found))


@given(st.one_of(several_legs, families()))
def test_lines_never_leave_a_group(found):
    family = Family(found)
    for group in kin(found):
        inside = {leg.span_id for leg in group}
        assert all(each.span_id in inside for leg in group for each in family.above(leg))


def test_calls_of_an_agent_that_nobody_sent_are_apart():
    calls = [named(CLIENT, number, UNSEEN) for number in range(1, 4)]
    served = [named(SERVER, number + 10, calls[number - 1].span_id) for number in range(1, 4)]

    assert ids(kin([*calls, *served])) == [
        [call.span_id, server.span_id] for call, server in zip(calls, served, strict=True)
    ]


def test_two_halves_asked_by_somebody_who_sends_nothing_are_together():
    halves = [named(PREFILL, 1, UNSEEN), named(DECODE, 2, UNSEEN)]

    assert ids(kin([*halves, named(SERVER, 3, UNSEEN)])) == [
        [half.span_id for half in halves],
        [(3).to_bytes(8, "big")],
    ]


def test_halves_beneath_links_of_one_asker_are_together():
    links = [
        named(replace(SERVER, kind=LegKind.LINK, ttft_s=None, e2e_s=None), number, UNSEEN)
        for number in (1, 2)
    ]
    halves = [named(PREFILL, 3, links[0].span_id), named(DECODE, 4, links[1].span_id)]

    assert len(kin([*links, *halves])) == 1


def test_who_met_in_a_room_is_together_across_traces():
    prefill = named(PREFILL, 1, room=7)
    decode = named(DECODE, 1, room=7, trace_id=b"u" * 16)

    assert len(kin([prefill, decode, named(DECODE, 2, room=8)])) == 2


def test_legs_that_are_each_others_parents_are_one_group():
    one, other = named(PREFILL, 1, (2).to_bytes(8, "big")), named(DECODE, 2, (1).to_bytes(8, "big"))

    assert len(kin([one, other, named(DECODE, 3, (3).to_bytes(8, "big"))])) == 2


def many_pairs(n):
    made = []
    for number in range(1, n + 1):
        call = named(CLIENT, 3 * number, UNSEEN)
        made += [
            call,
            named(PREFILL, 3 * number + 1, call.span_id),
            named(DECODE, 3 * number + 2, call.span_id),
        ]
    return made


def test_a_long_trace_tells_of_every_call_what_the_call_alone_tells():
    n = JOINED_LEGS_MAX
    alone = tell(many_pairs(1))
    told = tell(many_pairs(n))

    assert len(told.values) == n * len(alone.values)
    assert {each.metric for each in told.values} == {each.metric for each in alone.values}


def test_a_long_trace_holds_as_many_requests_as_calls():
    found = requests_of(many_pairs(JOINED_LEGS_MAX))

    assert len(found) == JOINED_LEGS_MAX
    assert all(request.network_s is not None for request, _ in found)
