"""The life of an alert: what each verdict does to it, and what silence does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.evaluate import Reason, Verdict
from alerts.state import QUIET, Alert, Status, Timers, after, after_silence
from domain.objective import burn_rules
from domain.slice import Tally

RULE = burn_rules(30 * 86_400)[0]
AT_ONCE = Timers()


def verdict(reason, *, holds=False, observed=True):
    return Verdict(
        rule=RULE, reason=reason, long=Tally(), short=Tally(), holds=holds, observed=observed
    )


BURNING = verdict(Reason.BURNING, holds=True)
CALM = verdict(Reason.CALM)
IDLE = verdict(Reason.NO_TRAFFIC)
UNSEEN = verdict(Reason.NOT_OBSERVED, observed=False)
DARK = verdict(Reason.BURNING, holds=True, observed=False)
FEW = verdict(Reason.TOO_FEW, holds=True)


def lived(verdicts, timers=AT_ONCE, alert=QUIET):
    """The alert after each of the verdicts, one a minute."""
    found = []
    for index, each in enumerate(verdicts):
        alert = after(alert, each, timers, at_s=60 * index)
        found.append(alert)
    return found


def statuses(*arguments, **keywords):
    return [each.status.value for each in lived(*arguments, **keywords)]


def test_without_a_wait_it_fires_at_once_and_resolves_at_once():
    assert statuses([CALM, BURNING, BURNING, CALM, CALM]) == [
        "quiet",
        "firing",
        "firing",
        "resolved",
        "resolved",
    ]


def test_a_wait_is_served_in_full():
    timers = Timers(for_s=180)

    assert statuses([BURNING] * 4, timers) == ["pending", "pending", "pending", "firing"]
    assert statuses([BURNING, BURNING, CALM, BURNING], timers)[2:] == ["quiet", "pending"]


def test_a_minute_that_nobody_saw_leaves_the_wait_alone():
    minutes = lived([BURNING, BURNING, DARK, BURNING], Timers(for_s=180))

    assert [each.status.value for each in minutes] == ["pending", "pending", "pending", "firing"]
    assert [each.stale for each in minutes] == [False, False, True, False]


def test_silence_never_ends_a_page():
    minutes = lived([BURNING] + [UNSEEN] * 600)

    assert minutes[-1] == Alert(status=Status.FIRING, since_s=0, last_true_s=0, stale=True)


def test_an_observation_ends_it_and_the_staleness():
    assert lived([BURNING, UNSEEN, CALM])[-1] == Alert(
        status=Status.RESOLVED, since_s=120, last_true_s=0
    )


def test_nobody_asking_ends_a_page():
    assert statuses([BURNING, IDLE]) == ["firing", "resolved"]


def test_it_keeps_firing_as_long_as_told():
    timers = Timers(keep_firing_s=120)

    assert statuses([BURNING, CALM, CALM, CALM], timers) == [
        "firing",
        "recovering",
        "resolved",
        "resolved",
    ]
    assert statuses([BURNING, CALM, BURNING, CALM], timers)[2:] == ["firing", "recovering"]


def test_what_was_seen_before_a_gap_decides_when_it_is_over():
    assert statuses([BURNING, CALM, *[UNSEEN] * 10, CALM], Timers(keep_firing_s=300))[-2:] == [
        "recovering",
        "resolved",
    ]


def test_a_burn_just_below_the_limit_keeps_a_page_and_starts_none():
    just_below = verdict(Reason.CALM, holds=True)

    assert statuses([just_below, BURNING, just_below, CALM]) == [
        "quiet",
        "firing",
        "firing",
        "resolved",
    ]


def test_too_few_requests_start_no_page_but_keep_one():
    assert statuses([FEW, FEW, BURNING, FEW]) == ["quiet", "quiet", "firing", "firing"]


def test_a_quiet_alert_is_not_stale():
    assert not lived([CALM, UNSEEN])[-1].stale


@given(st.lists(st.sampled_from([BURNING, CALM, IDLE, UNSEEN, DARK, FEW])))
def test_only_an_observation_changes_a_status(verdicts):
    before = QUIET
    for index, each in enumerate(verdicts):
        now = after(before, each, Timers(for_s=60, keep_firing_s=60), at_s=60 * index)
        if not each.observed:
            assert (now.status, now.since_s) == (before.status, before.since_s)
        before = now


@given(st.lists(st.sampled_from([BURNING, CALM, UNSEEN, FEW])), st.integers(0, 300))
def test_no_page_begins_without_a_burn(verdicts, for_s):
    before = QUIET
    for index, each in enumerate(verdicts):
        now = after(before, each, Timers(for_s=for_s), at_s=60 * index)
        assert before.open or not now.open or each.reason is Reason.BURNING
        before = now


def watched(observed, *, known=True, live=True, for_s=120):
    alert = QUIET
    for index, each in enumerate(observed):
        alert = after_silence(
            alert, Timers(for_s=for_s), observed=each, known=known, live=live, at_s=60 * index
        )
    return alert.status


@pytest.mark.parametrize(
    ("observed", "status"),
    [
        ([True, False, False], Status.PENDING),
        ([True, False, False, False], Status.FIRING),
        ([True, False, False, True], Status.QUIET),
        ([True, False, False, False, True], Status.RESOLVED),
    ],
)
def test_no_data_fires_after_so_many_minutes_of_silence(observed, status):
    assert watched(observed) is status


def test_what_was_never_observed_is_not_missed():
    assert watched([False] * 10, known=False) is Status.QUIET


def test_our_own_absence_is_not_the_sources_silence():
    assert watched([False] * 10, live=False) is Status.QUIET
