"""Rules A: where the time goes. Always asked first, and seldom the cause itself."""

from __future__ import annotations

import math

from alerts.diagnosis.rule import Confidence, Depth, Finding, Rule, Scope
from alerts.diagnosis.signals import Signal, Signals
from alerts.diagnosis.wording import ms, share, times
from domain.request import Stage

__all__ = ["RULES"]

_LEAST = 300
_SHARE = 0.30
_SHORT_TOKENS = 32
_WAIT_S = 0.100
_OVER_PREFILL = 3.0
_OVER_MODEL = 3.0
_TAIL = 5.0
_FULL_KV = 0.80
_STEADY = 0.15
_IMBALANCE = 4.0
_QUEUE_SPARE = 1.2
_FEW_STREAMS = 0.5


def _share_of_ttft(s: Signals) -> Finding | None:
    part = s[Signal.TTFT_P50] / s[Signal.E2E_P50] if s[Signal.E2E_P50] > 0 else 0.0
    if not part > _SHARE or s[Signal.POOL_SHAPE] != 0:
        return None
    tokens = s[Signal.OUTPUT_P50]
    short = tokens < _SHORT_TOKENS
    return Finding(
        cause="prefill and decode disturb each other, or answers are just short",
        evidence=(
            f"TTFT is {share(part)} of E2E ({ms(s[Signal.TTFT_P50])} of {ms(s[Signal.E2E_P50])})",
        ),
        contra=(
            (f"answers are short (median {tokens:.0f} tokens): so on any architecture",)
            if short
            else ()
        ),
        contradicted=short,
        confidence=Confidence.LOW,
    )


def _first_token(s: Signals) -> Finding | None:
    ttft_s, promise_s = s[Signal.TTFT_P99], s[Signal.TTFT_PROMISE]
    if not ttft_s > promise_s or not s[Signal.ITL_P99] <= s[Signal.ITL_PROMISE]:
        return None
    queue_s, prefill_s = s[Signal.QUEUE_P95], s[Signal.PREFILL_P95]
    waits = queue_s >= prefill_s
    return Finding(
        cause=f"the first token waits in {'the queue' if waits else 'prefill'}",
        evidence=(
            f"TTFT {ms(ttft_s)}, promised {ms(promise_s)}; tokens after it in time",
            f"P95 queue {ms(queue_s)}, prefill {ms(prefill_s)}",
        ),
        stage=Stage.QUEUE if waits else Stage.PREFILL,
        place=s.pools.get(Stage.QUEUE if waits else Stage.PREFILL, ""),
        next_step=(
            "look at what fills the queue (A3, section B)"
            if waits
            else "shorten prompts or raise the prefix-cache hit rate; then more compute for prefill"
        ),
    )


