"""Words are counts as bytes: joined words are the counts of all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.words import COUNT_MAX, compact, decode, encode
from domain.distribution import exact
from domain.grid import CELLS, OVER
from tests.strategies import samples

counts = st.dictionaries(
    st.integers(0, OVER),
    st.one_of(st.integers(1, 1000), st.integers(COUNT_MAX - 2, 3 * COUNT_MAX + 2)),
    max_size=12,
)


def side_of(held):
    side = np.zeros(CELLS, np.int64)
    for cell, count in held.items():
        side[cell] = count
    return side


@given(counts)
def test_counts_come_back_as_they_were(held):
    side = side_of(held)

    assert (decode([encode(side)]) == side).all()


@given(st.lists(counts, max_size=4), st.randoms())
def test_joined_words_are_the_counts_of_all_in_any_order(many, random):
    sides = [side_of(held) for held in many]
    blobs = random.sample([encode(side) for side in sides], len(sides))

    assert (decode([b"".join(blobs)]) == sum(sides, side_of({}))).all()
    assert (decode(blobs) == sum(sides, side_of({}))).all()


@given(st.lists(samples, min_size=1, max_size=4))
def test_compacting_changes_no_count_and_takes_a_word_per_cell(many):
    blob = b"".join(encode(exact(values_s).low) for values_s in many)
    short = compact(blob)

    assert (decode([short]) == decode([blob])).all()
    assert len(short) == 4 * np.count_nonzero(decode([blob]))
    assert compact(short) == short


def test_nothing_is_no_bytes():
    assert encode(side_of({})) == b""
    assert decode([]).sum() == 0
    assert compact(b"") == b""


@pytest.mark.parametrize(
    ("count", "words"), [(1, 1), (COUNT_MAX, 1), (COUNT_MAX + 1, 2), (2 * COUNT_MAX, 2)]
)
def test_a_count_beyond_20_bits_repeats_its_word(count, words):
    blob = encode(side_of({OVER: count}))

    assert len(blob) == 4 * words
    assert decode([blob])[OVER] == count


def test_a_word_is_little_endian_cell_then_count():
    assert encode(side_of({3: 5})) == (3 << 20 | 5).to_bytes(4, "little")


@given(st.binary(max_size=64).map(lambda blob: blob[: len(blob) // 4 * 4]))
def test_any_words_decode_to_counts_of_the_grid(blob):
    """A cell that the grid does not have can only come from a damaged file: it is not counted."""
    side = decode([blob])

    assert side.shape == (CELLS,)
    assert (side >= 0).all()
