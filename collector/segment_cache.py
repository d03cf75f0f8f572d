"""Segments as readers see them: decoded, the last ones remembered, and which of their legs go together.

The newest segments are asked for again and again, by every page and every objective.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from collector import segment
from collector.legs import Integers, LegTable, concat
from collector.settings import JOIN_WINDOW_S
from collector.snapshot import Snapshot

__all__ = ["SegmentKey", "Segments", "join_window_ns", "together"]

_HOUR_NS = 3_600_000_000_000
_NS = 1_000_000_000
_KEY = "SELECT id, n, first_end_at_ns, last_end_at_ns, length(columns) FROM segment"

SegmentKey = tuple[int, int, int, int, int]  # id, n, first and last end, bytes


@dataclass(slots=True)
class Segments:
    """The decoded segments last read, up to `most_legs` legs in all."""

    most_legs: int = 250_000
    _tables: OrderedDict[SegmentKey, LegTable] = field(default_factory=OrderedDict)
    _held: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keys(self, snapshot: Snapshot, since_ns: int, until_ns: int) -> list[SegmentKey]:
        """The segments that may hold legs which ended in [since, until)."""
        rows = snapshot.rows(
            f"{_KEY} WHERE last_end_at_ns >= ? AND last_end_at_ns < ? AND first_end_at_ns < ?"
            " ORDER BY last_end_at_ns, id",
            (since_ns, until_ns + _HOUR_NS, until_ns),
        )
        return [(each[0], each[1], each[2], each[3], each[4]) for each in rows]

    def holding(self, snapshot: Snapshot, trace_id: bytes) -> list[SegmentKey]:
        """The segments that may hold legs of a trace."""
        rows = snapshot.rows(f"{_KEY} WHERE instr(columns, ?) > 0", (trace_id,))
        return [(each[0], each[1], each[2], each[3], each[4]) for each in rows]

    def tables(self, snapshot: Snapshot, keys: Sequence[SegmentKey]) -> list[LegTable]:
        """Those segments, decoded."""
        return [self._table(snapshot, key) for key in keys]

    def legs(self, snapshot: Snapshot, since_ns: int, until_ns: int) -> LegTable | None:
        """The legs that ended in [since, until); None where there are none."""
        found = []
        for table in self.tables(snapshot, self.keys(snapshot, since_ns, until_ns)):
            inside = (table.end_at_ns >= since_ns) & (table.end_at_ns < until_ns)
            if inside.all():
                found.append(table)
            elif inside.any():
                found.append(table.take(inside.nonzero()[0]))
        return concat(found) if found else None

    def _table(self, snapshot: Snapshot, key: SegmentKey) -> LegTable:
        with self._lock:
            known = self._tables.get(key)
            if known is not None:
                self._tables.move_to_end(key)
                return known
        (blob,) = snapshot.rows("SELECT columns FROM segment WHERE id = ?", key[:1])[0]
        table = segment.decode(blob)
        with self._lock:
            if key not in self._tables:
                self._tables[key] = table
                self._held += len(table)
            while self._held > self.most_legs and len(self._tables) > 1:
                self._held -= len(self._tables.popitem(last=False)[1])
        return table


def join_window_ns(snapshot: Snapshot) -> int:
    """How far apart legs of one request may have ended, as whoever wrote the store was told."""
    found = snapshot.rows("SELECT value FROM meta WHERE key = 'join_window_s'")
    return (int(found[0][0]) if found else JOIN_WINDOW_S) * _NS


def together(table: LegTable) -> Integers:
    """A number per leg, from 0 on: the same for legs of one trace, or of traces that met in a room."""
    number: dict[bytes, int] = {}
    place = np.array([number.setdefault(trace, len(number)) for trace in table.traces()], np.int64)
    first: dict[bytes, int] = {}
    for row, key in table.rooms():
        at, other = first.setdefault(key, int(place[row])), int(place[row])
        if at != other:
            place[place == other] = at
            first = {room: at if of == other else of for room, of in first.items()}
    return place
