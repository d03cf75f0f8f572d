"""Minutes of requests: answered, and within every limit where some are promised.

Exact where the minute's requests are kept, each judged once. Otherwise only how many broke each
limit is known: at best the same ones broke all, at worst each broke one (Frechet). A limit on gaps
is kept by an answer of one token, which has none; a measurement that is missing leaves a doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collector.legs import OUTCOMES
from collector.minute_requests import MEASURED, MinuteRequests, RequestTable
from collector.minute_tiles import MinuteTiles
from collector.request_counts import Counted, Key, counted
from domain.indicator import Limit
from domain.labels import Labels, value_of
from domain.leg import Outcome
from domain.slice import MINUTE_S, Slice

__all__ = ["minutes"]

_OF_GAPS = frozenset(("tpot", "itl_max"))
_OK, _FAILED = (OUTCOMES.index(outcome) for outcome in (Outcome.OK, Outcome.FAILED))


@dataclass(slots=True)
class _Sum:
    """What the services of one minute add up to."""

    good_low: int = 0
    good_high: int = 0
    total: int = 0
    excluded: int = 0


def minutes(
    tiles: MinuteTiles, requests: MinuteRequests, where: Labels, limits: Sequence[Limit]
) -> list[Slice]:
    """One slice per minute."""
    kept = _Kept(tiles, requests, where)
    sums: dict[int, _Sum] = {}
    for key, minute in counted(tiles, where, limits).items():
        each = _of_requests(kept, key, minute, limits) or _of_counts(minute, limits)
        into = sums.setdefault(key[0], _Sum())
        into.good_low += each.good_low
        into.good_high += each.good_high
        into.total += each.total
        into.excluded += each.excluded
    asked = tiles.window.minutes
    observed = tiles.observed(where, [at_s for at_s in asked if not sums.get(at_s, _Sum()).total])
    return [_slice(at_s, sums.get(at_s, _Sum()), observed=at_s in observed) for at_s in asked]


def _slice(at_s: int, found: _Sum, *, observed: bool) -> Slice:
    return Slice(
        minute_at_s=at_s,
        good_low=found.good_low,
        good_high=found.good_high,
        total=found.total,
        observed=observed or found.total > 0 or found.excluded > 0,
        excluded=found.excluded,
    )


@dataclass(slots=True)
class _Kept:
    """The kept requests of a minute, and whose they are."""

    tiles: MinuteTiles
    requests: MinuteRequests
    where: Labels
    _series: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def of(self, at_s: int) -> RequestTable:
        """Those that ended in a minute."""
        return self.requests.of(self.tiles.snapshot, at_s)

    def series(self, service: str, source: str) -> list[int]:
        """The series of a service that one source tells of, of those asked for."""
        if not self._series:
            labels = self.tiles.snapshot.labels
            for number in labels.matching(self.where):
                own = labels.by_id[number]
                place = value_of(own, "service"), value_of(own, "source")
                self._series.setdefault(place, []).append(number)
        return self._series.get((service, source), [])

    def around(self, at_s: int, series: Sequence[int]) -> bool:
        """Whether some are kept of this minute or the ones beside it."""
        return any(
            bool(np.isin(self.of(near_s).series_id, series).any())
            for near_s in (at_s, at_s - MINUTE_S, at_s + MINUTE_S)
        )


def _of_requests(kept: _Kept, key: Key, minute: Counted, limits: Sequence[Limit]) -> _Sum | None:
    """Judged one by one; None where not every request of the minute is kept."""
    if not minute.is_exact:
        return None
    at_s, service = key
    table, series = kept.of(at_s), kept.series(service, minute.source)
    # why around: a probe's count comes with its round, which may end a minute later than its span
    if not _is_whole(table, series, minute) or (minute.probes and not kept.around(at_s, series)):
        return None
    mine = np.isin(table.series_id, series)
    fine = mine & (table.outcome == _OK)
    surely, possibly = fine, fine
    for limit in limits:
        keeps, breaks = _judged(table, limit)
        surely, possibly = surely & keeps, possibly & ~breaks
    total = int(fine.sum()) + int((mine & (table.outcome == _FAILED)).sum())
    return _Sum(
        good_low=int(surely.sum()),
        good_high=int(possibly.sum()),
        total=total,
        excluded=int(mine.sum()) - total,
    )


def _judged(table: RequestTable, limit: Limit) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Who surely kept a limit, and who surely broke it."""
    value_s = table.value_s(limit.metric)
    kept = value_s <= float(limit.threshold_s)
    broken = value_s > float(limit.threshold_s)
    if limit.metric in _OF_GAPS:
        kept = kept | (np.isnan(value_s) & table.gapless)
    return kept, broken


def _is_whole(table: RequestTable, series: Sequence[int], minute: Counted) -> bool:
    """Whether the kept requests account for everything that was counted."""
    if not len(table.series_id):
        return not (any(minute.n.values()) or any(minute.grown.values()))
    return int(np.isin(table.failed, series).sum()) == minute.of("requests_failed") and all(
        int(np.isin(table.kept.get(metric, ()), series).sum()) == minute.n.get(metric, 0)
        for metric in MEASURED
    )


def _of_counts(minute: Counted, limits: Sequence[Limit]) -> _Sum:
    answered, failed = minute.answered, minute.failed
    total = max([answered + failed, *(minute.n.get(limit.metric, 0) for limit in limits)])
    if not limits:
        return _Sum(answered, answered, total, minute.excluded)
    doubts, broken = 0, failed
    for limit in limits:
        n = minute.n.get(limit.metric, 0)
        low, high = minute.good.get(limit.metric, (0, 0))
        doubts += max(n - low, 0) + max(total - failed - n, 0)
        # why less: of values beyond the answers some may be of those that failed
        broken = max(broken, failed + max(n - high, 0) - max(n - answered, 0), n - high)
    good_high = max(total - broken, 0)
    return _Sum(
        good_low=min(max(total - failed - doubts, 0), good_high),
        good_high=good_high,
        total=total,
        excluded=minute.excluded,
    )
