"""What a replay must hold, whatever the fleet: laws of queues, and of bookkeeping."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from review.calibration import calibrate
from review.period import Kind
from review.simulation import simulate
from review.split import Split
from review.steps import Engine
from tests.paths import ROOT
from tests.review import fleets, step_by_step

fleets_of_any_size = st.fixed_dictionaries(
    {
        "prefill": st.integers(1, 4),
        "decode": st.integers(1, 4),
        "per_s": st.floats(1, 60),
        "seed": st.integers(0, 1000),
        "decode_kv": st.one_of(st.none(), st.integers(9_000, 60_000)),
        "prefill_kv": st.one_of(st.none(), st.integers(9_000, 60_000)),
        "slots": st.integers(1, 64),
        "least_loaded": st.booleans(),
    }
)


def replayed(case, count=400, **more):
    load = fleets.poisson(count, case["per_s"], seed=case["seed"])
    told = {name: case[name] for name in ("decode_kv", "prefill_kv", "slots", "least_loaded")}
    return load, simulate(
        load, fleets.split(case["prefill"], case["decode"]), fleets.model(**told, **more)
    )


@given(fleets_of_any_size)
def test_every_request_goes_through_every_stage_in_order_and_every_token_is_made(case):
    load, replay = replayed(case)

    stages = np.array(
        [replay.start_s, replay.prefilled_s, replay.joined_s, replay.first_s, replay.last_s]
    )
    assert (stages[0] >= -1e-4).all()
    assert (np.diff(stages, axis=0) >= -1e-3).all()
    assert (replay.first_s > 0).all()
    assert replay.tokens == load.output_tokens.sum()


@given(fleets_of_any_size)
def test_little_sequences_in_decode_are_their_rate_times_their_stay(case):
    load, replay = replayed(case)
    stay_s = (replay.last_s - replay.joined_s).astype(float)
    decode = np.bincount(replay.decoder, stay_s, case["decode"])
    busy_s = np.array(replay.decode_busy) * load.length_s

    assert decode == pytest.approx(np.array(replay.decode_batch_mean) * busy_s, rel=5e-3, abs=0.05)


@given(fleets_of_any_size)
def test_no_batch_is_larger_than_its_slots(case):
    _, replay = replayed(case)

    assert replay.decode_batch <= case["slots"]
    assert max(replay.decode_batch_mean) <= case["slots"] + 1e-9


@settings(max_examples=25)
@given(fleets_of_any_size)
def test_one_more_worker_on_either_side_never_makes_first_tokens_later_on_average(case):
    case = {**case, "least_loaded": True, "slots": 64}
    more = {"prefill": {**case, "prefill": case["prefill"] + 1},
            "decode": {**case, "decode": case["decode"] + 1}}  # fmt: skip
    _, now = replayed(case)

    for role, other in more.items():
        _, then = replayed(other)
        assert then.first_s.mean() <= now.first_s.mean() * 1.03 + 0.02, role


@settings(max_examples=25)
@given(fleets_of_any_size)
def test_cached_prompts_are_never_slower(case):
    load = fleets.poisson(400, case["per_s"], seed=case["seed"])
    hit = fleets.poisson(400, case["per_s"], seed=case["seed"], cached=300)
    fleet = fleets.model(), fleets.split(case["prefill"], case["decode"])

    cold, warm = (simulate(each, fleet[1], fleet[0]) for each in (load, hit))

    assert warm.prefilled_s.mean() <= cold.prefilled_s.mean() * 1.001


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.8])
def test_one_worker_with_equal_prompts_waits_as_m_d_1_does(busy):
    service_s, count = 0.1, 120_000
    curve = {"base_s": service_s, "token_s": 0.0, "attention_s": 0.0, "square_s": 0.0,
             "budget_tokens": 100.0}  # fmt: skip
    at_s = np.cumsum(np.random.default_rng(7).exponential(service_s / busy, count))

    replay = simulate(fleets.load(at_s, 100, 1), fleets.split(1, 1), fleets.model(prefill=curve))

    assert replay.start_s.mean() == pytest.approx(busy * service_s / (2 * (1 - busy)), rel=0.05)
    assert replay.prefill_busy[0] == pytest.approx(busy, rel=0.01)


def test_a_full_decode_pool_shows_as_a_wait_for_prefill():
    """Prefill is idle; without its KV cache's limit nobody would wait for it at all."""
    load = fleets.poisson(4_000, 20, prompt=1000, output=100)
    limits = {"decode_kv": 20_000, "handover": fleets.Handover(base_s=0.004)}

    bounded = simulate(load, fleets.split(4, 1), fleets.model(prefill_kv=30_000, **limits))
    endless = simulate(load, fleets.split(4, 1), fleets.model(**limits))

    assert np.quantile(endless.start_s, 0.99) < 0.1
    assert np.quantile(bounded.start_s, 0.99) > 30
    assert max(bounded.prefill_held_max) <= 30_000
    assert bounded.first_s.mean() == pytest.approx(endless.first_s.mean(), rel=0.05)


