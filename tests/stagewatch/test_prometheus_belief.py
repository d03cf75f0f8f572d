"""Of several Prometheuses one is believed: who, is decided by the instants of scrapes alone."""

from hypothesis import given
from hypothesis import strategies as st

from stagewatch.prometheus.belief import Belief

A, B = (("replica", "a"),), (("replica", "b"),)


def test_the_first_is_believed_until_another_is_ahead_by_the_failover_time():
    belief = Belief(30_000)

    assert belief.admits(A, 1_000)
    assert not belief.admits(B, 31_000)
    assert belief.admits(B, 31_001)
    assert not belief.admits(A, 40_000)
    assert belief.failovers == 1


def test_slow_scrapes_leave_two_of_them_before_another_takes_over():
    belief = Belief(30_000)
    for at_ms in (0, 60_000, 120_000):
        belief.admits(A, at_ms)

    assert not belief.admits(B, 120_000 + 120_000)
    assert belief.admits(B, 120_000 + 120_001)


def test_a_gap_is_no_interval_to_wait_for():
    belief = Belief(30_000)
    for at_ms in (0, 15_000, 900_000):
        belief.admits(A, at_ms)

    assert belief.admits(B, 900_000 + 60_001)


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 500_000)), max_size=60))
def test_what_is_admitted_only_ever_goes_forward(scrapes):
    belief = Belief(30_000)

    admitted = [at_ms for sender, at_ms in scrapes if belief.admits(sender, at_ms)]

    assert admitted == sorted(set(admitted))
