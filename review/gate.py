"""What must hold before a review recommends anything: enough data, one fleet, and a replay that fits.

The current split is replayed first. A model that does not reproduce what was observed says nothing
of what was not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from review.calibration import warm
from review.period import Period
from review.rails import Rails
from review.scores import Score

__all__ = ["Gate", "data_gate", "diagnosis_gate", "fleet_gate", "off_by", "replay_gate"]

_HOUR_S, _DAY_S = 3600.0, 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One condition; `why` is a sentence with its numbers, whether it holds or not."""

    name: str
    passed: bool
    why: str


def data_gate(period: Period, rails: Rails, kept_since_s: float | None = None) -> Gate:
    """Whole days with requests, a busy hour, and stages for nearly all of those that were answered.

    `kept_since_s`: what arrived before is no longer kept, which is another thing than no traffic.
    """
    hours = np.bincount((period.arrival_s // _HOUR_S).astype(np.int64), minlength=1)
    peak = int(hours.max())
    answered = period.served & warm(period)
    traced = float(period.traced[answered].mean()) if answered.any() else 0.0
    days = _days(period, kept_since_s)
    short = [
        f"{_short(have)} of {_short(need)} {what}"
        for have, need, what in (
            (days, rails.days_min, "days"),
            (len(period), rails.requests_min, "requests"),
            (peak, rails.peak_hour_min, "requests in the peak hour"),
        )
        if have < need
    ]
    if traced < rails.traced_min:
        short.append(f"stages of {traced:.0%} of requests, {rails.traced_min:.0%} are needed")
    gone_s = 0.0 if kept_since_s is None else kept_since_s - period.since_s
    gone = (
        f"; of the first {gone_s / _DAY_S:.1f} days single requests are no longer kept:"
        f" raise retention.requests_s to {math.ceil((period.length_s + _DAY_S) / _DAY_S)} days"
        if gone_s > _HOUR_S
        else ""
    )
    if short:
        return Gate(name="data", passed=False, why=", ".join(short) + gone)
    why = f"{days} days, {_short(len(period))} requests, stages of {traced:.0%}{gone}"
    return Gate(name="data", passed=True, why=why)


def _days(period: Period, kept_since_s: float | None) -> int:
    """Whole days that hold requests: an empty day may be one that is no longer kept."""
    begun_s = 0.0 if kept_since_s is None else max(kept_since_s - period.since_s, 0.0)
    return sum(
        int(day) < period.whole_days and day * _DAY_S >= begun_s - _HOUR_S
        for day in np.unique(period.days)
    )


def fleet_gate(period: Period, changes: Sequence[str]) -> Gate:
    """One fleet throughout: `changes` are those of model, engine, GPU type or cache that are known.

    Two engine versions of one role on one GPU type are a change nobody announced.
    """
    told = list(changes)
    versions: dict[tuple[str, str], set[str]] = {}
    for worker in period.workers:
        key = worker.kind.role, worker.kind.gpu
        versions.setdefault(key, set()).add(worker.kind.engine_version)
    told += [
        f"{role} on {gpu or 'one GPU type'} ran {', '.join(sorted(found))}"
        for (role, gpu), found in sorted(versions.items())
        if len(found) > 1
    ]
    if told:
        return Gate(name="change", passed=False, why="; ".join(told) + ": review each part alone")
    return Gate(name="change", passed=True, why="nothing that is known changed")


def diagnosis_gate(open_causes: Sequence[str]) -> Gate:
    """Throttled, slow or imbalanced workers and failed transfers come first: mending them is free."""
    if open_causes:
        return Gate(name="diagnosis", passed=False, why="first: " + "; ".join(open_causes))
    return Gate(name="diagnosis", passed=True, why="no cause is open")


def replay_gate(observed: Score, replayed: Score, rails: Rails) -> Gate:
    """Whether the replay of the current split gives what was observed."""
    parts, wrong = [], False
    for name, seen, said in (
        ("P99 TTFT", observed.ttft_p99_s, replayed.ttft_p99_s),
        ("P99 TPOT", observed.tpot_p99_s, replayed.tpot_p99_s),
    ):
        off = off_by(seen, said)
        if off is None:
            parts.append(f"{name} not measured")
            wrong = wrong or name == "P99 TTFT"
            continue
        wrong = wrong or abs(off) > rails.replay_p99_off
        parts.append(f"{name} {off:+.0%}")
    if observed.goodput is None or replayed.goodput is None:
        return Gate(name="replay", passed=False, why="nothing was served")
    points = replayed.goodput - observed.goodput
    wrong = wrong or abs(points) > rails.replay_goodput_off
    parts.append(f"goodput {100 * points:+.1f} points")
    limit = f"allowed {rails.replay_p99_off:.0%} and {100 * rails.replay_goodput_off:.0f} points"
    why = f"the replay of the current split is off: {', '.join(parts)} ({limit})"
    return Gate(name="replay", passed=not wrong, why=why)


def off_by(seen: float | None, said: float | None) -> float | None:
    """Relative error; None where either is unknown or nothing was seen."""
    return None if seen is None or said is None or seen <= 0 else said / seen - 1


def _short(count: int) -> str:
    return f"{count / 1000:.0f} k" if count >= 10_000 else str(count)
