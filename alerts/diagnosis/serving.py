"""Rules E, first half: caches, and what passes between prefill and decode."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.diagnosis.rule import Confidence, Depth, Finding, Rule, Scope, When
from alerts.diagnosis.signals import Places, Signal, Signals
from alerts.diagnosis.wording import ms, share, times
from domain.objective import Severity
from domain.request import Stage

__all__ = ["RULES"]

_PREEMPTED = 0.01
_MINUTES = 5
_KV_FULL, _KV_WARN = 0.95, 0.85
_HIT_DROP = 0.7
_LONG_SHARE = 3.0
_STRANDED = 0.30
_HANDOVER_S = 0.010
_STEPS = 2.0
_PREFILL_IDLE, _DECODE_FULL = 0.20, 0.80


def _preempted(s: Signals) -> Finding | None:
    count = s[Signal.PREEMPTIONS]
    requests = s.get(Signal.REQUESTS)
    if not count > 0:
        return None
    part = count / requests if requests else None
    minutes = s.get(Signal.PREEMPTED_MINUTES) or 0.0
    if part is not None and not part > _PREEMPTED and minutes < _MINUTES:
        return None
    evidence = [f"{count:.0f} preemptions"]
    if part is not None:
        evidence[0] += f" ({share(part)} of requests)"
    if minutes >= _MINUTES:
        evidence.append(f"in each of {minutes:.0f} minutes")
    kv, grown = s.get(Signal.KV_USAGE), s.growth(Signal.TTFT_P99)
    contra: list[str] = []
    if kv is not None:
        (evidence if kv > _KV_WARN else contra).append(f"KV cache {share(kv)} full at the fullest")
    if grown is not None and grown > 1.2:
        evidence.append(f"TTFT P99 {times(grown)} of before")
    hits = s.growth(Signal.PREFIX_HITS)
    if hits is not None and hits > 1:
        evidence.append(
            "the prefix hit rate rose, and is not to be trusted: recompute counts as hit"
        )
    return Finding(
        cause="the KV cache is exhausted: requests are thrown out and computed again",
        evidence=tuple(evidence),
        contra=tuple(contra),
        confidence=_sure_of(part, contra),
        place=_fullest(s.by(Signal.KV_USAGE)),
    )


def _sure_of(part: float | None, contra: Sequence[str]) -> Confidence:
    """A few that go on for minutes show that the cache is full, and slow hardly anybody."""
    if part is not None and not part > _PREEMPTED:
        return Confidence.LOW
    return Confidence.MEDIUM if contra else Confidence.HIGH


def _fullest(by: Places) -> str:
    return max(by, key=lambda each: by[each]) if by else ""


def _kv_full(s: Signals) -> Finding | None:
    usage = s[Signal.KV_USAGE]
    if not usage > _KV_WARN:
        return None
    return Finding(
        cause="the KV cache is nearly full",
        evidence=(f"{share(usage)} at the fullest replica (warn {share(_KV_WARN)})",),
        confidence=Confidence.HIGH if usage > _KV_FULL else Confidence.LOW,
        place=_fullest(s.by(Signal.KV_USAGE)),
    )


def _hits_fell(s: Signals) -> Finding | None:
    growth = s.growth(Signal.PREFIX_HITS)
    if growth is None or not growth < _HIT_DROP or s[Signal.PREEMPTIONS] > 0:
        return None
    return Finding(
        cause="fewer prompt tokens come from the prefix cache",
        evidence=(
            f"hit rate {share(s[Signal.PREFIX_HITS])}, {share(s.before[Signal.PREFIX_HITS])} before",
            "no preemptions",
        ),
        confidence=Confidence.HIGH,
    )


def _long_prompts(s: Signals) -> Finding | None:
    growth = s.growth(Signal.LONG_PROMPT_SHARE)
    if growth is None or not growth > _LONG_SHARE:
        return None
    return Finding(
        cause="a burst of long prompts blocks the head of the line",
        evidence=(
            (
                f"{share(s[Signal.LONG_PROMPT_SHARE])} of prompt tokens are in prompts beyond the P99"
                f" of before ({share(s.before[Signal.LONG_PROMPT_SHARE])} usually)"
            ),
        ),
        confidence=Confidence.HIGH,
    )


def _transfer_failed(s: Signals) -> Finding | None:
    count = s[Signal.TRANSFERS_FAILED]
    if not count > 0:
        return None
    return Finding(
        cause="KV transfers fail: decode fills again, or reads blocks that are gone",
        evidence=(f"{count:.0f} failed",),
        confidence=Confidence.HIGH,
    )


def _stranded(s: Signals) -> Finding | None:
    held = {place: used for place, used in s.by(Signal.STRANDED_KV).items() if used > _STRANDED}
    if not held:
        return None
    place = _fullest(held)
    return Finding(
        cause="aborted requests hold KV blocks on prefill",
        evidence=(f"{place}: {share(held[place])} of its KV cache in use while nothing runs",),
        place=place,
    )


def _handover(s: Signals) -> Finding | None:
    hand_s, step_s = s[Signal.HANDOVER_P50], s[Signal.ENGINE_ITL]
    if not hand_s > max(_STEPS * step_s + _HANDOVER_S, _HANDOVER_S):
        return None
    growth = s.growth(Signal.HANDOVER_P50)
    flat = growth is not None and growth < 1.2
    contra = ["so it was before"] if flat else []
    if s.guilty not in (None, Stage.KV_TRANSFER):
        contra.append(f"what grew most is {s.guilty}")
    return Finding(
        cause="the hand-over from prefill to decode is slow: orchestration, not bytes",
        evidence=(f"P50 {ms(hand_s)}, a decode step {ms(step_s)}",),
        contra=tuple(contra),
        contradicted=bool(contra),
        confidence=Confidence.LOW if growth is None else Confidence.MEDIUM,
    )


def _wrong_split(s: Signals) -> Finding | None:
    load, kv = s[Signal.PREFILL_LOAD], s[Signal.DECODE_KV]
    if not load < _PREFILL_IDLE or not kv > _DECODE_FULL:
        return None
    return Finding(
        cause="prefill idles while decode is full: the split is wrong",
        evidence=(f"load of prefill {share(load)}, KV of decode {share(kv)}",),
        confidence=Confidence.HIGH,
        next_step="add decode replicas (what-if of the weekly review); more prefill is contradicted",
    )


RULES = (
    Rule(
        id="E1",
        title="preemption",
        condition=f"preemptions > {_PREEMPTED:.0%} of requests, or in each of {_MINUTES} minutes",
        scope=Scope.POOL,
        needs=(Signal.PREEMPTIONS,),
        of=_preempted,
        action="more decode replicas, a lower max_num_seqs, or FP8 KV",
        source="V",
        stage=Stage.DECODE,
        helps=(Signal.REQUESTS, Signal.KV_USAGE, Signal.PREFIX_HITS, Signal.PREEMPTED_MINUTES),
        depth=Depth.ROOT,
        yields_to=("C1", "C2", "E13", "B9"),
        against="the KV cache is not full",
    ),
    Rule(
        id="E2",
        title="KV nearly full",
        condition=f"KV usage > {_KV_FULL:.0%} (warn {_KV_WARN:.0%}) for 2 min, the fullest replica",
        scope=Scope.WORKER,
        needs=(Signal.KV_USAGE,),
        of=_kv_full,
        action="as E1: more decode replicas, a lower max_num_seqs, or FP8 KV",
        source="V",
        stage=Stage.DECODE,
        yields_to=("E1", "C1", "C2", "E13", "B9"),
    ),
    Rule(
        id="E3",
        title="prefix hit rate fell",
        condition=f"hit rate (by tokens) < {_HIT_DROP:g} × before, and no preemptions",
        scope=Scope.SERVICE,
        needs=(Signal.PREFIX_HITS, Signal.PREEMPTIONS),
        compares=(Signal.PREFIX_HITS,),
        of=_hits_fell,
        action="look for a changed prompt template, lost router affinity, or eviction",
        source="V",
        stage=Stage.PREFILL,
        depth=Depth.ROOT,
        against="recompute after preemption counts as a hit",
    ),
    Rule(
        id="E4",
        title="burst of long prompts",
        condition=f"tokens in prompts beyond the P99 of before > {_LONG_SHARE:g} × their usual share",
        scope=Scope.SERVICE,
        needs=(Signal.LONG_PROMPT_SHARE,),
        compares=(Signal.LONG_PROMPT_SHARE,),
        of=_long_prompts,
        action="route by length, chunk prefill, or separate the pool",
        source="V",
        stage=Stage.PREFILL,
        at_least=300,
        depth=Depth.ROOT,
    ),
    Rule(
        id="E6",
        title="failed KV transfer",
        condition="failed or timed-out transfers > 0",
        scope=Scope.POOL,
        needs=(Signal.TRANSFERS_FAILED,),
        of=_transfer_failed,
        action="look at EFA/RDMA and the lease; answers may be wrong although they say 200",
        source="V",
        stage=Stage.KV_TRANSFER,
        when=When.ALWAYS,
        depth=Depth.ROOT,
        severity=Severity.PAGE,
    ),
    Rule(
        id="E7",
        title="stranded KV on prefill",
        condition=f"KV usage of a prefill replica > {_STRANDED:.0%} while nothing runs",
        scope=Scope.WORKER,
        needs=(Signal.STRANDED_KV,),
        of=_stranded,
        action="shorten the lease, and cancel properly",
        source="V",
        stage=Stage.PREFILL,
    ),
    Rule(
        id="E8",
        title="slow hand-over",
        condition="P50 kv_transfer > 2 × a decode step + 10 ms, and grown where a baseline is known",
        scope=Scope.POOL,
        needs=(Signal.HANDOVER_P50, Signal.ENGINE_ITL),
        of=_handover,
        action="tune the connector; block size 64",
        source="V, M",
        stage=Stage.KV_TRANSFER,
        yields_to=("E6",),
        against="it was as slow before, or another stage grew most",
    ),
    Rule(
        id="E9",
        title="prefill idle, decode full",
        condition=f"load of prefill < {_PREFILL_IDLE:.0%} and KV of decode > {_DECODE_FULL:.0%}",
        scope=Scope.POOL,
        needs=(Signal.PREFILL_LOAD, Signal.DECODE_KV),
        of=_wrong_split,
        action="add decode replicas",
        source="V",
        depth=Depth.ROOT,
        yields_to=("C1", "C2", "E13", "E10"),
    ),
)