def test_a_replay_gives_what_a_fleet_told_step_by_step_gives():
    wanted = step_by_step.asked(3_000, 20)
    curves = {
        "prefill_s": lambda n: 0.02 + 2e-5 * n,
        "decode_s": lambda b, kv: 0.008 + 5e-5 * b + 1e-7 * kv,
    }
    period = step_by_step.served(wanted, 2, 2, **curves)
    engine = {
        step_by_step.DECODE: Engine(slots=128),
        step_by_step.PREFILL: Engine(budget_tokens=8192),
    }
    model = calibrate(period, engine)
    load = fleets.load(wanted["arrival_s"], wanted["prompt_tokens"], wanted["output_tokens"])

    for prefill, decode in ((2, 2), (3, 2), (2, 3), (1, 2)):
        truth = step_by_step.served(wanted, prefill, decode, **curves)
        replay = simulate(load, fleets.split(prefill, decode), model)
        for q in (0.5, 0.99):
            seen, said = np.quantile(truth.first_s, q), np.quantile(replay.first_s, q)
            assert said == pytest.approx(seen, rel=0.08)
        seen, said = np.nanquantile(truth.tpot_s, 0.99), np.nanquantile(replay.tpot_s, 0.99)
        assert said == pytest.approx(seen, rel=0.05)


def test_the_same_load_and_split_give_the_same_replay():
    load = fleets.poisson(500, 20)

    one, other = (simulate(load, fleets.split(2, 2), fleets.model(), seed=3) for _ in range(2))

    assert (one.last_s == other.last_s).all()


def test_merged_workers_make_every_token_too():
    load = fleets.poisson(500, 10)
    merged = Split(((Kind(role="both", gpu="A", engine_version="1"), 3),))

    replay = simulate(load, merged, fleets.model(decode_kv=60_000))

    assert replay.tokens == load.output_tokens.sum()
    assert (np.diff([replay.start_s, replay.first_s, replay.last_s], axis=0) >= -1e-3).all()
    assert np.bincount(replay.decoder).tolist() == pytest.approx([500 / 3] * 3, rel=0.2)


def test_without_a_compiler_the_loops_say_so_and_give_the_same():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from tests.review import fleets\n"
        "from review.simulation import simulate\n"
        "load = fleets.poisson(300, 20)\n"
        "told = simulate(load, fleets.split(2, 2), fleets.model(prefill_kv=9000, decode_kv=9000))\n"
        "print(told.interpreted, *told.last_s.tolist())"
    )

    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout.split()  # fmt: skip

    here = simulate(
        fleets.poisson(300, 20), fleets.split(2, 2), fleets.model(prefill_kv=9000, decode_kv=9000)
    )
    assert told[0] == "True"
    assert not here.interpreted
    assert np.array(told[1:], float) == pytest.approx(here.last_s, rel=1e-5)
