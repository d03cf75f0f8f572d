"""Rules B: load, batch and capacity. Utilisation as NVML tells it decides nothing about load."""

from __future__ import annotations

from alerts.diagnosis.rule import Confidence, Depth, Finding, Rule, Scope, When
from alerts.diagnosis.signals import Signal, Signals
from alerts.diagnosis.wording import ms, share, times
from domain.objective import Severity
from domain.request import Stage

__all__ = ["RULES"]

_FULL = 0.90
_IDLE = 0.50
_UNDER = 0.60
_HOT, _VIOLENT = 0.80, 0.90
_BURST = 2.0
_LONGER = 1.2
_BATCHED = 1.5
_FLAT = 0.20
_SPARSE = 0.05


def _broken(s: Signals) -> str:
    """Which promise is broken, in words; empty where none is, or none was made."""
    for what, promise, name in (
        (Signal.TTFT_P99, Signal.TTFT_PROMISE, "TTFT"),
        (Signal.ITL_P99, Signal.ITL_PROMISE, "per token"),
    ):
        now_s, limit_s = s.get(what), s.get(promise)
        if now_s is not None and limit_s is not None and now_s > limit_s:
            return f"{name} {ms(now_s)}, promised {ms(limit_s)}"
    return ""


def _compute_bound(s: Signals) -> Finding | None:
    active, broken = s[Signal.GPU_ACTIVE], _broken(s)
    if not active > _FULL or not broken:
        return None
    return Finding(
        cause="the GPUs of the pool compute all the time",
        evidence=(f"GPU activity {share(active)} all the while", broken),
        confidence=Confidence.HIGH,
    )


def _idle_and_slow(s: Signals) -> Finding | None:
    # why busy will do here: below half it says idle, whatever it says above
    busy = s.get(Signal.GPU_ACTIVE)
    busy = s[Signal.GPU_BUSY] if busy is None else busy
    broken = _broken(s)
    if not busy < _IDLE or not broken:
        return None
    return Finding(
        cause="batching, scheduling or CPU: GPUs idle while users wait",
        evidence=(f"GPU use {share(busy)}", broken),
        confidence=Confidence.LOW,
    )


def _decode_unused(s: Signals) -> Finding | None:
    load = s[Signal.LOAD_WEEK]
    if not load < _UNDER:
        return None
    return Finding(
        cause="too many decode replicas",
        evidence=(f"load of the decode pool {share(load)} at the peak hour of 7 days",),
        confidence=Confidence.LOW,
    )


def _hot(s: Signals) -> Finding | None:
    load = s[Signal.LOAD]
    if not load > _HOT:
        return None
    return Finding(
        cause="queueing: the pool has no headroom left",
        place=s.pools.get(s.guilty, "") if s.guilty is not None else "",
        evidence=(
            f"load {share(load)}; above {share(_HOT)} it queues, above {share(_VIOLENT)} violently",
        ),
        confidence=Confidence.HIGH if load > _VIOLENT else Confidence.MEDIUM,
    )


def _idle_cost(s: Signals) -> Finding | None:
    used = s[Signal.COST_USE]
    if not used < _IDLE:
        return None
    rate = s.get(Signal.RATE)
    evidence = [f"GPUs used to {share(used)} over the day"]
    if rate is not None and rate < _SPARSE:
        evidence.append(f"{rate * 60:.2g} requests a minute now, with as many instances")
    return Finding(
        cause="instances idle: over-provision, or no schedule",
        evidence=tuple(evidence),
        confidence=Confidence.LOW,
    )


def _batch_of_one(s: Signals) -> Finding | None:
    load = s[Signal.RATE] * s[Signal.SERVICE_TIME]
    if not s[Signal.RUNNING_P50] <= 1 or not load > _BATCHED * s[Signal.INSTANCES]:
        return None
    return Finding(
        cause="batching is off, its window too small, or concurrency is 1",
        evidence=(
            (
                f"running batch {s[Signal.RUNNING_P50]:.2g} per replica,"
                f" while {load:.3g} streams are asked of {s[Signal.INSTANCES]:.0f} instances"
            ),
        ),
        stage=Stage.QUEUE,
    )


