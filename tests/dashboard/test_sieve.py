"""Which requests are shown, and in which order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.sieve import METRICS, NEWEST, SLOWEST, Sieve
from dashboard.url import View
from domain.request import Outcome
from domain.request_columns import REQUEST_VALUES, RequestColumns

sieves = st.builds(
    Sieve,
    status=st.sampled_from(["", *map(str, Outcome)]),
    metric=st.sampled_from(METRICS),
    over=st.integers(0, 10**9).map(lambda n: Sieve.from_query({"over": f"{n / 1e4:.4f}"}).over),
    order=st.sampled_from([NEWEST, SLOWEST]),
)
_seconds = st.one_of(st.just(float("nan")), st.floats(0, 100))
_rows = st.lists(st.tuples(_seconds, st.integers(0, 3), st.booleans()), max_size=40)


def many(rows):
    value_s = np.array([row[0] for row in rows], np.float64)
    return RequestColumns(
        trace_ids=[bytes(16)] * len(rows),
        end_at_s=np.arange(len(rows), 0, -1, dtype=np.float64),
        outcome=np.array([row[1] for row in rows], np.uint8),
        complete=np.array([row[2] for row in rows], bool),
        labels=[()] * len(rows),
        values=dict.fromkeys(REQUEST_VALUES, value_s),
    )


@given(sieves)
def test_a_copied_link_sieves_the_same(sieve):
    view = View(alone="requests", sieve=sieve)

    assert View.from_link(view.path(), view.query()) == view


@given(st.dictionaries(st.sampled_from(["status", "metric", "over", "order"]), st.text()))
def test_whatever_stands_in_an_address_sieves_somehow(known):
    assert isinstance(Sieve.from_query(known), Sieve)


@given(sieves, _rows)
def test_only_what_is_asked_for_is_shown(sieve, rows):
    found = many(rows)

    shown = sieve.rows(found)

    for row in shown.tolist():
        assert not sieve.status or list(Outcome)[rows[row][1]] == sieve.status
        assert not sieve.over or rows[row][0] > float(sieve.over)
    if not sieve.status and not sieve.over:
        assert sorted(shown.tolist()) == list(range(len(rows)))


@given(_rows)
def test_the_slowest_stand_first_and_what_nobody_measured_last(rows):
    shown = Sieve(order=SLOWEST).rows(many(rows)).tolist()

    ranked = [
        rows[row][0] if rows[row][2] and rows[row][0] == rows[row][0] else -1 for row in shown
    ]
    assert ranked == sorted(ranked, reverse=True)


def test_the_newest_stand_as_they_came():
    rows = many([(3.0, 0, True), (9.0, 0, True), (1.0, 1, False)])

    assert Sieve(order=NEWEST).rows(rows).tolist() == [0, 1, 2]
    assert Sieve().rows(rows).tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("written", "over"),
    [("1.50", "1.5"), ("007", "7"), ("0", ""), ("-3", ""), ("1e9", ""), ("NaN", ""), ("1,5", "")],
)
def test_a_threshold_is_a_number_of_seconds_or_none(written, over):
    assert Sieve.from_query({"over": written}).over == over


def test_a_sieve_that_nobody_can_mean_is_refused():
    with pytest.raises(ValueError, match="no such choice"):
        Sieve(metric="colour")
