"""What a period or a replay is worth: percentiles, and the share of requests that kept their promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Day", "Promise", "Score", "days_of", "good_of", "score_of"]

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a request is promised, and the share of requests that must have it.

    `tpot_s`: per token after the first, averaged over the answer (what planners call ITL).
    """

    ttft_s: float
    tpot_s: float
    target: float = 0.99

    def __post_init__(self) -> None:
        if not (0 < self.ttft_s < 1e6 and 0 < self.tpot_s < 1e6 and 0 < self.target < 1):
            raise ValueError(f"a promise is a time above 0 and a share between 0 and 1: {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Good requests of all that arrived on one day."""

    good: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Seconds at percentiles; `goodput` is good over all. None where there was nothing to measure."""

    requests: int
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    ttft_p99_s: float | None
    tpot_p50_s: float | None
    tpot_p95_s: float | None
    tpot_p99_s: float | None
    wait_p99_s: float | None
    goodput: float | None


def good_of(ttft_s: Floats, tpot_s: Floats, promise: Promise) -> NDArray[np.bool_]:
    """Who had what was promised. NaN is no first token, and bad; a one-token answer has no TPOT."""
    return np.asarray((ttft_s <= promise.ttft_s) & ~(tpot_s > promise.tpot_s), np.bool_)


def score_of(ttft_s: Floats, tpot_s: Floats, wait_s: Floats, good: NDArray[np.bool_]) -> Score:
    """Percentiles of what was measured; the share of good ones of all."""
    ttft = _percentiles(ttft_s)
    tpot = _percentiles(tpot_s)
    return Score(
        requests=len(good),
        ttft_p50_s=ttft[0],
        ttft_p95_s=ttft[1],
        ttft_p99_s=ttft[2],
        tpot_p50_s=tpot[0],
        tpot_p95_s=tpot[1],
        tpot_p99_s=tpot[2],
        wait_p99_s=_percentiles(wait_s)[2],
        goodput=float(good.mean()) if len(good) else None,
    )


def days_of(good: NDArray[np.bool_], day: NDArray[np.int64], days: int) -> tuple[Day, ...]:
    """Counts by day of arrival."""
    inside = day < days
    total = np.bincount(day[inside], minlength=days)
    fine = np.bincount(day[inside & good], minlength=days)
    return tuple(Day(good=int(g), total=int(t)) for g, t in zip(fine, total, strict=True))


def _percentiles(values_s: Floats) -> list[float | None]:
    known = values_s[np.isfinite(values_s)]
    if not len(known):
        return [None, None, None]
    return [float(each) for each in np.quantile(known, (0.5, 0.95, 0.99))]
