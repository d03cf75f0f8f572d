"""OTLP/JSON is not protobuf's JSON, and the sender is told which of the two he sent."""

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector import otlp_json
from domain.errors import InputError
from tests.collector.storing import OVERLOAD
from tests.paths import RECORDED

BASE64 = RECORDED / "cases-engines" / "19-base64-ids.json"


def test_json_and_protobuf_of_the_same_spans_are_equal():
    read = otlp_json.traces((OVERLOAD / "all-spans.otlp.json").read_bytes())

    assert read == ExportTraceServiceRequest.FromString((OVERLOAD / "all-spans.bin").read_bytes())


def test_ids_in_base64_are_refused_by_name():
    with pytest.raises(InputError, match=r"traceId: hex expected, looks like base64"):
        otlp_json.traces(BASE64.read_bytes())


def spoiled(**changes):
    document = json.loads(BASE64.read_text())
    span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span |= {"traceId": "000102030405060708090a0b0c0d0e0f", "spanId": "0102030405060708", "kind": 2}
    span |= changes
    return json.dumps(document).encode()


def test_the_same_with_hex_ids_and_integers_is_read():
    read = otlp_json.traces(spoiled())

    span = read.resource_spans[0].scope_spans[0].spans[0]
    assert (span.trace_id, span.span_id) == (bytes(range(16)), bytes(range(1, 9)))
    assert [a.value.double_value for a in span.attributes] == [0.25, 1.0, 0.01, 0.22, 0.74]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"kind": "SPAN_KIND_SERVER"}, "kind: integer expected"),
        ({"status": {"code": "STATUS_CODE_ERROR"}}, "code: integer expected"),
        ({"spanId": "AQIDBAUGBwg="}, "spanId: hex expected, looks like base64"),
        ({"traceId": "0001"}, "traceId: hex expected, not '0001'"),
        ({"startTimeUnixNano": "yesterday"}, "the body is no OTLP"),
        ({"attributes": 5}, "the body is no OTLP"),
    ],
)
def test_a_field_that_cannot_be_is_named(changes, problem):
    with pytest.raises(InputError, match=problem):
        otlp_json.traces(spoiled(**changes))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'{"x": NaN}', b"\xff\xfe"])
def test_what_is_no_json_object_is_refused(body):
    with pytest.raises(InputError, match="the body is"):
        otlp_json.traces(body)


def test_nesting_without_end_is_refused():
    with pytest.raises(InputError, match=r"nested deeper|the body is no JSON"):
        otlp_json.traces(b'{"a":' * 5000 + b"1" + b"}" * 5000)


def test_unknown_fields_are_ignored():
    assert len(otlp_json.traces(spoiled(flavour="vanilla")).resource_spans) == 1


def test_integers_may_be_text_or_numbers():
    body = json.dumps(
        {
            "resourceMetrics": [
                {
                    "scopeMetrics": [
                        {
                            "metrics": [
                                {
                                    "name": "n",
                                    "gauge": {"dataPoints": [{"asInt": "7", "timeUnixNano": 5}]},
                                }
                            ]
                        }
                    ]
                }
            ]
        }
    ).encode()

    point = (
        otlp_json.metrics(body).resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points[0]
    )

    assert (point.as_int, point.time_unix_nano) == (7, 5)
