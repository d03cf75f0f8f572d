"""Legs as columns come back to the last bit, and what is absent stays absent."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import segment
from collector.legs import KINDS, OUTCOMES, SECONDS, STREAMED, TOKENS, LegTable, concat
from domain.errors import StoreError
from domain.leg import Leg, LegKind
from tests.strategies import families, legs

LABELS = (("service", "chat"),)


def table_of(made):
    return LegTable(
        trace_ids=b"".join(leg.trace_id for leg in made),
        span_ids=b"".join(leg.span_id for leg in made),
        parent_ids=b"".join(leg.parent_id or bytes(8) for leg in made),
        series_id=np.full(len(made), 7),
        kind=np.array([KINDS.index(leg.kind) for leg in made], np.uint8),
        outcome=np.array([OUTCOMES.index(leg.outcome) for leg in made], np.uint8),
        streamed=np.array([STREAMED.index(leg.streamed) for leg in made], np.uint8),
        room=np.array([leg.room for leg in made], np.int64),
        start_at_ns=np.array([leg.start_at_ns for leg in made], np.int64),
        end_at_ns=np.array([leg.end_at_ns for leg in made], np.int64),
        seconds={
            name: np.array([np.nan if (v := getattr(leg, name)) is None else v for leg in made])
            for name in SECONDS
        },
        tokens={
            name: np.array([-1 if (v := getattr(leg, name)) is None else v for leg in made])
            for name in TOKENS
        },
        finish=[leg.finish_reason for leg in made],
    )


def back(table):
    return [table.leg(row, {7: LABELS}) for row in range(len(table))]


@given(st.one_of(st.lists(legs, min_size=1, max_size=20), families()), st.booleans())
def test_what_goes_into_a_segment_comes_back_to_the_last_bit(made, packed):
    made = [replace(leg, labels=LABELS) for leg in made]

    read = segment.decode(segment.encode(table_of(made), packed=packed))

    assert back(read) == made


def leg(number, **fields):
    return Leg(
        trace_id=bytes([number]) * 16,
        span_id=bytes([number]) * 8,
        kind=LegKind.SERVER,
        labels=LABELS,
        start_at_ns=0,
        end_at_ns=number,
        **fields,
    )


@pytest.mark.parametrize("packed", [False, True])
def test_a_real_zero_is_not_absent(packed):
    made = [leg(1, queue_s=0.0, output_tokens=0), leg(2)]

    read = back(segment.decode(segment.encode(table_of(made), packed=packed)))

    assert [each.queue_s for each in read] == [0.0, None]
    assert [each.output_tokens for each in read] == [0, None]


def test_a_trace_is_found_at_its_own_place_only():
    ids = bytes(range(16)), bytes(range(8, 24))  # the second begins inside the first
    table = table_of([replace(leg(1), trace_id=each) for each in (ids[0], ids[1], ids[0])])

    assert table.rows_of(ids[0]) == [0, 2]
    assert table.rows_of(bytes(range(4, 20))) == []


def test_finish_reasons_survive_in_any_mix():
    made = [leg(1, finish_reason="stop"), leg(2), leg(3, finish_reason="länge")]

    read = back(segment.decode(segment.encode(table_of(made), packed=True)))

    assert [each.finish_reason for each in read] == ["stop", "", "länge"]


@given(st.lists(legs, min_size=2, max_size=10))
def test_parts_put_together_are_the_whole(made):
    made = [replace(each, labels=LABELS) for each in made]
    parts = [table_of(made[:1]), table_of(made[1:])]

    assert back(concat(parts)) == made
    assert back(table_of(made).take(np.array([len(made) - 1, 0]))) == [made[-1], made[0]]


def test_a_segment_of_a_newer_version_is_refused():
    blob = segment.encode(table_of([leg(1)]))

    with pytest.raises(StoreError, match=r"version 09.*Update Stagewatch"):
        segment.decode(b"\x09" + blob[1:])


def test_packing_makes_recorded_like_columns_smaller():
    made = [leg(n % 250 + 1, e2e_s=1.0 + n / 64, ttft_s=0.5, output_tokens=n) for n in range(4096)]
    table = table_of(made)

    assert len(segment.encode(table, packed=True)) < len(segment.encode(table)) / 2
