"""A loop goes on whatever a tick does, and says when nothing comes of it."""

import threading

import pytest

from alerts.loop import Loop


class Clock:
    """Seconds that pass when told to."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def loop_of(tick, *, rounds, clock, cadence_s=0):
    """A loop that has run so many rounds."""
    stop = threading.Event()
    seen = []

    def counted(now_s):
        seen.append(now_s)
        if len(seen) == rounds:
            stop.set()
        tick(now_s)

    loop = Loop("evaluator", counted, monotonic=clock)
    loop.run(stop, clock=lambda: 7.0, cadence_s=cadence_s)
    return loop, seen


def failing(_):
    raise ValueError("good must lie between 0 and total")


def test_a_tick_that_fails_is_tried_again(caplog):
    _, seen = loop_of(failing, rounds=3, clock=Clock())

    assert seen == [7.0, 7.0, 7.0]
    assert "evaluator: a tick failed" in caplog.text


def test_a_loop_that_was_never_begun_is_no_problem():
    assert Loop("evaluator", failing).problem() is None


def test_a_loop_that_works_is_no_problem_and_one_failed_tick_is_none_yet():
    clock = Clock()
    fine, _ = loop_of(lambda _: None, rounds=2, clock=clock)
    failed, _ = loop_of(failing, rounds=2, clock=clock)

    assert fine.problem() is None
    assert failed.problem() is None


def test_a_loop_that_fails_for_a_minute_says_why():
    clock = Clock()
    loop, _ = loop_of(failing, rounds=1, clock=clock)
    clock.now_s += 61

    assert loop.problem() == (
        "the evaluator has finished no tick for 61 s: good must lie between 0 and total"
    )


def test_a_loop_whose_tick_hangs_says_so():
    clock = Clock()
    loop, _ = loop_of(lambda _: None, rounds=1, clock=clock)
    clock.now_s += 90

    assert loop.problem() == "the evaluator has finished no tick for 90 s"


def test_a_loop_that_ended_by_itself_is_a_problem():
    def interrupted(_):
        raise KeyboardInterrupt

    loop = Loop("watch", interrupted, monotonic=Clock())
    with pytest.raises(KeyboardInterrupt):
        loop.run(threading.Event(), clock=lambda: 0.0, cadence_s=0)

    assert loop.problem() == "the watch has ended"
