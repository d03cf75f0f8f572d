"""Records as bytes: read back as they were written, or recognised as not being so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.labels import labels_of
from exporters.delivery.frame import HEADER_BYTES, Record, decode, encode, scan, size_in, torn

texts = st.text(min_size=1, max_size=20)
owners = st.dictionaries(texts, texts, max_size=4).map(labels_of)
numbers = st.integers(0, 2**62)
losses = st.tuples(owners, texts, st.integers(1, 10**9))
spans = st.tuples(numbers, numbers)


@st.composite
def records(draw, number=numbers):
    lost = tuple(draw(st.lists(losses, max_size=3)))
    return Record(
        number=draw(number),
        put_at_ns=draw(numbers),
        at_ns=draw(numbers),
        owner=draw(owners),
        packed=draw(st.binary(max_size=200)),
        plain_bytes=draw(st.integers(0, 2**31)),
        traces=draw(st.booleans()),
        has_memo=draw(st.booleans()),
        lost=lost,
        gone=tuple(draw(st.lists(spans, max_size=3))) if lost else (),
    )


@given(records())
def test_what_was_written_is_read(record):
    assert decode(encode(record)) == record


@given(st.lists(records(), max_size=6))
def test_records_one_after_the_other_are_all_found(several):
    data = b"".join(map(encode, several))

    found = list(scan(data))

    assert [each.record for each in found] == several
    assert [each.offset for each in found] == [0, *(each.end for each in found)][: len(found)]
    assert not found or found[-1].end == len(data)


@given(st.lists(records(), min_size=1, max_size=5), st.data())
def test_a_changed_byte_costs_the_record_that_it_is_in_and_no_other(several, data):
    frames = list(map(encode, several))
    hit = data.draw(st.integers(0, len(frames) - 1))
    at = data.draw(st.integers(0, len(frames[hit]) - 1))
    changed = bytearray(frames[hit])
    changed[at] ^= data.draw(st.integers(1, 255))

    found = [each.record for each in scan(b"".join([*frames[:hit], changed, *frames[hit + 1 :]]))]

    assert found == several[:hit] + several[hit + 1 :]


@given(records(), records(), st.data())
def test_an_end_that_was_not_written_is_told_from_one_that_was_damaged(whole, cut, data):
    before, after = encode(whole), encode(cut)
    written = data.draw(st.integers(1, len(after) - 1))

    assert torn(before + after[:written], len(before))
    assert [each.record for each in scan(before + after[:written])] == [whole]
    assert not torn(before + b"\xff" * written, len(before))
    assert not torn(before + after[:-1] + b"\0" * 9, len(before))


@given(st.binary(max_size=300))
def test_whatever_bytes_there_are_nothing_breaks(data):
    assert decode(data) is None
    assert list(scan(b"SWX1" + data)) == []
    assert size_in(data) is None or data.startswith(b"SWX1")


@pytest.mark.parametrize(
    "said",
    ["{}", "[]", "null", "7", '{"owner": 3}', '{"owner": [["a"]]}', '{"owner": [], "lost": [1]}'],
)
def test_a_record_of_another_version_is_as_good_as_damaged(said):
    import struct
    import zlib

    payload = struct.pack("<QQQIH", 1, 2, 3, 4, len(said)) + said.encode()
    frame = struct.pack("<4sII", b"SWX1", len(payload), zlib.crc32(payload)) + payload

    assert len(frame) == HEADER_BYTES + size_in(frame)
    assert decode(frame) is None
