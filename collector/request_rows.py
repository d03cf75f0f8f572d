"""Requests as they are kept: legs read from segments, joined by trace.

Legs of one request end within `JOIN_S` of each other; a chunk of requests is read with that much
around it. Decoded segments are remembered, since the newest are asked for again and again.
"""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from collector import segment
from collector.legs import KINDS, LegTable, concat
from collector.query import Window
from collector.snapshot import Snapshot
from domain.errors import InputError
from domain.labels import Labels
from domain.request import Leg, LegKind, Request, join

__all__ = ["JOIN_S", "ORDERS", "Segments", "newest", "of_trace", "slowest", "streamed"]

JOIN_S = 120
_HOUR_NS = 3_600_000_000_000
_NS = 1_000_000_000
_CHUNK_NS = 300 * _NS
_HALVES = (KINDS.index(LegKind.PREFILL), KINDS.index(LegKind.DECODE))

ORDERS = {
    name: f"{name}_s"
    for name in (
        "ttft",
        "e2e",
        "tpot",
        "itl_max",
        "network",
        "overhead",
        "queue",
        "prefill",
        "kv_transfer",
        "decode",
        "client_ttft",
        "client_e2e",
    )
}
"""What requests can be ordered by, and the field of a request that says it."""

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
            "SELECT id, n, first_end_at_ns, last_end_at_ns, length(columns) FROM segment"
            " WHERE last_end_at_ns >= ? AND last_end_at_ns < ? AND first_end_at_ns < ?"
            " ORDER BY last_end_at_ns, id",
            (since_ns, until_ns + _HOUR_NS, until_ns),
        )
        return [(each[0], each[1], each[2], each[3], each[4]) for each in rows]

    def tables(self, snapshot: Snapshot, keys: Sequence[SegmentKey]) -> list[LegTable]:
        """Those segments, decoded."""
        return [self._table(snapshot, key) for key in keys]

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


def of_trace(snapshot: Snapshot, segments: Segments, trace_id: bytes) -> Request | None:
    """The request of one trace, wherever its legs are."""
    legs: list[Leg] = []
    pattern = "SELECT id, n, first_end_at_ns, last_end_at_ns, length(columns) FROM segment"
    for row in snapshot.rows(pattern + " WHERE instr(columns, ?) > 0", (trace_id,)):
        table = segments.tables(snapshot, [(row[0], row[1], row[2], row[3], row[4])])[0]
        legs += [table.leg(at, snapshot.labels.by_id) for at in table.rows_of(trace_id)]
    return join(legs) if legs else None


def newest(
    snapshot: Snapshot, segments: Segments, window: Window, where: Labels, limit: int
) -> list[Request]:
    """The last requests to end in the window, newest first."""
    found: list[Request] = []
    for chunk in _chunks(snapshot, window, newest_first=True):
        if len(found) >= limit:
            break
        requests = list(_requests(snapshot, segments, chunk, where, most=limit - len(found)))
        found += sorted(requests, key=lambda each: (-each.end_at_ns, each.trace_id))
    return found[:limit]


def slowest(
    snapshot: Snapshot,
    segments: Segments,
    window: Window,
    where: Labels,
    limit: int,
    *,
    order: str,
) -> list[Request]:
    """The requests with the largest value of one field; those without a value are left out."""
    if order not in ORDERS:
        raise InputError(
            f"{order!r} orders no requests",
            where="slowest_by",
            remedy=f"Use one of {', '.join(ORDERS)}.",
        )
    name = ORDERS[order]
    top: list[tuple[float, bytes, Request]] = []
    for chunk in _chunks(snapshot, window, newest_first=True):
        above = _Above(order, top[0][0] if len(top) == limit else -1.0)
        for request in _requests(snapshot, segments, chunk, where, above=above):
            value_s = getattr(request, name)
            if value_s is None:
                continue
            entry = (value_s, request.trace_id, request)
            if len(top) < limit:
                heapq.heappush(top, entry)
            elif entry[:2] > top[0][:2]:
                heapq.heapreplace(top, entry)
    return [request for _, _, request in sorted(top, key=lambda e: (-e[0], e[1]))]


