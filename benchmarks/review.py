"""One alternative of a week of 5 million requests, and a whole review of 20 alternatives of it.

The floor is numpy sorting as many arrivals in the same run. Memory is what the process has at most.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from review.load import Load
from review.money import Price
from review.period import Kind, Period, Worker, period_of
from review.rails import Rails
from review.scores import Promise
from review.simulation import simulate
from review.split import Split
from review.steps import DecodeCurve, Engine, Handover, Model, PrefillCurve
from review.weekly import Question, review

__all__ = ["main"]

_REQUESTS = 5_000_000
_WEEK_S = 604_800.0
_PREFILL, _DECODE = Kind(role="prefill"), Kind(role="decode")
_BAR_S, _REVIEW_BAR_S, _MEMORY_GB = 5.0, 180.0, 2.0
_ALTERNATIVES = 20


def main() -> int:
    """1 when a bar is missed."""
    load, model = _week(), _model()
    at_s = np.random.default_rng(0).permutation(load.arrival_s)
    floor_s = _took(lambda: np.sort(at_s))[1]
    split = Split(((_DECODE, 2), (_PREFILL, 3)))
    first_s, _ = _took(lambda: simulate(_short(load), split, model))
    print(f"{'compile or load the loops':34} {first_s:6.1f} s")
    missed = 0
    for prefill, decode in ((3, 2), (4, 2), (6, 4)):
        other = Split(((_DECODE, decode), (_PREFILL, prefill)))
        took_s, cpu_s = _took(lambda split=other: simulate(load, split, model))
        missed += cpu_s > _BAR_S
        verdict = "ok" if cpu_s <= _BAR_S else "MISSED"
        print(
            f"{_REQUESTS} requests at {other!s:16} {cpu_s:6.1f} s of CPU ({took_s:.1f} s),"
            f" bar {_BAR_S} s, {cpu_s / floor_s:5.1f} x sorting them  {verdict}"
        )
    missed += _whole(load, model, split)
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    missed += peak_gb > _MEMORY_GB
    print(f"{'memory at most':34} {peak_gb:6.2f} GiB  bar {_MEMORY_GB} GiB")
    return 1 if missed else 0


def _whole(load: Load, model: Model, split: Split) -> bool:
    """The review of a week that this split served, from curves to verdict, told as it goes."""
    period = _served(load, model, split)
    rails = Rails(spare_workers=4, splits_max=_ALTERNATIVES)
    question = Question(
        at_s=_WEEK_S,
        promise=Promise(ttft_s=1.0, tpot_s=0.025),
        prices=(Price(per_hour=10.0),),
        rails=rails,
        engines=tuple(model.engines.items()),
    )
    told: list[tuple[float, str]] = []

    def progress(done: int, of: int, what: str) -> None:
        told.append((time.process_time(), f"{done} of {of} {what}"))
        print(f"  {told[-1][0] - began_s:6.1f} s  {told[-1][1]}", flush=True)

    began_s = time.process_time()
    found = review(period, question, progress)
    took_s = time.process_time() - began_s
    missed = took_s > _REVIEW_BAR_S or len(found.alternatives) < _ALTERNATIVES
    print(
        f"{len(found.alternatives)} alternatives, told {len(told)} times{'':8} {took_s:6.1f} s of CPU,"
        f" bar {_REVIEW_BAR_S} s  {'MISSED' if missed else 'ok'}: {found.verdict.says}"
    )
    return missed


def _served(load: Load, model: Model, split: Split) -> Period:
    replay = simulate(load, split, model, seed=99)
    workers = [Worker(name=f"p{n}", kind=_PREFILL) for n in range(split.of("prefill"))]
    workers += [Worker(name=f"d{n}", kind=_DECODE) for n in range(split.of("decode"))]
    seconds = ("start_s", "prefilled_s", "joined_s", "first_s", "last_s")
    return period_of(
        {
            "arrival_s": load.arrival_s,
            "prompt_tokens": load.context_tokens,
            "output_tokens": load.output_tokens,
            "cached_tokens": load.context_tokens - load.new_tokens,
            **{name: getattr(replay, name) for name in seconds},
            "prefiller": replay.prefiller,
            "decoder": replay.decoder + split.of("prefill"),
        },
        workers,
        since_s=0.0,
        length_s=_WEEK_S,
    )


def _took(work: object) -> tuple[float, float]:
    began_s, cpu_s = time.perf_counter(), time.process_time()
    work()  # type: ignore[operator]  # a callable of ours
    return time.perf_counter() - began_s, time.process_time() - cpu_s


def _short(load: Load) -> Load:
    return Load(
        length_s=60.0,
        arrival_s=load.arrival_s[:100],
        new_tokens=load.new_tokens[:100],
        context_tokens=load.context_tokens[:100],
        output_tokens=load.output_tokens[:100],
        served=load.served[:100],
        hit_ratio=None,
    )


def _week() -> Load:
    """A day's wave and a weekend's dip; chat-like prompts and answers."""
    dice = np.random.default_rng(3)
    hour = np.arange(168)
    rate = 0.35 + 0.65 * np.exp(-(((hour % 24 - 14) / 4.5) ** 2))
    rate *= np.where(hour // 24 >= 5, 0.55, 1.0)
    at_s = dice.choice(168, _REQUESTS, p=rate / rate.sum()) * 3600.0
    at_s += dice.random(_REQUESTS) * 3600.0
    at_s.sort()
    prompt = np.clip(dice.lognormal(6.6, 0.9, _REQUESTS), 4, 8000).astype(np.int32)
    return Load(
        length_s=_WEEK_S,
        arrival_s=np.asarray(at_s, np.float64),
        new_tokens=prompt,
        context_tokens=prompt,
        output_tokens=np.clip(dice.lognormal(5.0, 0.8, _REQUESTS), 1, 900).astype(np.int32),
        served=np.ones(_REQUESTS, bool),
        hit_ratio=None,
    )


def _model() -> Model:
    prefill = PrefillCurve(
        base_s=0.0365,
        token_s=0.0,
        attention_s=1e-9,
        square_s=0.0,
        budget_tokens=8192.0,
        knots=((209.0, 4.6e-5), (398.0, 3.9e-5)),
    )
    decode = DecodeCurve(base_s=0.017, sequence_s=2.1e-5, kv_token_s=3.1e-8)
    return Model(
        prefill={_PREFILL: prefill},
        decode={_DECODE: decode},
        engines={_PREFILL: Engine(kv_tokens=600_000), _DECODE: Engine(kv_tokens=600_000)},
        handover=Handover(base_s=0.022, token_s=5e-6),
    )


if __name__ == "__main__":
    sys.exit(main())
