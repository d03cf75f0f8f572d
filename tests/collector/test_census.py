"""The census: what an export would hold, known before it is decoded."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector import census as module
from collector.census import METRICS_PATH, TRACES_PATH, census, crowded_json, hollow
from collector.signals import TRACES
from tests.paths import RECORDED

SPANS = (RECORDED / "vllm/overload/all-spans.bin").read_bytes()


@pytest.fixture(autouse=True)
def every_body_is_counted(monkeypatch):
    monkeypatch.setattr(module, "_SMALL_BYTES", 0)


def export(counts):
    """An export with resources of scopes of so many spans."""
    request = ExportTraceServiceRequest()
    for scopes in counts:
        resource = request.resource_spans.add()
        resource.resource.attributes.add().key = "service.name"
        for spans in scopes:
            scope = resource.scope_spans.add()
            for number in range(spans):
                scope.spans.add(name="llm_request", kind=2, start_time_unix_nano=number)
    return request


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=4))
def test_the_census_is_the_number_of_messages_that_decoding_makes(counts):
    request = export(counts)

    messages = len(counts) + sum(map(len, counts)) + sum(map(sum, counts))
    assert census(request.SerializeToString(), TRACES_PATH, limit=10**6) == messages


def test_a_recorded_export_is_counted_whole():
    request = ExportTraceServiceRequest.FromString(SPANS)
    scopes = [scope for resource in request.resource_spans for scope in resource.scope_spans]

    messages = len(request.resource_spans) + len(scopes) + TRACES.count(request)
    assert census(SPANS, TRACES_PATH, limit=10**6) == messages


def test_points_of_every_kind_are_counted():
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    for kind in ("gauge", "sum", "histogram", "exponential_histogram", "summary"):
        points = getattr(metrics.add(name=kind), kind).data_points
        points.add(flags=1)
        points.add(flags=1)

    body = request.SerializeToString()
    assert census(body, METRICS_PATH, limit=100) == 2 + 5 + 5 + 10


@given(st.integers(0, 30))
def test_the_census_stops_where_it_is_too_much(limit):
    body = export([[20]]).SerializeToString()

    assert census(body, TRACES_PATH, limit=limit) == min(limit + 1, 22)


@given(st.binary(max_size=60))
def test_noise_is_counted_or_refused_and_never_an_accident(noise):
    with suppress(ValueError):
        assert census(noise, METRICS_PATH, limit=10) <= 11


def test_a_number_in_too_many_bytes_hides_nothing():
    span = b"\x92\x80\x00\x00"  # field 2, with its tag in three bytes; empty

    scope = b"\x12" + bytes([len(span)]) + span
    body = b"\x0a" + bytes([len(scope)]) + scope
    assert census(body, TRACES_PATH, limit=10) == 3
    assert TRACES.count(ExportTraceServiceRequest.FromString(body)) == 1


def test_groups_cannot_hide_the_rest():
    with pytest.raises(ValueError, match="wire type"):
        census(b"\x1b\x0a\x00\x1c", TRACES_PATH, limit=10)


@pytest.mark.parametrize("unit", [b"\x12\x00", b"\x4a\x00", b"\x0a\x00"])
def test_empty_messages_by_the_thousand_are_hollow(unit):
    assert hollow(unit * 100_000)


def test_real_exports_are_neither_hollow_nor_crowded():
    as_json = (RECORDED / "vllm/overload/all-spans.otlp.json").read_bytes()

    assert not hollow(SPANS * 20)
    assert not crowded_json(as_json)


def test_json_of_nothing_but_braces_is_crowded():
    assert crowded_json(b"{}," * 100_000)
    assert crowded_json(b"[" * 100_000)
