"""A GPU's time in steps, and for how long it was observed at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise, repeat
from statistics import median

import numpy as np

from collector.gpu_tiles import Columns, Floats, Integers, Tiles, tiles, uuids
from collector.query import Window
from collector.snapshot import Snapshot
from domain.gpu import GpuMoment, Sight
from domain.labels import value_of
from domain.throttle import HARMFUL

__all__ = ["UP", "Watch", "moments"]

UP = ("sum / n", "low", "last_at_ns / 1000000000")
"""What must be read of `gpu_up`: the share of readings that answered, the worst, when the last was."""

_LONGER = 1.5  # than usual between two readings: nobody looked in between
_SLACK_S = 10


class Watch:
    """When each GPU was observed, from its `gpu_up`.

    From the distance between readings and not from their number: who pushes once a minute has
    observed the minute.
    """

    def __init__(self, snapshot: Snapshot, up: Tiles, window: Window) -> None:
        self.up = up
        self.uuids, self.place = _places(snapshot, up.series)
        self.lasting_s = self._lasting_s(window.since_s)

    def observed_s(self) -> dict[str, float]:
        """By GPU, how much of the window lies between readings that say it answers."""
        sums = np.zeros(len(self.uuids))
        np.add.at(sums, self.place, self.lasting_s * self.up.values[0])
        return dict(zip(self.uuids, sums.tolist(), strict=True))

    def _lasting_s(self, since_s: int) -> Floats:
        """For how long each tile speaks: since the one before, if that was not long ago."""
        at_s, found = self.up.values[2], np.zeros(len(self.place))
        order = np.lexsort((at_s, self.place))
        ends = np.searchsorted(self.place[order], np.arange(len(self.uuids) + 1)).tolist()
        for begin, end in pairwise(ends):
            mine = order[begin:end]
            gaps = np.diff(at_s[mine], prepend=float(since_s))
            # why not numpy: its median takes twenty times as long for so few
            usual = median(gaps[1:].tolist()) if len(mine) > 1 else float(_SLACK_S)
            alone = np.minimum(usual, self.up.tier_s[mine])
            told = np.where(gaps <= _LONGER * usual + _SLACK_S, gaps, alone)
            told[0] = np.clip(gaps[0], 0, usual)
            found[mine] = told
        return found


def moments(
    snapshot: Snapshot, watch: Watch, columns: Columns, throttle: Tiles
) -> dict[str, list[GpuMoment]]:
    """Columns in order, none left out: where nobody looked, that is what it says.

    `throttle`: what `gpu_throttle` grew by, tile by tile.
    """
    up = watch.up
    rows, column = columns.of(up)
    shape = (len(watch.uuids), columns.count)
    seen, low = np.zeros(shape), np.ones(shape)
    at = (watch.place[rows], column)
    np.add.at(seen, at, np.minimum(np.maximum(watch.lasting_s, 1.0), columns.step_s)[rows])
    np.minimum.at(low, at, up.values[1][rows])
    seen = np.minimum(seen, columns.step_s)
    number = {uuid: index for index, uuid in enumerate(watch.uuids)}
    work = _work(snapshot, columns, number, seen)
    held = _held(snapshot, columns, throttle, number, seen)
    plain = _plain(seen, low, work, held)
    found = {}
    for uuid, row in number.items():
        if row in plain:
            works = work[row].tolist()
            found[uuid] = list(map(GpuMoment, repeat(Sight.UP), works, repeat(_NOTHING)))
            continue
        told = zip(seen[row].tolist(), low[row].tolist(), work[row].tolist(), strict=True)
        line = [
            _moment(lasting, least, works, held.get((row, each), _NOTHING))
            for each, (lasting, least, works) in enumerate(told)
        ]
        found[uuid] = line if line[-1].sight is not Sight.NOT_OBSERVED else line[:-1]
    return found


def _plain(
    seen: Floats, low: Floats, work: Floats, held: Mapping[tuple[int, int], object]
) -> frozenset[int]:
    """The rows of GPUs that worked all the time and were never held down: most of them."""
    whole = (seen > 0).all(axis=1) & (low >= 1).all(axis=1) & ~np.isnan(work).any(axis=1)
    return frozenset(np.flatnonzero(whole).tolist()) - {row for row, _ in held}


def _moment(seen: float, low: float, work: float, held: Mapping[str, float]) -> GpuMoment:
    if not seen:
        return _UNSEEN
    if low < 1:
        return _DOWN
    return GpuMoment(Sight.UP, None if math.isnan(work) else work, held)


_NOTHING: Mapping[str, float] = {}
_UNSEEN = GpuMoment(Sight.NOT_OBSERVED)
_DOWN = GpuMoment(Sight.DOWN)


def _work(snapshot: Snapshot, columns: Columns, number: Mapping[str, int], seen: Floats) -> Floats:
    """Activity where it is told, else utilisation, as a mean over each step; NaN for neither."""
    found = np.full(seen.shape, np.nan)
    for metric in ("gpu_sm_active", "gpu_busy"):  # activity goes before utilisation
        unknown = np.isnan(found)
        if not unknown[seen > 0].any():
            break
        mean = _mean(snapshot, metric, columns, number)
        found[unknown] = mean[unknown]
    return found


def _mean(snapshot: Snapshot, metric: str, columns: Columns, number: Mapping[str, int]) -> Floats:
    told = tiles(snapshot, metric, columns.window, ("sum / n",), step_s=columns.step_s)
    place = _place_of(snapshot, told.series, number)
    told, place = told.take(place >= 0), place[place >= 0]
    rows, column = columns.of(told)
    at, weight = (place[rows], column), told.tier_s[rows].astype(float)
    sums, weights = (np.zeros((len(number), columns.count)) for _ in range(2))
    np.add.at(sums, at, told.values[0][rows] * weight)
    np.add.at(weights, at, weight)
    found = np.full(sums.shape, np.nan)
    np.divide(sums, weights, out=found, where=weights > 0)
    return found


def _held(
    snapshot: Snapshot,
    columns: Columns,
    told: Tiles,
    number: Mapping[str, int],
    seen: Floats,
) -> dict[tuple[int, int], dict[str, float]]:
    """By GPU and column, the share of the observed time for which each harmful cause held."""
    by_id = snapshot.labels.by_id
    place = _place_of(snapshot, told.series, number)
    rows, column = columns.of(told)
    part = told.values[0] / told.tier_s * np.minimum(told.tier_s, columns.step_s)
    found: dict[tuple[int, int], dict[str, float]] = {}
    for row, each in zip(rows.tolist(), column.tolist(), strict=True):
        cause = value_of(by_id[int(told.series[row])], "reason")
        gpu = int(place[row])
        lasting = float(seen[gpu, each])
        if gpu >= 0 and lasting and cause in HARMFUL:
            held = found.setdefault((gpu, each), {})
            held[cause] = min(held.get(cause, 0.0) + float(part[row]) / lasting, 1.0)
    return found


def _places(snapshot: Snapshot, series: Integers) -> tuple[list[str], Integers]:
    """The UUIDs that these series are of, and the place of each row's among them."""
    of = uuids(snapshot)
    known = sorted({of[each] for each in np.unique(series).tolist() if each in of})
    return known, _place_of(snapshot, series, {uuid: index for index, uuid in enumerate(known)})


def _place_of(snapshot: Snapshot, series: Integers, number: Mapping[str, int]) -> Integers:
    """The place of each row's GPU, -1 for one that is not asked about."""
    unique, inverse = np.unique(series, return_inverse=True)
    of = uuids(snapshot)
    own = [number.get(of.get(each, ""), -1) for each in unique.tolist()]
    places: Integers = np.array(own, np.int64)[inverse.reshape(-1)]
    return places
