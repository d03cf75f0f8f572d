"""Rules C: GPUs that are slow, full or failing. Suspected last, and proven at like load."""

from __future__ import annotations

from alerts.diagnosis.facts import Slowed
from alerts.diagnosis.rule import Confidence, Depth, Finding, Rule, Scope, When
from alerts.diagnosis.signals import Signal, Signals
from alerts.diagnosis.wording import share, times
from domain.objective import Severity
from domain.throttle import FACILITY

__all__ = ["RULES"]

_HELD = 0.05
_LOW_CLOCK = 0.90
_WORKS = 0.50
_RESTS = 0.10
_SLOWER = 1.05
_FULL = 0.97
_XIDS = ("48", "63", "64", "74", "79", "94", "95")


def _throttled(s: Signals) -> Finding | None:
    """With what it costs, where enough requests ran under it; without, by clock and cause alone."""
    held = {gpu: part for gpu, part in s.by(Signal.THROTTLED).items() if part > _HELD}
    if not held:
        return None
    proven = [each for each in s.slowed or () if each.low > 1.0]
    if proven:
        return _costly(max(proven, key=lambda each: each.factor))
    gpu = max(held, key=lambda each: (held[each], each))
    clock = s.by(Signal.CLOCK_SHARE).get(gpu)
    if clock is not None and clock >= _LOW_CLOCK:
        return None
    return _held_down(s, gpu, held[gpu], clock)


def _costly(worst: Slowed) -> Finding:
    told = worst.cause in FACILITY
    return Finding(
        cause=f"GPU {worst.gpu} is throttled ({worst.cause.replace('_', ' ')})",
        evidence=(
            f"held down for {share(worst.share)} of the time",
            (
                f"a token takes {_interval(worst)} as long as elsewhere at like batch and prompt"
                f" ({worst.requests} against {worst.others} requests)"
            ),
        ),
        place=worst.place,
        confidence=Confidence.HIGH,
        next_step=(
            "take its load away and report cooling and power to the data centre" if told else ""
        ),
    )


def _held_down(s: Signals, gpu: str, part: float, clock: float | None) -> Finding | None:
    works = s.by(Signal.GPU_BUSY).get(gpu)
    if works is not None and works < _RESTS:
        return None
    evidence = [f"GPU {gpu} held down for {share(part)} of the time"]
    if clock is not None:
        evidence.append(f"SM clock at {share(clock)} of its own usual one (P95)")
    compared = [each for each in s.slowed or () if each.gpu == gpu]
    contra = [
        f"its tokens take {_interval(each)} as long as elsewhere at like load" for each in compared
    ]
    idle = works is not None and works < _WORKS
    if idle and works is not None:
        contra.append(f"it works to {share(works)} only: low clocks are normal")
    return Finding(
        cause=f"GPU {gpu} is throttled",
        evidence=tuple(evidence),
        contra=tuple(contra),
        contradicted=bool(contra),
        confidence=Confidence.LOW if clock is None else Confidence.MEDIUM,
        place=gpu,
    )


def _interval(each: Slowed) -> str:
    return f"{times(each.factor)} [{each.low:.2f}, {each.high:.2f}]"


def _noisy(s: Signals) -> Finding | None:
    slow = [each for each in s.speeds or () if each.low > 1.0 and each.factor > _SLOWER]
    if not slow:
        return None
    worst = max(slow, key=lambda each: each.factor)
    others = [each.place for each in slow if each is not worst]
    return Finding(
        cause=f"{worst.place} is slower than its like: slow GPU, noisy neighbour or throttling",
        evidence=(
            (
                f"a token takes {_interval(worst)} as long as on the others at like batch and prompt"
                f" ({worst.requests} against {worst.others} requests)"
            ),
            *((f"also {', '.join(others[:3])}",) if others else ()),
        ),
        place=worst.place,
        confidence=Confidence.HIGH,
    )


def _memory_full(s: Signals) -> Finding | None:
    full = {gpu: part for gpu, part in s.by(Signal.MEMORY_SHARE).items() if part > _FULL}
    if not full or not s[Signal.PAGED] > 0:
        return None
    gpu = max(full, key=lambda each: full[each])
    return Finding(
        cause=f"too little memory on GPU {gpu}",
        evidence=(f"{share(full[gpu])} used, and the host pages or the engine ran out of memory",),
        place=gpu,
    )


def _failing(s: Signals) -> Finding | None:
    bad = {
        place: count
        for place, count in s.by(Signal.XIDS).items()
        if count > 0 and place.rpartition(" ")[2] in _XIDS
    }
    if not bad:
        return None
    worst = max(bad, key=lambda each: bad[each])
    gpu, _, xid = worst.rpartition(" ")
    return Finding(
        cause=f"GPU {gpu.removesuffix(' XID')} fails (XID {xid})",
        evidence=tuple(f"{place}: {count:.0f} times" for place, count in sorted(bad.items())[:3]),
        place=gpu.removesuffix(" XID"),
        confidence=Confidence.HIGH,
    )


RULES = (
    Rule(
        id="C1",
        title="throttled GPU",
        condition=(
            f"a harmful throttle reason for > {_HELD:.0%} of the time, and tokens slower at like"
            f" load (99 % interval above 1) or SM clock < {_LOW_CLOCK:g} of its own usual one"
        ),
        scope=Scope.WORKER,
        needs=(Signal.THROTTLED,),
        of=_throttled,
        action="lower its load or move it away, replace it, and report it to the provider",
        source="S1",
        helps=(Signal.THROTTLE_EFFECT, Signal.CLOCK_SHARE),
        depth=Depth.ROOT,
        against="it idles, or its tokens are as fast as elsewhere at like load",
    ),
    Rule(
        id="C2",
        title="noisy replica",
        condition=f"fitted speed factor > {_SLOWER:g} (99 % interval above 1), >= 500 requests",
        scope=Scope.WORKER,
        needs=(Signal.SPEED,),
        of=_noisy,
        action="drain and replace it; leave it out of calibration",
        source="V, M",
        helps=(Signal.THROTTLED,),
        depth=Depth.ROOT,
        yields_to=("C1", "C4", "E13"),
    ),
    Rule(
        id="C3",
        title="memory full",
        condition=f"GPU memory > {_FULL:.0%} with host paging or an out-of-memory log line",
        scope=Scope.WORKER,
        needs=(Signal.MEMORY_SHARE, Signal.PAGED),
        of=_memory_full,
        action="lower gpu_memory_utilization or the batch",
        source="S1",
        against="an engine that pre-allocates its cache sits near 90–95 % by design",
    ),
    Rule(
        id="C4",
        title="failing GPU",
        condition=f"any XID {', '.join(_XIDS)}",
        scope=Scope.WORKER,
        needs=(Signal.XIDS,),
        of=_failing,
        action="cordon the node",
        source="V",
        when=When.ALWAYS,
        depth=Depth.ROOT,
        severity=Severity.PAGE,
    ),
)
