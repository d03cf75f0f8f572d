"""What is planted in a fleet comes back from the stage times of its requests."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from domain.errors import InputError
from review.calibration import calibrate, warm
from review.period import Kind, Worker, period_of
from review.regression import non_negative
from review.routing import (
    FEWEST_REQUESTS,
    LEAST_LOADED,
    NAMES,
    RANDOM,
    ROUND_ROBIN,
    TWO_CHOICES,
    choice_of,
)
from review.steps import Engine
from tests.review.step_by_step import DECODE, PREFILL, asked, served

ENGINES = {PREFILL: Engine(budget_tokens=8192), DECODE: Engine(slots=128)}

curves = st.fixed_dictionaries(
    {
        "base_s": st.floats(0.005, 0.04),
        "token_s": st.floats(5e-6, 6e-5),
        "knee": st.sampled_from((0, 300, 700)),
        "step_s": st.floats(0.005, 0.03),
        "sequence_s": st.floats(0, 2e-4),
        "kv_s": st.floats(1e-8, 2e-7),
        "noise": st.sampled_from((0.0, 0.05)),
    }
)


def fleet(case, count=2_500, per_s=12, **more):
    def prefill_s(tokens):
        return case["base_s"] + case["token_s"] * np.maximum(tokens - case["knee"], 0)

    def decode_s(batch, kv):
        return case["step_s"] + case["sequence_s"] * batch + case["kv_s"] * kv

    wanted = asked(count, per_s)
    told = {"prefill_s": prefill_s, "decode_s": decode_s, "noise": case["noise"], **more}
    return served(wanted, 2, 2, **told), prefill_s, decode_s


@settings(max_examples=8, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(curves)
def test_a_planted_step_is_predicted_within_five_per_cent(case):
    period, prefill_s, decode_s = fleet(case)
    model = calibrate(period, ENGINES)

    tokens = np.quantile(period.prompt_tokens, (0.1, 0.5, 0.9, 0.99))
    assert model.prefill[PREFILL].step_s(tokens, tokens) == pytest.approx(
        prefill_s(tokens), rel=0.05
    )
    curve = model.decode[DECODE]
    batch = np.array([0.3, 0.6, 0.9]) * curve.batch_max
    kv = batch * curve.kv_max / curve.batch_max
    assert curve.step_s(batch, kv) == pytest.approx(decode_s(batch, kv), rel=0.05)


@pytest.fixture(scope="module")
def plain():
    return {"base_s": 0.016, "token_s": 2e-5, "knee": 0, "step_s": 0.01, "sequence_s": 5e-5,
            "kv_s": 1e-7, "noise": 0.0}  # fmt: skip


def test_a_slow_replica_is_found_and_the_others_are_not_called_slow(plain):
    period, _, _ = fleet(plain, slow={0: 1.12})

    speed = calibrate(period, ENGINES).speed

    assert speed["d0"] / speed.get("d1", 1.0) == pytest.approx(1.12, rel=0.03)
    assert {name for name in speed if name.startswith("p")} == set()


def test_rb3_requests_of_a_worker_that_just_started_do_not_bend_the_curve(plain):
    """Its first 200 requests are five times slower; planted: 16 ms a step."""
    period, prefill_s, _ = fleet(plain)
    young = np.flatnonzero(period.prefiller == 1)[:200]
    slow_s = period.prefilled_s.copy()
    slow_s[young] += 4 * (slow_s - period.start_s)[young]
    later = slow_s - period.prefilled_s
    began_s = period.since_s + period.arrival_s[young[-1]] - 299
    workers = tuple(
        Worker(name=w.name, kind=w.kind, since_s=began_s if n == 1 else None)
        for n, w in enumerate(period.workers)
    )
    columns = {
        "arrival_s": period.arrival_s, "prompt_tokens": period.prompt_tokens,
        "output_tokens": period.output_tokens, "start_s": period.start_s, "prefilled_s": slow_s,
        "joined_s": period.joined_s + later, "first_s": period.first_s + later,
        "last_s": period.last_s + later, "prefiller": period.prefiller, "decoder": period.decoder,
    }  # fmt: skip
    poisoned = period_of(columns, workers, since_s=period.since_s, length_s=period.length_s)

    curve = calibrate(poisoned, ENGINES).prefill[PREFILL]

    assert not warm(poisoned)[young].any()
    assert curve.step_s(1000, 1000) == pytest.approx(prefill_s(1000), rel=0.05)
    assert curve.noise[-1] < 1.5


def test_two_engine_versions_have_two_curves(plain):
    period, prefill_s, _ = fleet(plain)
    newer = Kind(role="prefill", gpu="A", engine_version="2")
    workers = (Worker(name="p0", kind=newer), *period.workers[1:])
    faster = np.where(period.prefiller == 0, 0.5, 1.0)
    filled_s = period.start_s + faster * (period.prefilled_s - period.start_s)
    told = {name: getattr(period, name) for name in ("arrival_s", "prompt_tokens", "output_tokens",
            "start_s", "joined_s", "first_s", "last_s", "prefiller", "decoder")}  # fmt: skip
    both = period_of(
        {**told, "prefilled_s": filled_s}, workers, since_s=0, length_s=period.length_s
    )

    model = calibrate(both, {**ENGINES, newer: ENGINES[PREFILL]})

    assert model.prefill[PREFILL].step_s(1000, 1000) == pytest.approx(prefill_s(1000), rel=0.05)
    assert model.prefill[newer].step_s(1000, 1000) == pytest.approx(prefill_s(1000) / 2, rel=0.05)


def test_a_period_without_stages_is_an_error_that_says_what_to_send():
    period = period_of({"arrival_s": np.arange(100.0)}, (), since_s=0, length_s=200)

    with pytest.raises(InputError, match="Send spans that tell when prefill began"):
        calibrate(period)


@pytest.mark.parametrize("policy", [ROUND_ROBIN, LEAST_LOADED, TWO_CHOICES, RANDOM])
def test_the_policy_of_a_router_is_told_from_its_choices(policy):
    dice = np.random.default_rng(3)
    count, workers = 1500, 4
    at_s = np.cumsum(dice.exponential(0.05, count))
    until_s = at_s + dice.lognormal(-1, 0.8, count)
    choice, ends = np.zeros(count, int), [[] for _ in range(workers)]
    for place, now_s in enumerate(at_s):
        load = np.array([sum(end > now_s for end in each) for each in ends])
        two = dice.integers(workers, size=2)
        choice[place] = {
            ROUND_ROBIN: place % workers,
            LEAST_LOADED: dice.permutation(np.flatnonzero(load == load.min()))[0],
            TWO_CHOICES: two[load[two].argmin()],
            RANDOM: two[0],
        }[policy]
        ends[choice[place]].append(until_s[place])

    found = choice_of(at_s, until_s, choice, np.ones(count), workers)

    assert NAMES[found.policy] == NAMES[policy]
    assert found.policy != FEWEST_REQUESTS


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_least_squares_without_negatives_cannot_be_bettered_by_a_small_step(seed, width):
    dice = np.random.default_rng(seed)
    columns, values = dice.normal(size=(40, width)), dice.normal(size=40)
    found = non_negative(columns, values, np.ones(40))
    slope = columns.T @ (values - columns @ found)

    assert (found >= 0).all()
    assert (slope[found == 0] <= 1e-6).all()
    assert slope[found > 0] == pytest.approx(0, abs=1e-6)
