"""Many objectives asked at once are told what each is told alone."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.query import Window
from collector.reader import StoreReader
from collector.segment_cache import Segments
from collector.slices import Slices
from collector.snapshot import Snapshots
from domain.condition import ConditionKind
from domain.indicator import (
    AvailabilityIndicator,
    ConditionIndicator,
    EndpointIndicator,
    GoodputIndicator,
    LatencyIndicator,
    LevelIndicator,
    Limit,
    ThroughputIndicator,
)
from domain.labels import labels_of
from tests.collector.storing import (
    NOW_S,
    gauge_of,
    histogram_of,
    metrics,
    span,
    sum_of,
    traces,
    writing,
)

T = int(NOW_S) // 3600 * 3600 - 3600
WINDOW = Window(since_s=T, until_s=T + 300)
TTFT, E2E, OUT = (
    "gen_ai__latency__time_to_first_token",
    "gen_ai__latency__e2e",
    "stagewatch__outcome",
)
PLACES = [{}, {"service": "chat"}, {"service": "search"}, {"source": "page"}, {"tenant": "t"}]


def objectives():
    """Every kind, of every place: more than it takes to be asked together."""
    for place in PLACES:
        where = labels_of(place)
        limits = tuple(Limit(metric=m, threshold_s=Fraction(1)) for m in ("ttft", "e2e"))
        yield LatencyIndicator(metric="ttft", threshold_s=Fraction(1), where=where)
        yield LatencyIndicator(metric="ttft", threshold_s=Fraction(3, 2), where=where)
        yield AvailabilityIndicator(where=where)
        yield GoodputIndicator(limits=limits, where=where)
        yield ThroughputIndicator(
            metric="generation_tokens", at_least_per_s=Fraction(1), where=where
        )
        yield LevelIndicator(metric="requests_waiting", at_most=Fraction(3), where=where)
        yield ConditionIndicator(kinds=(ConditionKind.DOWN, ConditionKind.SILENT), where=where)
        yield EndpointIndicator(service="bedrock", where=where)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["span", "client", "failed", "page", "counter", "level"]),
        st.sampled_from(["chat", "search"]),
        st.integers(-90, 390),
        st.sampled_from([0.2, 0.9995, 1.0, 1.2, 4.0]),
    ),
    max_size=25,
)


def tell(writer, number, event):
    kind, service, at_s, value = event
    resource = {"service.name": service}
    if kind in ("span", "client", "failed"):
        told = {OUT: "failed"} if kind == "failed" else {TTFT: value, E2E: value + 0.1}
        side = Span.SPAN_KIND_CLIENT if kind == "client" else Span.SPAN_KIND_SERVER
        writer.traces(traces(span(number, end_s=T + at_s, kind=side, **told), **resource))
        return
    start_s, end_s = T + at_s - 1, T + at_s
    if kind == "page":
        found = [
            histogram_of(
                Metric(name="stagewatch_ttft_seconds"),
                [value * by],
                start_s=start_s,
                end_s=end_s,
                bound=bound,
            )
            for bound, by in (("low", 0.8), ("high", 1.3))
        ]
    elif kind == "counter":
        found = [
            sum_of(
                Metric(name=f"stagewatch_{name}_total"), 60 * value, start_s=start_s, end_s=end_s
            )
            for name in ("generation_tokens", "requests_finished")
        ]
    else:
        found = [
            gauge_of(Metric(name=f"stagewatch_{name}"), level, at_s=end_s)
            for name, level in (("up", float(value > 0.5)), ("requests_waiting", value))
        ]
    writer.metrics(metrics(*found, **resource, **{"stagewatch.source": "page"}))


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(EVENTS, st.booleans())
def test_together_is_the_same_as_one_by_one(tmp_path_factory, events, settled):
    path = tmp_path_factory.mktemp("law")
    with writing(path) as writer:
        for number, event in enumerate(events, 1):
            tell(writer, number, event)
        if settled:
            writer.settle()
        reader = StoreReader(path, now=lambda: NOW_S)
        asked = list(objectives())
        together = reader.slices_of(asked, WINDOW)
        alone = [reader.slices(each, WINDOW) for each in asked]
        reader.close()

    assert together == alone
    assert all(len(each) == 5 for each in together)


@pytest.mark.parametrize("count", [0, 1, 40])
def test_a_window_without_a_whole_minute_has_no_slices(tmp_path, count):
    with writing(tmp_path):
        reader = StoreReader(tmp_path)
        asked = list(objectives())[:count]
        found = reader.slices_of(asked, Window(since_s=T + 1, until_s=T + 119))
        reader.close()

    assert found == [[]] * count


def test_a_long_window_is_put_together_from_parts(tmp_path):
    with writing(tmp_path) as writer:
        spans = [span(n, end_s=T + 7 * n, **{TTFT: n / 20, E2E: 1.0}) for n in range(1, 40)]
        writer.traces(traces(*spans))
        snapshots, asked = Snapshots(tmp_path), list(objectives())
        with snapshots.open() as snapshot:
            whole, parts = (
                Slices(Segments(), room_tiles=room).of_many(snapshot, asked, WINDOW, now_s=NOW_S)
                for room in (200_000, 2)
            )
        snapshots.close()

    assert parts == whole
    assert sum(each.total for each in parts[0]) == 39
