"""Calls: not too fast, tried again with jitter, and left alone where nothing works."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.cloudwatch.call import Caller, TokenBucket
from exporters.cloudwatch.failure import CallError, ThrottledError
from tests.exporters.cloudwatch.polling import Clock


def caller_of(clock, **more):
    return Caller(10, sleep=clock.sleep, clock=clock, jitter=lambda _, most: most, **more)


def failing(*errors):
    """Raises each error in turn, then answers."""
    left = list(errors)

    def send():
        if left:
            raise left.pop(0)
        return "answer"

    return send


@given(st.floats(0.5, 50), st.integers(1, 300))
def test_a_bucket_lets_its_rate_through_and_one_second_more(rate_per_s, calls):
    clock = Clock(0.0)
    bucket = TokenBucket(rate_per_s, clock)

    for _ in range(calls):
        clock.sleep(bucket.wait_s())

    assert calls <= rate_per_s * clock.now_s + max(1.0, rate_per_s) + 1.001


def test_a_throttled_call_is_tried_again_with_growing_patience():
    clock = Clock(0.0)
    caller = caller_of(clock)

    answer = caller.call("GetMetricData", failing(*[ThrottledError("slow down")] * 5))

    assert answer == "answer"
    assert clock.now_s >= 0.25 + 0.5 + 1 + 2 + 4
    assert caller.counts == {("GetMetricData", "throttled"): 5, ("GetMetricData", "ok"): 1}


def test_patience_ends():
    clock = Clock(0.0)

    with pytest.raises(ThrottledError):
        caller_of(clock).call("GetMetricData", failing(*[ThrottledError("slow down")] * 8))

    assert clock.now_s < 60, "a cycle is skipped, calls do not pile up"


def test_what_cannot_succeed_is_not_tried_again():
    clock = Clock(0.0)
    caller = caller_of(clock)

    with pytest.raises(CallError, match="expired"):
        caller.call("GetMetricData", failing(CallError("credentials", "the token expired")))

    assert caller.counts == {("GetMetricData", "credentials"): 1}


def test_an_account_that_only_fails_is_left_alone_and_asked_again_later():
    clock = Clock(0.0)
    caller = caller_of(clock)
    for _ in range(3):
        with pytest.raises(CallError, match="no"):
            caller.call("ListMetrics", failing(CallError("forbidden", "no")))

    with pytest.raises(CallError, match="left alone"):
        caller.call("ListMetrics", failing())
    clock.sleep(61)
    assert caller.call("ListMetrics", failing()) == "answer"
    assert caller.counts["ListMetrics", "not_tried"] == 1


def test_two_jobs_in_two_threads_share_one_rate():
    clock = Clock(0.0)
    bucket = TokenBucket(10, clock)
    waits = []

    def take():
        for _ in range(50):
            waits.append(bucket.wait_s())  # noqa: PERF401 - one at a time is what is tried

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert max(waits) == pytest.approx((100 - 10) / 10)


def test_who_may_not_list_metrics_may_still_read_them():
    clock = Clock(0.0)
    caller = caller_of(clock)
    for _ in range(5):
        with pytest.raises(CallError):
            caller.call("ListMetrics", failing(CallError("forbidden", "no")))

    assert caller.call("GetMetricData", failing()) == "answer"


def test_a_question_that_is_refused_is_about_itself_only():
    clock = Clock(0.0)
    caller = caller_of(clock)
    for _ in range(5):
        with pytest.raises(CallError, match="no such endpoint"):
            caller.call("DescribeEndpoint", failing(CallError("refused", "no such endpoint")))

    assert caller.call("DescribeEndpoint", failing()) == "answer"
