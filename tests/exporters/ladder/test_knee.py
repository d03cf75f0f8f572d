"""The knee: a planted one is found, whatever steps it is looked for with."""

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exporters.ladder.figures import Client
from exporters.ladder.knee import Beyond, Rung, find_knee, kneedle, rungs_of
from exporters.ladder.measurement import Climb, required
from exporters.ladder.objective import parse_goal
from exporters.ladder.words import knee_sentence
from tests.exporters.ladder.planted import SHORT, Server, climbed

LADDER = (1, 2, 4, 8, 16, 32)


def queueing(slots, concurrencies, *, service_s=1.0, first_s=0.1, tokens=20):
    """What queueing theory says of fixed slots behind a closed loop."""
    for each in concurrencies:
        rate_hz = min(each, slots) / service_s
        wait_s = max(each - slots, 0) * service_s / slots
        yield Rung(
            concurrency=each,
            tokens_hz=rate_hz * tokens,
            requests_hz=rate_hz,
            ttft_s=first_s + wait_s,
            itl_s=0.04,
            mean_ttft_s=first_s + wait_s,
            mean_e2e_s=service_s + wait_s,
        )


def sharing(most_hz, concurrencies, *, first_s=0.1, tokens=20):
    """All are served at once, and share a server that makes so many tokens a second."""
    for each in concurrencies:
        tokens_hz = min(each * 20.0, most_hz)
        e2e_s = each * tokens / tokens_hz
        yield Rung(
            concurrency=each,
            tokens_hz=tokens_hz,
            requests_hz=tokens_hz / tokens,
            ttft_s=first_s,
            itl_s=(e2e_s - first_s) / (tokens - 1),
            mean_ttft_s=first_s,
            mean_e2e_s=e2e_s,
        )


ladders = st.lists(st.integers(1, 128), min_size=3, max_size=8, unique=True).map(sorted)


@given(st.integers(1, 64), ladders, st.floats(0.05, 60))
def test_planted_slots_are_found_with_any_steps_that_reach_beyond_them(slots, ladder, service_s):
    assume(ladder[0] <= slots and ladder[-1] >= 1.2 * slots + 1)
    knee = find_knee(list(queueing(slots, ladder, service_s=service_s, first_s=service_s / 10)))

    assert knee.beyond is Beyond.QUEUES
    assert knee.slots_at_least <= slots * 1.001
    assert slots * 0.999 <= knee.slots <= slots / 0.95
    if knee.is_exact:
        assert knee.from_concurrency == slots
    assert knee.ttft_growth_s == pytest.approx(service_s / slots, rel=0.12)


@pytest.mark.parametrize("slots", [1, 2, 4, 8, 16, 32])
def test_slots_that_are_a_step_are_found_exactly(slots):
    knee = find_knee(list(queueing(slots, (1, 2, 4, 8, 16, 32, 64))))

    assert knee.is_exact
    assert (knee.from_concurrency, knee.at) == (slots, slots)
    assert knee.ttft_growth_s == pytest.approx(1.0 / slots)


def test_a_step_just_above_the_slots_makes_it_an_about():
    knee = find_knee(list(queueing(20, (1, 21, 25))))

    assert not knee.is_exact
    assert "Above about 21 concurrent" in knee_sentence(knee)


@given(ladders, st.floats(100, 1000))
def test_a_server_that_shares_has_no_slots(ladder, most_hz):
    knee = find_knee(list(sharing(most_hz, ladder)))

    assert knee.slots is None
    assert knee.beyond in (Beyond.SLOWS, Beyond.RISES)
    assert (knee.beyond is Beyond.RISES) == (knee.at == ladder[-1])


@given(ladders, st.integers(1, 64))
def test_the_knee_has_95_percent_of_the_best_or_nothing_above_it_is_worth_its_load(ladder, slots):
    rungs = list(queueing(slots, ladder))
    knee = find_knee(rungs)
    best_hz = max(rung.tokens_hz for rung in rungs)
    enough = next(rung for rung in rungs if rung.tokens_hz >= 0.95 * best_hz)
    above = [rung for rung in rungs if rung.concurrency >= knee.at]

    if enough is not rungs[-1]:
        assert knee.at == enough.concurrency
    for one, other in pairwise(above):
        more = other.tokens_hz / one.tokens_hz - 1
        assert more <= 0.06 or more < 0.2 * (other.concurrency / one.concurrency - 1)


