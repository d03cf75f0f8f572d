"""What a month costs, and how a budget is kept."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.endpoint_catalogue import of_kind
from domain.endpoint_metric import Tier
from exporters.cloudwatch.asked import asked_of
from exporters.cloudwatch.plan import USD_PER_METRIC, Budget, planned
from exporters.cloudwatch.schedule import Schedule
from tests.exporters.cloudwatch.polling import BEDROCK, MODEL, SAGEMAKER, T0, settings_of

DAY_S = 86_400
USUAL = {  # optional metrics that an ordinary endpoint publishes
    "CacheReadInputTokenCount",
    "CacheWriteInputTokenCount",
    "ConcurrentRequestsPerModel",
    "FirstChunkLatency",
    "FirstChunkModelLatency",
    "FirstChunkOverheadLatency",
    "MidStreamErrors",
}


def series(endpoint):
    told = settings_of(endpoint)
    (scope,) = told.scopes
    present = [(row.namespace, row.name) for row in of_kind(endpoint["kind"]) if row.name in USUAL]
    return asked_of(scope, scope.endpoints[0], told.thresholds_s, present=present)


@pytest.mark.parametrize(("endpoint", "metrics"), [(SAGEMAKER, 16), (BEDROCK, 11)])
def test_an_endpoint_that_is_active_half_the_hours_costs_at_most_1_60_dollars_a_month(
    endpoint, metrics
):
    asked = series(endpoint)

    plan = planned(asked, active_share=0.5)

    assert len(asked) == metrics
    assert sum(each.billed_units for each in asked) == metrics
    assert plan.usd_per_month <= 1.60


@pytest.mark.parametrize(
    ("endpoint", "always", "half", "a_tenth"),
    [(SAGEMAKER, 2.39, 1.56, 0.89), (BEDROCK, 2.51, 1.56, 0.79)],
)
def test_other_hours_cost_no_more_than_the_tiers_were_chosen_for(endpoint, always, half, a_tenth):
    """What objectives need each minute is 1.73 $ by itself where every hour has traffic."""
    asked = series(endpoint)
    costs = [planned(asked, active_share=share).usd_per_month for share in (1, 0.5, 0.1)]

    assert costs[0] > costs[1] > costs[2]
    assert round(costs[0], 2) <= always
    assert round(costs[1], 2) <= half
    assert round(costs[2], 2) <= a_tenth
    assert costs[1] == pytest.approx((costs[0] + planned(asked, active_share=0).usd_per_month) / 2)


@settings(max_examples=10)
@given(st.integers(0, 120), st.floats(0, 59))
def test_the_plan_is_what_the_schedule_does(endpoints, offset_s):
    asked = [
        each
        for n in range(endpoints)
        for each in series({**BEDROCK, "dimensions": {"ModelId": f"m{n}"}})[:3]
    ]
    schedule, metrics = Schedule(), 0
    begins = T0 // 3600 * 3600

    for minute in range(60):
        now_s = begins + 60 * minute + offset_s
        due = schedule.due(asked, now_s, frozenset())
        schedule.done(due, now_s)
        metrics += sum(each.billed_units for each in due)

    assert metrics == planned(asked, active_share=1).metrics_per_hour


def test_an_idle_endpoint_is_asked_every_five_minutes():
    asked = [each for each in series(BEDROCK) if each.metric.tier is Tier.OBJECTIVE]
    idle = frozenset([asked[0].endpoint])
    schedule, times = Schedule(), []

    for minute in range(60):
        if due := schedule.due(asked, 60 * minute, idle):
            times.append(minute)
        schedule.done(due, 60 * minute)

    assert times == list(range(0, 60, 5))


def test_without_a_budget_everything_is_admitted():
    asked = series(BEDROCK)

    assert Budget(None).admitted(asked, asked, T0) == (asked, [])


def test_a_day_never_costs_more_than_its_budget_and_the_objectives_are_the_last_to_go():
    asked = series(SAGEMAKER)
    budget, schedule, seen = Budget(0.06), Schedule(), dict.fromkeys(Tier, 0)
    stopped = []
    begins = T0 // DAY_S * DAY_S

    for minute in range(DAY_S // 60):
        now_s = begins + 60 * minute
        due = schedule.due(asked, now_s, frozenset())
        schedule.done(due, now_s)
        taken, stops = budget.admitted(due, asked, now_s)
        budget.spend(sum(each.billed_units for each in taken), now_s)
        stopped += stops
        for each in taken:
            seen[each.metric.tier] += 1

    assert budget.spent_usd(now_s) <= 0.06
    assert stopped == [Tier.COLD, Tier.WARM]
    assert seen[Tier.OBJECTIVE] == 4 * 1440
    assert budget.spent_usd(begins + DAY_S) == 0


@settings(max_examples=15)
@given(st.floats(1e-4, 0.2))
def test_no_budget_is_ever_overspent(cap):
    asked = series({**BEDROCK, "dimensions": MODEL})
    budget, schedule = Budget(cap), Schedule()
    begins = T0 // DAY_S * DAY_S

    for minute in range(0, DAY_S // 60, 15):
        now_s = begins + 60 * minute
        due = schedule.due(asked, now_s, frozenset())
        schedule.done(due, now_s)
        taken, _ = budget.admitted(due, asked, now_s)
        budget.spend(sum(each.billed_units for each in taken), now_s)

    assert budget.spent_usd(now_s) <= cap + USD_PER_METRIC / 2
