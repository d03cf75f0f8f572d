"""Somebody sets the clock: no engine disappears for that, and none is said to stand still."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.engine.clock import Clock
from exporters.engine.run import _Watch
from exporters.engine.scrape import http_client
from exporters.engine.settings import EngineSettings
from exporters.engine.target import TargetState
from tests.exporters.fake_engine import answering, serving
from tests.exporters.pages_of import SECOND_NS, increments, level

START_NS = 1_790_000_000 * SECOND_NS
HOUR_S = 3600


def told(*looks):
    """What a clock says at these (wall, steady) nanoseconds."""
    left = iter(looks)
    here = []

    def wall():
        here[:] = [next(left)]
        return here[0][0]

    clock = Clock(wall_ns=wall, steady_ns=lambda: here[0][1])
    return [clock.look() for _ in looks]


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(-(10**15), 10**15)), max_size=20))
def test_what_was_set_is_told_once_and_waiting_is_not(steps):
    wall, steady, looks = START_NS, 7, [(START_NS, 7)]
    for waited, was_set in steps:
        wall, steady = wall + waited + was_set, steady + waited
        looks.append((wall, steady))

    found = told(*looks)

    assert [at for at, _ in found] == [at for at, _ in looks]
    assert [step for _, step in found] == [0, *(was_set for _, was_set in steps)]


def scraped(*moments):
    """The readings of scrapes, each (seconds waited, seconds the clock was set by, page)."""
    wall, steady, pages = [START_NS], [0], [text for _, _, text in moments]
    clock = Clock(wall_ns=lambda: wall[0], steady_ns=lambda: steady[0])
    with serving(answering(lambda: pages.pop(0).encode())) as engine:
        settings = EngineSettings(
            targets=[{"url": engine.url, "service": "chat"}], endpoint=None, spool_dir=None
        )
        target = settings.targets[0]
        watch = _Watch(target, TargetState(target.series), clock=clock)

        async def scrape():
            readings = []
            async with http_client() as client:
                for waited_s, set_s, _ in moments:
                    wall[0] += (waited_s + set_s) * SECOND_NS
                    steady[0] += waited_s * SECOND_NS
                    readings.append((await watch.read(client, settings), watch.memo))
            return readings

        return asyncio.run(scrape()), wall[0]


def page(steps, running=1):
    return (
        f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\n"
        f"vllm:iteration_tokens_total_count {steps}\nvllm:generation_tokens_total {steps}\n"
    )


@pytest.mark.parametrize("set_s", [30, HOUR_S, -30, -HOUR_S])
def test_an_engine_in_a_long_step_does_not_stand_still_because_the_clock_was_set(set_s):
    readings, _ = scraped((1, 0, page(1)), (1, 0, page(2)), (1, set_s, page(2)), (1, 0, page(2)))

    assert [level(reading, "engine_stalled") for reading, _ in readings] == [0, 0, 0, 0]


def test_a_clock_that_was_ahead_and_is_right_again_is_followed_and_counting_goes_on():
    readings, now_ns = scraped(
        (1, HOUR_S, page(1)), (1, -HOUR_S, page(2)), (1, 0, page(5)), (1, 0, page(5))
    )

    assert readings[-1][0].at_ns == now_ns
    assert readings[1][0].up
    assert [increments(reading, "generation_tokens") for reading, _ in readings] == [
        None,
        None,
        3,
        0,
    ]
    assert all(memo for _, memo in readings)


def test_a_stall_is_seen_though_the_clock_was_set_back_meanwhile():
    still = [(1, 0, page(2))] * 7
    readings, _ = scraped((1, 0, page(1)), (1, 0, page(2)), (1, -HOUR_S, page(2)), *still)

    assert level(readings[-1][0], "engine_stalled") == 1


def test_a_clock_that_is_set_back_a_little_loses_no_token():
    readings, _ = scraped((1, 0, page(1)), (1, 0, page(3)), (1, -20, page(6)), (1, 0, page(10)))

    assert sum(increments(reading, "generation_tokens") for reading, _ in readings[1:]) == 9
    instants = [reading.at_ns for reading, _ in readings]
    assert instants == sorted(set(instants))
