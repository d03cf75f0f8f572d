"""Real vLLM spans as legs: whole engines under overload, and a disaggregated pair with its users."""

import json
import math

import numpy as np
import pytest

from domain.distribution import exact
from domain.grid import RELATIVE_ERROR
from domain.request import SERVER_STAGES, Leg, LegKind, Stage, join, observations
from tests.paths import RECORDED

KINDS = {"vllm-prefill": LegKind.PREFILL, "vllm-decode": LegKind.DECODE}
FIGURES = {"P50": 0.5, "P95": 0.95, "P99": 0.99}


def attributes(node):
    return {each["key"]: next(iter(each["value"].values())) for each in node.get("attributes", [])}


def leg_of(span, kind):
    told = attributes(span)
    return Leg(
        trace_id=bytes.fromhex(span["traceId"]),
        span_id=bytes.fromhex(span["spanId"]),
        kind=kind,
        labels=(("role", kind.value),),
        start_at_ns=int(span["startTimeUnixNano"]),
        end_at_ns=int(span["endTimeUnixNano"]),
        ttft_s=told["gen_ai.latency.time_to_first_token"],
        e2e_s=told["gen_ai.latency.e2e"],
        queue_s=told["gen_ai.latency.time_in_queue"],
        prefill_s=told["gen_ai.latency.time_in_model_prefill"],
        decode_s=told["gen_ai.latency.time_in_model_decode"],
        prompt_tokens=int(told["gen_ai.usage.prompt_tokens"]),
        output_tokens=int(told["gen_ai.usage.completion_tokens"]),
    )


def legs_of(folder):
    dump = json.loads((RECORDED / folder / "all-spans.otlp.json").read_text())
    return [
        leg_of(span, KINDS.get(attributes(each["resource"]).get("service.name"), LegKind.SERVER))
        for each in dump["resourceSpans"]
        for scope in each["scopeSpans"]
        for span in scope["spans"]
        if span["name"] == "llm_request"
    ]


def clients_of(folder):
    lines = (RECORDED / folder / "client.jsonl").read_text().splitlines()
    return [
        Leg(
            trace_id=bytes.fromhex(told["trace_id"]),
            span_id=b"a user's",
            kind=LegKind.CLIENT,
            labels=(),
            start_at_ns=int(told["t_send"] * 1e9),
            end_at_ns=int(told["t_end"] * 1e9),
            ttft_s=told.get("ttft"),
            e2e_s=told.get("e2e"),
        )
        for told in map(json.loads, lines)
    ]


def by_trace(legs):
    traces = {}
    for each in legs:
        traces.setdefault(each.trace_id, []).append(each)
    return traces


def test_136_requests_of_an_overloaded_engine_are_explained_to_the_last_millisecond():
    requests = [join([leg]) for leg in legs_of("vllm/overload")]

    assert len(requests) == 136
    for request in requests:
        stages = [request.stage_s[stage] for stage in SERVER_STAGES if stage != Stage.KV_TRANSFER]
        assert request.overhead_s > 0
        assert sum(stages) == pytest.approx(request.e2e_s, abs=1e-9)


@pytest.mark.parametrize(
    "metric", ["ttft", "queue", "prefill", "decode", "e2e", "tpot", "overhead"]
)
def test_quantiles_of_the_engine_are_within_the_stated_error(metric):
    truth = json.loads((RECORDED / "vllm" / "truth.json").read_text())["overload"]["spans_all_136"]
    name = {"overhead": "unnamed (e2e - queue - prefill - decode)"}.get(metric, metric)
    values_s = [
        told.value_s
        for leg in legs_of("vllm/overload")
        for told in observations([leg])
        if told.metric == metric
    ]
    figures = truth[name]

    found = exact(np.array(values_s))

    assert found.n == figures["n"]
    for figure, q in FIGURES.items():
        assert abs(found.quantile(q).value_s / figures[figure] - 1) <= RELATIVE_ERROR


def test_forty_users_of_a_disaggregated_pair_waited_forty_times():
    traces = by_trace([*legs_of("vllm-disagg"), *clients_of("vllm-disagg")])
    told = [each for legs in traces.values() for each in observations(legs)]
    servers = [each for each in told if each.metric == "ttft" and each.labels]

    assert len(traces) == 40
    assert len(servers) == 40
    for metric in ("network", "kv_transfer", "decode", "prefill", "overhead"):
        assert len([each for each in told if each.metric == metric]) == 40


def test_a_pairs_ttft_is_prefill_and_handover_and_first_token():
    for legs in by_trace([*legs_of("vllm-disagg"), *clients_of("vllm-disagg")]).values():
        client, prefill, decode = (
            next(leg for leg in legs if leg.kind is kind)
            for kind in (LegKind.CLIENT, LegKind.PREFILL, LegKind.DECODE)
        )
        request = join(legs)
        stages = [request.stage_s[stage] for stage in SERVER_STAGES]

        assert sum(stages) == pytest.approx(request.e2e_s, abs=1e-9)
        assert prefill.e2e_s + decode.ttft_s <= request.ttft_s <= client.ttft_s
        assert math.isclose(request.ttft_s + request.network_s, client.ttft_s)
