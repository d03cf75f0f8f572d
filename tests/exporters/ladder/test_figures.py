"""From samples to figures: nothing is lost, nothing invented, failed requests are in every n."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.ladder.figures import Client, Run, StepFigures, run_figures
from exporters.ladder.objective import parse_goal
from exporters.ladder.plan import Step
from tests.exporters.ladder.planted import QUICK, SHORT, Server, run_of, sample

CLOSED = Step(shape=SHORT, concurrency=4)
OPEN = Step(shape=SHORT, rate_hz=2.0)
GOAL = parse_goal(["ttft<=1s"])


def run(*samples, opened_at_s=0.0, closed_at_s=10.0):
    return Run(
        number=1,
        samples=samples,
        opened_at_s=opened_at_s,
        closed_at_s=closed_at_s,
        client=QUICK,
    )


answers = st.builds(
    sample,
    phase=st.sampled_from(["warm-up", "measured", "measured", "cool-down"]),
    at_s=st.floats(0, 9),
    ttft_s=st.one_of(st.none(), st.floats(0.001, 5)),
    gaps_s=st.lists(st.floats(0, 2), max_size=6),
    waited_s=st.floats(0, 2),
    failure=st.sampled_from(["", "", "timeout"]),
)


@given(st.lists(answers, max_size=40))
def test_every_measured_request_is_good_or_not_and_none_is_forgotten(samples):
    samples = [each for each in samples if each.failure or len(each.chunk_at_s)]
    found = run_figures(run(*samples), CLOSED, GOAL)
    measured = [each for each in samples if each.phase == "measured"]

    assert found.requests == len(measured)
    assert sum(found.failures.values()) == sum(not each.ok for each in measured)
    assert 0 <= found.good <= found.requests - sum(found.failures.values())
    for metric in ("ttft", "e2e", "ttft_intended"):
        ranked = found.latencies[metric]["p99"]
        assert (ranked.n if ranked else 0) == found.requests
    gaps = found.latencies["itl"]["p50"]
    assert (gaps.n if gaps else 0) == sum(len(each.gaps_s) for each in measured)


@given(st.lists(answers, max_size=20), st.lists(st.floats(0, 10), min_size=2, max_size=6))
def test_tokens_of_adjoining_windows_add_up(samples, edges):
    edges = sorted({0.0, *edges, 100.0})
    parts = [
        sum(each.tokens_between(since, until) for each in samples)
        for since, until in pairwise(edges)
    ]
    whole = sum(each.tokens_between(0.0, 100.0) for each in samples)

    assert sum(parts) == pytest.approx(whole)


def test_a_failed_request_makes_the_p99_of_a_hundred_unreachable_only_from_two_on():
    well = [sample(ttft_s=0.1) for _ in range(99)]
    one = run_figures(run(*well, sample(ttft_s=None, failure="timeout")), CLOSED, GOAL)
    two = run_figures(run(*well[1:], *[sample(ttft_s=None, failure="x")] * 2), CLOSED, GOAL)

    assert one.latencies["ttft"]["p99"].value_s == pytest.approx(0.1)
    assert two.latencies["ttft"]["p99"].value_s is None
    assert (one.good, two.good) == (99, 98)


def test_a_one_token_answer_has_no_tpot_and_is_no_failure():
    found = run_figures(run(sample(ttft_s=0.1), sample(ttft_s=0.1, gaps_s=[0.2])), CLOSED, GOAL)

    assert found.latencies["tpot"]["p50"].n == 1
    assert found.latencies["ttft"]["p50"].n == 2


def test_an_answer_cut_off_tells_its_gaps_and_nothing_else():
    cut = sample(ttft_s=0.1, gaps_s=[0.3, 0.3], failure="cut_off")
    found = run_figures(run(cut, sample(ttft_s=0.2, gaps_s=[0.1])), CLOSED, GOAL)

    assert found.latencies["itl"]["p50"].n == 3
    assert found.latencies["e2e"]["p99"].value_s is None
    assert found.good == 1


def test_open_loop_objectives_count_from_when_a_request_was_due():
    late = sample(ttft_s=0.5, waited_s=0.8)
    opened = run_figures(run(late), OPEN, GOAL)
    closed = run_figures(run(late), CLOSED, GOAL)

    assert (opened.good, closed.good) == (0, 1)
    assert opened.latencies["ttft"]["p50"].value_s == pytest.approx(0.5)
    assert opened.latencies["ttft_intended"]["p50"].value_s == pytest.approx(1.3)


def test_the_servers_count_of_tokens_makes_tpot_and_rate():
    lumps = sample(ttft_s=0.5, gaps_s=[1.0, 1.0], output_tokens=9)
    found = run_figures(run(lumps), CLOSED, None)

    assert lumps.tpot_s == pytest.approx(2 / 8)
    assert found.tokens_hz == pytest.approx(0.9)
    assert (found.output_tokens, found.chunks) == (9, 3)


def test_where_the_server_counts_along_each_piece_weighs_what_it_carries():
    counted = sample(ttft_s=1.0, gaps_s=[1.0, 1.0], chunk_tokens=np.array([1.0, 5.0, 3.0]))

    assert counted.tokens_between(1.5, 2.5) == 5


def test_without_a_window_there_are_latencies_and_no_rates():
    found = run_figures(run(sample(), opened_at_s=None, closed_at_s=None), CLOSED, GOAL)

    assert found.latencies["ttft"]["p50"].value_s == pytest.approx(0.1)
    assert (found.tokens_hz, found.requests_hz, found.goodput_hz) == (None, None, None)


def test_no_objective_is_not_no_good_request():
    found = run_figures(run(sample()), CLOSED, None)

    assert (found.good, found.goodput_hz) == (None, None)
    assert run_figures(run(sample(ttft_s=3.0)), CLOSED, GOAL).good == 0


def test_what_the_server_does_not_count_is_not_known():
    found = run_figures(run(sample(prompt_tokens=None)), CLOSED, None)

    assert (found.prompt_tokens, found.prompt_tokens_hz) == (None, None)


@pytest.mark.parametrize("concurrency", [1, 3, 4, 9, 20])
def test_by_littles_law_as_many_are_on_their_way_as_there_are_workers(concurrency):
    found = run_figures(run_of(Server(), concurrency), Step(shape=SHORT, concurrency=4), GOAL)

    assert found.in_flight == pytest.approx(concurrency, rel=0.02)


@given(st.integers(1, 16), st.integers(1, 8), st.integers(80, 110))
def test_the_edge_of_the_window_does_not_change_the_rate(concurrency, slots, requests):
    found = run_figures(run_of(Server(slots=slots), concurrency, requests=requests), CLOSED, GOAL)

    assert found.requests_hz == pytest.approx(min(concurrency, slots) / 0.45, rel=0.035)


@given(st.integers(1, 12), st.integers(1, 8))
def test_tokens_per_second_are_what_the_slots_can_make(concurrency, slots):
    server = Server(slots=slots, first_s=0.05, gap_s=0.02)
    found = run_figures(run_of(server, concurrency), CLOSED, None)

    assert found.tokens_hz == pytest.approx(min(concurrency, slots) * 21 / 0.45, rel=0.04)


@pytest.mark.parametrize(
    ("client", "ours"),
    [
        (Client(late_s=0.019, cpu_ratio=0.5), False),
        (Client(late_s=0.021, cpu_ratio=0.5), True),
        (Client(late_s=0.001, cpu_ratio=0.9), True),
    ],
)
def test_a_client_that_is_late_or_busy_is_not_believed(client, ours):
    assert client.is_bottleneck(0.02) is ours


def test_a_late_loop_matters_less_where_gaps_are_long():
    late = Client(late_s=0.04, cpu_ratio=0.1)

    assert late.is_bottleneck(0.1)
    assert not late.is_bottleneck(0.2)
    assert late.is_bottleneck(None)


def test_a_step_is_believed_unless_most_of_its_runs_were_ours():
    busy = Client(late_s=0.0, cpu_ratio=1.0)
    ours = run_figures(run_of(Server(), 1, requests=3, client=busy), CLOSED, None)
    well = run_figures(run_of(Server(), 1, requests=3), CLOSED, None)

    assert StepFigures(step=CLOSED, runs=(ours, well, well)).is_believed
    assert not StepFigures(step=CLOSED, runs=(ours, ours, well)).is_believed
