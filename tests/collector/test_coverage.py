"""What is already counted is known by its interval, however it was cut and wherever it was kept."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from collector.coverage import Coverage, covered, merged
from collector.store import open_store

STREAM = b"0123456789abcdef"
SECOND_NS = 1_000_000_000
_instants = st.integers(0, 40)
_intervals = st.lists(
    st.tuples(_instants, st.integers(1, 9)).map(lambda told: (told[0], told[0] + told[1])),
    max_size=12,
)


def instants(intervals):
    return {at for start, end in intervals for at in range(start + 1, end + 1)}


@given(_intervals)
def test_merging_keeps_every_instant_in_as_few_intervals_as_can_be(intervals):
    found = merged(intervals)

    assert instants(found) == instants(intervals)
    assert all(a[1] < b[0] for a, b in pairwise(found))


@given(_intervals, _instants, st.integers(1, 9))
def test_an_interval_is_covered_when_all_of_it_is(intervals, start, length):
    inside = instants([(start, start + length)]) <= instants(intervals)

    assert covered(merged(intervals), start, start + length) == inside


def claiming(path, *intervals, coverage=None):
    store = open_store(path)
    coverage = coverage or Coverage()
    with store.engine.begin() as connection:
        answers = [
            coverage.claim(connection, STREAM, start * SECOND_NS, end * SECOND_NS)
            for start, end in intervals
        ]
        coverage.save(connection)
    store.close()
    return answers


def test_the_same_interval_counts_once(tmp_path):
    assert claiming(tmp_path, (10, 20), (10, 20), (20, 30), (12, 28)) == [True, False, True, False]


def test_an_interval_that_reaches_further_counts(tmp_path):
    assert claiming(tmp_path, (10, 20), (15, 25), (10, 25)) == [True, True, False]


def test_what_was_counted_is_known_after_a_restart(tmp_path):
    claiming(tmp_path, (10, 20), (30, 40))

    assert claiming(tmp_path, (30, 40), (20, 30), (10, 40)) == [False, True, False]


def test_an_interval_over_the_ten_minutes_is_one_interval(tmp_path):
    assert claiming(tmp_path, (595, 1805)) == [True]
    assert claiming(tmp_path, (600, 1200), (590, 1805), (590, 1805)) == [False, True, False]


def test_a_steady_stream_costs_one_interval_per_ten_minutes(tmp_path):
    claiming(tmp_path, *((at, at + 2) for at in range(0, 1200, 2)))

    store = open_store(tmp_path)
    with store.engine.begin() as connection:
        sizes = connection.exec_driver_sql(
            "SELECT at_s, length(intervals) FROM coverage"
        ).fetchall()
    store.close()
    assert [tuple(row) for row in sizes] == [(0, 16), (600, 16)]


def test_a_claim_that_was_not_saved_is_forgotten(tmp_path):
    store, coverage = open_store(tmp_path), Coverage()
    with store.engine.connect() as connection:
        transaction = connection.begin()
        assert coverage.claim(connection, STREAM, 0, 5)
        assert coverage.claim_reading(connection, STREAM, 7)
        transaction.rollback()
        coverage.forget()
        with connection.begin():
            assert coverage.claim(connection, STREAM, 0, 5)
            assert coverage.claim_reading(connection, STREAM, 7)
    store.close()


def test_a_reading_counts_once_also_after_a_restart(tmp_path):
    store = open_store(tmp_path)
    for expected in (True, False):
        coverage = Coverage()
        with store.engine.begin() as connection:
            assert coverage.claim_reading(connection, STREAM, 61 * SECOND_NS) is expected
            assert coverage.claim_reading(connection, STREAM, 61 * SECOND_NS) is False
            coverage.save(connection)
    store.close()
