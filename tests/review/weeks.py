"""Whole weeks of one fleet, small enough for a test: seven days whose hours are minutes long."""

import numpy as np

from review.money import Price
from review.period import Worker, period_of
from review.rails import Rails
from review.scores import Promise
from review.simulation import simulate
from review.steps import Engine
from review.weekly import Question
from tests.review import fleets
from tests.review.step_by_step import DECODE, PREFILL

__all__ = ["PROMISE", "question", "week"]

PROMISE = Promise(ttft_s=0.5, tpot_s=0.02, target=0.95)
_DAY_S = 86_400
_RAILS = {"requests_min": 3_000, "peak_hour_min": 200, "parameter_draws": 2}


def week(prefill, decode, *, per_s=20.0, days=7, per_day=900, model=None, seed=0, **more):
    """What these workers make of a busy minute a day. A day's rate is its own, by a fifth."""
    dice = np.random.default_rng(seed)
    at_s = [
        day * _DAY_S
        + 36_000
        + np.cumsum(dice.exponential(1 / (per_s * dice.uniform(0.9, 1.1)), per_day))
        for day in range(days)
    ]
    asked = fleets.poisson(days * per_day, per_s, seed=seed, **more)
    at_s = np.concatenate(at_s)
    load = fleets.load(
        at_s, asked.context_tokens, asked.output_tokens, length_s=float(days * _DAY_S)
    )
    split = fleets.split(prefill, decode)
    replay = simulate(load, split, model or fleets.model(least_loaded=False), seed=99)
    workers = [*(_workers("p", PREFILL, prefill)), *(_workers("d", DECODE, decode))]
    workers.sort(key=lambda worker: worker.kind, reverse=True)
    seconds = ("start_s", "prefilled_s", "joined_s", "first_s", "last_s")
    return period_of(
        {
            "arrival_s": at_s, "prompt_tokens": load.context_tokens,
            "output_tokens": load.output_tokens, "cached_tokens": np.zeros(len(at_s), int),
            **{name: getattr(replay, name).astype(float) for name in seconds},
            "prefiller": replay.prefiller, "decoder": replay.decoder + prefill,
        },
        workers, since_s=1_790_000_000.0, length_s=float(days * _DAY_S),
    )  # fmt: skip


def question(**told):
    """With prices, engines, and rails that fit a small week."""
    rails = Rails(**{**_RAILS, **told.pop("rails", {})})
    engines = ((PREFILL, Engine(budget_tokens=8192)), (DECODE, Engine(kv_tokens=400_000)))
    basis = {"prices": (Price(per_hour=10.0),), "engines": engines, "promise": PROMISE}
    return Question(**{**basis, "at_s": 1_790_700_000.0, "rails": rails, **told})


def _workers(letter, kind, count):
    return [Worker(name=f"{letter}{n}", kind=kind) for n in range(count)]
