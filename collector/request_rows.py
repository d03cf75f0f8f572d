"""Requests as they are kept: legs read from segments, joined by trace.

Legs of one request end within the store's join window of each other; a chunk of requests is read
with that much around it. Which are incomplete is told, and those are not ranked.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from collector.legs import KINDS, LegTable
from collector.query import Window
from collector.segment_cache import Segments, join_window_ns, together
from collector.snapshot import Snapshot
from domain.errors import InputError
from domain.labels import Labels, matches
from domain.leg import SLICES, Leg, LegKind
from domain.request import Request, requests_of
from domain.request_columns import Traced

__all__ = ["ORDERS", "incomplete", "newest", "of_trace", "slowest", "streamed"]

_HOUR_NS = 3_600_000_000_000
_NS = 1_000_000_000
_CHUNK_NS = 300 * _NS
_WHOLE = (KINDS.index(LegKind.CLIENT), KINDS.index(LegKind.SERVER))
_SILENT = [KINDS.index(kind) for kind in (LegKind.LINK, *SLICES)]
_HALVES = [KINDS.index(LegKind.PREFILL), KINDS.index(LegKind.DECODE)]

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


def of_trace(snapshot: Snapshot, segments: Segments, trace_id: bytes) -> list[Traced]:
    """The requests of one trace, wherever its legs are, the first one first."""
    legs: list[Leg] = []
    labels = snapshot.labels.by_id
    for key in segments.holding(snapshot, trace_id):
        table = segments.tables(snapshot, [key])[0]
        legs += [table.leg(at, labels) for at in table.rows_of(trace_id)]
    if any(leg.room for leg in legs):
        near_ns = join_window_ns(snapshot)
        ends = [leg.end_at_ns for leg in legs]
        near = segments.legs(snapshot, min(ends) - near_ns, max(ends) + near_ns + 1)
        if near is not None:
            place = together(near)
            rows = np.isin(place, place[near.rows_of(trace_id)]).nonzero()[0].tolist()
            beside = [near.leg(row, labels) for row in rows]
            legs += [leg for leg in beside if leg.trace_id != trace_id]
    return [
        Traced(request=request, legs=group)
        for request, group in requests_of(legs)
        if any(leg.trace_id == trace_id for leg in group)
    ]


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


def incomplete(snapshot: Snapshot, segments: Segments, window: Window) -> int:
    """How many requests of the window lack the span of somebody who surely saw them."""
    return sum(
        not request.complete
        for chunk in _chunks(snapshot, window, newest_first=True)
        for request in _requests(snapshot, segments, chunk, (), halves_only=True)
    )


def slowest(
    snapshot: Snapshot,
    segments: Segments,
    window: Window,
    where: Labels,
    limit: int,
    *,
    order: str,
) -> list[Request]:
    """The complete requests with the largest value of one field, of those that have one."""
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
            if value_s is None or not request.complete:
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

    def mask(self, table: LegTable, place: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Groups by place. What joining computes is not known before; a leg's own column is."""
        column = table.seconds.get(ORDERS[self.order].removeprefix("client_"))
        if column is None or self.floor_s < 0:
            return np.ones(int(place.max()) + 1, bool)
        return _some(place, (column > self.floor_s) | ~np.isin(table.kind, _WHOLE))


def _requests(
    snapshot: Snapshot,
    segments: Segments,
    chunk: _Chunk,
    where: Labels,
    *,
    most: int | None = None,
    above: _Above | None = None,
    halves_only: bool = False,
) -> Iterator[Request]:
    """The requests that ended in a chunk, one of whose legs matches; the last `most` at least."""
    near_ns = join_window_ns(snapshot)
    table = segments.legs(snapshot, chunk.since_ns - near_ns, chunk.until_ns + near_ns)
    if table is None:
        return
    place = together(table)
    end_ns = _ends(table, place, chunk)
    wanted = end_ns > 0
    wanted &= _some(place, np.isin(table.series_id, snapshot.labels.matching(where)))
    if above is not None:
        wanted &= above.mask(table, place)
    if halves_only:
        wanted &= ~_some(place, ~np.isin(table.kind, [*_HALVES, *_SILENT]))
    found: list[int] = []
    for rows in _grouped(place, wanted, end_ns):
        last_ns = end_ns[place[rows[0]]]
        if most is not None and len(found) >= most and last_ns < heapq.nlargest(most, found)[-1]:
            return
        for request, legs in requests_of([table.leg(row, snapshot.labels.by_id) for row in rows]):
            inside = chunk.since_ns <= request.end_at_ns < chunk.until_ns
            if inside and any(matches(leg.labels, where) for leg in legs):
                found.append(request.end_at_ns)
                yield request


def _some(place: NDArray[np.int64], legs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The groups that have some of these legs."""
    found = np.zeros(int(place.max()) + 1, bool)
    found[place[legs]] = True
    return found


def _ends(table: LegTable, place: NDArray[np.int64], chunk: _Chunk) -> NDArray[np.int64]:
    """The last end in the chunk of each group, 0 where it has none.

    Any leg's: a request ends as one of its legs does, and a trace may hold several.
    """
    inside = (table.end_at_ns >= chunk.since_ns) & (table.end_at_ns < chunk.until_ns)
    inside &= ~np.isin(table.kind, _SILENT)
    end_ns = np.zeros(int(place.max()) + 1, np.int64)
    np.maximum.at(end_ns, place[inside], table.end_at_ns[inside])
    return end_ns


def _grouped(
    place: NDArray[np.int64], wanted: NDArray[np.bool_], end_ns: NDArray[np.int64]
) -> Iterator[list[int]]:
    """The rows of each wanted group, the one that ends last first."""
    rows = np.lexsort((place, -end_ns[place]))
    rows = rows[wanted[place[rows]]]
    if not len(rows):
        return
    ends = np.flatnonzero(np.diff(place[rows], append=-1)) + 1
    for start, end in pairwise((0, *ends.tolist())):
        yield rows[start:end].tolist()
