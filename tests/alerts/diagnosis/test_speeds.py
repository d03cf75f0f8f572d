"""Throttling and noisy replicas, planted among eight GPUs at random load, and not seen where none is."""

from dataclasses import replace

import numpy as np
import pytest

from alerts.diagnosis.matching import FEWEST_EACH, cells_of_load, matched
from alerts.diagnosis.samples import STEP_S, Samples
from alerts.diagnosis.speeds import FEWEST_REQUESTS, speeds_of, throttle_effects

GPUS = 8
MINUTES = 10
CLOCK = 0.8  # a fifth is missing
NAMES = tuple(f"r{place}" for place in range(GPUS))


def served(random, *, slow=(), factor=1 / CLOCK, per_replica=150, minutes=MINUTES):
    """Requests of eight replicas; those of one ten seconds share batch and noise of their steps."""
    steps = minutes * 60 // STEP_S
    busy = random.uniform(4, 24, GPUS)[:, None] * random.lognormal(0, 0.3, (GPUS, steps))
    batch = np.maximum(np.round(busy), 1)
    pace = random.lognormal(0, 0.03, (GPUS, steps))
    replica = np.repeat(np.arange(GPUS), per_replica)
    step = random.integers(0, steps, len(replica))
    prompt = random.lognormal(6.5, 1.0, len(replica))
    own = batch[replica, step]
    token_s = (0.014 + 0.0003 * own + 1e-8 * own * prompt) * pace[replica, step]
    token_s *= random.lognormal(0, 0.02, len(replica))
    hurt = np.zeros(len(replica), bool)
    for place, begin, end in slow:
        hurt |= (replica == place) & (step >= begin) & (step < end)
    return Samples(
        names=NAMES,
        pools=("decode",) * GPUS,
        replica=replica,
        at_s=step * float(STEP_S),
        token_s=np.where(hurt, token_s * factor, token_s),
        batch=own,
        prompt_tokens=prompt,
    )


def held(begin, end, *, minutes=MINUTES):
    steps = range(0, minutes * 60, STEP_S)
    return {at: float(begin <= at // STEP_S < end) for at in steps}


@pytest.mark.parametrize("seed", range(20))
def test_planted_throttling_is_found_with_its_gpu_and_its_effect(seed):
    random = np.random.default_rng(seed)
    place = int(random.integers(GPUS))
    samples = served(random, slow=[(place, 0, 60)])

    found = throttle_effects(
        samples, {f"GPU-{place}": {"hw_thermal": held(0, 60)}}, {f"GPU-{place}": NAMES[place]}
    )

    assert [(each.gpu, each.place, each.cause) for each in found] == [
        (f"GPU-{place}", NAMES[place], "hw_thermal")
    ]
    assert found[0].low > 1.1
    assert found[0].low <= 1.27
    assert found[0].high >= 1.23
    assert found[0].factor == pytest.approx(1 / CLOCK, rel=0.05)


def test_throttling_for_half_of_the_time_is_compared_with_its_own_other_half_too():
    samples = served(np.random.default_rng(3), slow=[(2, 30, 60)], per_replica=300)

    found = throttle_effects(samples, {"G": {"sw_power_cap": held(30, 60)}}, {"G": "r2"})

    assert found[0].factor == pytest.approx(1 / CLOCK, rel=0.06)
    assert found[0].share == pytest.approx(0.5)


def test_in_200_runs_without_effect_hardly_any_throttling_is_accused():
    accused = wrong = 0
    for seed in range(200):
        random = np.random.default_rng(1000 + seed)
        samples = served(random, per_replica=120)
        found = throttle_effects(samples, {"G": {"hw_thermal": held(0, 60)}}, {"G": "r5"}) or []
        accused += any(each.low > 1 for each in found)
        wrong += not all(each.low <= 1 <= each.high for each in found)

    assert accused <= 10
    assert wrong <= 10


def test_in_200_healthy_runs_hardly_any_replica_is_called_noisy():
    noisy = sum(
        any(each.low > 1 and each.factor > 1.05 for each in speeds_of(served(random)))
        for random in (np.random.default_rng(5000 + seed) for seed in range(200))
    )

    assert noisy <= 10


@pytest.mark.parametrize("seed", range(10))
def test_a_replica_twelve_percent_slower_is_found_and_no_other(seed):
    samples = served(np.random.default_rng(seed), slow=[(6, 0, 60)], factor=1.12)

    slow = [each for each in speeds_of(samples) if each.low > 1 and each.factor > 1.05]

    assert [each.place for each in slow] == ["r6"]
    assert slow[0].low <= 1.13
    assert slow[0].high >= 1.11


def test_a_longer_batch_alone_makes_nobody_slow():
    random = np.random.default_rng(8)
    told = served(random, per_replica=400)
    batch = np.where(told.replica == 4, told.batch + 12, told.batch)
    token_s = (0.014 + 0.002 * batch) * random.lognormal(0, 0.02, len(batch))

    same = speeds_of(replace(told, batch=batch, token_s=token_s))

    longer_s = token_s[told.replica == 4].mean() / token_s[told.replica != 4].mean()
    assert longer_s > 1.1
    assert same
    assert not [each for each in same if each.low > 1 and each.factor > 1.05]


def test_below_the_minimum_data_it_is_refused():
    few = served(np.random.default_rng(1), per_replica=FEWEST_REQUESTS // GPUS - 1)

    assert speeds_of(few) is None
    assert throttle_effects(few, {"G": {"hw_thermal": held(0, 0)}}, {"G": "r1"}) is None


def test_those_without_their_like_are_not_compared():
    count = 3 * FEWEST_EACH
    batch = np.array([2.0] * count + [40.0] * count)
    cells = cells_of_load(batch, np.full(2 * count, 500.0))
    mine = np.arange(2 * count) < count

    assert matched(np.full(2 * count, 0.02), mine, cells, np.arange(2 * count)) is None


def test_requests_of_one_moment_are_one_witness():
    count = 4 * FEWEST_EACH
    cells, mine = np.zeros(2 * count, np.int64), np.arange(2 * count) < count
    seconds = np.random.default_rng(2).lognormal(-4, 0.1, 2 * count)
    one_moment = np.where(mine, 0, 1 + np.arange(2 * count) % 20)

    assert matched(seconds, mine, cells, one_moment) is None
    assert matched(seconds, mine, cells, np.arange(2 * count) % 40) is not None
