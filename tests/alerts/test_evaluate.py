"""One verdict: strict, exact, sure enough for a page, and with its reason."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from alerts.evaluate import Reason, judge, limit_of, surely_above
from domain.objective import Severity, burn_rules, burns
from domain.slice import Tally
from tests.alerts.fleet import chat

QUICK, SLOW, TICKET_QUICK, TICKET_SLOW = burn_rules(30 * 86_400)
OBJECTIVE = chat("- {phrase: 'p99 ttft <= 1.5s', min_events: 0}")[0].objective
CAUTIOUS = chat()[0].objective
counts = st.integers(0, 10**7)


def seen(bad, total, *, possibly=None, minutes=60):
    possibly = bad if possibly is None else possibly
    return Tally(
        good_low=total - possibly,
        good_high=total - bad,
        total=total,
        minutes=minutes,
        observed_minutes=minutes,
    )


UNSEEN = Tally(minutes=60)


def reason(long, short, rule=QUICK, objective=OBJECTIVE):
    return judge(limit_of(objective, rule), long=long, short=short, observed=True).reason


def test_it_burns_only_where_both_windows_burn():
    assert reason(seen(145, 1000), seen(145, 1000)) is Reason.BURNING
    assert reason(seen(145, 1000), seen(144, 1000)) is Reason.CALM
    assert reason(seen(144, 1000), seen(145, 1000)) is Reason.CALM


def test_a_tie_does_not_burn():
    assert reason(seen(180, 3000), seen(180, 3000), SLOW) is Reason.CALM
    assert reason(seen(181, 3000), seen(181, 3000), SLOW) is Reason.BURNING


def test_nobody_looking_and_nobody_asking_are_different():
    assert reason(UNSEEN, UNSEEN) is Reason.NOT_OBSERVED
    assert reason(seen(0, 0), seen(0, 0)) is Reason.NO_TRAFFIC
    assert reason(seen(900, 1000), UNSEEN) is Reason.NOT_OBSERVED
    assert reason(seen(900, 1000), seen(0, 0)) is Reason.NO_TRAFFIC


def test_a_page_is_sure_and_a_ticket_is_possible():
    doubtful = seen(40, 10_000, possibly=150)

    assert reason(doubtful, doubtful, TICKET_SLOW) is Reason.BURNING
    assert reason(seen(0, 1000, possibly=900), seen(0, 1000, possibly=900)) is Reason.CALM


@pytest.mark.parametrize(
    ("bad", "total", "said"),
    [
        (1, 6, Reason.TOO_FEW),
        (2, 6, Reason.TOO_FEW),
        (3, 6, Reason.BURNING),
        (9, 60, Reason.TOO_FEW),
        (20, 100, Reason.BURNING),
        (165, 1000, Reason.BURNING),
    ],
)
def test_a_page_rests_on_ten_bad_requests_or_on_a_share_beyond_doubt(bad, total, said):
    assert reason(seen(bad, total), seen(bad, total), objective=CAUTIOUS) is said


def test_a_ticket_rests_on_any_count():
    assert reason(seen(1, 6), seen(1, 6), TICKET_QUICK, CAUTIOUS) is Reason.BURNING


@pytest.mark.parametrize(
    ("bad", "total", "above"),
    [(1, 6, False), (2, 6, False), (3, 6, True), (20, 100, False), (165, 1000, True)],
)
def test_the_lower_bound_is_the_one_of_the_worked_example(bad, total, above):
    assert surely_above(bad, total, Fraction(144, 1000)) is above


@given(bad=counts, good=counts, limit=st.fractions("0.001", "0.999", max_denominator=1000))
def test_the_exact_bound_agrees_with_wilsons_formula(bad, good, limit):
    total, z = bad + good, 1.645
    assume(total)
    p = bad / total
    root = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    wilson = (p + z * z / (2 * total) - root) / (1 + z * z / total)
    assume(abs(wilson - float(limit)) > 1e-9)

    assert surely_above(bad, total, limit) == (wilson > float(limit))


@given(bad=counts, good=counts, doubt=counts, rule=st.sampled_from(burn_rules(30 * 86_400)))
def test_a_verdict_is_the_domains_law(bad, good, doubt, rule):
    window = seen(bad, bad + good + doubt, possibly=bad + doubt)
    assume(window.total)

    burning = burns(window, OBJECTIVE, rule, surely=rule.severity is Severity.PAGE)

    assert (reason(window, window, rule) is Reason.BURNING) == burning


@given(bad=counts, good=counts, more_bad=counts, more_good=counts)
def test_two_windows_that_burn_burn_together(bad, good, more_bad, more_good):
    first, second = seen(bad, bad + good), seen(more_bad, more_bad + more_good)
    both = seen(bad + more_bad, first.total + second.total)
    assume(all(reason(each, each) is Reason.BURNING for each in (first, second)))

    assert reason(both, both) is Reason.BURNING


@given(bad=counts, good=counts)
def test_what_burns_also_holds(bad, good):
    window = seen(bad, bad + good)
    verdict = judge(limit_of(OBJECTIVE, QUICK), long=window, short=window, observed=True)

    assert verdict.holds or verdict.reason is not Reason.BURNING


def test_an_alert_holds_until_it_is_a_tenth_below_its_limit():
    def holds(bad):
        window = seen(bad, 10_000)
        return judge(limit_of(OBJECTIVE, QUICK), long=window, short=window, observed=True).holds

    assert holds(1297)
    assert not holds(1296)


def test_requests_without_a_first_token_are_bad():
    """1000 requests, 50 never answered, the rest fast: 95 %, a burn of 5."""
    window = seen(50, 1000)

    assert Fraction(window.bad_low, window.total) / OBJECTIVE.budget == 5
