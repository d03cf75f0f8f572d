"""How sure a difference is: days drawn anew, parameters fitted anew, and the replay's own error.

Days are few. A bootstrap of n days that all agree says 1; no more than 1 − 2⁻ⁿ is claimed, which is
what a sign test of n days allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from review.scores import Day

__all__ = ["Interval", "Sureness", "sureness"]

Floats = NDArray[np.float64]

_LOW, _HIGH = 0.05, 0.95
_DRAWS: Final = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """5 to 95 %."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sureness:
    """Of a split against the current one. `error`: the larger of replay and parameter error.

    `goodput` is as predicted, moved by what the replay of the current split was off.
    """

    goodput: float
    goodput_interval: Interval
    change: float
    change_interval: Interval
    better: float
    meets: float
    error: float


def sureness(
    days: Sequence[Day],
    current: Sequence[Day],
    *,
    target: float,
    offset: float = 0.0,
    error: float = 0.0,
    draws: int = _DRAWS,
    seed: int = 0,
) -> Sureness:
    """Both splits on the same days. `offset` is added to every goodput.

    `error` widens, and counts against meeting the target: a decision rests on the lower bound.
    """
    good, total = _counts(days)
    base, _ = _counts(current)
    kept = total > 0
    good, base, total = good[kept], base[kept], total[kept]
    if not len(total):
        raise ValueError("no request arrived on any whole day")
    place = np.random.default_rng(seed).integers(0, len(total), (draws, len(total)))
    whole = total[place].sum(1)
    own = np.clip(good[place].sum(1) / whole + offset, 0.0, 1.0)
    change = (good[place] - base[place]).sum(1) / whole
    most = 1.0 - 0.5 ** len(total)
    middle = float(np.clip(good.sum() / total.sum() + offset, 0.0, 1.0))
    moved = float((good - base).sum() / total.sum())
    return Sureness(
        goodput=middle,
        goodput_interval=_around(own, middle, error, 0.0, 1.0),
        change=moved,
        change_interval=_around(change, moved, error, -1.0, 1.0),
        better=min(float((change > 0).mean()), most),
        meets=min(float((own - error >= target).mean()), most),
        error=error,
    )


def _counts(days: Sequence[Day]) -> tuple[Floats, Floats]:
    return (
        np.array([day.good for day in days], np.float64),
        np.array([day.total for day in days], np.float64),
    )


def _around(values: Floats, middle: float, error: float, least: float, most: float) -> Interval:
    """The larger of what days and errors say, on either side."""
    low, high = (float(each) for each in np.quantile(values, (_LOW, _HIGH)))
    return Interval(
        low=max(min(low, middle - error), least), high=min(max(high, middle + error), most)
    )
