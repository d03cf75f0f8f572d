"""The two ways to put load on a server: workers back to back, and arrivals that do not wait."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from exporters.ladder.budget import Budget
from exporters.ladder.course import Course
from exporters.ladder.plan import Shape
from exporters.ladder.sample import Phase, Sample

__all__ = ["Lane", "Load", "closed_loop", "open_loop"]

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class Lane(Protocol):
    """One kept connection: a request at a time."""

    async def ask(self, *, phase: Phase, intended_at_s: float) -> Sample: ...


@dataclass(slots=True, kw_only=True, eq=False)
class Load:
    """One run: what it may use, whom it tells, and when somebody ended it."""

    course: Course
    shape: Shape
    budget: Budget
    interrupted: asyncio.Event
    told: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.perf_counter
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self, intended_at_s: float) -> Phase:
        """Counted and paid for at once, so that the next look at the budget sees it."""
        self.budget.reserve(self.shape)
        return self.course.begin(intended_at_s)

    async def one(self, lane: Lane, phase: Phase, intended_at_s: float) -> bool:
        """One request that has begun, to its end; true if it was answered well."""
        sample = await lane.ask(phase=phase, intended_at_s=intended_at_s)
        self.budget.settle(self.shape, sample)
        self.course.end(sample)
        if self.course.is_abandoned:
            self._ended.set()
        self.told()
        return sample.ok

    def may_begin(self) -> bool:
        """True while there is work, and something left to pay for it."""
        refusal = self.budget.refusal(self.shape)
        if refusal:
            self.course.stop(refusal, self.clock())
        return not refusal and not self.course.is_over

    async def until_over(self, working: Sequence[asyncio.Task[None]]) -> None:
        """Waits for all that is under way, unless somebody or too many errors end it.

        why not cancel what nobody judges: a server or a proxy that does not notice goes on with
        it, and the next run would be measured on a busy server.
        """
        ends = [asyncio.create_task(each.wait()) for each in (self._ended, self.interrupted)]
        everyone = asyncio.create_task(_all(working))
        try:
            await asyncio.wait([*ends, everyone], return_when=asyncio.FIRST_COMPLETED)
            if everyone.done():
                everyone.result()
        finally:
            if self.interrupted.is_set() and not self.course.is_over:
                self.course.abandon("interrupted", self.clock())
            self.course.close(self.clock())
            for task in (*ends, everyone, *working):
                task.cancel()
            await asyncio.gather(*ends, everyone, *working, return_exceptions=True)


async def closed_loop(load: Load, lanes: Sequence[Lane]) -> None:
    """Each lane asks again as soon as it is answered, so that as many are out as there are lanes."""

    async def work(lane: Lane) -> None:
        failed = 0
        while load.may_begin():
            at_s = load.clock()
            well = await load.one(lane, load.begin(at_s), at_s)
            failed = 0 if well else failed + 1
            if failed:  # why: a server that refuses at once must not be hammered
                await asyncio.sleep(min(_SHORTEST_PAUSE_S * 2**failed, _LONGEST_PAUSE_S))

    await load.until_over([asyncio.create_task(work(lane)) for lane in lanes])


async def open_loop(
    load: Load, new_lane: Callable[[], Lane], *, rate_hz: float, seed: str, max_in_flight: int
) -> None:
    """Poisson arrivals at this rate, whether or not earlier requests have been answered.

    At `max_in_flight` an arrival waits here; its latency counts from when it was due.
    """
    # why not secrets: the same seed draws the same arrivals
    chance = random.Random(seed)  # noqa: S311
    room = asyncio.Semaphore(max_in_flight)
    idle: list[Lane] = []

    async def visit(phase: Phase, due_s: float) -> None:
        lane = idle.pop() if idle else new_lane()
        try:
            await load.one(lane, phase, due_s)
        finally:
            idle.append(lane)
            room.release()

    async def arrive() -> None:
        due_s = load.clock()
        async with asyncio.TaskGroup() as visits:
            while load.course.cool_downs < load.course.wanted:
                due_s += chance.expovariate(rate_hz)
                await asyncio.sleep(max(due_s - load.clock(), 0.0))
                await room.acquire()
                if not load.may_begin():
                    return
                visits.create_task(visit(load.begin(due_s), due_s))

    await load.until_over([asyncio.create_task(arrive())])


async def _all(working: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*working)
