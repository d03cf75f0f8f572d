"""What is left of a budget, when it is gone, and who is told so how often."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.budget import LEVELS, Budget, after_level, forecast
from alerts.state import QUIET
from domain.objective import Severity

HALF, QUARTER, NOTHING = LEVELS
DAY_S = 86_400
HOUR_S = 3600
MONTH = 12_960_000  # five requests a second for 30 days


def budget(spent, *, possibly=None, allowed=Fraction(129_600), **more):
    return Budget(
        allowed=allowed,
        spent_low=spent,
        spent_high=spent if possibly is None else possibly,
        total=MONTH,
        period_s=30 * DAY_S,
        counted_since_s=0,
        begin_s=more.pop("begin_s", 0),
        at_s=more.pop("at_s", 30 * DAY_S),
        **more,
    )


@pytest.mark.parametrize(("spent", "hours"), [(0, 50), (129_600 * 4 // 10, 30)])
def test_a_burn_of_14_4_empties_a_full_budget_in_50_hours(spent, hours):
    """W27."""
    burn = Fraction(144, 10)

    found = forecast(budget(spent), burn, burn)

    assert found.earliest_s == found.latest_s == hours * HOUR_S


def test_a_doubtful_burn_gives_the_span_in_which_it_ends():
    found = forecast(budget(0, possibly=64_800), Fraction(1), Fraction(5))

    assert (found.earliest_s, found.latest_s) == (3 * DAY_S, 30 * DAY_S)


def test_what_does_not_burn_is_never_gone_and_what_is_spent_is_gone_now():
    assert forecast(budget(10), Fraction(0), Fraction(0)).earliest_s is None
    assert forecast(budget(200_000), Fraction(1), Fraction(1)).earliest_s == 0
    assert forecast(budget(0, allowed=Fraction(0)), None, None).latest_s is None


def test_a_calendar_budget_is_forecast_to_the_end_of_its_month():
    """Ten days of February spent as many requests as were allowed; half a budget lasts the rest."""
    february = {"end_s": 28 * DAY_S, "at_s": 14 * DAY_S}
    half = Budget(
        allowed=Fraction(100),
        spent_low=100,
        spent_high=100,
        total=10_000,
        period_s=28 * DAY_S,
        counted_since_s=0,
        **february,
    )

    assert half.remaining_low == 0
    assert half.of_period_low == Fraction(1, 2)
    assert forecast(half, Fraction(1), Fraction(2)).ends_in_s == 14 * DAY_S
    assert forecast(half, Fraction(2), Fraction(2)).earliest_s == 7 * DAY_S
    assert forecast(half, Fraction(1, 2), Fraction(1, 2)).earliest_s is None


def test_an_outage_in_the_first_hour_of_a_month_has_spent_little_of_the_month():
    """A tenth of an hour bad, of which 1 % may be: ten times the hour's, a 72nd of the month's."""
    young = Budget(
        allowed=Fraction(36),
        spent_low=360,
        spent_high=360,
        total=3600,
        period_s=30 * DAY_S,
        counted_since_s=0,
        begin_s=0,
        at_s=HOUR_S,
    )

    assert young.remaining_low == -9
    assert young.of_period_low == 1 - Fraction(10, 720)


def heard(shares, level):
    """How often a level is told and untold over these minutes."""
    alert, told = QUIET, 0
    for index, share in enumerate(shares):
        left = Fraction(share).limit_denominator(10_000).as_integer_ratio()
        after = after_level(alert, level, *left, at_s=60 * index)
        told += after.open and not alert.open
        alert = after
    return told, alert.open


def test_a_budget_that_hovers_at_its_limit_is_told_once():
    """SL23: +0.1 and -0.1 % in turn for an hour."""
    hovering = [0.25 + (0.001 if index % 2 else -0.001) for index in range(60)]

    assert heard(hovering, QUARTER) == (1, True)


def test_a_note_is_over_five_points_above_where_it_was_told():
    assert heard([0.6, 0.5, 0.54, 0.55], HALF) == (1, True)
    assert heard([0.6, 0.5, 0.5501], HALF) == (1, False)
    assert heard([0.6, 0.5, 0.5501, 0.5], HALF) == (2, True)
    assert heard([0.1, 0.0, 0.04], NOTHING) == (1, True)


@given(st.lists(st.floats(-1, 1), max_size=50))
def test_a_level_is_never_open_more_than_five_points_above_it(shares):
    for level in LEVELS:
        alert = QUIET
        for share in shares:
            left = Fraction(share)
            alert = after_level(alert, level, *left.as_integer_ratio(), at_s=0)
            assert not alert.open or left <= level.share + Fraction(5, 100)
            assert alert.open or left > level.share


def test_no_level_ever_pages():
    assert [each.severity for each in LEVELS] == [Severity.INFO, Severity.TICKET, Severity.INFO]
