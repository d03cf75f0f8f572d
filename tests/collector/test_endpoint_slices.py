"""Minutes of managed endpoints: counts that add, settled or not looked at, under one definition."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.query import Window
from collector.reader import StoreReader
from domain.endpoint import availability, definition_of
from domain.indicator import AvailabilityIndicator, EndpointIndicator
from domain.slice import SliceState, tally
from tests.collector.endpoint_points import T0, key, point
from tests.collector.storing import writing

MODEL = {"ModelId": "sonnet"}
SLOW_AT = EndpointIndicator(service="sagemaker", metric="model_latency", threshold_s=Fraction(2))
ANSWERED = EndpointIndicator(service="bedrock")
HOUR = Window(since_s=T0 - 3600, until_s=T0 + 3600)


def bedrock(name):
    return key(name, namespace="AWS/Bedrock", **MODEL)


def sagemaker(name, **more):
    return key(name, **more)


@pytest.fixture
def stored(tmp_path):
    """A writer, and a reader whose clock can be set."""
    clock = {"now_s": T0 + 7200.0}
    with writing(tmp_path, now=lambda: T0 + 7200.0) as writer:
        reader = StoreReader(tmp_path, now=lambda: clock["now_s"])
        yield writer, reader, clock
        reader.close()


def told(writer, start_s, statistics, *, settled=True, of=None, at_s=None, **more):
    at_s = start_s + 400 if at_s is None else at_s
    made = point(start_s, of=of, statistics=statistics, at_s=at_s, **more)
    outcome = writer.endpoints([replace(made, settled_at_s=float(at_s) if settled else None)])
    assert not outcome.rejected


def minute(reader, indicator, at_s=T0):
    (found,) = reader.slices(indicator, Window(since_s=at_s, until_s=at_s + 60))
    return found


def test_cw8_good_counts_add_where_shares_would_be_averaged(stored):
    """1000 requests at 99 % and 10 at 0 %: 98.02 %, not 49.5 %."""
    writer, reader, _ = stored
    told(writer, T0, {"SampleCount": 1000.0, "Sum": 99.0, "PR(:2)": 99.0})
    told(writer, T0 + 60, {"SampleCount": 10.0, "Sum": 90.0, "PR(:2)": 0.0})

    counted = tally(reader.slices(SLOW_AT, HOUR))

    assert (counted.good_low, counted.good_high, counted.total) == (990, 990, 1010)
    assert round(100 * counted.good_low / counted.total, 2) == 98.02
    assert (counted.minutes, counted.observed_minutes) == (120, 2)


def test_cw9_availability_by_either_definition_which_has_a_name(stored):
    writer, reader, _ = stored
    counts = {"Invocations": 90.0, "InvocationServerErrors": 10.0, "InvocationThrottles": 100.0}
    for name, value in counts.items():
        told(writer, T0, {"Sum": value}, of=bedrock(name))

    successes = minute(reader, ANSWERED)
    accepted = minute(reader, replace(ANSWERED, counts_failures=True))

    assert (successes.good_low, successes.good_high, successes.total) == (90, 90, 200)
    assert (accepted.good_low, accepted.good_high, accepted.total) == (80, 80, 190)
    for found, counts_failures in ((successes, False), (accepted, True)):
        shown = availability(
            invocations=90, server_errors=10, throttles=100, counts_failures=counts_failures
        )
        assert shown.share == Fraction(found.good_low, found.total)
        assert shown.label == definition_of(counts_failures=counts_failures)


def test_failed_and_throttled_requests_are_in_the_total_of_a_latency(stored):
    writer, reader, _ = stored
    fast = EndpointIndicator(service="bedrock", metric="ttft", threshold_s=Fraction(1))
    told(
        writer,
        T0,
        {"SampleCount": 80.0, "Sum": 8.0, "PR(:1)": 100.0},
        of=bedrock("TimeToFirstToken"),
    )
    told(writer, T0, {"Sum": 5.0}, of=bedrock("InvocationServerErrors"))
    told(writer, T0, {"Sum": 15.0}, of=bedrock("InvocationThrottles"))
    told(writer, T0, {"Sum": 7.0}, of=bedrock("InvocationClientErrors"))

    found = minute(reader, fast)

    assert (found.good_low, found.good_high, found.total, found.excluded) == (80, 80, 100, 7)


def test_a_total_outage_is_bad_although_no_invocation_was_published(stored):
    writer, reader, _ = stored
    told(writer, T0, {}, of=bedrock("Invocations"))
    told(writer, T0, {"Sum": 30.0}, of=bedrock("InvocationServerErrors"))

    found = minute(reader, ANSWERED)

    assert (found.good_high, found.total, found.state) == (0, 30, SliceState.BAD)


def test_cw4_a_provisional_count_is_not_looked_at_until_it_settles(stored):
    """11 at 70 s, 62 at 180 s: nothing may be judged on the 11."""
    writer, reader, clock = stored
    clock["now_s"] = T0 + 71.0
    early = {"SampleCount": 11.0, "Sum": 3.0, "PR(:2)": 100.0}
    told(writer, T0, early, settled=False, at_s=T0 + 70)
    first, until_first_s = minute(reader, SLOW_AT), reader.settled_s(SLOW_AT, clock["now_s"])

    clock["now_s"] = T0 + 300.0
    late = {"SampleCount": 62.0, "Sum": 300.0, "PR(:2)": 50.0}
    told(writer, T0, late, settled=True, at_s=T0 + 290)
    then = minute(reader, SLOW_AT)

    assert first.state is SliceState.NOT_OBSERVED
    assert until_first_s <= T0
    assert (then.good_low, then.total) == (31, 62)
    assert reader.settled_s(SLOW_AT, clock["now_s"]) == T0 + 60


def test_a_settled_period_without_anything_is_no_traffic_and_an_unknown_one_is_not_observed(stored):
    writer, reader, _ = stored
    told(writer, T0, {})

    assert minute(reader, SLOW_AT).state is SliceState.NO_TRAFFIC
    assert minute(reader, SLOW_AT, T0 + 60).state is SliceState.NOT_OBSERVED


def test_a_count_of_errors_that_was_not_read_leaves_the_minute_unobserved(stored):
    writer, reader, _ = stored
    told(writer, T0 - 60, {"Sum": 5.0}, of=bedrock("Invocations"))
    told(writer, T0 - 60, {}, of=bedrock("InvocationServerErrors"))
    told(writer, T0, {"Sum": 5.0}, of=bedrock("Invocations"))

    assert minute(reader, ANSWERED, T0 - 60).state is SliceState.GOOD
    assert minute(reader, ANSWERED).state is SliceState.NOT_OBSERVED


def test_what_a_stream_does_not_publish_did_not_happen(stored):
    """A stream delivers no empty periods: silence about errors is none of them."""
    writer, reader, _ = stored
    told(writer, T0 - 60, {"Sum": 2.0}, of=bedrock("InvocationServerErrors"), source="stream")
    told(writer, T0, {"Sum": 5.0}, of=bedrock("Invocations"), source="stream")

    assert (minute(reader, ANSWERED).good_low, minute(reader, ANSWERED).total) == (5, 5)


def test_five_minutes_are_counted_in_their_last_one(stored):
    writer, reader, _ = stored
    since_s = T0 // 300 * 300
    wide = sagemaker("ModelLatency", period_s=300)
    told(writer, since_s, {"SampleCount": 100.0, "Sum": 9.0, "PR(:2)": 97.0}, of=wide)

    slices = reader.slices(SLOW_AT, Window(since_s=since_s, until_s=since_s + 300))

    assert [each.total for each in slices] == [0, 0, 0, 0, 100]
    assert [each.good_low for each in slices] == [0, 0, 0, 0, 97]
    assert [each.state for each in slices[:4]] == [SliceState.NO_TRAFFIC] * 4
    assert slices == [minute(reader, SLOW_AT, each.minute_at_s) for each in slices]


def test_minutes_and_five_minutes_of_the_same_traffic_are_counted_once(stored):
    writer, reader, _ = stored
    since_s = T0 // 300 * 300
    for at_s in range(since_s, since_s + 300, 60):
        told(writer, at_s, {"SampleCount": 20.0, "Sum": 2.0, "PR(:2)": 100.0})
    wide = sagemaker("ModelLatency", period_s=300)
    told(writer, since_s, {"SampleCount": 100.0, "Sum": 9.0, "PR(:2)": 97.0}, of=wide)

    counted = tally(reader.slices(SLOW_AT, Window(since_s=since_s, until_s=since_s + 300)))

    assert (counted.good_low, counted.total, counted.observed_minutes) == (100, 100, 5)


def test_the_same_traffic_under_more_dimensions_is_counted_once(stored):
    writer, reader, _ = stored
    counts = {"SampleCount": 20.0, "Sum": 2.0, "PR(:2)": 100.0}
    told(writer, T0, counts)
    per_instance = sagemaker(
        "ModelLatency", EndpointName="llm-prod", VariantName="AllTraffic", InstanceId="i-1"
    )
    told(writer, T0, counts, of=per_instance)

    assert minute(reader, SLOW_AT).total == 20


def test_dimensions_and_services_choose_among_endpoints(stored):
    writer, reader, _ = stored
    for name, service, samples in (("a", "chat", 1.0), ("b", "search", 2.0)):
        of = sagemaker("ModelLatency", EndpointName=name, VariantName="v")
        statistics = {"SampleCount": samples, "Sum": 1.0, "PR(:2)": 100.0}
        told(writer, T0, statistics, of=of, service=service)

    def total(**asked):
        return minute(reader, replace(SLOW_AT, **asked)).total

    assert total() == 3
    assert total(dimensions=(("EndpointName", "b"),)) == 2
    assert total(where=(("service", "chat"),)) == 1
    assert total(where=(("region", "us-east-1"),)) == 3
    assert minute(reader, replace(SLOW_AT, where=(("tenant", "x"),))).state is (
        SliceState.NOT_OBSERVED
    )
    assert minute(reader, replace(SLOW_AT, service="lambda")).state is SliceState.NOT_OBSERVED


@pytest.mark.parametrize(
    ("statistics", "expected"),
    [
        ({"PR(:1)": 40.0, "PR(:5)": 90.0}, (40, 90)),
        ({"PR(:1)": 40.0}, (40, 100)),
        ({"Maximum": 2.0}, (100, 100)),
        ({"Minimum": 2.1}, (0, 0)),
        ({}, (0, 100)),
    ],
)
def test_a_threshold_that_was_not_asked_for_is_a_range(stored, statistics, expected):
    writer, reader, _ = stored
    told(writer, T0, {"SampleCount": 100.0, "Sum": 9.0, **statistics})

    found = minute(reader, SLOW_AT)

    assert ((found.good_low, found.good_high), found.total) == (expected, 100)


def test_the_slowest_endpoint_is_waited_for_and_a_dead_one_only_for_an_hour(stored):
    writer, reader, _ = stored
    counts = {"SampleCount": 1.0, "Sum": 1.0, "PR(:2)": 100.0}
    dead = sagemaker("ModelLatency", EndpointName="old", VariantName="v")
    late = sagemaker("ModelLatency", EndpointName="late", VariantName="v")
    told(writer, T0 - 3600, counts, of=dead)
    told(writer, T0 - 600, counts, of=late)
    told(writer, T0 - 60, counts)

    assert reader.settled_s(SLOW_AT, T0 - 1.0) == T0 - 3540
    assert reader.settled_s(SLOW_AT, T0 + 200.0) == T0 - 540
    assert reader.settled_s(SLOW_AT, T0 + 36_000.0) == T0 + 36_000 - 3600


def test_only_endpoints_settle_by_themselves(stored):
    _, reader, _ = stored

    assert reader.settled_s(AvailabilityIndicator(), T0) is None


PERIODS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(PERIODS)
def test_the_sum_of_minutes_is_the_sum_of_what_aws_counted(tmp_path_factory, periods):
    path = tmp_path_factory.mktemp("law")
    with writing(path, now=lambda: T0 + 7200.0) as writer:
        for nth, (fast, slow, failed, throttled) in enumerate(periods):
            at_s, samples = T0 + 60 * nth, fast + slow
            share = {"PR(:2)": 100 * fast / samples} if samples else {}
            statistics = {"SampleCount": float(samples), "Sum": 1.0, **share}
            told(writer, at_s, statistics if samples else {}, of=bedrock("InvocationLatency"))
            for name, n in (("InvocationServerErrors", failed), ("InvocationThrottles", throttled)):
                told(writer, at_s, {"Sum": float(n)} if n else {}, of=bedrock(name))
        reader = StoreReader(path, now=lambda: T0 + 7200.0)
        indicator = EndpointIndicator(service="bedrock", metric="e2e", threshold_s=Fraction(2))
        counted = tally(reader.slices(indicator, HOUR))
        reader.close()

    good = sum(fast for fast, *_ in periods)
    assert counted.total == sum(map(sum, periods))
    assert counted.good_low <= good <= counted.good_high
    assert counted.observed_minutes == len(periods)
