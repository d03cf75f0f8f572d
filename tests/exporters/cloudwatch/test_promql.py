"""CloudWatch's PromQL endpoint: signed questions, and answers that are judged."""

import json
from contextlib import contextmanager

import pytest

from exporters.cloudwatch.call import Caller
from exporters.cloudwatch.failure import CallError
from exporters.cloudwatch.promql import PrometheusPoller, PrometheusSource, points_of
from exporters.cloudwatch.window import ReadWindow
from tests.exporters.cloudwatch.polling import Clock, nobody, settings_of
from tests.fake_cloudwatch.server import fake_cloudwatch
from tests.paths import RECORDED

RECORDING = json.loads((RECORDED / "cloudwatch" / "promql_query_range_ttft.json").read_text())
QUERY = RECORDING["request"]["form"]["query"]
T0 = 1_780_000_020


@contextmanager
def asking(answer=None, status=200):
    with fake_cloudwatch(now=lambda: T0) as fake:
        question = {"service": "chat", "name": "ttft_p99", "query": QUERY}
        (scope,) = settings_of(url=fake.url, scope={"promql": [question]}).scopes
        fake.account.prometheus[QUERY] = (
            status,
            RECORDING["response"] if answer is None else answer,
        )
        source = PrometheusSource(scope, nobody())
        try:
            yield source, scope, fake.account
        finally:
            source.close()


def test_a_question_is_a_signed_form_like_the_recorded_one():
    with asking() as (source, _, account):
        source.query_range(QUERY, ReadWindow(T0 - 600, T0))

    ((_, form, _),) = account.calls
    ((_, content_type, authorization),) = account.requests
    assert form == RECORDING["request"]["form"]
    assert content_type == "application/x-www-form-urlencoded"
    assert "/us-east-1/monitoring/aws4_request" in authorization


def test_the_recorded_answer_is_two_points_and_nan_is_none():
    with asking() as (source, scope, _):
        told = source.query_range(QUERY, ReadWindow(T0 - 600, T0))

    found = points_of(told, scope.promql[0], scope, now_s=T0 + 120, lag_s=180)

    assert [(p.start_s, p.end_s, p.statistics) for p in found.points] == [
        (T0 - 180, T0 - 120, {"Last": 0.812}),
        (T0 - 60, T0, {"Last": 0.901}),
    ]
    assert [p.settled_at_s is not None for p in found.points] == [True, False]
    assert found.notes == ()


def test_an_answer_of_500_series_is_suspect():
    series = [{"metric": {"n": str(n)}, "values": [[T0, "1"]]} for n in range(500)]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": series}}
    with asking(answer) as (source, scope, _):
        told = source.query_range(QUERY, ReadWindow(T0 - 600, T0))

    found = points_of(told, scope.promql[0], scope, now_s=T0, lag_s=180)

    assert len(found.points) == 500
    assert "split it by a label" in found.notes[0]


@pytest.mark.parametrize(
    "series",
    [{"metric": {}}, {"values": "no"}, 7, {"metric": {}, "values": [[T0, "x"]]}, {"values": [3]}],
)
def test_a_series_that_cannot_be_read_is_named_and_the_others_are_kept(series):
    whole = {"metric": {}, "values": [[T0, "1"]]}
    answer = {"status": "success", "data": {"result": [series, whole]}}
    with asking() as (_, scope, _):
        found = points_of(answer, scope.promql[0], scope, now_s=T0, lag_s=180)

    assert len(found.points) == 1
    assert "1 series of the answer cannot be read" in found.notes[0]


@pytest.mark.parametrize(
    ("status", "answer", "reason", "retryable"),
    [
        (422, {"error": "too many discovery calls"}, "throttled", True),
        (429, {"error": "too many at once"}, "throttled", True),
        (400, {"error": "bad_data"}, "refused", False),
        (503, {"error": "later"}, "refused", True),
        (200, {"status": "error", "error": "parse"}, "refused", False),
        (200, [1, 2], "refused", False),
    ],
)
def test_what_is_refused_is_told_apart(status, answer, reason, retryable):
    with asking(answer, status) as (source, _, _), pytest.raises(CallError) as failed:
        source.query_range(QUERY, ReadWindow(T0 - 600, T0))

    assert (failed.value.reason, failed.value.retryable) == (reason, retryable)


def test_what_did_not_change_is_not_told_again():
    clock = Clock(T0)
    with asking() as (source, scope, account):
        caller = Caller(10, sleep=clock.sleep, clock=clock)
        poller = PrometheusPoller(scope, source, caller, reread_s=600, lag_s=180)
        first, second = poller.poll(T0)[0], poller.poll(T0 + 30)[0]
        later = json.loads(json.dumps(RECORDING["response"]).replace("0.901", "0.95"))
        account.prometheus[QUERY] = (200, later)
        third = poller.poll(T0 + 60)[0]
        account.prometheus[QUERY] = (400, {"error": "gone"})
        _, _, failures = poller.poll(T0 + 120)

    assert [p.statistics["Last"] for p in first] == [0.812, 0.901]
    assert second == []
    assert [p.statistics["Last"] for p in third] == [0.812, 0.95]  # settled, and changed
    assert "HTTP 400" in failures[0]
