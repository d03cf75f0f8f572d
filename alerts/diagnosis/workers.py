"""Rules E, second half: replicas that are overloaded, new, ended, bound by CPU, or stand still."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.diagnosis.facts import Stood
from alerts.diagnosis.rule import Confidence, Depth, Finding, Rule, Scope, When
from alerts.diagnosis.signals import Places, Signal, Signals
from alerts.diagnosis.wording import ms, share
from domain.objective import Severity
from domain.request import Stage

__all__ = ["RULES"]

_BUSY = 0.60
_CPU_GAP_S = 0.100
_CORE = 0.90
_SLOW_CLIENT = 2.0
_IMBALANCE = 4.0
_FEWEST_WAITING = 4.0
_DRAIN_S = 60.0


def _fullest(by: Places) -> str:
    return max(by, key=lambda each: by[each]) if by else ""


def _cpu_bound(s: Signals) -> Finding | None:
    core = s[Signal.CPU_CORE]
    if not core > _CORE or not s[Signal.GPU_BUSY] < _BUSY:
        return None
    wait = _gap_of_first(s)
    gaps = _gap_of_tokens(s)
    if not wait and not gaps:
        return None
    return Finding(
        cause="the tokeniser or API server is bound by one CPU core",
        evidence=(f"one core {share(core)} busy, GPU {share(s[Signal.GPU_BUSY])}", *wait, *gaps),
        confidence=Confidence.HIGH,
    )


def _gap_of_first(s: Signals) -> tuple[str, ...]:
    outside, inside = s.get(Signal.CLIENT_TTFT), s.get(Signal.ENGINE_TTFT)
    if outside is None or inside is None or not outside - inside > _CPU_GAP_S:
        return ()
    return (f"clients see TTFT {ms(outside)}, the engine {ms(inside)}",)


def _gap_of_tokens(s: Signals) -> tuple[str, ...]:
    outside, inside = s.get(Signal.CLIENT_ITL), s.get(Signal.ENGINE_ITL)
    if outside is None or inside is None or not outside > _SLOW_CLIENT * inside:
        return ()
    return (f"clients see {ms(outside)} between tokens, the engine {ms(inside)}",)


def _imbalance(s: Signals) -> Finding | None:
    waits = s.by(Signal.WAITING_BY)
    ordered = sorted(waits.values())
    if len(ordered) < 2:
        return None
    # why the lower median: of two replicas the better one is the one to compare with
    middle, most = ordered[(len(ordered) - 1) // 2], ordered[-1]
    if most < _FEWEST_WAITING or not most > _IMBALANCE * middle or ordered[0] >= 1:
        return None
    place = _fullest(waits)
    slow = [each.place for each in s.speeds or () if each.place == place and each.low > 1]
    return Finding(
        cause="the router overloads one replica while another idles",
        evidence=("waiting: " + ", ".join(f"{who} {many:.0f}" for who, many in _worst(waits)),),
        place=place,
        contra=(f"{place} is also slow at like load",) if slow else (),
        confidence=Confidence.LOW if slow else Confidence.HIGH,
    )


def _worst(waits: Places) -> list[tuple[str, float]]:
    ordered = sorted(waits.items(), key=lambda each: (-each[1], each[0]))
    return ordered if len(ordered) <= 3 else [*ordered[:2], ordered[-1]]


def _pollution(s: Signals) -> Finding | None:
    new = {place: age for place, age in s.by(Signal.AGES).items() if age < 300}
    if not new or len(new) * 2 < len(s.by(Signal.AGES)):
        return None
    return Finding(
        cause="most replicas are new: what is compared is warm-up",
        evidence=(f"{len(new)} of {len(s.by(Signal.AGES))} replicas began less than 5 min ago",),
        confidence=Confidence.LOW,
        place=min(new, key=lambda each: new[each]),
    )


def _drain(s: Signals) -> Finding | None:
    hurt = [
        each
        for each in s.restarted or ()
        if each.failures > 0 and 0 <= each.first_after_s <= _DRAIN_S
    ]
    if not hurt:
        return None
    worst = max(hurt, key=lambda each: each.failures)
    return Finding(
        cause=f"{worst.place} ended without letting its requests finish",
        evidence=(
            f"{worst.failures} answers failed from {worst.first_after_s:.0f} s after SIGTERM on",
        ),
        place=worst.place,
        confidence=Confidence.HIGH,
    )


def _stood_still(s: Signals) -> Finding | None:
    return _engine([each for each in s.stood or () if not each.down])


def _down(s: Signals) -> Finding | None:
    return _engine([each for each in s.stood or () if each.down])


def _engine(stood: Sequence[Stood]) -> Finding | None:
    if not stood:
        return None
    first = stood[0]
    return Finding(
        cause=f"{first.place} {'does not answer' if first.down else 'stands still'}"
        if not first.over
        else f"{first.place} {'was away' if first.down else 'stood still'}",
        evidence=tuple(each.sentence for each in stood[:2]),
        place=first.place,
        confidence=Confidence.MEDIUM if first.over else Confidence.HIGH,
        next_step=first.next_step,
        stage=Stage.QUEUE if first.role == "prefill" else Stage.DECODE,
    )


RULES = (
    Rule(
        id="E5",
        title="tokeniser or API server bound by CPU",
        condition=(
            f"one core > {_CORE:.0%}, GPU < {_BUSY:.0%}, and clients' TTFT > engine's + 100 ms"
            " or clients' ITL far above the engine's"
        ),
        scope=Scope.WORKER,
        needs=(Signal.CPU_CORE, Signal.GPU_BUSY),
        either=(Signal.ENGINE_TTFT, Signal.ENGINE_ITL),
        of=_cpu_bound,
        action="run more API server processes, or a faster tokeniser",
        source="V, S1",
        stage=Stage.OVERHEAD,
        depth=Depth.ROOT,
    ),
    Rule(
        id="E10",
        title="replicas unevenly loaded",
        condition=f"most waiting > {_IMBALANCE:g} × the median, while one replica waits for work",
        scope=Scope.POOL,
        needs=(Signal.WAITING_BY,),
        of=_imbalance,
        action="fix the router before adding GPUs",
        source="V, M",
        stage=Stage.QUEUE,
        depth=Depth.ROOT,
        yields_to=("C1", "C2", "E13"),
        against="the loaded replica is slow at like load",
    ),
    Rule(
        id="E11",
        title="new replicas pollute",
        condition="half of the replicas are younger than 5 min",
        scope=Scope.WORKER,
        needs=(Signal.AGES,),
        of=_pollution,
        action="wait for warm-up, and leave them out of baselines",
        source="V",
        depth=Depth.SYMPTOM,
        severity=Severity.INFO,
    ),
    Rule(
        id="E12",
        title="errors at scale-down",
        condition=f"failed answers within {_DRAIN_S:.0f} s of a worker's SIGTERM",
        scope=Scope.WORKER,
        needs=(Signal.ENDED,),
        of=_drain,
        action="drain for at least the P99 generation time",
        source="V",
        when=When.ALWAYS,
        depth=Depth.ROOT,
    ),
    Rule(
        id="E13",
        title="engine stands still",
        condition="requests run and no step or token comes (see conditions)",
        scope=Scope.WORKER,
        needs=(Signal.STOOD_STILL,),
        of=_stood_still,
        action="take the replica out of rotation and restart its engine",
        source="ours",
        when=When.ALWAYS,
        depth=Depth.ROOT,
        severity=Severity.PAGE,
    ),
    Rule(
        id="E14",
        title="engine away",
        condition="a target does not answer (see conditions)",
        scope=Scope.WORKER,
        needs=(Signal.STOOD_STILL,),
        of=_down,
        action="look whether its process lives",
        source="ours",
        when=When.ALWAYS,
        depth=Depth.ROOT,
        severity=Severity.PAGE,
        yields_to=("E13",),
    ),
)