def test_the_sentence_says_the_limit_and_what_each_further_request_pays():
    climb = Climb(shape=SHORT, steps=climbed(Server(slots=4), LADDER))

    assert knee_sentence(climb.knee) == (
        "Above 4 concurrent requests the server queues: TTFT grows by 113 ms per added request "
        "(P50 50 ms at 4, 3.2 s at 32), and tokens/s stays at 187."
    )


@pytest.mark.parametrize("slots", [1, 3, 4, 7, 12])
def test_jitter_does_not_hide_planted_slots(slots):
    knee = find_knee(rungs_of(climbed(Server(slots=slots), LADDER)))

    assert knee.from_concurrency == slots
    assert f"Above {slots} concurrent requests the server queues" in knee_sentence(knee)


def test_a_server_that_only_slows_down_is_not_said_to_queue():
    server = Server(slots=100, share=0.5)
    knee = find_knee(rungs_of(climbed(server, LADDER)))

    assert knee.beyond is Beyond.SLOWS
    assert "they only slow each other down: ITL grows by" in knee_sentence(knee)


def test_a_server_that_is_not_full_yet_has_its_knee_higher():
    knee = find_knee(rungs_of(climbed(Server(slots=100), LADDER)))

    assert knee.beyond is Beyond.RISES
    assert knee_sentence(knee).endswith("the knee lies higher.")


def test_first_tokens_that_wait_without_slots_are_told_apart():
    rungs = [
        Rung(
            concurrency=each,
            tokens_hz=100.0 if each > 1 else 60.0,
            requests_hz=each**0.5,
            ttft_s=0.1 + each**0.5 - 1,
            itl_s=0.01,
            mean_ttft_s=0.1 + each**0.5 - 1,
            mean_e2e_s=each**0.5,
        )
        for each in (1, 4, 16, 64)
    ]
    knee = find_knee(rungs)

    assert (knee.beyond, knee.slots) == (Beyond.WAITS, None)
    assert "though not for a fixed number of slots" in knee_sentence(knee)


VLLM = {
    "short": (
        (1, 76.4, 2.387, 0.0367, 0.0104, 0.0470, 0.3946),
        (2, 125.0, 3.905, 0.0498, 0.0125, 0.0548, 0.4943),
        (4, 183.0, 5.717, 0.0583, 0.0123, 0.0589, 0.5097),
        (8, 278.8, 8.751, 0.0715, 0.0163, 0.0718, 0.8177),
        (16, 309.8, 9.243, 0.6987, 0.0173, 0.7219, 1.3738),
        (32, 240.1, 7.469, 2.1289, 0.0183, 2.1040, 2.7526),
    ),
    "long": (
        (1, 37.1, 1.160, 0.2207, 0.0115, 0.2317, 0.6104),
        (2, 42.3, 1.323, 0.3182, 0.0156, 0.3642, 0.9885),
        (4, 63.6, 1.969, 0.4955, 0.0204, 0.5844, 1.8095),
        (8, 78.4, 2.400, 0.5886, 0.0316, 0.8030, 3.2447),
        (16, 87.2, 2.718, 2.9019, 0.0298, 2.9412, 5.4136),
        (32, 92.5, 2.845, 8.2587, 0.0321, 8.7223, 11.4911),
    ),
}
"""What this ladder measured on a real vLLM 0.32.0 with `--max-num-seqs 8` on two busy CPU cores,
2026-11-29: prompts of 128 and 1024 tokens, answers of 32, medians of two runs."""


@pytest.mark.parametrize("prompts", VLLM)
def test_the_slots_of_a_real_engine_are_found_though_its_cores_are_shared(prompts):
    names = ("concurrency", "tokens_hz", "requests_hz", "ttft_s", "itl_s")
    names += ("mean_ttft_s", "mean_e2e_s")
    knee = find_knee([Rung(**dict(zip(names, row, strict=True))) for row in VLLM[prompts]])

    assert knee.beyond is Beyond.QUEUES
    assert knee.from_concurrency == 8
    assert knee_sentence(knee).startswith("Above about 8 concurrent requests the server queues")


