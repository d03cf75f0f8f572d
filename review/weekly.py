"""The weekly review: a period of requests in, one value out. Pure: nothing is read, nothing is moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from domain.errors import InputError
from review.alternatives import alternatives_of
from review.calibration import calibrate
from review.gate import Gate, data_gate, diagnosis_gate, fleet_gate, replay_gate
from review.load import Load, load_of
from review.loads import worker_loads
from review.money import Price
from review.period import Kind, Period, Worker
from review.plan import Plan, plan_of
from review.rails import Rails
from review.review_value import FORMAT, Review
from review.scores import Promise
from review.sizing import Sizing, size
from review.split import Split, split_of
from review.steps import Engine, Model
from review.telling import Observed, curves_of, observed_of, traffic_of
from review.track_record import Advice, realised
from review.trial import Trial
from review.triggers import triggers_of
from review.verdict import Alternative, Verdict, VerdictKind, judge

__all__ = ["Question", "review"]

Progress = Callable[[int, int, str], None]

_FAILED_SHARE: Final = 1e-3  # of requests; fewer failed transfers are no reason to wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is told beside the requests. None and empty: nobody told, and the review says so.

    `changes`: of model, engine, GPU type or cache within the period. `open_causes`: diagnoses of
    throttled, slow or imbalanced workers and failed transfers. `kept_since_s`: older requests are
    no longer kept.
    """

    at_s: float
    promise: Promise
    service: str = ""
    model: str = ""
    rails: Rails = field(default_factory=Rails)
    prices: tuple[Price, ...] = ()
    engines: tuple[tuple[Kind, Engine], ...] = ()
    changes: tuple[str, ...] = ()
    open_causes: tuple[str, ...] = ()
    transfer_failures: int | None = None
    kept_since_s: float | None = None
    kv_token_bytes: float | None = None
    start_s: float | None = None
    drain_configured_s: float | None = None
    last: Advice | None = None
    seed: int = 0


def review(period: Period, question: Question, progress: Progress | None = None) -> Review:
    """Calibrates, replays the current split, and where that fits, every alternative.

    `progress(done, of, what)` is called between replays.
    """
    rails, promise = question.rails, question.promise
    split = split_of(_serving(period))
    observed = observed_of(period, promise)
    causes = list(question.open_causes)
    if (question.transfer_failures or 0) > _FAILED_SHARE * len(period):
        causes.append(f"{question.transfer_failures} KV transfers failed (E6)")
    gates = [
        data_gate(period, rails, question.kept_since_s),
        diagnosis_gate(causes),
        fleet_gate(period, question.changes),
    ]
    base = _nothing_replayed(period, question, split, observed, gates)
    if not gates[0].passed:
        return base
    model = calibrate(period, dict(question.engines), seed=question.seed)
    say = progress or (lambda _done, _of, _what: None)
    say(0, 1, "calibrated")
    load = load_of(period, seed=question.seed)
    trial = Trial(
        period,
        load,
        split,
        model,
        promise=promise,
        rails=rails,
        prices=question.prices,
        seed=question.seed,
    )
    current = trial.current
    gates.append(replay_gate(trial.observed, trial.replayed, rails))
    sizing = _sizing(load, model, split, promise, question.kv_token_bytes)
    splits = alternatives_of(split, sizing, rails)
    if not all(gate.passed for gate in gates):
        splits = splits[:1]
    found: list[Alternative] = [current]
    for place, candidate in enumerate(splits[1:], 1):
        say(place, len(splits), str(candidate))
        found.append(trial.alternative(candidate))
    say(len(splits), len(splits), "")
    verdict = judge(
        found,
        gates,
        promise,
        rails,
        ideal_ttft_s=trial.ideal_ttft_s,
        last_aim=question.last.aim if question.last else None,
    )
    signals = trial.signals(question.transfer_failures)
    return replace(
        base,
        verdict=verdict,
        gates=tuple(gates),
        replayed=trial.replayed,
        alternatives=tuple(found),
        sizing=sizing,
        triggers=triggers_of(signals),
        workers=worker_loads(period, model),
        curves=curves_of(model),
        hours=trial.hours(),
        routing=(str(model.prefill_choice), str(model.decode_choice)),
        plan=_plan(split, verdict, question, trial),
        track_record=realised(question.last, split, observed.score, load.demand_per_s)
        if question.last
        else None,
        advice=_advice(question, split, verdict, found, load.demand_per_s),
        interpreted=trial.interpreted,
        replayed_requests=trial.requests,
        notes=(*model.notes, *trial.notes),
        not_evaluated=_not_evaluated(question, load, period),
    )