def _past_the_knee(s: Signals) -> Finding | None:
    if not s[Signal.KNEE] < _FLAT:
        return None
    growth = s.growth(Signal.ITL_P99)
    if growth is None or not growth > 1:
        return None
    return Finding(
        cause="the batch is past its knee: more of it brings no tokens",
        evidence=(
            f"one more in the batch brings {share(s[Signal.KNEE])} of what the first ones brought",
            f"P99 between tokens {times(growth)} of before",
        ),
    )


def _wrong_profile(s: Signals) -> Finding | None:
    # why 0: chat on chat; 1: bulk on a chat profile; 2: chat on a bulk profile
    kind = round(s[Signal.PROFILE])
    if kind not in (1, 2):
        return None
    cause = "bulk traffic on a chat profile" if kind == 1 else "chat traffic on a bulk profile"
    return Finding(cause=cause, evidence=(f"GPU use {share(s[Signal.GPU_BUSY])}",))


def _burst(s: Signals) -> Finding | None:
    told = [
        (growth, f"{what} {times(growth)} of {s.baseline or 'before'}{numbers}")
        for signal, what in (
            (Signal.ARRIVALS, "requests arriving"),
            (Signal.PROMPT_TOKENS, "prompt tokens"),
        )
        if (growth := s.growth(signal)) is not None and growth > _BURST
        for numbers in (f" ({s[signal]:.3g}/s, {s.before[signal]:.3g}/s before)",)
    ]
    if not told:
        return None
    waiting, grew = s.get(Signal.WAITING), s.growth(Signal.WAITING)
    evidence = [words for _, words in told]
    contra = []
    if waiting is not None and waiting < 1:
        contra.append("nobody waits: it is served")
    elif waiting is not None:
        evidence.append(f"{waiting:.0f} wait" + (f", {times(grew)} of before" if grew else ""))
    if Stage.QUEUE in s.lone:
        contra.append(f"only {s.pools[Stage.QUEUE]} queues: its like take the load")
    return Finding(
        cause="sudden load: more is asked than before",
        evidence=tuple(evidence),
        contra=tuple(contra),
        contradicted=bool(contra),
        confidence=Confidence.HIGH,
        place=s.pools.get(Stage.QUEUE, ""),
    )


def _longer_answers(s: Signals) -> Finding | None:
    growth = s.growth(Signal.OUTPUT_MEAN)
    if growth is None or not growth > _LONGER:
        return None
    return Finding(
        cause="answers grew: they stay longer and fill batches",
        evidence=(
            f"{s[Signal.OUTPUT_MEAN]:.0f} tokens on average, {s.before[Signal.OUTPUT_MEAN]:.0f} before",
        ),
        confidence=Confidence.LOW,
    )


_FREE_FIRST = ("E10", "C2", "C1")

