"""Minutes of an objective of any kind: which module counts them, and what many of them share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector import (
    condition_slices,
    endpoint_slices,
    latency_slices,
    level_slices,
    request_slices,
    throughput_slices,
)
from collector.minute_requests import MinuteRequests
from collector.minute_tiles import MinuteTiles
from collector.minute_values import MinuteValues
from collector.query import Window
from collector.segment_cache import Segments
from collector.snapshot import Snapshot
from domain.indicator import (
    AvailabilityIndicator,
    ConditionIndicator,
    GoodputIndicator,
    Indicator,
    LatencyIndicator,
    LevelIndicator,
    ThroughputIndicator,
)
from domain.slice import Slice

__all__ = ["Slices"]

_MANY = 8
"""From so many objectives on, the tiles of all series are read at once."""


class Slices:
    """Counts minutes; remembers single values and requests of the minutes last asked for.

    `room_tiles`: so many tiles of a metric are held at one time.
    """

    def __init__(self, segments: Segments, *, room_tiles: int = 200_000) -> None:
        self._values = MinuteValues(segments)
        self._requests = MinuteRequests(segments)
        self._room_tiles = room_tiles

    def of(
        self, snapshot: Snapshot, indicator: Indicator, window: Window, *, now_s: float
    ) -> list[Slice]:
        """One slice per whole minute of the window."""
        found: list[Slice] = []
        for part in self._parts(window, len(snapshot.labels.matching(indicator.where))):
            found += self._of(MinuteTiles(snapshot, part), indicator, now_s)
        return found

    def of_many(
        self, snapshot: Snapshot, indicators: Sequence[Indicator], window: Window, *, now_s: float
    ) -> list[list[Slice]]:
        """The same of several, in their order; of many what they share is read once."""
        if len(indicators) < _MANY:
            return [self.of(snapshot, each, window, now_s=now_s) for each in indicators]
        found: list[list[Slice]] = [[] for _ in indicators]
        for part in self._parts(window, len(snapshot.labels.by_id)):
            tiles = MinuteTiles(snapshot, part, shared=True)
            for own, indicator in zip(found, indicators, strict=True):
                own.extend(self._of(tiles, indicator, now_s))
        return found

    def _parts(self, window: Window, series: int) -> Iterator[Window]:
        """The whole minutes of a window, as many at a time as there is room for."""
        minutes = window.minutes
        most = max(self._room_tiles // max(series, 1), 1)
        for first in range(0, len(minutes), most):
            some = minutes[first : first + most]
            yield Window(since_s=some.start, until_s=some.stop)

    def _of(self, tiles: MinuteTiles, indicator: Indicator, now_s: float) -> list[Slice]:
        snapshot, window = tiles.snapshot, tiles.window
        match indicator:
            case LatencyIndicator():
                found = latency_slices.minutes(tiles, self._values, indicator)
            case AvailabilityIndicator():
                found = request_slices.minutes(tiles, self._requests, indicator.where, ())
            case GoodputIndicator(limits=limits):
                found = request_slices.minutes(tiles, self._requests, indicator.where, limits)
            case ThroughputIndicator():
                found = throughput_slices.minutes(tiles, indicator)
            case LevelIndicator():
                found = level_slices.minutes(tiles, indicator)
            case ConditionIndicator():
                found = condition_slices.minutes(snapshot, indicator, window)
            case _:
                found = endpoint_slices.minutes(snapshot, indicator, window, now_s=now_s)
        return found
