"""A trace that lasts longer than spans are joined: an agent's, with one call after the other."""

import itertools
import random
import time

import pytest

from tests.collector.storing import NOW_S, distribution, rows, span, tables, traces, writing

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


def agents_calls(calls):
    """An agent's trace: an HTTP span between each call's client and its server."""
    spans = []
    for number in range(1, calls + 1):
        ids = [(4 * number + place).to_bytes(8, "big") for place in range(3)]
        http = {"http__request__method": "POST"}
        told = {
            "gen_ai__latency__time_to_first_token": 0.25,
            "gen_ai__latency__e2e": 0.75,
        }
        client = {
            "gen_ai__operation__name": "chat",
            "gen_ai__response__time_to_first_chunk": 0.5,
        }
        for place, (kind, name, attributes) in enumerate(
            ((3, "chat", client), (3, "POST", http), (2, "llm_request", told))
        ):
            made = span(end_s=NOW_S - 30 - number / 100, kind=kind, **attributes)
            made.name, made.trace_id, made.span_id = name, b"one agent's work", ids[place]
            made.parent_span_id = ids[place - 1] if place else b"theagent"
            spans.append(made)
    return spans


def test_every_call_of_an_agents_long_trace_tells_its_network(tmp_path):
    spans = agents_calls(60)
    with writing(tmp_path) as writer:
        writer.traces(traces(*spans))

    network = distribution(tmp_path, "network")
    assert network.n == 60
    assert network.sum_s == pytest.approx(60 * 0.25)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_long_trace_tells_the_same_in_pieces_of_any_size_and_in_any_order(tmp_path, size):
    spans = agents_calls(60)
    shuffled = random.Random(size).sample(spans, len(spans))  # noqa: S311 - an order, no secret
    with writing(tmp_path / "whole") as writer:
        writer.traces(traces(*spans))
    with writing(tmp_path / "pieces") as writer:
        for at in range(0, len(shuffled), size):
            writer.traces(traces(*shuffled[at : at + size]))
        writer.traces(traces(*spans))

    assert tables(tmp_path / "pieces")[0] == tables(tmp_path / "whole")[0]


def test_a_trace_of_thousands_of_spans_costs_no_more_than_so_many_traces(tmp_path):
    spans = agents_calls(1500)
    began_s = time.process_time()
    with writing(tmp_path) as writer:
        for at in range(0, len(spans), 500):
            writer.traces(traces(*spans[at : at + 500]))
    took_s = time.process_time() - began_s

    assert rows(tmp_path, "SELECT sum(n) FROM segment") == [(4500,)]
    assert distribution(tmp_path, "network").n == 1500
    assert took_s < 20  # why: looked at as a whole it takes minutes
