"""What a review says at the top: do nothing, move, infeasible, or why it recommends nothing.

Seed rules and means decide nothing. A split is recommended when it surely keeps a promise that is
missed now, or surely keeps it under more traffic and is cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from review.alternatives import moves_between
from review.gate import Gate
from review.money import Money
from review.rails import Rails
from review.scores import Promise, Score
from review.split import Split
from review.uncertainty import Sureness

__all__ = ["Alternative", "Flag", "Verdict", "VerdictKind", "judge"]


class VerdictKind(StrEnum):
    """Four answers, no fifth."""

    DO_NOTHING = "do nothing"
    MOVE = "move"
    INFEASIBLE = "infeasible"
    NO_RECOMMENDATION = "no recommendation"


class Flag(StrEnum):
    """Why a row of the table is less sure than its numbers look."""

    CURRENT = "current"
    CANARY = "canary first: batch or KV cache beyond what was seen"
    LOW_CONFIDENCE = "low confidence: what a mixed step costs cannot be learnt from a split"
    OVERLOADED = "overloaded: the line never empties"
    UNBOUNDED = "KV capacity not told: a full pool is not replayed"
    FULL = "KV cache nearly full: preemption is not replayed, and makes it worse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One split: what it would have given, how sure, under stress, for how much.

    `score.ttft_p99_s` and the like are as replayed; `ttft_p99_s` and `tpot_p99_s` are moved by what
    the replay of the current split was off, with the interval that the same error gives.
    """

    split: Split
    score: Score
    ttft_p99_s: float | None
    ttft_p99_off: float | None
    tpot_p99_s: float | None
    tpot_p99_off: float | None
    sureness: Sureness
    stressed: Sureness | None
    headroom_goodput: float | None
    one_less_goodput: float | None
    fewer_hits_goodput: float | None
    grown_goodput: float | None
    prefill_load: float
    decode_load: float | None
    decode_batch: float | None
    decode_kv_tokens: float | None
    money: Money | None
    flags: tuple[Flag, ...] = ()

    @property
    def surely_meets(self) -> float:
        return self.sureness.meets


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision line and its reasons. `gate` names the gate that held it back, if one did."""

    kind: VerdictKind
    says: str
    reasons: tuple[str, ...] = ()
    gate: str = ""
    aim: Split | None = None


def judge(
    alternatives: Sequence[Alternative],
    gates: Sequence[Gate],
    promise: Promise,
    rails: Rails,
    *,
    ideal_ttft_s: float | None = None,
    last_aim: Split | None = None,
) -> Verdict:
    """`alternatives` with the current split first. `ideal_ttft_s`: one unqueued request's P99 TTFT.

    `last_aim`: what the review before this one recommended; while the promise is kept, two in a row
    must agree.
    """
    failed = [gate for gate in gates if not gate.passed]
    if failed:
        return Verdict(
            kind=VerdictKind.NO_RECOMMENDATION,
            says=f"No recommendation: {failed[0].why}",
            reasons=tuple(gate.why for gate in failed[1:]),
            gate=failed[0].name,
        )
    current, others = alternatives[0], alternatives[1:]
    missed = current.sureness.goodput < promise.target
    if missed and ideal_ttft_s is not None and ideal_ttft_s > promise.ttft_s:
        return Verdict(
            kind=VerdictKind.INFEASIBLE,
            says=f"Infeasible: a request that waits for nobody takes {ideal_ttft_s:.2g} s (P99) to its"
            f" first token, {promise.ttft_s:g} s are promised: no number of workers helps",
            reasons=("shorter prompts, more cache hits or faster prefill would",),
        )
    if missed:
        return _mend(current, others, promise, rails)
    return _save(current, others, promise, rails, last_aim)


def _mend(
    current: Alternative, others: Sequence[Alternative], promise: Promise, rails: Rails
) -> Verdict:
    """The promise is missed: the cheapest split that surely keeps it, however far."""
    fine = [each for each in others if each.sureness.meets >= rails.sure and _trusted(each)]
    goodput = (
        f"{current.sureness.goodput:.2%} of requests have what {promise.target:.0%} are promised"
    )
    if fine:
        best = min(fine, key=lambda each: (_cost(each), -each.sureness.goodput))
        return _move(current, best, (goodput, _shown(current, best)))
    doubtful = [each for each in others if each.sureness.meets >= rails.sure and _bold(each)]
    if doubtful:
        best = min(doubtful, key=lambda each: (each.split.merged, each.decode_kv_tokens or 0))
        return _move(current, best, (goodput, _shown(current, best), *best.flags), canary=True)
    best = max(others, key=lambda each: each.sureness.goodput, default=current)
    return Verdict(
        kind=VerdictKind.INFEASIBLE,
        says=f"Infeasible: none of {len(others) + 1} splits surely keeps the promise;"
        f" {best.split} comes nearest with {best.sureness.goodput:.2%}",
        reasons=(goodput, "more workers, less traffic or another promise would"),
    )


def _save(
    current: Alternative,
    others: Sequence[Alternative],
    promise: Promise,
    rails: Rails,
    last_aim: Split | None,
) -> Verdict:
    """The promise is kept: only something cheaper is worth a change, one worker per pool."""
    kept = f"{current.sureness.goodput:.2%} of requests have what {promise.target:.0%} are promised"
    fine = [
        each
        for each in others
        if _trusted(each)
        and each.stressed is not None
        and each.stressed.meets >= rails.sure
        and _saves(current, each, rails)
        and _near(current.split, each.split, rails)
    ]
    if not fine:
        return Verdict(
            kind=VerdictKind.DO_NOTHING,
            says=f"Keep {current.split}",
            reasons=(kept, f"nothing cheaper surely keeps it at ×{rails.stress:g} traffic"),
        )
    best = min(fine, key=lambda each: (_cost(each), -each.sureness.goodput))
    if last_aim is not None and last_aim not in (best.split, current.split):
        return Verdict(
            kind=VerdictKind.DO_NOTHING,
            says=f"Keep {current.split}: this week says {best.split}, last week said {last_aim}",
            reasons=(kept, "two reviews in a row must agree while the promise is kept"),
        )
    return _move(current, best, (kept, _shown(current, best)))


def _move(
    current: Alternative, best: Alternative, reasons: tuple[str, ...], *, canary: bool = False
) -> Verdict:
    first = "Canary first: " if canary else ""
    return Verdict(
        kind=VerdictKind.MOVE,
        says=f"{first}{_in_words(current.split, best.split)} ({current.split} → {best.split})",
        reasons=tuple(str(reason) for reason in reasons),
        aim=best.split,
    )


def _in_words(current: Split, aim: Split) -> str:
    moves = moves_between(current, aim)
    less = {role: -count for role, count in moves.items() if count < 0}
    more = {role: count for role, count in moves.items() if count > 0}
    if "both" in more:
        return "Merge prefill and decode"
    if len(less) == 1 and less.keys() != more.keys() and sum(less.values()) == sum(more.values()):
        (source, count), (target, _) = *less.items(), *more.items()
        return f"Move {count} {source} → {target}"
    parts = [f"add {count} {role}" for role, count in more.items()]
    parts += [f"remove {count} {role}" for role, count in less.items()]
    return ", ".join(parts).capitalize() or "Change GPU types"


def _shown(current: Alternative, best: Alternative) -> str:
    """What it would give, how sure that is, and what it costs: the rest of the decision line."""
    sure, interval = best.sureness, best.sureness.goodput_interval
    said = (
        f"with {best.split} {sure.goodput:.2%} would (5 to 95 %: {interval.low:.2%} to"
        f" {interval.high:.2%})"
    )
    if current.money is None or best.money is None:
        return f"{said}; no price is told for every worker"
    more = best.money.per_week - current.money.per_week
    if abs(more) < 0.5:
        return f"{said}, at the same cost"
    word = "more" if more > 0 else "less"
    return f"{said}, for {abs(more):.0f} {best.money.currency} a week {word}"


def _trusted(each: Alternative) -> bool:
    return _bold(each) and not {Flag.CANARY, Flag.LOW_CONFIDENCE} & set(each.flags)


def _bold(each: Alternative) -> bool:
    """Worth a canary: what is not replayed (preemption, endless lines) does not decide it."""
    return not {Flag.FULL, Flag.OVERLOADED} & set(each.flags)


def _saves(current: Alternative, each: Alternative, rails: Rails) -> bool:
    """By money where prices are told, else by workers."""
    if current.money is None or each.money is None:
        return each.split.workers <= current.split.workers * (1 - rails.cheaper_min)
    saved = current.money.per_week - each.money.per_week
    least = rails.cheaper_min * current.money.per_week
    return saved >= least and saved >= rails.saves_min_per_week


def _near(current: Split, aim: Split, rails: Rails) -> bool:
    moves = moves_between(current, aim)
    return all(abs(count) <= rails.moves_max for count in moves.values())


def _cost(each: Alternative) -> float:
    return each.money.per_week if each.money is not None else float(each.split.workers)
