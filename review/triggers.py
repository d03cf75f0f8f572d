"""The rules of thumb for rebalancing, as reasons to look and never as actions.

Each says what it saw, what speaks against it, and which signal was missing: absent is not fine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from review.loads import Loads, WorkerLoad
from review.scores import Promise, Score

__all__ = ["Signals", "Trigger", "triggers_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What the rules look at. None: nobody measured it. `*_p50_s`: medians of stages.

    `run_time`: prefill's busy seconds over decode's.
    """

    score: Score
    promise: Promise
    loads: Loads
    workers: tuple[WorkerLoad, ...]
    e2e_p50_s: float | None
    output_p50_tokens: float | None
    run_time: float | None
    handover_p50_s: float | None
    hit_ratio: float | None
    blocked: bool
    transfer_failures: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One rule. `fired` None: not evaluated, `missing` says for want of what."""

    rule: str
    fired: bool | None
    says: str
    evidence: tuple[tuple[str, float], ...] = ()
    against: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def triggers_of(signals: Signals) -> tuple[Trigger, ...]:
    """All rules, those that fired first."""
    found = [
        *_shares(signals),
        *_prefill_waits(signals),
        *_decode_slow(signals),
        *_loads(signals),
        *_balance(signals),
        *_workers(signals),
        *_transfers(signals),
        *_hits(signals),
    ]
    order = {True: 0, None: 1, False: 2}
    return tuple(sorted(found, key=lambda each: order[each.fired]))


def _shares(signals: Signals) -> Iterator[Trigger]:
    """A1: TTFT is more than 30 % of E2E."""
    ttft_s, e2e_s = signals.score.ttft_p50_s, signals.e2e_p50_s
    if ttft_s is None or not e2e_s:
        yield _absent("A1", "share of TTFT in the answer", "E2E of requests")
        return
    share = ttft_s / e2e_s
    short = signals.output_p50_tokens is not None and signals.output_p50_tokens < 32
    yield Trigger(
        rule="A1",
        fired=share > 0.30,
        says=f"the first token takes {share:.0%} of a typical answer: try the what-if of a split",
        evidence=(("ttft_over_e2e", share),),
        against=("answers are short: the share is high on any architecture",) if short else (),
    )


def _prefill_waits(signals: Signals) -> Iterator[Trigger]:
    """A3: prefill's line, unless a full decode pool is the cause."""
    wait_s = signals.score.wait_p99_s
    if wait_s is None:
        yield _absent("A3", "wait for prefill", "the queue stage")
        return
    full = signals.blocked or (signals.loads.decode is not None and signals.loads.decode > 0.8)
    against = ("decode is full: prefill waits for it, and more prefill makes it worse",)
    yield Trigger(
        rule="A3",
        fired=wait_s > 0.1,
        says=f"one request in a hundred waits {wait_s:.2g} s for prefill: look at +1 prefill"
        if not full
        else f"one request in a hundred waits {wait_s:.2g} s for prefill: look at +1 decode",
        evidence=(("wait_p99_s", wait_s), ("prefill_load", signals.loads.prefill)),
        against=against if full else (),
    )


def _decode_slow(signals: Signals) -> Iterator[Trigger]:
    """A4: TTFT is kept, tokens are slow."""
    ttft_s, tpot_s = signals.score.ttft_p99_s, signals.score.tpot_p99_s
    if ttft_s is None or tpot_s is None:
        yield _absent("A4", "slow tokens", "TTFT and TPOT")
        return
    yield Trigger(
        rule="A4",
        fired=ttft_s <= signals.promise.ttft_s and tpot_s > signals.promise.tpot_s,
        says=f"first tokens are in time, tokens take {tpot_s:.3g} s: look at +1 decode",
        evidence=(("ttft_p99_s", ttft_s), ("tpot_p99_s", tpot_s)),
    )


