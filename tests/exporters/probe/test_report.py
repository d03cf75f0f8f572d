"""A round as metrics and as spans: everything is told once, and what is not known is not told."""

from dataclasses import replace

import pytest

from domain.request import Outcome
from exporters.engine.otlp import export_request
from exporters.probe.exchange import Exchange
from exporters.probe.finding import Finding
from exporters.probe.floor import Floor
from exporters.probe.report import IN_SPANS, Reporter, without_what_spans_tell
from exporters.probe.round import Round
from exporters.probe.span import spans_request
from tests.exporters.probe.asking import target_of

TARGET = target_of("http://here", region="eu-west-1", name="edge")
LABELS = {
    "service": "chat",
    "model": "m",
    "region": "eu-west-1",
    "replica": "edge",
    "source": "probe",
}
WHOLE = Exchange(
    url="http://here",
    started_at_ns=1_000,
    sent_at_ns=2_000,
    status=200,
    dns_s=0.01,
    connect_s=0.02,
    tls_s=0.03,
    first_byte_s=0.04,
    ttft_s=0.1,
    gaps_s=(0.01,) * 9,
    e2e_s=0.2,
    lasted_s=0.2,
    prompt_tokens=50,
    output_tokens=10,
    streamed_tokens=10,
    finish_reason="length",
    trace_id=b"t" * 16,
    span_id=b"s" * 8,
)
BROKEN = Exchange(
    url="http://here",
    started_at_ns=1_000,
    sent_at_ns=2_000,
    status=200,
    connect_s=0.02,
    first_byte_s=0.04,
    ttft_s=0.1,
    gaps_s=(0.01,) * 9,
    lasted_s=29.01,
    idle_s=28.8,
    outcome=Outcome.FAILED,
    reason="cut_off",
    trouble="broke off",
    trace_id=b"u" * 16,
    span_id=b"s" * 8,
)
REFUSED = Exchange(
    url="http://here",
    started_at_ns=1_000,
    outcome=Outcome.FAILED,
    reason="refused",
    trouble="refused",
    trace_id=b"v" * 16,
    span_id=b"s" * 8,
)


def reading(*asked, at_ns=5_000, **more):
    return Reporter(TARGET, 100).reading(Round(asked=asked, **more), at_ns)


def latencies(told):
    return {each.metric: each.distribution for each in told.latencies}


def counted(told, metric):
    return {
        dict(each.labels).get("reason", ""): each.by
        for each in told.increments
        if each.metric == metric
    }


def levels(told, metric):
    return [
        (dict(each.labels).get("reason", ""), each.value)
        for each in told.levels
        if each.metric == metric
    ]


def test_a_whole_answer_tells_every_duration_once_under_its_labels():
    told = reading(WHOLE)

    n = {name: one.n for name, one in latencies(told).items()}
    once = ("dns", "connect", "tls", "first_byte", "ttft", "tpot", "itl_max", "e2e")
    assert n == {**dict.fromkeys(once, 1), "itl": 9}
    assert {tuple(sorted(dict(each.labels).items())) for each in told.latencies} == {
        tuple(sorted(LABELS.items()))
    }
    assert latencies(told)["ttft"].quantile(0.5).value_s == pytest.approx(0.1, rel=0.006)
    assert [each.sample for each in told.latencies if each.metric == "itl"] == ["chunk"]
    assert counted(told, "probes") == {"ok": 1}
    assert counted(told, "probe_tokens") == {"": 60}
    assert levels(told, "up") == [("", 1.0)]
    assert levels(told, "buffering") == [("", 0.0)]


def test_a_broken_answer_tells_its_handshake_and_its_name_and_no_ttft():
    told = reading(BROKEN)

    assert set(latencies(told)) == {"connect"}
    assert counted(told, "probes") == {"cut_29s": 1}
    assert levels(told, "up") == [("cut_29s", 0.0)]
    assert not told.up


def test_a_refused_connection_tells_that_it_was():
    told = reading(REFUSED)

    assert not latencies(told)
    assert counted(told, "probes") == {"refused": 1}
    assert levels(told, "up") == [("refused", 0.0)]
    assert levels(told, "buffering") == []


def test_a_cold_start_and_the_request_after_it_are_two_probes():
    cold = Finding(reason="cold_start", sentence="cold start")

    told = reading(WHOLE, replace(WHOLE, span_id=b"n" * 8), cold=cold)

    assert counted(told, "probes") == {"cold_start": 1, "ok": 1}
    assert latencies(told)["ttft"].n == 2
    assert levels(told, "up") == [("", 1.0)]


def test_a_target_that_is_capped_is_neither_up_nor_down():
    told = reading(refusal="spent", refused_as="capped", month_usd=1.5)

    assert counted(told, "probes") == {"capped": 1}
    assert levels(told, "up") == []
    assert levels(told, "probe_spending") == [("", 1.5)]
    assert told.notes == ("spent",)


