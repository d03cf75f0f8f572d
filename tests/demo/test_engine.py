"""The simulated engine: tokens in are tokens out, and nothing is forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewatch.demo.calendar import Calendar
from stagewatch.demo.engine import BLOCK_TOKENS, Engine, Job, Speed, State

SPEED = Speed(
    step_s=0.010,
    per_prompt_token_s=0.0001,
    per_token_and_context_s=0.0,
    per_sequence_s=0.001,
    per_kv_token_s=0.0,
    kv_blocks=1000,
    step_tokens=1000,
)


class Ledger:
    """All that an engine tells."""

    def __init__(self):
        self.steps = []
        self.gap_s = []
        self.firsts = []
        self.ends = []
        self.preemptions = []

    def stepped(self, *, prompt_tokens, new_tokens):
        self.steps.append((prompt_tokens, new_tokens))

    def gaps(self, seconds, count):
        self.gap_s.extend([seconds] * count)

    def preempted(self, job):
        self.preemptions.append(job)

    def first_token(self, job):
        self.firsts.append(job)

    def ended(self, job):
        self.ends.append(job)


class Bench:
    """An engine on a calendar of its own."""

    def __init__(self, speed=SPEED):
        self.calendar = Calendar()
        self.ledger = Ledger()
        self.engine = Engine(self.calendar, speed, [1.0], self.ledger)

    def submit(self, prompt, output, *, at_s=0.0, **more):
        job = Job(prompt, output, **more)
        self.calendar.at(at_s, self.engine.submit, job)
        return job

    def run(self, to_s=10_000.0):
        self.calendar.advance(to_s)
        return self.ledger


@pytest.fixture
def bench():
    return Bench()


def test_a_lone_request_takes_one_prefill_step_and_a_step_per_further_token(bench):
    job = bench.submit(500, 4)
    ledger = bench.run()

    assert job.first_s == pytest.approx(0.010 + 500 * 0.0001)
    assert job.last_s - job.first_s == pytest.approx(3 * 0.011)
    assert ledger.gap_s == pytest.approx([0.011] * 3)


def test_an_answer_of_one_token_ends_with_its_prompt(bench):
    job = bench.submit(100, 1)
    ledger = bench.run()

    assert job.state is State.ENDED
    assert job.last_s == job.first_s
    assert ledger.gap_s == []


def test_a_long_prompt_comes_in_chunks_of_the_step_budget(bench):
    job = bench.submit(2500, 1)
    ledger = bench.run()

    assert len(ledger.steps) == 3
    assert ledger.steps[-1] == (2500, 1)
    assert job.first_s == pytest.approx(3 * 0.010 + 2500 * 0.0001)


def test_a_cached_prefix_is_not_computed_again(bench):
    job = bench.submit(500, 1, cached_tokens=400)
    bench.run()

    assert job.first_s == pytest.approx(0.010 + 100 * 0.0001)


def test_whoever_decodes_gets_a_token_while_others_prefill(bench):
    bench.submit(100, 5)
    bench.submit(1000, 1, at_s=0.025)
    ledger = bench.run()

    assert max(ledger.gap_s) > 0.1
    assert min(ledger.gap_s) == pytest.approx(0.011)


def test_a_request_waits_for_the_step_in_progress(bench):
    bench.submit(900, 1)
    late = bench.submit(10, 1, at_s=0.05)
    bench.run()

    assert late.queued_s == pytest.approx(0.05)
    assert late.scheduled_s == pytest.approx(0.1)


def test_waiting_requests_are_taken_in_their_order(bench):
    jobs = [bench.submit(600, 1, at_s=0.001 * index) for index in range(6)]
    ledger = bench.run()

    assert ledger.ends == jobs


def test_a_slow_engine_takes_longer_for_everything(bench):
    bench.engine.slowdown = 4.0
    job = bench.submit(500, 3)
    bench.run()

    assert job.first_s == pytest.approx(4 * 0.060)
    assert job.last_s - job.first_s == pytest.approx(2 * 4 * 0.011)


def test_a_remote_cache_is_fetched_before_the_first_step(bench):
    job = bench.submit(1000, 2, remote=True)
    bench.run()

    assert job.scheduled_s == 0
    assert job.first_s == pytest.approx(0.004 + 1000 * 0.000016 + 0.010 + 0.0001)


def test_what_does_not_fit_waits_for_room():
    bench = Bench(Speed(**{**_fields(SPEED), "kv_blocks": 40}))
    first = bench.submit(500, 50)
    second = bench.submit(500, 2)
    bench.run()

    assert second.scheduled_s >= first.last_s


def test_the_newest_request_makes_room_and_still_gives_every_token():
    bench = Bench(Speed(**{**_fields(SPEED), "kv_blocks": 20}))
    jobs = [bench.submit(140, 100), bench.submit(140, 100)]
    ledger = bench.run()

    assert ledger.preemptions
    assert set(ledger.preemptions) == {jobs[1]}
    assert [job.generated_tokens for job in jobs] == [100, 100]
    assert len(ledger.gap_s) == 2 * 99
    assert max(ledger.gap_s) > 0.5
    assert bench.engine.kv_usage == 0


def test_an_engine_under_pressure_shows_it():
    bench = Bench(Speed(**{**_fields(SPEED), "kv_blocks": 20}))
    for _ in range(5):
        bench.submit(140, 100)
    bench.run(0.2)

    assert bench.engine.waiting >= 3
    assert bench.engine.kv_usage > 0.8


@pytest.mark.parametrize("at_s", [0.0, 0.005, 0.03, 0.1, 0.2, 0.5, 5.0])
def test_a_request_that_is_given_up_leaves_nothing_behind(bench, at_s):
    job = bench.submit(1500, 30)
    other = bench.submit(300, 20)
    bench.calendar.at(at_s, bench.engine.abort, job)
    bench.run()

    assert other.state is State.ENDED
    assert job.state in (State.ABORTED, State.ENDED)
    assert (bench.engine.running, bench.engine.waiting, bench.engine.kv_usage) == (0, 0, 0)


def test_giving_up_before_the_engine_was_reached_keeps_it_from_being_asked(bench):
    job = Job(100, 10)
    bench.engine.abort(job)
    bench.engine.submit(job)
    ledger = bench.run()

    assert ledger.steps == []


def test_giving_up_during_the_transfer_frees_the_blocks(bench):
    job = bench.submit(5000, 10, remote=True)
    bench.calendar.at(0.01, bench.engine.abort, job)
    bench.run()

    assert bench.engine.deferred == 0
    assert bench.engine.kv_usage == 0


def test_a_wider_machine_carries_more_in_the_same_time():
    wide = SPEED.wider(4.0)

    assert wide.step_s == SPEED.step_s
    assert wide.per_prompt_token_s == SPEED.per_prompt_token_s / 4
    assert wide.kv_blocks == 4 * SPEED.kv_blocks
    assert wide.step_tokens == 4 * SPEED.step_tokens


requests = st.tuples(st.integers(1, 700), st.integers(1, 60), st.floats(0, 2), st.booleans())


@given(st.lists(requests, min_size=1, max_size=25), st.integers(60, 400))
def test_every_token_asked_for_is_given_and_every_block_comes_back(asked, kv_blocks):
    bench = Bench(Speed(**{**_fields(SPEED), "kv_blocks": kv_blocks}))
    jobs = [bench.submit(p, o, at_s=at, remote=remote) for p, o, at, remote in asked]
    ledger = bench.run()

    assert sorted(map(id, ledger.ends)) == sorted(map(id, jobs))
    assert [job.generated_tokens for job in jobs] == [output for _, output, _, _ in asked]
    assert sum(new for _, new in ledger.steps) == sum(output for _, output, _, _ in asked)
    assert sum(prompt for prompt, _ in ledger.steps) == sum(prompt for prompt, _, _, _ in asked)
    assert len(ledger.gap_s) == sum(output - 1 for _, output, _, _ in asked)
    assert bench.engine.kv_usage == 0


@given(st.lists(requests, min_size=1, max_size=25))
def test_gaps_sum_to_the_decode_times(asked):
    bench = Bench()
    jobs = [bench.submit(p, o, at_s=at, remote=remote) for p, o, at, remote in asked]
    ledger = bench.run()

    assert sum(ledger.gap_s) == pytest.approx(sum(job.last_s - job.first_s for job in jobs))


@given(
    st.lists(requests, min_size=1, max_size=20), st.lists(st.floats(0, 3), min_size=20, max_size=20)
)
def test_users_who_leave_at_any_moment_cost_the_others_nothing(asked, leave_at_s):
    bench = Bench(Speed(**{**_fields(SPEED), "kv_blocks": 80}))
    jobs = [bench.submit(p, o, at_s=at, remote=remote) for p, o, at, remote in asked]
    for job, at_s in zip(jobs[::2], leave_at_s, strict=False):
        bench.calendar.at(at_s, bench.engine.abort, job)
    bench.run()

    assert all(job.state is State.ENDED for job in jobs[1::2])
    assert all(job.state in (State.ENDED, State.ABORTED) for job in jobs[::2])
    assert (bench.engine.running, bench.engine.kv_usage) == (0, 0)


def test_a_block_holds_as_many_tokens_as_vllms():
    assert BLOCK_TOKENS == 16


def test_time_never_runs_backwards():
    calendar = Calendar()
    seen = []
    calendar.advance(5.0)
    calendar.at(1.0, lambda: seen.append(calendar.now_s))
    calendar.advance(6.0)

    assert seen == [5.0]


def test_what_is_due_together_happens_in_the_order_it_was_entered():
    calendar = Calendar()
    seen = []
    for name in "abc":
        calendar.at(1.0, seen.append, name)
    calendar.advance(1.0)

    assert seen == ["a", "b", "c"]


def _fields(speed):
    return {name: getattr(speed, name) for name in Speed.__dataclass_fields__}