RULES = (
    Rule(
        id="B1",
        title="compute bound",
        condition=f"SM activity > {_FULL:.0%} over the window and latency over its objective",
        scope=Scope.POOL,
        needs=(Signal.GPU_ACTIVE,),
        either=(Signal.TTFT_PROMISE, Signal.ITL_PROMISE),
        of=_compute_bound,
        action="add capacity",
        source="S4",
        yields_to=(*_FREE_FIRST, "B9"),
    ),
    Rule(
        id="B2",
        title="GPU idle, latency high",
        condition=f"GPU use < {_IDLE:.0%} and latency over its objective",
        scope=Scope.POOL,
        needs=(),
        either=(Signal.GPU_BUSY, Signal.GPU_ACTIVE),
        of=_idle_and_slow,
        action="tune batch and scheduler first; new machines would queue too (B6, B7, E5)",
        source="S4",
        helps=(Signal.CPU_CORE, Signal.RUNNING_P50),
        depth=Depth.SYMPTOM,
    ),
    Rule(
        id="B3",
        title="decode under-used",
        condition=f"load ratio of decode < {_UNDER:.0%} for 7 days at the peak hour",
        scope=Scope.POOL,
        needs=(Signal.LOAD_WEEK,),
        of=_decode_unused,
        action="let the weekly review try one decode replica fewer",
        source="S3",
        when=When.CALM,
        depth=Depth.COST,
        severity=Severity.INFO,
        yields_to=_FREE_FIRST,
    ),
    Rule(
        id="B4",
        title="hot",
        condition=f"busy share of prefill or load ratio of decode > {_HOT:.0%}",
        scope=Scope.POOL,
        needs=(Signal.LOAD,),
        of=_hot,
        action="plan capacity for peak × 1.2 to 1.5",
        source="S4, S1, S2",
        yields_to=(*_FREE_FIRST, "B9", "D8", "E13"),
    ),
    Rule(
        id="B5",
        title="idle instances cost money",
        condition=f"GPU use < {_IDLE:.0%} over a day",
        scope=Scope.SERVICE,
        needs=(Signal.COST_USE,),
        of=_idle_cost,
        action="scale by schedule, right-size, or reserve; keep 30–50 % of the off-peak peak",
        source="S1, S2",
        helps=(Signal.RATE,),
        when=When.CALM,
        depth=Depth.COST,
        severity=Severity.INFO,
    ),
    Rule(
        id="B6",
        title="batch of one",
        condition=f"P50 running batch ≤ 1 while RPS × generation time > {_BATCHED:g} × instances",
        scope=Scope.POOL,
        needs=(Signal.RUNNING_P50, Signal.RATE, Signal.SERVICE_TIME, Signal.INSTANCES),
        of=_batch_of_one,
        action="switch continuous batching on, window 10–50 ms, allow more concurrency",
        source="S1",
        depth=Depth.ROOT,
    ),
    Rule(
        id="B7",
        title="batch far above the knee",
        condition=f"throughput per added request < {_FLAT:.0%} of its first slope, and ITL rises",
        scope=Scope.POOL,
        needs=(Signal.KNEE, Signal.ITL_P99),
        compares=(Signal.ITL_P99,),
        of=_past_the_knee,
        action="lower max_num_seqs (chat 4–8, translation 1–2, bulk 32–64)",
        source="S4, S1",
        stage=Stage.DECODE,
    ),
    Rule(
        id="B8",
        title="profile does not fit the traffic",
        condition="bulk traffic on a chat configuration, or chat on a bulk one",
        scope=Scope.POOL,
        needs=(Signal.PROFILE, Signal.GPU_BUSY),
        of=_wrong_profile,
        action="separate the pools",
        source="S4",
    ),
    Rule(
        id="B9",
        title="sudden load",
        condition=f"arrivals or prompt tokens/s > {_BURST:g} × before (arrivals, not completions)",
        scope=Scope.SERVICE,
        needs=(),
        either=(Signal.ARRIVALS, Signal.PROMPT_TOKENS),
        compares=(Signal.ARRIVALS, Signal.PROMPT_TOKENS),
        of=_burst,
        action="scale out or shed load",
        source="S1, V",
        stage=Stage.QUEUE,
        helps=(Signal.WAITING,),
        depth=Depth.ROOT,
        against="nobody waits, or one replica alone queues",
    ),
    Rule(
        id="B10",
        title="answers grew",
        condition=f"mean output tokens > {_LONGER:g} × before",
        scope=Scope.SERVICE,
        needs=(Signal.OUTPUT_MEAN,),
        compares=(Signal.OUTPUT_MEAN,),
        of=_longer_answers,
        action="cap max_tokens, or look at what changed in the prompt",
        source="S1",
        stage=Stage.DECODE,
        at_least=300,
        depth=Depth.SYMPTOM,
    ),
)
