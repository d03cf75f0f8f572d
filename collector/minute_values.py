"""The single values of one minute, as the kept requests tell them: what a tile's cell consists of.

They are made by the same code that filled the tiles, from the legs that ended around the minute,
and remembered: every objective of a service asks for the same minute.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collector.legs import KINDS, Floats, Integers, LegTable, concat
from collector.observing import joined_only, observe
from collector.segment_cache import SegmentKey, Segments, join_window_ns, together
from collector.snapshot import Snapshot
from domain.labels import Labels
from domain.leg import LegKind
from domain.metric import METRICS

__all__ = ["MinuteValues"]

_NS = 1_000_000_000
_MINUTE_NS = 60 * _NS
_ENGINES = tuple(place for place, kind in enumerate(KINDS) if kind is not LegKind.CLIENT)

Values = Mapping[int, tuple[Integers, Floats]]  # metric number: series ids, seconds


@dataclass(slots=True)
class MinuteValues:
    """Values by minute and metric, of the minutes last asked for."""

    segments: Segments
    most_minutes: int = 256
    _known: OrderedDict[int, tuple[list[SegmentKey], Values]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, snapshot: Snapshot, metric: str, at_s: int) -> tuple[Integers, Floats]:
        """Series and seconds of each value of a metric in the minute that begins at `at_s`."""
        since_ns, near_ns = at_s * _NS, join_window_ns(snapshot)
        keys = self.segments.keys(snapshot, since_ns - near_ns, since_ns + _MINUTE_NS + near_ns)
        with self._lock:
            known, values = self._known.get(at_s, ([], {}))
        if known != keys or not values:
            values = _values(snapshot, self.segments.tables(snapshot, keys), since_ns)
            with self._lock:
                self._known[at_s] = keys, values
                self._known.move_to_end(at_s)
                while len(self._known) > self.most_minutes:
                    self._known.popitem(last=False)
        return values.get(METRICS[metric].number, (np.zeros(0, np.int64), np.zeros(0)))


@dataclass(slots=True)
class _Sink:
    """Takes what legs add to tiles, and keeps the values."""

    parts: defaultdict[int, list[tuple[Integers, Floats]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add_values(
        self, metric: int, at_ns: Integers, series_id: Integers, values_s: Floats
    ) -> None:
        del at_ns
        self.parts[metric].append((series_id, values_s))

    def add_failed(self, metric: int, at_ns: int, series_id: int) -> None:
        """A failed request has no value."""

    def add_number(self, metric: int, at_ns: int, series_id: int, value: float) -> None:
        """Nor has a count."""


def _values(snapshot: Snapshot, tables: list[LegTable], since_ns: int) -> Values:
    near_ns = join_window_ns(snapshot)
    near = _between(tables, since_ns - near_ns, since_ns + _MINUTE_NS + near_ns)
    sink = _Sink()
    if near is not None:
        inside = (near.end_at_ns >= since_ns) & (near.end_at_ns < since_ns + _MINUTE_NS)
        observe(near.take(inside.nonzero()[0]), {}, sink)
        _joined(near, inside, snapshot.labels.by_id, since_ns, sink)
    return {
        metric: (np.concatenate([s for s, _ in parts]), np.concatenate([v for _, v in parts]))
        for metric, parts in sink.parts.items()
    }


def _between(tables: list[LegTable], since_ns: int, until_ns: int) -> LegTable | None:
    found = []
    for table in tables:
        rows = ((table.end_at_ns >= since_ns) & (table.end_at_ns < until_ns)).nonzero()[0]
        if len(rows):
            found.append(table if len(rows) == len(table) else table.take(rows))
    return concat(found) if found else None


def _joined(
    near: LegTable,
    inside: NDArray[np.bool_],
    labels: Mapping[int, Labels],
    since_ns: int,
    sink: _Sink,
) -> None:
    """What legs of one trace tell together, in this minute."""
    place = together(near)
    rows: defaultdict[int, list[int]] = defaultdict(list)
    for row in np.isin(place, place[inside]).nonzero()[0].tolist():
        rows[int(place[row])].append(row)
    number = {own: series_id for series_id, own in labels.items()}
    for of_trace in rows.values():
        if len(of_trace) < 2 or not np.isin(near.kind[of_trace], _ENGINES).any():
            continue
        for told, times in joined_only([near.leg(row, labels) for row in of_trace]).items():
            if since_ns <= told.at_ns < since_ns + _MINUTE_NS:
                sink.add_values(
                    METRICS[told.metric].number,
                    np.full(times, told.at_ns),
                    np.full(times, number[told.labels]),
                    np.full(times, told.value_s),
                )
