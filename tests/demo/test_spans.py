"""Our spans against those of a real vLLM."""

from collections import Counter

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from stagewatch.demo.spans import export_request
from tests.demo.runs import run
from tests.paths import RECORDED


def attributes(holder):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in holder.attributes}


def kinds(holder):
    return {a.key: a.value.WhichOneof("value") for a in holder.attributes}


def all_spans(request):
    return [
        (group.resource, scope.scope, span)
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


@pytest.fixture(scope="module")
def real():
    request = ExportTraceServiceRequest()
    request.ParseFromString((RECORDED / "vllm-disagg" / "all-spans.bin").read_bytes())
    return next(found for found in all_spans(request) if found[2].name == "llm_request")


@pytest.fixture(scope="module")
def ours():
    return all_spans(export_request(run(60.0).spans))


@pytest.fixture(scope="module")
def engine(ours):
    return next(found for found in ours if found[2].kind == Span.SPAN_KIND_SERVER)


@pytest.fixture(scope="module")
def client(ours):
    return next(found for found in ours if found[2].kind == Span.SPAN_KIND_CLIENT)


def test_a_request_span_carries_the_attributes_of_a_real_one_in_the_same_kinds(real, engine):
    assert kinds(engine[2]) == kinds(real[2])


def test_a_request_span_has_the_real_one_s_name_scope_kind_and_flags(real, engine):
    for part in ("name", "kind", "flags"):
        assert getattr(engine[2], part) == getattr(real[2], part)
    assert engine[1].name == real[1].name
    assert engine[2].status == real[2].status
    assert not engine[2].events


def test_a_resource_says_what_a_real_one_says_and_what_the_operator_adds(real, engine):
    assert set(attributes(real[0])) <= set(attributes(engine[0]))
    added = attributes(engine[0])
    assert added["service.name"] in ("assistant", "code")
    assert added["service.instance.id"].startswith(added["service.name"])
    assert added["stagewatch.role"] in ("prefill", "decode", "both")
    assert added["cloud.availability_zone"].startswith(added["cloud.region"])


def test_ids_have_their_lengths(ours):
    for _, _, span in ours:
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
        assert len(span.parent_span_id) in (0, 8)


def test_spans_travel_with_those_of_their_sender():
    request = export_request(run(60.0).spans)
    senders = Counter(
        attributes(group.resource).get("service.instance.id") for group in request.resource_spans
    )

    assert all(count == 1 for name, count in senders.items() if name)
    assert len([name for name in senders if name]) == 8


def test_a_client_says_when_its_first_chunk_came(client):
    found = attributes(client[2])

    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.response.time_to_first_chunk"] > 0
    assert found["gen_ai.usage.output_tokens"] >= 1
    assert found["stagewatch.outcome"] == "ok"
    assert not client[2].parent_span_id


def test_a_client_s_resource_is_the_user_s_place_and_not_a_replica(client):
    found = attributes(client[0])

    assert found["cloud.region"] in ("eu-west-1", "us-east-1", "ap-southeast-1")
    assert "service.instance.id" not in found
    assert "stagewatch.role" not in found


def test_a_client_that_left_says_so():
    spans = all_spans(export_request(run(180.0, hang_up_share=0.5).spans))
    left = [s for _, _, s in spans if attributes(s).get("stagewatch.outcome") == "cancelled"]

    assert left
    for span in left:
        assert span.status.code == Status.STATUS_CODE_ERROR
        assert attributes(span)["error.type"] == "cancelled"
        assert "gen_ai.usage.output_tokens" not in attributes(span)


def test_the_numbers_of_a_span_are_not_rounded_on_the_way():
    found = run(60.0)
    sent = {
        (span.trace_id, span.span_id): attributes(span)
        for _, _, span in all_spans(export_request(found.spans))
    }

    for span in found.engine_spans:
        told = sent[span.trace_id, span.span_id]
        assert told["gen_ai.latency.e2e"] == span.finished.e2e_s
        assert told["gen_ai.latency.time_in_queue"] == span.finished.queue_s
        assert told["gen_ai.latency.time_to_first_token"] == span.ttft_s


def test_nothing_to_tell_is_an_empty_export():
    assert export_request([]).ByteSize() == 0
