"""A promise is a ratio of counts, judged exactly: a tie keeps it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import ConfigError
from domain.indicator import LatencyIndicator
from domain.objective import DAY_S, BurnRule, Objective, Severity, burn_rules, burns
from domain.slice import Tally


def objective(target="0.99", **told):
    indicator = LatencyIndicator(metric="ttft", threshold_s=Fraction("1.5"))
    return Objective(name="chat-ttft", indicator=indicator, target=Fraction(target), **told)


def rule(factor):
    return BurnRule(
        name="page-slow",
        severity=Severity.PAGE,
        factor=Fraction(factor),
        long_s=21_600,
        short_s=1800,
    )


def counted(bad, total, *, perhaps=0):
    return Tally(good_low=total - bad - perhaps, good_high=total - bad, total=total)


counts = st.integers(0, 5000).flatmap(
    lambda total: st.tuples(st.integers(0, total), st.just(total))
)


def test_a_tie_does_not_burn():
    """180 of 3000 is exactly 6 x 1 %: floats fire here."""
    assert not burns(counted(180, 3000), objective(), rule(6), surely=True)
    assert burns(counted(181, 3000), objective(), rule(6), surely=True)


@pytest.mark.parametrize("target", ["0.9", "0.95", "0.99", "0.995", "0.999", "0.9999"])
@pytest.mark.parametrize("factor", ["1", "3", "6", "14.4", "13.44", "5.6", "2.8"])
@pytest.mark.parametrize("total", [10**6, 3 * 10**6, 7 * 10**6])
def test_no_tie_burns_and_one_more_does(target, factor, total):
    tie = Fraction(factor) * (1 - Fraction(target)) * total
    assert tie.denominator == 1
    if tie < total:
        judged = [
            burns(counted(bad, total), objective(target), rule(factor), surely=True)
            for bad in (int(tie), int(tie) + 1)
        ]

        assert judged == [False, True]


@given(
    counts,
    st.sampled_from(("0.9", "0.95", "0.99", "0.995", "0.999", "0.9999")),
    st.sampled_from(("1", "3", "6", "14.4", "13.44")),
)
def test_burning_is_a_strict_comparison_of_integers(count, target, factor):
    bad, total = count
    budget_per_10000 = 10_000 - int(Fraction(target) * 10_000)
    factor_per_100 = int(Fraction(factor) * 100)

    found = burns(counted(bad, total), objective(target), rule(factor), surely=True)

    assert found == (bad * 1_000_000 > factor_per_100 * budget_per_10000 * total)


@given(counts, counts, st.sampled_from((1, 3, 6)))
def test_two_windows_that_burn_burn_together(one, other, factor):
    (bad, total), (more_bad, more) = one, other
    parts = [burns(counted(*each), objective(), rule(factor), surely=True) for each in (one, other)]
    whole = counted(bad + more_bad, total + more)

    found = burns(whole, objective(), rule(factor), surely=True)

    assert found or not all(parts)
    assert any(parts) or not found


@given(counts, st.integers(0, 100))
def test_what_surely_burns_possibly_burns(count, perhaps):
    bad, total = count
    told = counted(bad, total, perhaps=min(perhaps, total - bad))

    surely = burns(told, objective(), rule(6), surely=True)

    assert burns(told, objective(), rule(6), surely=False) or not surely


def test_a_page_rests_on_what_is_sure_and_a_ticket_on_what_is_possible():
    told = counted(30, 1000, perhaps=80)

    assert not burns(told, objective(), rule(6), surely=True)
    assert burns(told, objective(), rule(6), surely=False)


def test_no_traffic_never_burns():
    assert not burns(Tally(), objective(), rule(1), surely=False)
    assert not burns(Tally(minutes=60, observed_minutes=60), objective(), rule(1), surely=True)


def test_one_request_over_the_limit_burns_and_one_under_does_not():
    assert burns(counted(145, 1000), objective(), rule("14.4"), surely=True)
    assert not burns(counted(144, 1000), objective(), rule("14.4"), surely=True)


def test_a_budget_has_no_float_dust():
    assert objective("0.9").budget == Fraction(1, 10)


@pytest.mark.parametrize(
    ("days", "factors"),
    [
        (30, ("14.4", "6", "3", "1")),
        (28, ("13.44", "5.6", "2.8", "1")),
        (14, ("6.72", "2.8", "1.4", "1")),
        (7, ("3.36", "1.4", "1", "1")),
        (90, ("43.2", "18", "9", "3")),
        (1, ("1", "1", "1")),
    ],
)
def test_the_table_of_factors(days, factors):
    rules = burn_rules(days * DAY_S)

    assert tuple(each.factor for each in rules) == tuple(map(Fraction, factors))


def test_the_table_of_windows():
    rules = burn_rules(30 * DAY_S)

    assert [(each.name, each.severity, each.long_s, each.short_s) for each in rules] == [
        ("page-quick", "page", 3600, 300),
        ("page-slow", "page", 21_600, 1800),
        ("ticket-quick", "ticket", 86_400, 7200),
        ("ticket-slow", "ticket", 259_200, 21_600),
    ]


@given(st.integers(3600, 400 * DAY_S))
def test_no_rule_fires_while_the_promise_is_kept(period_s):
    for each in burn_rules(period_s):
        assert each.factor >= 1
        assert each.short_s < each.long_s <= period_s
        assert not burns(counted(10, 1000), objective(), each, surely=False)


def test_a_steady_95_percent_of_the_budget_never_opens_a_ticket():
    """28 days: a factor of 0.9333 would, though the budget lasts."""
    slow = burn_rules(28 * DAY_S)[-1]

    assert not burns(counted(95, 10_000), objective(), slow, surely=True)


@pytest.mark.parametrize("target", ["0", "1", "1.5", "-0.1"])
def test_a_target_that_leaves_nothing_to_measure_is_refused_with_the_way_out(target):
    with pytest.raises(ConfigError, match=r"'chat-ttft'.*above 0 and below 100 %"):
        objective(target)


def test_a_negative_number_of_events_is_refused():
    with pytest.raises(ConfigError, match="min_events"):
        objective(min_events=-1)


def test_a_metric_that_is_no_latency_is_refused_and_the_latencies_named():
    with pytest.raises(ConfigError, match=r"'requests_running' is no latency.*ttft, tpot"):
        LatencyIndicator(metric="requests_running", threshold_s=Fraction(1))


@pytest.mark.parametrize("threshold_s", [0, -1])
def test_a_threshold_of_nothing_is_refused(threshold_s):
    with pytest.raises(ConfigError, match="nothing is faster"):
        LatencyIndicator(metric="ttft", threshold_s=Fraction(threshold_s))
