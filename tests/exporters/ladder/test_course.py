"""The course of a run: what a request is for, when the window is open, when it is over."""

from hypothesis import given
from hypothesis import strategies as st

from exporters.ladder.course import Course
from exporters.ladder.plan import Guards
from tests.exporters.ladder.planted import sample


def course(*, warm_up=2, measured=3, **guards):
    return Course(warm_up=warm_up, measured=measured, guards=Guards(**{"run_s": 1e6, **guards}))


def end(run, phase, at_s, failure=""):
    run.end(sample(phase, at_s=at_s, ttft_s=None if failure else 0.1, failure=failure))


def test_nothing_is_judged_before_the_first_ones_have_ended():
    run = course(warm_up=2)

    assert [run.begin(0.0) for _ in range(4)] == ["warm-up"] * 4
    end(run, "warm-up", 1.0)
    assert run.begin(1.0) == "warm-up"
    end(run, "warm-up", 1.1)
    assert run.begin(1.1) == "measured"
    assert run.opened_at_s == 1.1


def test_load_goes_on_until_the_last_judged_one_has_ended():
    run = course(warm_up=0, measured=2)
    begun = [run.begin(float(at)) for at in range(4)]

    assert begun == ["measured", "measured", "cool-down", "cool-down"]
    assert (run.opened_at_s, run.closed_at_s) == (0.0, 2.0)
    end(run, "cool-down", 4.0)
    end(run, "measured", 5.0)
    assert not run.is_over
    end(run, "measured", 6.0)
    assert run.is_over
    assert run.judged == 2


def test_a_run_takes_no_more_after_its_time():
    run = course(warm_up=0, measured=100, run_s=10)

    assert [run.begin(at) for at in (0.0, 9.0, 10.0)] == ["measured", "measured", "cool-down"]
    assert run.closed_at_s == 10.0


def test_a_warm_up_that_never_ends_does_not_last_for_ever():
    run = course(warm_up=1, run_s=10)
    run.begin(0.0)

    assert run.begin(9.9) == "warm-up"
    assert run.begin(10.0) == "measured"


def test_too_many_errors_end_it_at_once_and_are_named():
    run = course(warm_up=0, measured=100, max_error_share=0.1, errors_from=10)
    for at in range(20):
        run.begin(float(at))
    for at in range(9):
        end(run, "measured", float(at), "rate limited (HTTP 429)" if at < 2 else "")
    assert not run.stopped
    end(run, "measured", 9.0)

    assert run.is_over
    assert run.stopped == "2 of 10 requests failed: rate limited (HTTP 429) (2)"
    assert run.closed_at_s is not None


def test_errors_while_warming_up_count_too():
    run = course(warm_up=50, max_error_share=0.5)
    for at in range(10):
        run.begin(float(at))
        end(run, "warm-up", float(at), "refused")

    assert run.is_abandoned
    assert "10 of 10 requests failed: refused (10)" in run.stopped


def test_a_used_up_budget_lets_what_was_paid_for_come_home():
    run = course(warm_up=0)
    run.begin(0.0)
    run.stop("enough", 1.0)

    assert not run.is_over
    assert run.begin(1.0) == "cool-down"
    end(run, "measured", 2.0)
    assert run.is_over


def test_the_first_reason_stays():
    run = course()
    run.stop("one", 1.0)
    run.abandon("two", 2.0)

    assert run.stopped == "one"


@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 9))
def test_as_many_begin_in_the_window_as_are_judged(workers, measured, warm_up):
    run = course(warm_up=warm_up, measured=measured)
    now_s, out = 0.0, [run.begin(0.0) for _ in range(workers)]
    begun = []
    while not run.is_over:
        now_s += 1.0
        end(run, out.pop(0), now_s)
        out.append(run.begin(now_s))
        begun.append((now_s, out[-1]))

    within = [phase for at_s, phase in begun if run.opened_at_s <= at_s < run.closed_at_s]
    assert within.count("measured") == len(within)
    assert run.judged == measured
    assert len(within) in (measured, measured - workers + warm_up, measured)