def _serving(period: Period) -> list[Worker]:
    """The workers that served; where requests do not tell who prefilled, all that are known to."""
    used = np.union1d(period.prefiller, period.decoder)
    found = [period.workers[int(place)] for place in used if place >= 0]
    roles = {worker.kind.role for worker in found}
    if roles == {"decode"}:
        found += [worker for worker in period.workers if worker.kind.role == "prefill"]
        roles = {worker.kind.role for worker in found}
    if roles not in ({"both"}, {"prefill", "decode"}):
        raise InputError(
            f"requests were served by workers of {', '.join(sorted(roles)) or 'no known role'}",
            where="review",
            remedy="Review one service; prefill and decode replicas tell their `role`.",
        )
    return found


def _nothing_replayed(
    period: Period,
    question: Question,
    split: Split,
    observed: Observed,
    gates: list[Gate],
) -> Review:
    """A review before anything is replayed; where a gate holds, that is all of it."""
    failed = next((gate for gate in gates if not gate.passed), gates[0])
    return Review(
        format=FORMAT,
        at_s=question.at_s,
        since_s=period.since_s,
        until_s=period.since_s + period.length_s,
        service=question.service,
        model=question.model,
        split=split,
        promise=question.promise,
        rails=question.rails,
        verdict=Verdict(
            kind=VerdictKind.NO_RECOMMENDATION,
            says=f"No recommendation: {failed.why}",
            gate=failed.name,
        ),
        gates=tuple(gates),
        traffic=traffic_of(period),
        observed=observed.score,
        replayed=None,
        observed_days=observed.days,
        alternatives=(),
        sizing=None,
        triggers=(),
        workers=(),
        curves=(),
        hours=(),
        routing=("", ""),
        plan=None,
        track_record=None,
        advice=None,
        interpreted=False,
        replayed_requests=0,
        notes=(),
        not_evaluated=(),
    )


def _sizing(
    load: Load, model: Model, split: Split, promise: Promise, kv_token_bytes: float | None
) -> Sizing | None:
    """Where each role has one kind that was fitted."""
    prefill = set(split.kinds("prefill"))
    decode = set(split.kinds("decode"))
    if len(prefill) != 1 or len(decode) != 1 or not decode <= set(model.decode):
        return None
    return size(load, model, prefill.pop(), decode.pop(), promise, kv_token_bytes=kv_token_bytes)


def _plan(split: Split, verdict: Verdict, question: Question, trial: Trial) -> Plan | None:
    if verdict.aim is None:
        return None
    prices = question.prices
    return plan_of(
        split,
        verdict.aim,
        spare_workers=question.rails.spare_workers,
        generation_p99_s=trial.generation_p99_s,
        start_s=question.start_s,
        ttft_promise_s=question.promise.ttft_s,
        drain_configured_s=question.drain_configured_s,
        loads=trial.loads.by_role(),
        price=prices[0] if len(prices) == 1 else None,
    )


def _advice(
    question: Question,
    split: Split,
    verdict: Verdict,
    found: Sequence[Alternative],
    demand_per_s: float,
) -> Advice | None:
    """What to keep for next week; a review that recommends nothing foretells nothing."""
    if verdict.kind is VerdictKind.NO_RECOMMENDATION:
        return None
    chosen = next(each for each in found if each.split == (verdict.aim or split))
    return Advice(
        at_s=question.at_s,
        split=split,
        aim=verdict.aim,
        ttft_p99_s=chosen.ttft_p99_s,
        goodput=chosen.sureness.goodput,
        interval=chosen.sureness.goodput_interval,
        demand_per_s=demand_per_s,
    )


def _not_evaluated(question: Question, load: Load, period: Period) -> tuple[str, ...]:
    """Signals that nobody sent, by name: absent is not fine."""
    told = dict(question.engines)
    missing = [
        (
            load.hit_ratio is None,
            "prefix-cache hits: cached tokens absent, all prompts taken as new",
        ),
        (not question.prices, "money: prices absent"),
        (not any(e.kv_tokens for e in told.values()), "full pools: KV capacity absent"),
        (question.transfer_failures is None, "failed transfers: counters absent"),
        (question.start_s is None, "how long a worker takes to start"),
        (not np.isfinite(period.joined_s).any(), "the line before decode: its start absent"),
        (True, "speculative decoding, several models on a worker, hit rate by number of workers"),
    ]
    return tuple(what for absent, what in missing if absent)
