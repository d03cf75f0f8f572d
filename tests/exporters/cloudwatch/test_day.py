"""A whole day against a fake that throttles, is late, and is asked at odd seconds: nothing is lost."""

import random

import pytest

from exporters.cloudwatch.plan import planned
from tests.exporters.cloudwatch.polling import (
    BEDROCK,
    MODEL,
    SAGEMAKER,
    T0,
    VARIANT,
    kept,
    polling,
    totals,
)

DAY_S = 86_400
MIDNIGHT = T0 // DAY_S * DAY_S
LATEST_S = 900


def _traffic(account, rng):
    """Requests of a day, each minute's samples visible in two lots, the second up to 15 min late."""
    for minute in range(MIDNIGHT - 600, MIDNIGHT + DAY_S, 60):  # it was busy before, too
        ends = minute + 60
        for namespace, dimensions, scale in (
            ("AWS/SageMaker", VARIANT, 1e6),
            ("AWS/Bedrock", MODEL, 1e3),
        ):
            latency = "ModelLatency" if namespace == "AWS/SageMaker" else "TimeToFirstToken"
            for late_s in (rng.uniform(0, 120), rng.uniform(0, LATEST_S)):
                n = rng.randint(1, 4)
                visible = {"visible_at_s": ends + late_s}
                at_s = minute + rng.uniform(0, 59.9)
                values = [float(round(rng.expovariate(1) * scale)) for _ in range(n)]
                account.put(namespace, "Invocations", dimensions, at_s, [1.0] * n, **visible)
                account.put(namespace, latency, dimensions, at_s, values, **visible)


@pytest.mark.slow
def test_a_day_sums_exactly_and_the_calls_made_are_the_calls_planned():
    rng = random.Random(4)  # noqa: S311 - the same day in every run
    with polling(SAGEMAKER, BEDROCK, at_s=MIDNIGHT, account={"throttle_share": 0.3}) as (
        poller,
        account,
        clock,
    ):
        _traffic(account, rng)
        plan = planned(poller.asked, active_share=1.0)
        rows, calls, failures = {}, 0, []
        for minute in range(DAY_S // 60):
            clock.now_s = max(clock.now_s, MIDNIGHT + 60 * minute + rng.uniform(0, 25))
            done = poller.poll(clock.now_s)
            kept(done.points, rows)
            calls += done.calls
            failures += done.failures
        billed, made = account.billed, len(account.answered("GetMetricData"))
        counted = poller.counts["billed_metrics"]
        for later_s in (600, 900, 1800):  # the last points of the day
            clock.now_s = max(clock.now_s, MIDNIGHT + DAY_S + later_s)
            kept(poller.poll(clock.now_s).points, rows)

        truth = {
            name: account.total(namespace, name, dimensions)
            for namespace, dimensions, name in (
                ("AWS/SageMaker", VARIANT, "ModelLatency"),
                ("AWS/Bedrock", MODEL, "TimeToFirstToken"),
            )
        }
        requests = sum(
            account.total(namespace, "Invocations", dimensions)[1]
            for namespace, dimensions in (("AWS/SageMaker", VARIANT), ("AWS/Bedrock", MODEL))
        )

    count, total = totals(rows, "ModelLatency")
    assert count == truth["ModelLatency"][0]
    assert total == pytest.approx(truth["ModelLatency"][1] / 1e6, rel=1e-12)
    count, total = totals(rows, "TimeToFirstToken")
    assert count == truth["TimeToFirstToken"][0]
    assert total == pytest.approx(truth["TimeToFirstToken"][1] / 1e3, rel=1e-12)
    assert totals(rows, "Invocations")[1] == requests
    assert calls == plan.calls_per_hour * 24
    assert failures == []
    assert made == calls
    assert billed == counted == plan.metrics_per_hour * 24
    assert poller.caller.counts["GetMetricData", "throttled"] > 0.2 * calls