def _prefill_wait(s: Signals) -> Finding | None:
    """A hundred milliseconds; where a promise allows more, a tenth of it."""
    wait_s, limit_s = s[Signal.QUEUE_P99], _WAIT_S
    if not wait_s > max(limit_s, 0.1 * (s.get(Signal.TTFT_PROMISE) or 0.0)):
        return None
    waits = sorted(s.by(Signal.WAITING_BY).values())
    decode_kv = s.get(Signal.DECODE_KV)
    evidence = [f"P99 queue {ms(wait_s)}, more than {ms(limit_s)}"]
    if len(waits) > 1 and waits[-1] >= _IMBALANCE * max(waits[len(waits) // 2], 1.0):
        least = waits[0]
        evidence.append(f"{waits[-1]:.0f} wait on one replica, {least:.0f} on another")
        variant, cause = "c", "imbalance between replicas that prefill"
        step = "fix the router before adding any GPU"
    elif Stage.QUEUE in s.lone:
        evidence.append(f"on {s.pools[Stage.QUEUE]}, while others of its pool wait less")
        variant, cause = "c", "one replica queues, and others of its pool do not"
        step = "look at the speed of that replica and at the router before adding any GPU"
    elif decode_kv is not None and decode_kv > _FULL_KV:
        evidence.append(f"KV of the decode pool {share(decode_kv)} full")
        variant, cause = "b", "prefill is blocked by a full decode pool"
        step = "add DECODE replicas; more prefill makes it worse"
    else:
        variant, cause, step = "a", "prefill is short of capacity", "add prefill replicas"
    return Finding(
        cause=cause,
        evidence=tuple(evidence),
        variant=variant,
        next_step=step,
        place=s.pools.get(Stage.QUEUE, ""),
        confidence=Confidence.LOW if variant == "a" and decode_kv is None else Confidence.MEDIUM,
        contra=_served(s),
    )


def _served(s: Signals) -> tuple[str, ...]:
    if s.has(Signal.WAITING) and s[Signal.WAITING] < 1:
        return ("nobody waits now",)
    return ()


def _token_gaps(s: Signals) -> Finding | None:
    itl_s, promise_s = s[Signal.ITL_P99], s[Signal.ITL_PROMISE]
    if not itl_s > promise_s or not s[Signal.TTFT_P99] <= s[Signal.TTFT_PROMISE]:
        return None
    evidence = [f"{ms(itl_s)} per token, promised {ms(promise_s)}; first tokens in time"]
    growth, batch = s.growth(Signal.ITL_P99), s.growth(Signal.RUNNING_P50)
    if growth is not None:
        evidence.append(f"{times(growth)} as long as before")
    contra: list[str] = []
    if batch is not None:
        told = f"the running batch is {times(batch)} of before"
        (evidence if batch > 1.2 else contra).append(told)
    return Finding(
        cause="decode is slow: batch, context or memory bandwidth",
        evidence=tuple(evidence),
        contra=tuple(contra),
        place=s.pools.get(Stage.DECODE, ""),
        confidence=Confidence.HIGH,
    )


def _queue_over_prefill(s: Signals) -> Finding | None:
    queue_s, prefill_s = s[Signal.QUEUE_P95], s[Signal.PREFILL_P95]
    if not queue_s > max(_OVER_PREFILL * prefill_s, _WAIT_S):
        return None
    return Finding(
        cause="scheduling or a concurrency limit, not kernels",
        evidence=(f"P95 queue {ms(queue_s)}, prefill {ms(prefill_s)}",),
        place=s.pools.get(Stage.QUEUE, ""),
        contra=_served(s),
    )


def _outside_the_model(s: Signals) -> Finding | None:
    e2e_s, served_s = s[Signal.CLIENT_E2E_MEAN], s[Signal.SERVED_MEAN]
    if not served_s > 0 or not e2e_s / served_s > _OVER_MODEL:
        return None
    queue_s = s.get(Signal.QUEUE_P95)
    waits = queue_s is not None and queue_s > e2e_s / 2
    return Finding(
        cause="the time is spent outside the model: network, gateway or queue",
        evidence=(f"clients see {ms(e2e_s)}, prefill and decode take {ms(served_s)}",),
        contra=(f"P95 queue {ms(queue_s)}: most of it is known",) if waits and queue_s else (),
        stage=Stage.QUEUE if waits else Stage.NETWORK,
    )


def _tail(s: Signals) -> Finding | None:
    p50_s, p99_s = s[Signal.TTFT_P50], s[Signal.TTFT_P99]
    promise_s = s.get(Signal.TTFT_PROMISE)
    if not p50_s > 0 or not p99_s / p50_s > _TAIL:
        return None
    if promise_s is not None and not (s[Signal.TTFT_MEAN] <= promise_s < p99_s):
        return None
    return Finding(
        cause="a few requests are very slow: long prompts, cold batches, or preemption",
        evidence=(
            (
                f"mean {ms(s[Signal.TTFT_MEAN])}, P50 {ms(p50_s)}, P99 {ms(p99_s)}"
                f" ({times(p99_s / p50_s)})"
            ),
        ),
    )


def _concurrency(s: Signals) -> Finding | None:
    slots, instances = s[Signal.SLOTS], s[Signal.INSTANCES]
    most, flight = slots * instances, s[Signal.IN_FLIGHT]
    steady = s[Signal.IN_FLIGHT_SPREAD] < _STEADY
    if not (most > 0 and s[Signal.WAITING] > 0 and steady and abs(flight / most - 1) < _STEADY):
        return None
    load = s[Signal.RATE] * s[Signal.SERVICE_TIME]
    wanted = math.ceil(load / slots)
    return Finding(
        cause="the limit of concurrent streams per instance is reached",
        evidence=(
            (
                f"{flight:.0f} in flight = {instances:.0f} instances × {slots:.0f} slots,"
                f" {s[Signal.WAITING]:.0f} wait"
            ),
            f"{s[Signal.RATE]:.3g} requests/s × {ms(s[Signal.SERVICE_TIME])} = {load:.3g} streams",
        ),
        confidence=Confidence.HIGH,
        next_step=f"run {wanted} instances; let {load * _QUEUE_SPARE:.1f} requests queue",
    )


def _load_test(s: Signals) -> Finding | None:
    load = s[Signal.RATE] * s[Signal.SERVICE_TIME]
    if not load > 1 or not s[Signal.STREAMS] < _FEW_STREAMS * load:
        return None
    return Finding(
        cause="connections were counted, not streams",
        evidence=(f"{s[Signal.STREAMS]:.3g} streams where {load:.3g} would run at once",),
    )


_A1 = Rule(
    id="A1",
    title="TTFT is a large share of the answer",
    condition=f"P50 TTFT / P50 E2E > {_SHARE}; aggregated pool, streaming",
    scope=Scope.POOL,
    needs=(Signal.TTFT_P50, Signal.E2E_P50, Signal.OUTPUT_P50, Signal.POOL_SHAPE),
    of=_share_of_ttft,
    action="try disaggregation in the what-if of the weekly review; it is no action by itself",
    source="S3",
    at_least=_LEAST,
    depth=Depth.SYMPTOM,
    against=f"median answer under {_SHORT_TOKENS} tokens",
)
_A2 = Rule(
    id="A2",
    title="TTFT high, decode fast",
    condition="TTFT over its objective, ITL (or TPOT) within its own, each at its rank",
    scope=Scope.POOL,
    needs=(
        Signal.TTFT_P99,
        Signal.TTFT_PROMISE,
        Signal.ITL_P99,
        Signal.ITL_PROMISE,
        Signal.QUEUE_P95,
        Signal.PREFILL_P95,
    ),
    of=_first_token,
    action="see whether queue or prefill dominates",
    source="S3, S4",
    at_least=_LEAST,
    depth=Depth.SYMPTOM,
    yields_to=("A3", "A5", "B9", "E10", "E13", "C2", "C1"),
)
_A3 = Rule(
    id="A3",
    title="prefill queue wait",
    condition=f"P99 queue > {_WAIT_S * 1000:.0f} ms and a tenth of the objective",
    scope=Scope.POOL,
    needs=(Signal.QUEUE_P99,),
    of=_prefill_wait,
    action="add prefill replicas",
    source="S3, M, V",
    stage=Stage.QUEUE,
    helps=(Signal.WAITING_BY, Signal.DECODE_KV),
    at_least=_LEAST,
    yields_to=("E10", "C2", "C1", "B9", "A8", "E13", "C4"),
    against="nobody waits now",
)
_A4 = Rule(
    id="A4",
    title="TTFT low, ITL high",
    condition="TTFT within its objective, ITL (or TPOT) over its own, each at its rank",
    scope=Scope.POOL,
    needs=(Signal.TTFT_P99, Signal.TTFT_PROMISE, Signal.ITL_P99, Signal.ITL_PROMISE),
    of=_token_gaps,
    action=(
        "look at batch, context and clocks of the decode replicas; then a smaller max_num_seqs,"
        " more decode replicas, FP8 KV"
    ),
    source="S4, S0",
    stage=Stage.DECODE,
    helps=(Signal.RUNNING_P50, Signal.KV_USAGE, Signal.THROTTLED),
    at_least=_LEAST,
    depth=Depth.RESOURCE,
    yields_to=("C1", "C2", "E1", "E13"),
    against="the running batch has not grown",
)
_A5 = Rule(
    id="A5",
    title="queue far above prefill",
    condition=f"P95 queue > {_OVER_PREFILL:g} × P95 prefill, and > {_WAIT_S * 1000:.0f} ms",
    scope=Scope.POOL,
    needs=(Signal.QUEUE_P95, Signal.PREFILL_P95),
    of=_queue_over_prefill,
    action="raise concurrency or scale out; faster kernels would not help",
    source="S4",
    stage=Stage.QUEUE,
    at_least=_LEAST,
    depth=Depth.SYMPTOM,
    yields_to=("A3", "E10", "C2", "C1", "B9", "A8", "E13"),
    against="nobody waits now",
)
_A6 = Rule(
    id="A6",
    title="clients wait several times the model's time",
    condition=f"client E2E / (prefill + decode) > {_OVER_MODEL:g}",
    scope=Scope.REQUEST,
    needs=(Signal.CLIENT_E2E_MEAN, Signal.SERVED_MEAN),
    of=_outside_the_model,
    action="look at region, edge and reuse of connections",
    source="S1",
    at_least=_LEAST,
    depth=Depth.SYMPTOM,
    yields_to=("D1", "D4", "D6", "A5", "A3"),
    against="the queue explains it",
)
_A7 = Rule(
    id="A7",
    title="the mean is fine, the tail is not",
    condition=f"P99/P50 of TTFT > {_TAIL:g}, the mean within its objective",
    scope=Scope.POOL,
    needs=(Signal.TTFT_P50, Signal.TTFT_P99, Signal.TTFT_MEAN),
    of=_tail,
    action="split TTFT by prompt length; alert on P99 and not on the mean",
    source="S4",
    at_least=_LEAST,
    depth=Depth.SYMPTOM,
    yields_to=("A3", "C1", "C2", "D1", "E1", "E4", "E10"),
)
_A8 = Rule(
    id="A8",
    title="concurrency limit",
    condition="in flight ≈ instances × slots, steady, while requests wait (Little's law)",
    scope=Scope.SERVICE,
    needs=(
        Signal.IN_FLIGHT,
        Signal.IN_FLIGHT_SPREAD,
        Signal.WAITING,
        Signal.SLOTS,
        Signal.INSTANCES,
        Signal.RATE,
        Signal.SERVICE_TIME,
    ),
    of=_concurrency,
    action="instances = ceil(RPS × generation time / slots); queue = RPS × generation time × 1.2",
    source="S2",
    stage=Stage.QUEUE,
    depth=Depth.ROOT,
)
_A9 = Rule(
    id="A9",
    title="the load test was fine, users are not",
    condition=f"streams < {_FEW_STREAMS:g} × RPS × generation time",
    scope=Scope.SERVICE,
    needs=(Signal.STREAMS, Signal.RATE, Signal.SERVICE_TIME),
    of=_load_test,
    action="measure concurrent streams, not connections",
    source="S2",
    depth=Depth.SYMPTOM,
)

RULES = (_A1, _A2, _A3, _A4, _A5, _A6, _A7, _A8, _A9)