def test_throughput_that_hardly_grows_any_more_is_not_said_to_rise():
    rungs = [
        *sharing(100.0, (1, 2, 4)),
        *(
            Rung(
                concurrency=each,
                tokens_hz=tokens_hz,
                requests_hz=tokens_hz / 20,
                ttft_s=0.1,
                itl_s=each / tokens_hz,
                mean_ttft_s=0.1,
                mean_e2e_s=each * 20 / tokens_hz,
            )
            for each, tokens_hz in ((8, 110.0), (16, 118.0), (32, 126.0))
        ),
    ]
    knee = find_knee(rungs)

    assert (knee.beyond, knee.at) == (Beyond.SLOWS, 8)
    assert "grows only from 110 to 126" in knee_sentence(knee)


def test_throughput_that_collapses_is_said():
    rungs = [*queueing(4, (1, 2, 4)), *queueing(4, (8, 16))]
    worse = Rung(
        concurrency=32,
        tokens_hz=40.0,
        requests_hz=2.0,
        ttft_s=7.0,
        itl_s=0.2,
        mean_ttft_s=7.0,
        mean_e2e_s=8.0,
    )

    assert "tokens/s falls from 80 to 40" in knee_sentence(find_knee([*rungs, worse]))


@pytest.mark.parametrize("number", [0, 1])
def test_one_step_has_no_knee(number):
    knee = find_knee(list(queueing(4, range(1, number + 1))))

    assert (knee.beyond, knee.at) == (Beyond.UNKNOWN, None)
    assert "shows no knee" in knee_sentence(knee)


def test_steps_that_we_slowed_down_ourselves_say_nothing_of_the_server():
    def client(concurrency):
        return Client(late_s=0.2 if concurrency >= 8 else 0.0, cpu_ratio=0.5)

    climb = Climb(shape=SHORT, steps=climbed(Server(), LADDER, client=client))

    assert [step.step.concurrency for step in climb.believed] == [1, 2, 4]
    assert climb.disbelieved_from.concurrency == 8
    assert climb.knee.beyond is Beyond.RISES


def test_what_was_kept_in_spite_of_a_slow_client_is_kept():
    goal = parse_goal(["ttft<=1s"])
    slow = Client(late_s=0.5, cpu_ratio=0.5)
    steps = climbed(Server(), (1, 4, 8), goal=goal, client=lambda _: slow)

    assert Climb(shape=SHORT, steps=steps, goal=goal).kept_to is steps[-1]
    assert Climb(shape=SHORT, steps=steps, goal=goal).best_goodput is None


def test_one_step_that_was_disturbed_is_left_out_and_the_others_still_count():
    def client(concurrency):
        return Client(late_s=0.2 if concurrency == 8 else 0.0, cpu_ratio=0.5)

    climb = Climb(shape=SHORT, steps=climbed(Server(), LADDER, client=client))

    assert climb.disbelieved_from is None
    assert [rung.concurrency for rung in climb.knee.rungs] == [1, 2, 4, 16, 32]
    assert climb.knee.from_concurrency == 4


@given(st.integers(2, 60), st.integers(61, 400))
def test_kneedle_finds_the_corner_of_two_straight_lines(corner, last):
    points = [(x, float(min(x, corner))) for x in sorted({1, corner, last, (corner + last) // 2})]

    assert kneedle(points) == corner


@pytest.mark.parametrize(
    "points", [[], [(1, 2.0)], [(1, 1.0), (2, 2.0)], [(1, 5.0), (2, 5.0), (3, 5.0)]]
)
def test_kneedle_says_nothing_where_there_is_no_curve(points):
    assert kneedle(points) is None


def test_required_concurrency_is_rate_times_duration():
    climb = Climb(shape=SHORT, steps=climbed(Server(), LADDER))
    little, much = required(climb, 4.0), required(climb, 30.0)

    assert little.in_flight == pytest.approx(4.0 * 0.45, rel=0.02)
    assert (little.endpoints, little.at_concurrency) == (1, 2)
    assert much.endpoints == 4
    assert much.in_flight == pytest.approx(30.0 * 0.45, rel=0.02)


@given(st.floats(0.01, 500))
def test_endpoints_together_take_the_rate_and_one_fewer_would_not(rate_hz):
    needed = required(CLIMB, rate_hz)

    assert needed.endpoints * needed.endpoint_hz >= rate_hz * (1 - 1e-9)
    assert (needed.endpoints - 1) * needed.endpoint_hz < rate_hz


CLIMB = Climb(shape=SHORT, steps=climbed(Server(), (1, 2, 4), rounds=1))
