"""What CloudWatch's numbers may be made into, and what not (cases CW8, CW9)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.endpoint import (
    EndpointKey,
    EndpointPoint,
    Good,
    PointState,
    answered,
    availability,
    definition_of,
    good_count,
    good_share,
    is_statistic,
    pooled,
    rank_statistic,
    rank_threshold,
)
from domain.errors import InputError

KEY = EndpointKey(
    account="111122223333",
    region="us-east-1",
    namespace="AWS/SageMaker",
    name="ModelLatency",
    dimensions=(("EndpointName", "llm-prod"),),
)


def point(start_s=0, *, state=PointState.VALUE, **statistics):
    named = {name.replace("PR", "PR(:2)"): value for name, value in statistics.items()}
    return EndpointPoint(
        key=KEY, service="chat", start_s=start_s, fetched_at_s=0.0, state=state, statistics=named
    )


def test_good_counts_give_98_02_percent_where_averaging_gives_49_5():
    points = [point(0, SampleCount=1000, PR=99.0), point(60, SampleCount=10, PR=0.0)]

    share = pooled("PR(:2)", points)

    assert round(share, 2) == 98.02
    assert sum(p.statistics["PR(:2)"] for p in points) / 2 == 49.5


@pytest.mark.parametrize("statistic", ["p50", "p99", "p99.9"])
def test_a_percentile_of_two_points_is_refused_and_the_way_out_is_named(statistic):
    points = [point(0, **{statistic: 0.1}), point(60, **{statistic: 2.0})]

    with pytest.raises(InputError, match=r"PR\(:threshold\) and SampleCount"):
        pooled(statistic, points)
    assert pooled(statistic, points[:1]) == 0.1


def test_hours_that_differ_by_45_times_have_the_same_mean_of_p99_and_different_good_counts():
    quiet = [point(60 * m, SampleCount=1000, p99=0.2, PR=100.0) for m in range(59)]
    quiet.append(point(3540, SampleCount=10, p99=9.0, PR=0.0))
    awful = [point(60 * m, SampleCount=10, p99=0.2, PR=100.0) for m in range(59)]
    awful.append(point(3540, SampleCount=1000, p99=9.0, PR=0.0))

    mean_of_p99 = [sum(p.statistics["p99"] for p in hour) / 60 for hour in (quiet, awful)]

    assert [round(1000 * value, 1) for value in mean_of_p99] == [346.7, 346.7]
    assert pooled("PR(:2)", quiet) > 99.9
    assert pooled("PR(:2)", awful) == pytest.approx(100 * 590 / 1590)


def test_a_mean_is_weighed_by_its_samples():
    points = [point(0, SampleCount=900, Sum=90.0), point(60, SampleCount=100, Sum=200.0)]

    assert pooled("Average", points) == pytest.approx(0.29)
    assert pooled("Sum", points) == 290.0
    assert pooled("SampleCount", points) == 1000


def test_extremes_are_extremes_and_no_data_is_neither_zero_nor_a_hundred_percent():
    silent = [point(state=PointState.NO_DATA), point()]

    assert pooled("Maximum", [point(Maximum=3.0), point(60, Maximum=7.0)]) == 7.0
    assert pooled("Minimum", [point(Minimum=3.0), point(60, Minimum=7.0)]) == 3.0
    for statistic in ("Sum", "Average", "PR(:2)", "Maximum", "p99"):
        assert pooled(statistic, silent) is None
    assert good_share([]) is None
    assert pooled("PR(:2)", [point(SampleCount=0, PR=0.0)]) is None


def test_a_statistic_that_nobody_knows_how_to_add_is_refused():
    with pytest.raises(InputError, match="no statistic that adds"):
        pooled("tm99", [])


@given(st.integers(0, 10**6), st.data())
def test_a_pr_of_full_precision_gives_the_very_count(total, data):
    good = data.draw(st.integers(0, total))
    percent = 100 * good / total if total else 0.0

    assert good_count(percent, float(total)) == Good(good, good, total)


@given(st.integers(1, 10**5), st.integers(0, 4), st.data())
def test_a_pr_rounded_to_digits_never_excludes_the_truth_by_more_than_belief_in_whole_products(
    total, digits, data
):
    good = data.draw(st.integers(0, total))
    percent = round(100 * good / total, digits)

    told = good_count(percent, float(total))

    nearest = Fraction(repr(percent)) * total / 100
    believed = abs(nearest - round(nearest)) <= Fraction(1, 10**6) * total
    assert believed or told.low <= good <= told.high


def test_a_pr_that_gives_no_whole_count_gives_the_count_that_its_digits_allow():
    assert good_count(97.5, 120.0) == Good(117, 117, 120)
    assert good_count(96.6, 118.0) == Good(114, 114, 118)
    assert good_count(33.3, 10_000.0) == Good(3330, 3330, 10_000)
    doubtful = good_count(33.33, 99_999.0)
    assert doubtful.low < doubtful.high


@pytest.mark.parametrize(("percent", "samples"), [(101.0, 5), (-1.0, 5), (50.0, 2.5), (50.0, -1)])
def test_a_share_that_cannot_be_is_refused(percent, samples):
    with pytest.raises(InputError, match="is no count"):
        good_count(percent, samples)


def test_availability_is_told_under_either_definition_and_says_which():
    counts = {"invocations": 90, "server_errors": 10, "throttles": 100}

    successes = availability(**counts, counts_failures=False)
    accepted = availability(**counts, counts_failures=True)

    assert successes.share == Fraction(45, 100)
    assert round(100 * float(accepted.share), 1) == 42.1
    assert successes.label == "Invocations are successes only"
    assert accepted.label == "Invocations are accepted, failed ones included"


COUNT = st.integers(0, 10**9)


@given(COUNT, COUNT, COUNT, st.booleans())
def test_availability_is_never_above_one_nor_below_zero(invocations, errors, throttles, failures):
    told = availability(
        invocations=invocations,
        server_errors=errors,
        throttles=throttles,
        counts_failures=failures,
    )

    assert (told is None) == (invocations + errors + throttles == 0)
    assert told is None or 0 <= told.share <= 1


def test_a_count_below_zero_is_refused():
    with pytest.raises(InputError, match="below zero"):
        availability(invocations=-1, server_errors=0, throttles=0, counts_failures=False)


def test_statistics_are_told_from_other_words():
    assert all(map(is_statistic, ["Sum", "p50", "p99.9", "PR(:2)", "PR(:0.3)", "Maximum"]))
    assert not any(map(is_statistic, ["", "p101", "PR(2:)", "sum", "PR(:-1)", "p9999", "IQM"]))
    assert rank_statistic(2_000_000) == "PR(:2000000)"
    assert rank_statistic(0.3) == "PR(:0.3)"


COUNTS = st.integers(0, 500)


@given(COUNTS, COUNTS, COUNTS, st.booleans())
def test_answered_counts_are_the_share_that_is_shown(done, failed, throttled, counts_failures):
    told = {"invocations": done, "server_errors": failed, "throttles": throttled}

    counted = answered(**told, counts_failures=counts_failures)
    shown = availability(**told, counts_failures=counts_failures)

    assert 0 <= counted.low == counted.high <= counted.total
    if shown is None:
        assert not counted.total
    else:
        assert shown.share == Fraction(counted.low, counted.total)
        assert shown.label == definition_of(counts_failures=counts_failures)


def test_a_count_that_is_not_whole_leaves_a_request_in_doubt():
    counted = answered(invocations=9.5, server_errors=0, throttles=0, counts_failures=False)

    assert (counted.low, counted.high, counted.total) == (9, 10, 10)


@given(st.decimals(min_value="0.000001", max_value=3600, places=6))
def test_a_rank_says_up_to_what_it_counts(threshold):
    assert float(rank_threshold(rank_statistic(float(threshold)))) == float(threshold)


@pytest.mark.parametrize("name", ["p99", "Sum", "PR(2:)", "PR(:x)"])
def test_what_is_no_rank_has_no_threshold(name):
    assert rank_threshold(name) is None
