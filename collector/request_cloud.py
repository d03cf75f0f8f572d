"""Requests as columns: the newest of a window by the thousand, each joined from its legs once.

Legs are looked at from the newest on, `MOST_SCANNED` at most, and `MOST_MATCHING` of those that match.
How far back that reaches is told where it is not the whole window.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from collector.legs import KINDS, OUTCOMES, Integers, LegTable, concat
from collector.observing import leg_columns
from collector.query import Window
from collector.segment_cache import Segments, join_window_ns, together
from collector.snapshot import Snapshot
from domain.labels import Labels
from domain.leg import LegKind
from domain.request import Request, requests_of
from domain.request_columns import REQUEST_VALUES, RequestColumns

__all__ = ["MOST_MATCHING", "MOST_SCANNED", "Joined", "columns"]

MOST_SCANNED = 200_000
MOST_MATCHING = 20_000
_MOST_JOINED = 60_000
_NS = 1_000_000_000
_WHOLE = np.array([k in (LegKind.CLIENT, LegKind.FRONTEND, LegKind.SERVER) for k in KINDS])

_Mask = NDArray[np.bool_]
_Row = tuple[bytes, int, int, bool, Labels, tuple[float, ...]]
"""A request: trace, end, place of the outcome, whether it is complete, labels, values."""


@dataclass(slots=True)
class Joined:
    """Requests that were put together from several legs, by those legs."""

    most: int = _MOST_JOINED
    _known: OrderedDict[bytes, tuple[_Row, ...]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(
        self, table: LegTable, rows: Sequence[int], labels: Mapping[int, Labels]
    ) -> tuple[_Row, ...]:
        """The requests in these legs."""
        key = b"".join([table.span_id(row) for row in rows]) + table.trace_id(rows[0])
        with self._lock:
            known = self._known.get(key)
        if known is None:
            legs = [table.leg(row, labels) for row in rows]
            known = tuple(_row(request) for request, _ in requests_of(legs))
            with self._lock:
                self._known[key] = known
                while len(self._known) > self.most:
                    self._known.popitem(last=False)
        return known


def columns(
    snapshot: Snapshot,
    segments: Segments,
    joined: Joined,
    window: Window,
    where: Labels,
    *,
    most_scanned: int = MOST_SCANNED,
    most_matching: int = MOST_MATCHING,
) -> RequestColumns:
    """The newest requests of a window, one of whose legs matches, newest first."""
    matching = _members(snapshot, where)
    scan = _Scan(snapshot, segments, window, matching, most_scanned, most_matching)
    table = scan.legs()
    labels = snapshot.labels.by_id
    if table is None:
        return replace(RequestColumns.empty(), reaches_s=scan.reaches_s)
    since_ns, until_ns = max(window.since_s * _NS, scan.since_ns), window.until_s * _NS
    place = together(table)
    several = np.bincount(place)[place] > 1
    alone = ~several & _WHOLE[table.kind]
    inside = alone & (table.end_at_ns >= since_ns) & (table.end_at_ns < until_ns)
    own = table.take((inside & matching[table.series_id]).nonzero()[0])
    found: list[_Row] = []
    for rows in _groups(place, ~alone):
        found += [e for e in joined.of(table, rows, labels) if since_ns <= e[1] < until_ns]
    return _assembled(own, found, labels, scan.reaches_s)


def _members(snapshot: Snapshot, where: Labels) -> _Mask:
    """By the number of a series, whether it matches."""
    found = np.zeros(max(snapshot.labels.by_id, default=0) + 1, bool)
    found[list(snapshot.labels.matching(where))] = True
    return found


@dataclass(slots=True)
class _Scan:
    """The newest legs that match, and all that are in one trace with them."""

    snapshot: Snapshot
    segments: Segments
    window: Window
    series: _Mask
    most_scanned: int
    most_matching: int
    since_ns: int = 0

    @property
    def reaches_s(self) -> int | None:
        """From when on all were looked at, where that is later than the window's begin."""
        begin_s = -(-self.since_ns // _NS)
        return begin_s if begin_s > self.window.since_s else None

    def legs(self) -> LegTable | None:
        near_ns = join_window_ns(self.snapshot)
        since_ns, until_ns = self.window.since_s * _NS, self.window.until_s * _NS
        keys = self.segments.keys(self.snapshot, since_ns - near_ns, until_ns + near_ns)
        found: list[LegTable] = []
        scanned = matching = 0
        while keys and scanned < self.most_scanned and matching < self.most_matching:
            key = keys.pop()
            (table,) = self.segments.tables(self.snapshot, [key])
            scanned += len(table)
            inside = table.end_at_ns < until_ns
            matching += int((inside & self.series[table.series_id]).sum())
            found.append(table)
        if keys:
            self.since_ns = max(key[3] for key in keys) + 1
        return self._in_their_traces(found)

    def _in_their_traces(self, tables: Sequence[LegTable]) -> LegTable | None:
        if not tables:
            return None
        whole = concat(tables)
        mine = self.series[whole.series_id]
        # why rooms: legs of other traces may belong to them
        if mine.all() or whole.room.any():
            return whole
        keys = _keys(whole)
        return whole.take(np.isin(keys, np.unique(keys[mine])).nonzero()[0])


def _keys(table: LegTable) -> NDArray[np.uint64]:
    """A number a trace; traces that share one are told apart later."""
    halves = np.frombuffer(table.trace_ids, "<u8").reshape(-1, 2)
    mixed: NDArray[np.uint64] = halves[:, 0] ^ (halves[:, 1] << np.uint64(1))
    return mixed


def _groups(place: Integers, wanted: _Mask) -> list[list[int]]:
    rows = wanted.nonzero()[0]
    rows = rows[np.argsort(place[rows], kind="stable")]
    if not len(rows):
        return []
    cuts = np.flatnonzero(np.diff(place[rows])) + 1
    every = rows.tolist()
    return [every[begin:end] for begin, end in pairwise((0, *cuts.tolist(), len(every)))]


def _values(table: LegTable) -> NDArray[np.float64]:
    """What legs that stand for themselves say, a row each."""
    own = leg_columns(table)
    nothing = np.full(len(table), np.nan)
    tokens = {name: np.where(each < 0, np.nan, each) for name, each in table.tokens.items()}
    return np.column_stack([own.get(name, tokens.get(name, nothing)) for name in REQUEST_VALUES])


def _row(request: Request) -> _Row:
    told = {
        "ttft": request.client_ttft_s if request.ttft_s is None else request.ttft_s,
        "e2e": request.client_e2e_s if request.e2e_s is None else request.e2e_s,
        "prompt_tokens": request.prompt_tokens,
        "output_tokens": request.output_tokens,
    }
    values = [
        told[name] if name in told else getattr(request, f"{name}_s") for name in REQUEST_VALUES
    ]
    known = tuple(float("nan") if value is None else float(value) for value in values)
    outcome = OUTCOMES.index(request.outcome)
    return (
        request.trace_id,
        request.end_at_ns,
        outcome,
        request.complete,
        request.labels,
        known,
    )


def _assembled(
    own: LegTable, joined: Sequence[_Row], labels: Mapping[int, Labels], reaches_s: int | None
) -> RequestColumns:
    """Those that one leg tells beside those that several do, newest first."""
    traces = [*own.traces(), *(row[0] for row in joined)]
    named = [*(labels[each] for each in own.series_id.tolist()), *(row[4] for row in joined)]
    end_ns = np.append(own.end_at_ns, np.array([row[1] for row in joined], np.int64))
    more = np.array([row[5] for row in joined], np.float64).reshape(-1, len(REQUEST_VALUES))
    values = np.concatenate((_values(own), more))
    outcome = np.append(own.outcome, np.array([row[2] for row in joined], np.uint8))
    complete = np.append(np.ones(len(own), bool), np.array([row[3] for row in joined], bool))
    # why traces first: a sort that is stable leaves them in order where two ended at once
    by_trace = np.array(sorted(range(len(traces)), key=traces.__getitem__), np.int64)
    order = by_trace[np.argsort(-end_ns[by_trace], kind="stable")]
    places = order.tolist()
    return RequestColumns(
        trace_ids=[traces[place] for place in places],
        end_at_s=end_ns[order] / _NS,
        outcome=outcome[order],
        complete=complete[order],
        labels=[named[place] for place in places],
        values=dict(zip(REQUEST_VALUES, values[order].T, strict=True)),
        reaches_s=reaches_s,
    )
