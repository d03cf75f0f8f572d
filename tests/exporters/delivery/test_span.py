"""Numbers in a row, against the plain sets that they stand for."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from exporters.delivery.span import merged, uncovered

spans = st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda each: (each[0], sum(each)))


def numbers(several):
    return {number for first, until in several for number in range(first, until)}


@given(st.lists(spans))
def test_merged_spans_hold_the_same_numbers_in_as_few_as_can_be(several):
    found = merged(several)

    assert numbers(found) == numbers(several)
    assert all(before[1] < after[0] for before, after in pairwise(found))


@given(spans, st.lists(spans))
def test_what_is_uncovered_is_in_the_span_and_in_no_other(span, others):
    found = uncovered(span, others)

    assert numbers(found) == numbers([span]) - numbers(others)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