def test_without_prices_no_spending_is_told():
    assert levels(reading(WHOLE), "probe_spending") == []


def test_every_handshake_of_a_floor_is_told():
    found = Floor(url="http://here", connect_s=(0.01,) * 50, tls_s=(0.02,) * 50)

    told = reading(WHOLE, floor=found)

    assert latencies(told)["connect"].n == 51
    assert latencies(told)["tls"].n == 51


def test_readings_follow_each_other_without_a_hole_even_when_the_clock_goes_back():
    reporter = Reporter(TARGET, 100)
    done = Round(asked=(WHOLE,))

    first, second = reporter.reading(done, 5_000), reporter.reading(done, 3_000)

    assert {each.start_at_ns for each in first.increments} == {100}
    assert {each.start_at_ns for each in second.increments} == {first.at_ns}
    assert second.at_ns == first.at_ns + 1


def test_a_clock_that_was_far_ahead_is_followed_back_for_the_future_is_refused():
    hour_ns = 3600 * 10**9
    reporter = Reporter(TARGET, 100)
    done = Round(asked=(WHOLE,))

    first, second = reporter.reading(done, 2 * hour_ns), reporter.reading(done, hour_ns)

    assert first.at_ns == 2 * hour_ns
    assert second.at_ns == hour_ns
    assert {each.start_at_ns for each in second.increments} == {hour_ns - 1}


def test_what_a_span_tells_is_not_told_by_a_metric_too():
    told = without_what_spans_tell(reading(WHOLE))

    assert set(latencies(told)) == {"dns", "connect", "tls", "first_byte"}
    assert set(latencies(reading(WHOLE))) - set(latencies(told)) == IN_SPANS
    assert counted(told, "probes") == {"ok": 1}


def test_a_reading_of_a_probe_travels_as_any_other():
    (resource,) = export_request(reading(WHOLE)).resource_metrics

    own = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
    assert own["service.name"] == "chat"
    assert own["cloud.region"] == "eu-west-1"
    (ttft,) = [m for m in resource.scope_metrics[0].metrics if m.name == "stagewatch_ttft_seconds"]
    sources = {
        pair.value.string_value
        for point in ttft.exponential_histogram.data_points
        for pair in point.attributes
        if pair.key == "stagewatch.source"
    }
    assert sources == {"probe"}


def span(exchange):
    (resource,) = spans_request(TARGET, [exchange]).resource_spans
    (found,) = resource.scope_spans[0].spans
    own = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
    told = {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in found.attributes
    }
    return own, found, told


def test_a_span_is_a_clients_and_says_that_it_is_only_a_probe():
    own, found, told = span(WHOLE)

    assert own["stagewatch.source"] == "probe"
    assert (own["service.name"], own["gen_ai.request.model"]) == ("chat", "m")
    assert (found.kind, found.trace_id, found.span_id) == (3, WHOLE.trace_id, WHOLE.span_id)
    assert found.end_time_unix_nano - found.start_time_unix_nano == 200_000_000
    assert told["gen_ai.response.time_to_first_chunk"] == 0.1
    assert told["gen_ai.usage.output_tokens"] == 10
    assert [each.double_value for each in told["stagewatch.itl_s"].values] == [0.01] * 9
    assert told["stagewatch.outcome"] == "ok"


def test_the_span_of_a_broken_answer_tells_no_times_and_is_an_error():
    _, found, told = span(BROKEN)

    assert found.status.code == 2
    assert told["stagewatch.outcome"] == "failed"
    assert "gen_ai.response.time_to_first_chunk" not in told
    assert "stagewatch.itl_s" not in told


def test_an_answer_in_one_chunk_has_no_tokens_to_tell_a_tpot_of():
    lump = Exchange(
        url="http://here",
        started_at_ns=1,
        ttft_s=0.1,
        e2e_s=0.1,
        lasted_s=0.1,
        output_tokens=10,
        streamed_tokens=10,
    )

    assert lump.tpot_s is None
    assert "gen_ai.usage.output_tokens" not in span(lump)[2]


def levels_told(target, done):
    reading = Reporter(target, 0).reading(done, 10**9)
    return {each.metric: each.value for each in reading.levels}


def test_what_may_be_spent_is_told_beside_what_was_and_nothing_where_nobody_said():
    prices = {"input_usd_per_million": 1.0, "output_usd_per_million": 1.0}
    limited = target_of("http://here", month_tokens=1000, month_usd=2.0, **prices)
    free = target_of("http://here")

    assert levels_told(limited, Round(month_usd=0.5, month_tokens=90)) == {
        "probe_spending": 0.5,
        "probe_month_tokens": 90.0,
        "probe_allowance": 2.0,
        "probe_token_allowance": 1000.0,
    }
    assert levels_told(free, Round(refused_as="no_books")) == {}