def _loads(signals: Signals) -> Iterator[Trigger]:
    """RB6: prefill has its own signal. B3: decode under 60 %. B4: hot."""
    prefill, decode = signals.loads.prefill, signals.loads.decode
    yield Trigger(
        rule="B4",
        fired=prefill > 0.8 or (decode is not None and decode > 0.8),
        says="a pool is hot: look at one worker more, or a swap, for "
        + ("prefill" if decode is None or prefill >= decode else "decode"),
        evidence=(("prefill_load", prefill), *((("decode_load", decode),) if decode else ())),
    )
    if decode is None:
        yield _absent("B3", "decode under-used", "KV capacity or a decode curve")
        return
    yield Trigger(
        rule="B3",
        fired=decode < 0.6,
        says=f"decode is loaded to {decode:.0%}: look at −1 decode, if the promise is kept",
        evidence=(("decode_load", decode),),
        against=("GPU utilisation says nothing here: one sequence keeps a GPU busy",),
    )


def _balance(signals: Signals) -> Iterator[Trigger]:
    """RB5, E9: one pool idles. RB8: prefill and decode should be about 1:1 in run time."""
    prefill, decode = signals.loads.prefill, signals.loads.decode
    if decode is not None:
        idle = min(prefill, decode) < 0.2 and max(prefill, decode) > 0.5
        yield Trigger(
            rule="E9",
            fired=idle,
            says=f"prefill is loaded to {prefill:.0%}, decode to {decode:.0%}: one pool idles;"
            " look at a swap, and at merged workers",
            evidence=(("prefill_load", prefill), ("decode_load", decode)),
        )
    if signals.run_time is None:
        yield _absent("RB8", "run time of prefill to decode", "busy seconds of both pools")
        return
    ratio = signals.run_time if signals.run_time >= 1 else 1 / max(signals.run_time, 1e-9)
    yield Trigger(
        rule="RB8",
        fired=ratio > 3,
        says=f"prefill and decode run 1 : {1 / max(signals.run_time, 1e-9):.2g} in time, about 1 : 1"
        " is balanced: compare with merged workers",
        evidence=(("prefill_over_decode", signals.run_time),),
    )


def _workers(signals: Signals) -> Iterator[Trigger]:
    """C2: a slow worker. E10: lines of very different length."""
    slow = [each for each in signals.workers if each.speed > 1.05]
    yield Trigger(
        rule="C2",
        fired=bool(slow),
        says="slower than their pool: "
        + (", ".join(f"{each.name} ×{each.speed:.2f}" for each in slow) or "none")
        + "; mending them is free",
        evidence=tuple((each.name, each.speed) for each in slow),
    )
    waits = sorted(each.wait_p99_s for each in signals.workers if each.wait_p99_s is not None)
    if len(waits) < 2:
        yield _absent("E10", "lines of different length", "the line of each prefill worker")
        return
    middle = waits[len(waits) // 2 - 1]
    factor = waits[-1] / middle if middle > 0 else (math.inf if waits[-1] > 0.1 else 1.0)
    yield Trigger(
        rule="E10",
        fired=factor > 4 and waits[-1] > 0.1,
        says="lines before prefill workers differ: that looks like want of capacity, and is the router",
        evidence=(("longest_s", waits[-1]), ("usual_s", middle)),
    )


def _transfers(signals: Signals) -> Iterator[Trigger]:
    """E6: failed transfers, before anything else."""
    if signals.transfer_failures is None:
        yield _absent("E6", "failed KV transfers", "transfer counters of the engine")
        return
    yield Trigger(
        rule="E6",
        fired=signals.transfer_failures > 0,
        says=f"{signals.transfer_failures} KV transfers failed: decode prefills again; mend that first",
        evidence=(("failures", float(signals.transfer_failures)),),
    )


def _hits(signals: Signals) -> Iterator[Trigger]:
    if signals.hit_ratio is None:
        yield _absent("E3", "a hit rate that drops", "cached prompt tokens")


def _absent(rule: str, what: str, missing: str) -> Trigger:
    return Trigger(
        rule=rule, fired=None, says=f"not evaluated: {what}: {missing} absent", missing=(missing,)
    )
