"""The same data in any order, any batches, any number of times is the same store."""

import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector import otlp_json
from collector.importing import import_files
from tests.collector.storing import (
    NOW_S,
    OVERLOAD,
    distribution,
    gauge_of,
    histogram_of,
    legs_in,
    metrics,
    number,
    overload,
    span,
    sum_of,
    tables,
    traces,
    writing,
)


def stored(path, exports, *, restart_after=()):
    """The tables after these exports, with restarts in between."""
    exports = list(exports)
    for place in [*restart_after, len(exports)]:
        with writing(path) as writer:
            for export in exports[:place]:
                assert writer.traces(export).rejected == 0
            writer.settle()
        exports = exports[place:]
    found, dirty = tables(path)
    assert dirty == []
    return found


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    path = tmp_path_factory.mktemp("once")
    return stored(path, overload()), sorted(legs_in(path), key=lambda leg: leg.span_id)


@pytest.mark.parametrize("seed", range(3))
def test_the_recorded_batches_in_any_order_are_the_same_store(once, tmp_path, seed):
    batches = overload()
    random.Random(seed).shuffle(batches)  # noqa: S311 - any order will do

    assert stored(tmp_path, batches) == once[0]
    assert sorted(legs_in(tmp_path), key=lambda leg: leg.span_id) == once[1]


def test_the_recorded_batches_three_times_with_restarts_are_the_same_store(once, tmp_path):
    assert stored(tmp_path, overload() * 3, restart_after=(5, 14)) == once[0]
    assert len(legs_in(tmp_path)) == 136


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_recorded_spans_in_other_batches_are_the_same_store(once, tmp_path, size):
    assert stored(tmp_path, [*rebatched(overload(), size), *overload()]) == once[0]


def test_one_file_instead_of_twelve_exports_is_the_same_store(once, tmp_path):
    whole = ExportTraceServiceRequest.FromString((OVERLOAD / "all-spans.bin").read_bytes())

    assert stored(tmp_path, [whole]) == once[0]


def test_the_same_as_json_is_the_same_store(once, tmp_path):
    as_json = otlp_json.traces((OVERLOAD / "all-spans.otlp.json").read_bytes())

    assert stored(tmp_path, [*overload(), as_json]) == once[0]


def rebatched(exports, size):
    """Every span of these with its resource, `size` at a time, in any order."""
    singles = [
        (found.resource, each)
        for export in exports
        for found in export.resource_spans
        for scope in found.scope_spans
        for each in scope.spans
    ]
    random.Random(7).shuffle(singles)  # noqa: S311 - any order will do
    for at in range(0, len(singles), size):
        request = ExportTraceServiceRequest()
        for resource, each in singles[at : at + size]:
            into = request.resource_spans.add()
            into.resource.CopyFrom(resource)
            into.scope_spans.add().spans.add().CopyFrom(each)
        yield request


def test_clients_and_engines_in_any_order_are_the_same_store(tmp_path):
    files = [OVERLOAD / "client.jsonl", *sorted((OVERLOAD / "spans").glob("*.bin"))]
    found = []
    for name, order in (("a", files), ("b", files[::-1]), ("c", [*files, *files])):
        with writing(tmp_path / name) as writer:
            list(import_files(order, writer))
            writer.settle()
        found.append(tables(tmp_path / name))

    assert found[0] == found[1] == found[2]


_legs = st.lists(
    st.tuples(
        st.integers(1, 4),  # trace
        st.sampled_from((Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_SERVER)),
        st.sampled_from(("", "prefill", "decode")),
    ),
    min_size=1,
    max_size=8,
    unique=True,
)


def _spans(legs):
    for place, (trace, kind, role) in enumerate(legs):
        if kind == Span.SPAN_KIND_CLIENT and role:
            continue
        made = span(
            trace,
            kind=kind,
            end_s=NOW_S - 40 + 3 * trace + (role == "decode"),
            gen_ai__latency__time_to_first_token=0.25 + 0.5 * (kind == Span.SPAN_KIND_CLIENT),
            gen_ai__latency__time_in_queue=0.125,
            gen_ai__latency__e2e=1.5,
        )
        if role:
            made.attributes.add(key="stagewatch.role").value.string_value = role
        made.span_id = (place + 1).to_bytes(8, "big")
        yield made


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(legs=_legs, cuts=st.lists(st.integers(1, 7), max_size=3), order=st.randoms())
def test_legs_of_a_trace_tell_the_same_however_they_arrive(tmp_path_factory, legs, cuts, order):
    made = list(_spans(legs))
    shuffled = list(made)
    order.shuffle(shuffled)
    edges = [0, *sorted(c for c in cuts if c < len(made)), len(made)]
    batches = [traces(*shuffled[a:b]) for a, b in pairwise(edges) if a < b]

    apart = stored(tmp_path_factory.mktemp("apart"), batches)
    together = stored(tmp_path_factory.mktemp("together"), [traces(*made)] if made else [])

    assert apart == together


def points(at_s):
    """One scrape: a latency, a counter, a gauge."""
    return metrics(
        histogram_of(
            Metric(name="stagewatch_ttft_seconds", unit="s"), [0.5], start_s=at_s - 2, end_s=at_s
        ),
        sum_of(Metric(name="stagewatch_generation_tokens_total"), 8, start_s=at_s - 2, end_s=at_s),
        gauge_of(Metric(name="stagewatch_requests_running"), 2.0, at_s=at_s),
    )


def apart(export):
    """The same points, each in an export of its own."""
    resource = export.resource_metrics[0].resource
    for metric in export.resource_metrics[0].scope_metrics[0].metrics:
        single = metrics(metric)
        single.resource_metrics[0].resource.CopyFrom(resource)
        yield single


def test_points_in_any_order_and_batches_are_the_same_store(tmp_path):
    scrapes = [points(NOW_S - 600 + 2 * k) for k in range(60)]
    singles = [single for scrape in scrapes for single in apart(scrape)]
    random.Random(5).shuffle(singles)  # noqa: S311 - any order will do
    found = []
    for name, exports in (("a", scrapes), ("b", singles), ("c", [*singles, *scrapes, *scrapes])):
        for half in (exports[::2], exports[1::2]):  # with a restart in between
            with writing(tmp_path / name) as writer:
                for export in half:
                    writer.metrics(export)
                writer.settle()
        found.append(tables(tmp_path / name))

    assert found[0] == found[1] == found[2]
    assert distribution(tmp_path / "c", "ttft").n == 60
    assert number(tmp_path / "c", "generation_tokens") == (60, 480.0)
