"""Minutes in which a gauge stayed within its bounds: every reading, at every place that matches.

The least and the most of each series decide, never a mean, and never a sum over replicas: one
cache that is full is not made up for by another one that is empty. A minute without a reading is
not observed; a gauge has no such thing as no traffic.
"""

from __future__ import annotations

from fractions import Fraction

from collector.minute_tiles import MinuteTiles
from domain.indicator import LevelIndicator
from domain.slice import Slice

__all__ = ["minutes"]


def minutes(tiles: MinuteTiles, indicator: LevelIndicator) -> list[Slice]:
    """One slice per minute."""
    within: dict[int, bool] = {}
    for at_s, (_, _, _, _, low, high, *_) in tiles.rows(indicator.metric, indicator.where):
        within[at_s] = within.get(at_s, True) and _is_within(low, high, indicator)
    return [_slice(at_s, within.get(at_s)) for at_s in tiles.window.minutes]


def _slice(at_s: int, within: bool | None) -> Slice:  # noqa: FBT001 - None: nobody told
    if within is None:
        return Slice(minute_at_s=at_s, observed=False)
    return Slice(minute_at_s=at_s, good_low=int(within), good_high=int(within), total=1)


def _is_within(low: float, high: float, indicator: LevelIndicator) -> bool:
    """A reading of 0.1 is at most 0.1, although the double is a hair above it."""
    return _double(indicator.at_least, -1) <= low and high <= _double(indicator.at_most, 1)


def _double(bound: Fraction | None, sign: int) -> float:
    return sign * float("inf") if bound is None else float(bound)
