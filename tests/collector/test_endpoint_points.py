"""Endpoints' points as OTLP: what the exporter says arrives, and what contradicts itself does not."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from collector import endpoint_points
from collector.span_columns import Times
from domain import endpoint_wire as wire
from domain.endpoint import PointState
from exporters.cloudwatch.otlp import exports
from tests.collector.endpoint_points import T0, kept, key, point
from tests.collector.storing import writing

TIMES = Times(oldest_at_ns=0, newest_at_ns=int((T0 + 3600) * 1e9))
STATISTICS = st.dictionaries(
    st.sampled_from(
        ["SampleCount", "Sum", "Minimum", "Maximum", "Average", "Last", "p50", "p99", "p99.9"]
    ),
    st.floats(0, 1e9),
    min_size=1,
)


def requests(*points):
    return [
        ExportMetricsServiceRequest.FromString(export.body) for export in exports(points, at_ns=1)
    ]


def read(*points):
    found = [endpoint_points.read(request, TIMES) for request in requests(*points)]
    return [each for part in found for each in part.points], [p.refused for p in found if p.refused]


@given(STATISTICS, st.none() | st.just(T0 + 300.0), st.sampled_from(["poll", "promql"]))
def test_what_is_sent_is_what_arrives(statistics, settled_s, source):
    sent = point(statistics=statistics, settled_s=settled_s, source=source)

    assert read(sent) == ([sent], [])


def test_good_counts_silence_and_fractions_of_samples_arrive_too():
    ranked = point(statistics={"SampleCount": 4.0, "PR(:0.3)": 75.0, "PR(:2)": 100.0})
    silent = point(T0 + 60, statistics={}, settled_s=T0 + 300.0)
    half = point(T0 + 120, statistics={"SampleCount": 2.5})

    assert read(ranked, silent, half) == ([ranked, silent, half], [])
    assert silent.state is PointState.NO_DATA


def test_a_summary_says_which_of_its_fields_are_known():
    (request,) = requests(point(statistics={"Sum": 0.0}))

    ((metric,),) = [scope.metrics for r in request.resource_metrics for scope in r.scope_metrics]
    assert metric.name == "stagewatch_endpoint_model_latency"
    (arrived,) = endpoint_points.read(request, TIMES).points
    assert arrived.statistics == {"Sum": 0.0}


def test_exports_hold_one_service_each_and_not_too_many_points():
    many = [point(T0 + 60 * n) for n in range(2500)]
    other = point(service="other", of=key("Invocations"))

    sizes = [
        sum(
            len(m.summary.data_points) for m in request.resource_metrics[0].scope_metrics[0].metrics
        )
        for request in requests(*many, other)
    ]

    assert sizes == [2000, 500, 1]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"statistics": {"Sum": math.nan}}, "no measurement"),
        ({"statistics": {"Sum": math.inf}}, "no measurement"),
        ({"statistics": {"SampleCount": -0.5}}, "fewer than no samples"),
        ({"statistics": {"PR(:2)": 101.0}}, "a share outside"),
        ({"statistics": {"IQM": 1.0}}, "a statistic that nobody knows"),
        ({"start_s": T0 + 7}, "not on the clock's grid"),
        ({"start_s": T0 + 7200}, "from the future"),
        ({"source": "hearsay"}, "how it was read"),
        ({"fetched_at_s": math.nan}, "at no instant"),
        ({"fetched_at_s": T0 + 9999.0}, "read in the future"),
        ({"key": replace(key(), account="")}, "empty or too long"),
        ({"key": replace(key(), name="x" * 2000)}, "empty or too long"),
        ({"key": key(**{f"d{n}": "x" for n in range(31)})}, "more than 30 dimensions"),
        ({"statistics": {}, "state": PointState.VALUE}, "it has no value"),
    ],
)
def test_a_point_that_cannot_be_is_refused_with_its_reason_and_the_others_are_kept(wrong, reason):
    sound = point(T0 - 60)

    points, (refused,) = read(sound, replace(point(), **wrong))

    assert points == [sound]
    assert refused.total() == 1
    assert reason in next(iter(refused))


def test_what_is_called_like_an_endpoint_and_is_no_summary_is_refused():
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    scope.metrics.add(name=f"{wire.METRIC_PREFIX}x").gauge.data_points.add(as_double=1)
    scope.metrics.add(name=f"{wire.METRIC_PREFIX}y")

    found = endpoint_points.read(request, TIMES)

    assert found.refused.total() == 1
    assert found.points == []


@given(st.binary(max_size=200))
def test_no_bytes_in_a_summary_break_the_reader(noise):
    (request,) = requests(point())
    metric = request.resource_metrics[0].scope_metrics[0].metrics[0]
    told = metric.summary.data_points[0]
    told.quantile_values.add(quantile=-1.0, value=2.0)
    told.attributes.add(key=wire.STATISTIC + noise.hex()).value.bytes_value = noise

    found = endpoint_points.read(request, TIMES)

    assert found.refused.total() == 1


def test_the_exporters_export_is_stored_through_the_ordinary_door(tmp_path):
    (request,) = requests(point(settled_s=T0 + 300.0))
    with writing(tmp_path, now=lambda: T0 + 600) as writer:
        outcome = writer.metrics(request)
        again = writer.metrics(request)
        counts = writer.counts()

    assert (outcome.rejected, again.rejected) == (0, 0)
    assert kept(tmp_path) == {
        ("chat", "ModelLatency", T0): ({"SampleCount": 4.0, "Sum": 8.0}, T0 + 300, 1, "poll")
    }
    assert not counts.get("ignored_points_total")


def test_a_refused_point_is_told_to_the_sender(tmp_path):
    (request,) = requests(point(), point(T0 + 60, statistics={"Sum": math.nan}))
    with writing(tmp_path, now=lambda: T0 + 600) as writer:
        outcome = writer.metrics(request)
        refused = writer.counts()["refused_points_total"]

    assert outcome.rejected == refused == 1
    assert "no measurement" in outcome.message
