"""Events come out of bytes whole, however the bytes were cut, and nothing grows without end."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.probe.failure import ProbeError
from exporters.probe.sse import LINE_BYTES, Events

lines = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20)


def read(*pieces):
    events = Events("here")
    return [data for piece in pieces for data in events.feed(piece)] + events.rest()


@given(
    st.lists(st.lists(lines, min_size=1, max_size=3), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_events_are_the_same_however_the_bytes_are_cut_and_lines_end(events, end, cuts):
    whole = "".join(
        "".join(f"data: {line}{end}" for line in event) + end for event in events
    ).encode()
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    pieces = [whole[a:b] for a, b in pairwise(places)]

    assert read(*pieces) == ["\n".join(event).encode() for event in events]


def test_a_letter_that_is_cut_in_the_middle_is_whole_again():
    euro = 'data: {"content": "€"}\n\n'.encode()

    assert read(euro[:18], euro[18:19], euro[19:]) == ['{"content": "€"}'.encode()]


def test_comments_names_ids_and_unknown_fields_are_no_data():
    assert read(b": ping\n\nevent: message\nid: 7\nretry: 10\ndatum: 1\ndata: x\n\n") == [b"x"]


def test_a_byte_order_mark_and_a_missing_space_do_no_harm():
    assert read(b"\xef\xbb\xbfdata:x\n\n") == [b"x"]


def test_an_end_of_line_in_two_pieces_is_one():
    assert read(b"data: a\r", b"\n\r", b"\ndata: b\r\n\r\n") == [b"a", b"b"]


def test_json_lines_are_events_too():
    assert read(b'{"a": 1}\n{"b"', b": 2}\n") == [b'{"a": 1}', b'{"b": 2}']


def test_what_has_no_end_when_the_stream_is_over_is_still_read():
    assert read(b"data: last") == [b"last"]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: " + b"x" * LINE_BYTES],
        [b"data: ", *[b"x" * 65536] * 17],
        [b"data: " + b"x" * 65536 + b"\n"] * 17,
    ],
    ids=["one line", "one line in pieces", "one event of many lines"],
)
def test_what_grows_without_end_is_refused(pieces):
    with pytest.raises(ProbeError, match="longer than"):
        read(*pieces)


def test_an_endless_stream_of_small_events_is_refused():
    events, piece = Events("here"), b": keep-alive\n\n" * 4681

    for _ in range(1024):
        assert events.feed(piece) == []
    with pytest.raises(ProbeError, match="the answer is longer"):
        events.feed(piece)
