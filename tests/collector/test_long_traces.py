"""A trace that lasts longer than spans are joined: an agent's, with one call after the other."""

import itertools

import pytest

from tests.collector.storing import NOW_S, distribution, span, traces, writing

CALLS = ((1, 2000.0, 0.5), (2, 1000.0, 0.7), (3, 30.0, 0.9))


def call(number, ago_s, ttft_s):
    made = span(
        number,
        end_s=NOW_S - ago_s,
        gen_ai__latency__time_to_first_token=ttft_s,
        gen_ai__latency__e2e=2.0,
    )
    made.trace_id = b"one agent's work"
    return made


@pytest.mark.parametrize("order", list(itertools.permutations(CALLS)))
def test_calls_of_one_trace_far_apart_are_counted_once_however_often_they_come(tmp_path, order):
    spans = [call(*each) for each in order]
    with writing(tmp_path) as writer:
        for each in spans:
            writer.traces(traces(each))
        writer.traces(traces(*spans))
        writer.traces(traces(*reversed(spans)))
        counts = writer.counts()

    assert counts["stored_spans_total"] == 3
    assert counts["duplicate_spans_total"] == 6
    assert distribution(tmp_path, "ttft").n == 3


def test_they_are_counted_once_after_a_restart_too(tmp_path):
    spans = [call(*each) for each in CALLS]
    with writing(tmp_path) as writer:
        writer.traces(traces(*spans))
    with writing(tmp_path) as writer:
        writer.traces(traces(*spans))
        assert writer.counts()["duplicate_spans_total"] == 3

    assert distribution(tmp_path, "ttft").n == 3
