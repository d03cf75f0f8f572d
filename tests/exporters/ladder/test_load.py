"""Putting load on: as many at a time as asked, arrivals that do not wait, ends that leave nothing."""

import asyncio
import time
from itertools import pairwise

import numpy as np
import pytest

from exporters.ladder.budget import Budget
from exporters.ladder.cost import Price
from exporters.ladder.course import Course
from exporters.ladder.load import Load, closed_loop, open_loop
from exporters.ladder.plan import Guards
from exporters.ladder.sample import Phase
from tests.exporters.ladder.planted import SHORT, sample


class Desk:
    """Answers after so long, and remembers who was there."""

    def __init__(self, *, lasts_s=0.005, failing=False, raises=False):
        self.lasts_s, self.failing, self.raises = lasts_s, failing, raises
        self.now = self.most = self.left = 0
        self.seen = []

    def lane(self):
        return _Lane(self)


class _Lane:
    def __init__(self, desk):
        self.desk = desk

    async def ask(self, *, phase, intended_at_s):
        desk = self.desk
        if desk.raises:
            raise ZeroDivisionError("a fault of ours")
        desk.now += 1
        desk.most = max(desk.most, desk.now)
        desk.seen.append((phase, intended_at_s, time.perf_counter()))
        try:
            await asyncio.sleep(desk.lasts_s)
        except asyncio.CancelledError:
            desk.left += 1
            raise
        finally:
            desk.now -= 1
        return sample(
            phase,
            at_s=intended_at_s,
            ttft_s=None if desk.failing else desk.lasts_s,
            failure="refused" if desk.failing else "",
        )


def load_of(*, warm_up=2, measured=20, guards=None, interrupted=None, **more):
    guards = guards or Guards()
    course = Course(warm_up=warm_up, measured=measured, guards=guards)
    return Load(
        course=course,
        shape=SHORT,
        budget=Budget(guards, Price()),
        interrupted=interrupted or asyncio.Event(),
        **more,
    )


def closed(desk, workers, **more):
    async def whole():
        load = load_of(**more)
        await asyncio.wait_for(closed_loop(load, [desk.lane() for _ in range(workers)]), 30)
        return load

    return asyncio.run(whole())


def opened(desk, *, rate_hz, max_in_flight=256, seed="1", **more):
    async def whole():
        load = load_of(**more)
        run = open_loop(load, desk.lane, rate_hz=rate_hz, seed=seed, max_in_flight=max_in_flight)
        await asyncio.wait_for(run, 30)
        return load

    return asyncio.run(whole())


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_as_many_are_out_at_a_time_as_there_are_workers(workers):
    desk = Desk()
    load = closed(desk, workers, warm_up=workers)

    assert desk.most == workers
    assert load.course.judged == 20
    assert load.budget.requests == len(desk.seen) == len(load.course.samples)


def test_nothing_is_cancelled_when_the_last_judged_one_has_ended():
    desk = Desk()
    load = closed(desk, 4)

    assert desk.left == 0
    assert desk.now == 0
    assert any(each.phase is Phase.COOL_DOWN for each in load.course.samples)


def test_a_person_who_ends_it_waits_for_nobody():
    async def whole():
        interrupted = asyncio.Event()
        load = load_of(interrupted=interrupted, warm_up=0)
        asyncio.get_running_loop().call_later(0.1, interrupted.set)
        begun_s = time.perf_counter()
        await closed_loop(load, [Desk(lasts_s=60).lane()])
        return load, time.perf_counter() - begun_s

    load, took_s = asyncio.run(whole())

    assert load.course.stopped == "interrupted"
    assert load.course.closed_at_s is not None
    assert took_s < 30


def test_a_fault_of_ours_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        closed(Desk(raises=True), 2)
    with pytest.raises(ExceptionGroup):
        opened(Desk(raises=True), rate_hz=100)


def test_a_worker_that_is_refused_waits_longer_and_longer():
    desk = Desk(lasts_s=0, failing=True)
    guards = Guards(max_error_share=1.0, errors_from=1000, max_requests=4)
    closed(desk, 1, guards=guards, warm_up=0)

    at_s = [at for _, _, at in desk.seen]
    waits_s = [later - sooner for sooner, later in pairwise(at_s)]
    assert len(at_s) == 4
    assert waits_s[0] >= 0.19
    assert waits_s[1] >= 0.39
    assert waits_s == sorted(waits_s)


def test_too_many_errors_end_a_run_that_would_go_on_for_ever():
    desk = Desk(lasts_s=0.001, failing=True)
    load = closed(desk, 20, measured=10_000)

    assert load.course.is_abandoned
    assert "refused" in load.course.stopped


def test_what_was_told_of_is_told():
    told = []
    load = closed(Desk(), 2, told=lambda: told.append(1))

    assert len(told) == len(load.course.samples)


def test_arrivals_come_at_their_rate_and_do_not_wait_for_answers():
    desk = Desk(lasts_s=0.3)
    load = opened(desk, rate_hz=200, measured=100)

    due_s = [due for _, due, _ in desk.seen]
    assert desk.most > 20
    assert (len(due_s) - 1) / (due_s[-1] - due_s[0]) == pytest.approx(200, rel=0.35)
    assert load.course.judged == 100


def test_gaps_between_arrivals_are_as_uneven_as_poisson_has_them():
    desk = Desk(lasts_s=0)
    opened(desk, rate_hz=400, measured=400)

    gaps_s = np.diff([due for _, due, _ in desk.seen])
    assert (gaps_s >= 0).all()
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(1, abs=0.2)


def test_the_same_seed_draws_the_same_arrivals():
    def gaps_s(seed):
        desk = Desk(lasts_s=0)
        opened(desk, rate_hz=500, measured=20, seed=seed)
        due_s = [due for _, due, _ in desk.seen][:20]
        return np.diff(due_s)

    assert gaps_s("1") == pytest.approx(gaps_s("1"), abs=1e-6)
    assert gaps_s("1") != pytest.approx(gaps_s("2"), abs=1e-6)


def test_an_arrival_that_finds_no_room_keeps_the_instant_at_which_it_was_due():
    desk = Desk(lasts_s=0.02)
    load = opened(desk, rate_hz=500, measured=20, max_in_flight=1)

    assert desk.most == 1
    late_s = [sent - due for _, due, sent in desk.seen]
    assert late_s[-1] > 0.2
    assert load.course.judged == 20


def test_arrivals_end_with_the_run_even_where_the_server_drowns():
    desk = Desk(lasts_s=0.5)
    load = opened(desk, rate_hz=1000, measured=30)

    assert load.course.cool_downs <= 30
    assert desk.now == 0


def test_a_used_up_number_of_requests_ends_arrivals_too():
    desk = Desk()
    load = opened(desk, rate_hz=500, measured=1000, guards=Guards(max_requests=25))

    assert len(desk.seen) == 25
    assert "--max-requests" in load.course.stopped
    assert load.course.judged > 0
