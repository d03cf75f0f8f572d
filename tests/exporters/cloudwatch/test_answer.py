"""Answers are material to judge: what is sound is kept, what is not is counted."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.cloudwatch.answer import merge, of_series
from exporters.cloudwatch.asked import asked_of
from tests.exporters.cloudwatch.polling import SAGEMAKER, T0, settings_of


def asked_for(name="ModelLatency"):
    settings = settings_of(SAGEMAKER)
    (scope,) = settings.scopes
    every = asked_of(scope, scope.endpoints[0], settings.thresholds_s)
    return next(each for each in every if each.metric.name == name)


def result(id_, points, status="Complete", **more):
    return {
        "Id": id_,
        "Timestamps": list(points),
        "Values": list(points.values()),
        "StatusCode": status,
        **more,
    }


@given(
    st.dictionaries(st.integers(0, 30).map(lambda n: T0 + 60 * n), st.floats(0, 1e9)),
    st.lists(st.integers(0, 30), max_size=5),
)
def test_wherever_pages_are_cut_the_points_are_the_same(points, cuts):
    stamps = sorted(points)
    edges = sorted({0, len(stamps), *(min(cut, len(stamps)) for cut in cuts)})
    pages = [
        {"MetricDataResults": [result("m0_0", {at: points[at] for at in stamps[low:high]})]}
        for low, high in pairwise(edges)
    ]

    merged, _ = merge(pages)

    assert (merged["m0_0"].values if merged else {}) == points


def test_the_status_of_the_last_page_counts_and_the_worst_statistic_decides():
    asked = asked_for()
    whole = [result(f"m0_{at}", {T0: 50.0}) for at in range(5)]

    complete = of_series(merge([{"MetricDataResults": whole}])[0], 0, asked)
    whole[3] = result("m0_3", {}, "Forbidden")
    forbidden = of_series(merge([{"MetricDataResults": whole}])[0], 0, asked)
    missing = of_series(merge([{"MetricDataResults": whole[:2]}])[0], 0, asked)

    assert (complete.complete, complete.status) == (True, "Complete")
    assert (forbidden.complete, forbidden.status) == (False, "Forbidden")
    assert (missing.complete, missing.status) == (False, "Missing")
    assert set(missing.values[T0]) == {"SampleCount", "Sum"}


@pytest.mark.parametrize(
    ("second", "value", "reason"),
    [
        (T0, math.nan, "not_a_number"),
        (T0, math.inf, "not_a_number"),
        (T0, 1e30, "impossible"),
        (T0 + 7, 1.0, "unaligned"),
        (T0, "12", "not_a_number"),
    ],
)
def test_a_value_that_cannot_be_is_refused_and_counted_and_the_others_are_kept(
    second, value, reason
):
    told = [result("m0_0", {T0 + 60: 3.0}), result("m0_1", {second: value})]

    answer = of_series(merge([{"MetricDataResults": told}])[0], 0, asked_for())

    assert answer.refused == {reason: 1}
    assert answer.values == {T0 + 60: {"SampleCount": 3.0}}


def test_messages_of_a_call_and_of_a_result_are_not_lost():
    cut = {"Code": "MaxMetricsExceeded", "Value": "The first 500 are given"}
    denied = {"Code": "ArithmeticError", "Value": "division"}
    page = {
        "Messages": [cut],
        "MetricDataResults": [result("m0_0", {}, Messages=[denied])],
    }

    merged, said = merge([page])

    assert said == ["MaxMetricsExceeded: The first 500 are given"]
    assert merged["m0_0"].messages == ["ArithmeticError: division"]


def test_counts_stay_counts_and_microseconds_become_seconds():
    told = [result(f"m0_{at}", {T0: value}) for at, value in enumerate((4.0, 8e6, 2e6, 3e6, 75.0))]

    answer = of_series(merge([{"MetricDataResults": told}])[0], 0, asked_for())

    assert {name: round(value, 9) for name, value in answer.values[T0].items()} == {
        "SampleCount": 4.0,
        "Sum": 8.0,
        "p50": 2.0,
        "p99": 3.0,
        "PR(:10)": 75.0,
    }
