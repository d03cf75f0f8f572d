"""Minutes in which a counter grew fast enough, over all replicas together.

A minute counts one: good when the increase reaches the floor. Where nothing ran, waited, began or
ended it has no traffic: a night without requests breaks no promise. A counter that stands still is
not written down; it is taken for told where the place was watched and the counter told on that day.
What a source counted between two of its reports belongs to the minute of the later one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

from collector.minute_tiles import MinuteTiles
from domain.indicator import ThroughputIndicator
from domain.labels import Labels
from domain.metric import METRICS, Kind
from domain.slice import MINUTE_S, Slice

__all__ = ["minutes"]

_AT_WORK = (
    "requests_running",
    "requests_waiting",
    "requests_started",
    "requests_finished",
    "requests_failed",
    "e2e",
)
"""Where one of these is above zero, somebody was being served."""

_HOW_IT_ENDED = frozenset(("reason", "finish_reason"))


def minutes(tiles: MinuteTiles, indicator: ThroughputIndicator) -> list[Slice]:
    """One slice per minute."""
    asked = tiles.window.minutes
    grown = _grown(tiles, indicator)
    busy = _busy(tiles, indicator.where)
    watched = tiles.observed(indicator.where, [at_s for at_s in asked if at_s not in grown])
    stands_still = bool(watched & busy) and tiles.told_before(indicator.metric, indicator.where)
    told = grown.keys() | (watched if stands_still else watched - busy)
    return [
        _slice(at_s, grown.get(at_s, 0.0), indicator.at_least_per_s, busy=at_s in busy)
        if at_s in told
        else Slice(minute_at_s=at_s, observed=False)
        for at_s in asked
    ]


def _slice(at_s: int, grown: float, floor: Fraction, *, busy: bool) -> Slice:
    total = int(busy or grown > 0)
    good = int(total and Fraction(grown) >= floor * MINUTE_S)
    return Slice(minute_at_s=at_s, good_low=good, good_high=good, total=total)


def _grown(tiles: MinuteTiles, indicator: ThroughputIndicator) -> dict[int, float]:
    """What the counter grew by, of each minute that has a word on it."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for at_s, row in tiles.rows(indicator.metric, indicator.where):
        found[at_s].append(row[3])
    return {at_s: math.fsum(parts) for at_s, parts in found.items()}


def _busy(tiles: MinuteTiles, where: Labels) -> frozenset[int]:
    """The minutes in which something ran, waited, began or ended."""
    place = tuple(pair for pair in where if pair[0] not in _HOW_IT_ENDED)
    found: set[int] = set()
    for metric in _AT_WORK:
        if len(found) == len(tiles.window.minutes):
            break
        latency = METRICS[metric].kind is Kind.LATENCY
        for at_s, row in tiles.rows(metric, place):
            _, _, n, total, _, high, *_ = row  # of a latency the fourth counts failures
            if (n + total if latency else high) > 0:
                found.add(at_s)
    return frozenset(found)
