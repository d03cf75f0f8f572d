"""What the last review said, beside what came: the only thing that builds trust."""

from __future__ import annotations

from dataclasses import dataclass

from review.scores import Score
from review.split import Split
from review.uncertainty import Interval

__all__ = ["Advice", "Realised", "realised"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A review's advice, kept: what it aimed at and foretold, at what traffic."""

    at_s: float
    split: Split
    aim: Split | None
    ttft_p99_s: float | None
    goodput: float
    interval: Interval
    demand_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Realised:
    """`followed` None: there was nothing to follow. Errors as foretold over seen, less one.

    Comparable only where the foretold split served, at traffic within 10 %.
    """

    advice: Advice
    followed: bool | None
    comparable: bool
    goodput: float | None
    inside: bool | None
    ttft_p99_off: float | None
    says: str


def realised(advice: Advice, split: Split, observed: Score, demand_per_s: float) -> Realised:
    """Last week's advice beside this week's split and score."""
    foretold = advice.aim or advice.split
    followed = None if advice.aim is None else split == advice.aim
    change = demand_per_s / advice.demand_per_s - 1 if advice.demand_per_s > 0 else 0.0
    comparable = split == foretold and abs(change) <= 0.1
    inside = off = None
    if comparable and observed.goodput is not None:
        inside = advice.interval.low <= observed.goodput <= advice.interval.high
    if comparable and advice.ttft_p99_s is not None and observed.ttft_p99_s:
        off = advice.ttft_p99_s / observed.ttft_p99_s - 1
    return Realised(
        advice=advice,
        followed=followed,
        comparable=comparable,
        goodput=observed.goodput,
        inside=inside,
        ttft_p99_off=off,
        says=_says(advice, split, observed, change, comparable=comparable),
    )


def _says(advice: Advice, split: Split, observed: Score, change: float, *, comparable: bool) -> str:
    foretold = advice.aim or advice.split
    if split != foretold:
        return f"{foretold} was foretold, {split} served: nothing to compare"
    if not comparable:
        return f"traffic changed by {change:+.0%}: nothing to compare"
    seen = "nothing" if observed.goodput is None else f"{observed.goodput:.2%}"
    return f"{advice.goodput:.2%} was foretold for {split}, {seen} came"
