"""The client's own health: a loop that is held up is seen, and so is a busy core."""

import asyncio
import time

from exporters.ladder.health import watched


def seen_while(work, *, seconds=0.6):
    async def whole():
        async with watched() as pulse:
            await asyncio.sleep(0.05)
            pulse.take()
            until_s = time.perf_counter() + seconds
            while time.perf_counter() < until_s:
                await work()
            return pulse.take()

    return asyncio.run(whole())


async def holding_up():
    """What a long piece of Python does to everything else."""
    until_s = time.perf_counter() + 0.08
    while time.perf_counter() < until_s:
        pass
    await asyncio.sleep(0)


async def resting():
    await asyncio.sleep(0.02)


def test_a_loop_that_is_held_up_is_late_and_busy():
    wall_s, busy_s = time.perf_counter(), time.process_time()
    client = seen_while(holding_up)
    busy = (time.process_time() - busy_s) / (time.perf_counter() - wall_s)

    assert client.late_s >= 0.05
    assert client.cpu_ratio >= 0.8 * busy  # why not a fixed share: others may want this core too
    assert client.is_bottleneck(0.02)


def test_a_loop_that_rests_takes_next_to_nothing():
    assert seen_while(resting).cpu_ratio < 0.3


def test_each_look_begins_anew():
    async def whole():
        async with watched() as pulse:
            await asyncio.sleep(0.002)
            pulse.take()
            time.sleep(0.3)  # noqa: ASYNC251 - that is what is to be seen
            await asyncio.sleep(0.02)
            held_up = pulse.take()
            return held_up, pulse.take()

    held_up, nothing = asyncio.run(whole())

    assert held_up.late_s > 0.2
    assert nothing.late_s == 0
