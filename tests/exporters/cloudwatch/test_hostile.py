"""Answers of another shape, pages without an end, clocks that are set, days that turn: all in order."""

import gzip
import json
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporters.cloudwatch.answer import merge, of_series
from exporters.cloudwatch.asked import asked_of
from exporters.cloudwatch.aws import AwsSource
from exporters.cloudwatch.call import Caller
from exporters.cloudwatch.discovery import Discovered
from exporters.cloudwatch.failure import CallError
from exporters.cloudwatch.otlp import exports
from exporters.cloudwatch.plan import Budget
from exporters.cloudwatch.promql import PrometheusSource, points_of
from exporters.cloudwatch.run import _Watch
from exporters.cloudwatch.schedule import Schedule
from exporters.cloudwatch.source import Listed
from exporters.cloudwatch.spending import Spending
from exporters.cloudwatch.window import ReadWindow
from tests.exporters.cloudwatch.polling import (
    BEDROCK,
    MODEL,
    SAGEMAKER,
    T0,
    Clock,
    kept,
    nobody,
    poller_of,
    polling,
    settings_of,
    totals,
)
from tests.exporters.fake_engine import answering, serving

DAY_S = 86_400
MIDNIGHT = T0 // DAY_S * DAY_S
JSON = [("content-type", "application/x-amz-json-1.0")]
numbers = st.none() | st.booleans() | st.floats() | st.integers(-(10**30), 10**400) | st.text()
shapes = st.recursive(
    numbers,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "Id",
                    "Timestamps",
                    "Values",
                    "StatusCode",
                    "Messages",
                    "Code",
                    "MetricDataResults",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


def one_asked():
    told = settings_of(BEDROCK)
    (scope,) = told.scopes
    return asked_of(scope, scope.endpoints[0], told.thresholds_s)[0]


@contextmanager
def answered(body):
    """A poller whose CloudWatch says only this, whatever it is asked."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with serving(answering(raw, headers=JSON)) as server:
        clock = Clock(T0)
        poller = poller_of(settings_of(BEDROCK, url=server.root), clock)
        try:
            yield poller, server, clock
        finally:
            poller._source.close()


def result(stamps, values, **more):
    return {"Id": "m0_0", "StatusCode": "Complete", "Timestamps": stamps, "Values": values, **more}


@given(shapes, shapes)
def test_a_page_of_any_shape_is_merged_and_what_it_gives_can_be_sent(results, message):
    page = {"MetricDataResults": results, "Messages": message}

    answer = of_series(merge([page])[0], 0, one_asked())

    for start, statistics in answer.values.items():
        assert start % 60 == 0
        assert all(0 <= value <= 1e18 for value in statistics.values())


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (result([T0], [-5.0]), "impossible"),
        (result([T0], [1e308]), "impossible"),
        (result([T0], [10**400]), "impossible"),
        (result([None], [5.0]), "no_instant"),
        (result([1e300], [5.0]), "no_instant"),
        (result([T0 + 0.0], ["5"]), "not_a_number"),
        (result([T0], [True]), "not_a_number"),
    ],
)
def test_a_value_that_cannot_be_is_refused_and_no_exporter_ends_of_it(told, reason):
    """A negative number of samples once ended the process: OTLP has no field for it."""
    with answered({"MetricDataResults": [told]}) as (poller, _, _):
        done = poller.poll(T0)

    assert poller.counts[f"refused_{reason}"] >= 1
    assert done.points == []
    assert list(exports(done.points, at_ns=1)) == []


@pytest.mark.parametrize(
    "body",
    [
        {"MetricDataResults": [{"Id": "m0_0", "Timestamps": [T0 - 600], "Values": [5.0]}]},
        {"MetricDataResults": [result([T0 - 600, T0 - 540], [5.0])]},
        {"MetricDataResults": [result([T0 - 600], [5.0], StatusCode="Fine")]},
        {"MetricDataResults": []},
        {"MetricDataResults": {}},
        {"MetricDataResults": None},
        {"MetricDataResults": "x"},
        {"MetricDataResults": [7]},
        {},
        [],
        b"<html>a proxy</html>",
    ],
    ids=lambda body: str(body)[:60],
)
def test_an_answer_that_does_not_say_complete_settles_nothing(body):
    """Minutes that it leaves out are unknown: they are not settled as `no data`."""
    with answered(body) as (poller, _, _):
        done = poller.poll(T0)

    assert all(point.settled_at_s is None for point in done.points)
    assert {point.start_s for point in done.points} <= {T0 - 600}
    assert not poller.statuses.get("Complete")


@pytest.mark.parametrize("token", ["same", None], ids=["a circle", "always another"])
def test_pages_without_an_end_end(token):
    pages = []

    def body():
        pages.append(0)
        page = {"MetricDataResults": [result([T0 - 600], [5.0], StatusCode="PartialData")]}
        return json.dumps({**page, "NextToken": token or f"t{len(pages)}"}).encode()

    with serving(answering(body, headers=JSON)) as server:
        poller = poller_of(settings_of(BEDROCK, url=server.root), Clock(T0))
        into = poller.poll(T0)
        poller._source.close()

    asked = sum(b"MetricDataQueries" in body for *_, body in server.requests)
    assert asked == (2 if token else 100)
    assert any("GetMetricData" in failure for failure in into.failures)
    assert [point.start_s for point in into.points] == [T0 - 600]


def test_a_point_of_the_future_is_not_kept():
    with answered({"MetricDataResults": [result([T0 + 6000], [5.0])]}) as (poller, _, _):
        done = poller.poll(T0)

    assert all(point.start_s < T0 for point in done.points)


def test_an_hour_of_throttling_loses_no_minute():
    with polling(BEDROCK, at_s=T0) as (poller, account, clock):
        for minute in range(-10, 75):
            at_s = T0 + 60 * minute
            account.put(
                "AWS/Bedrock", "Invocations", MODEL, at_s, [1.0] * 7, visible_at_s=at_s + 90
            )
        rows = {}
        for minute in range(90):
            account.throttle_share = 1.0 if 5 <= minute < 65 else 0.0
            clock.now_s = max(clock.now_s, T0 + 60 * minute)
            kept(poller.poll(clock.now_s).points, rows)
        truth = account.total("AWS/Bedrock", "Invocations", MODEL)

    assert totals(rows, "Invocations")[1] == truth[1] == 85 * 7


def test_a_week_of_failures_ends_in_a_rest_of_ten_minutes():
    clock = Clock(0.0)
    caller = Caller(10, sleep=clock.sleep, clock=clock)
    caller._failed["X"] = 5000  # more than a float has doublings

    def refuse():
        raise CallError("server_error", "no")

    with pytest.raises(CallError):
        caller.call("X", refuse)
    with pytest.raises(CallError, match="left alone"):
        caller.call("X", refuse)

    assert caller._open_until_s["X"] == pytest.approx(clock.now_s + 600, abs=1)


def test_what_was_had_before_a_fault_of_ours_is_sent():
    """The memory of what was told must not run ahead of what is told."""
    with polling(BEDROCK, at_s=T0) as (poller, account, _):
        account.put("AWS/Bedrock", "Invocations", MODEL, T0 - 600, [1.0], visible_at_s=T0 - 500)

        class Stops:
            """A source of another's making, which ends in the middle of a round."""

            def poll(self, _):
                raise StopIteration("somebody's generator")

            def close(self):
                """Nothing is open."""

        watch = _Watch(poller.scope, poller, poller._source, Stops())
        first, second = watch.poll(T0), poller.poll(T0 + 60)

    told = [point.start_s for point in first.points if point.key.name == "Invocations"]
    assert T0 - 600 in told
    assert T0 - 600 not in [p.start_s for p in second.points if p.key.name == "Invocations"]
    assert first.failures == ['a fault of ours: StopIteration("somebody\'s generator")']


@pytest.mark.parametrize("step_s", [-DAY_S, -7200, 7200, 40 * DAY_S])
def test_a_clock_that_is_set_stops_no_poll(step_s):
    asked = [one_asked()]
    schedule = Schedule()
    schedule.done(asked, T0)

    due = [
        minute for minute in range(1, 4) if schedule.due(asked, T0 + step_s + 60 * minute, set())
    ]

    assert due == [1, 2, 3]


@pytest.mark.parametrize("length", [257, 2048])
def test_a_name_that_is_too_long_costs_its_endpoint_and_no_other(length):
    found = Discovered()
    names = ("x" * length, "", "fits")
    found.listed(
        [
            Listed(
                account="111122223333",
                namespace="AWS/Bedrock",
                name="Invocations",
                dimensions=(("ModelId", name),),
            )
            for name in names
        ],
        "111122223333",
    )
    found.named("sagemaker", [{"EndpointName": n, "VariantName": "a"} for n in names])

    assert [dict(dimensions) for _, dimensions in found.endpoints] == [
        {"ModelId": "fits"},
        {"EndpointName": "fits", "VariantName": "a"},
    ]
    assert f"has {length} characters, 256 is the most" in " ".join(found.unusable.values())


@pytest.mark.parametrize(
    "body",
    [
        {"Endpoints": [{}]},
        {"Endpoints": [{"EndpointName": 7}], "ProductionVariants": [{}]},
        {"Endpoints": 7},
        {"Endpoints": [None]},
    ],
    ids=str,
)
def test_a_list_of_another_shape_is_a_failed_call(body):
    with serving(answering(json.dumps(body).encode(), headers=JSON)) as server:
        (scope,) = settings_of(SAGEMAKER, url=server.root).scopes
        source = AwsSource(scope, session=nobody())
        with pytest.raises(CallError):
            source.endpoints(None)
        source.close()


MIDNIGHTS = [0, DAY_S, 31 * DAY_S, -20 * 3600]  # a day, a month, an hour that zones skip or repeat


@pytest.mark.parametrize("at_s", MIDNIGHTS)
def test_a_round_that_ends_after_midnight_does_not_forget_the_new_day(tmp_path, at_s):
    """Two exporters on one file: one is slow, and still in the round that began the day before."""
    midnight = (MIDNIGHT + at_s) // DAY_S * DAY_S
    file = tmp_path / "x.json"
    slow, quick = Spending(file), Spending(file)
    slow.add(10, midnight - 20)
    quick.add(7, midnight + 7)
    slow.add(5, midnight - 20)  # its next batch, by the instant at which its round began
    quick.add(1, midnight + 67)

    assert quick.today(midnight + 68) == 13
    assert slow.today(midnight + 68) == 13
    assert [slow.is_doubtful, quick.is_doubtful] == [False, False]
    assert quick.today(midnight + DAY_S) == 0


@settings(max_examples=15, deadline=None)
@given(
    st.floats(0.002, 0.05),
    st.lists(st.tuples(st.booleans(), st.integers(1, 200)), min_size=5, max_size=60),
)
def test_two_exporters_on_one_file_keep_one_budget(tmp_path_factory, cap, rounds):
    path = tmp_path_factory.mktemp("both") / "x.json"
    both = [(Budget(cap, Spending(path)), Schedule()) for _ in range(2)]
    asked, now_s = [one_asked()], float(MIDNIGHT)
    for which, ahead_s in rounds:
        now_s += 60 * ahead_s
        budget, schedule = both[which]
        due = schedule.due(asked, now_s, frozenset())
        schedule.done(due, now_s)
        taken, _ = budget.admitted(due, asked, now_s)
        budget.spend(sum(each.billed_units for each in taken), now_s)

        assert budget.spent_usd(now_s) <= cap + 1e-12


class TestPromQL:
    """Answers of the PromQL endpoint."""

    def question(self, url=None):
        question = {"service": "chat", "name": "ttft_p99", "query": "x"}
        (scope,) = settings_of(url=url, scope={"promql": [question]}).scopes
        return scope

    @given(shapes, st.sampled_from(["result", "other"]))
    def test_any_shape_gives_points_that_can_be_sent(self, told, name):
        scope = self.question()

        found = points_of(
            {"data": {name: told}}, scope.promql[0], scope, now_s=float(T0), lag_s=180
        )

        assert list(exports(found.points, at_ns=1)) or not found.points

    @pytest.mark.parametrize("at", [1e300, -60, "nan", None, T0 + 10**9])
    def test_an_instant_that_cannot_be_is_no_point(self, at):
        scope = self.question()
        told = {"data": {"result": [{"metric": {}, "values": [[at, "1"]]}]}}

        found = points_of(told, scope.promql[0], scope, now_s=float(T0), lag_s=180)

        assert found.points == ()

    def test_a_bomb_is_not_unpacked(self):
        bomb = gzip.compress(b"0" * 50_000_000)
        with serving(answering(bomb, headers=[("content-encoding", "gzip")])) as server:
            scope = self.question(server.root)
            source = PrometheusSource(scope, nobody())
            with pytest.raises(CallError, match="more than 33554432 bytes"):
                source.query_range("x", ReadWindow(T0 - 600, T0))
            with suppress(CallError):
                source.close()