def streamed(
    snapshot: Snapshot, segments: Segments, window: Window, where: Labels
) -> Iterator[Request]:
    """All requests of the window in order of their end, a few minutes of them in memory."""
    for chunk in _chunks(snapshot, window, newest_first=False):
        requests = list(_requests(snapshot, segments, chunk, where))
        yield from sorted(requests, key=lambda each: (each.end_at_ns, each.trace_id))


@dataclass(frozen=True, slots=True)
class _Chunk:
    since_ns: int
    until_ns: int


def _chunks(snapshot: Snapshot, window: Window, *, newest_first: bool) -> list[_Chunk]:
    """Stretches of the window that may hold requests; empty ones are stepped over."""
    since_ns, until_ns = window.since_s * _NS, window.until_s * _NS
    stretches = snapshot.rows(
        "SELECT first_end_at_ns, last_end_at_ns FROM segment"
        " WHERE last_end_at_ns >= ? AND last_end_at_ns < ? AND first_end_at_ns < ?",
        (since_ns, until_ns + _HOUR_NS, until_ns),
    )
    places = {
        place
        for first, last in stretches
        for place in range(
            max(first, since_ns) // _CHUNK_NS, min(last, until_ns - 1) // _CHUNK_NS + 1
        )
    }
    return [
        _Chunk(max(since_ns, place * _CHUNK_NS), min(until_ns, (place + 1) * _CHUNK_NS))
        for place in sorted(places, reverse=newest_first)
    ]


@dataclass(frozen=True, slots=True)
class _Above:
    """Only requests that may have more than `floor_s` of a field are of interest."""

    order: str
    floor_s: float

    def mask(self, table: LegTable, place: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
        """Traces by place. What joining computes is not known before; a leg's own column is."""
        column = table.seconds.get(ORDERS[self.order].removeprefix("client_"))
        if column is None or self.floor_s < 0:
            return np.ones(n, bool)
        possible = np.zeros(n, bool)
        possible[place[(column > self.floor_s) | np.isin(table.kind, _HALVES)]] = True
        return possible


def _requests(
    snapshot: Snapshot,
    segments: Segments,
    chunk: _Chunk,
    where: Labels,
    *,
    most: int | None = None,
    above: _Above | None = None,
) -> Iterator[Request]:
    """The requests that ended in a chunk, one of whose legs matches; the last `most` of them."""
    near_ns = JOIN_S * _NS
    table = segments.legs(snapshot, chunk.since_ns - near_ns, chunk.until_ns + near_ns)
    if table is None:
        return
    number: dict[bytes, int] = {}
    place = np.array([number.setdefault(trace, len(number)) for trace in table.traces()])
    end_ns = np.zeros(len(number), np.int64)
    np.maximum.at(end_ns, place, table.end_at_ns)
    wanted = np.zeros(len(number), bool)
    wanted[place[np.isin(table.series_id, snapshot.labels.matching(where))]] = True
    wanted &= (end_ns >= chunk.since_ns) & (end_ns < chunk.until_ns)
    if above is not None:
        wanted &= above.mask(table, place, len(number))
    if most is not None and wanted.sum() > most:
        wanted &= end_ns >= np.partition(end_ns[wanted], -most)[-most]
    for rows in _grouped(place, wanted):
        yield join([table.leg(row, snapshot.labels.by_id) for row in rows])


def _grouped(place: NDArray[np.int64], wanted: NDArray[np.bool_]) -> Iterator[list[int]]:
    """The rows of each wanted trace."""
    rows = np.argsort(place, kind="stable")
    rows = rows[wanted[place[rows]]]
    if not len(rows):
        return
    ends = np.flatnonzero(np.diff(place[rows], append=-1)) + 1
    for start, end in pairwise((0, *ends.tolist())):
        yield rows[start:end].tolist()
