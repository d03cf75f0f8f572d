"""Which legs are already stored, by trace, around a minute: what makes spans idempotent and joins them.

Minutes of event time are loaded from the segments when first touched and kept while there is room,
so a restart or an old file needs no special case. A leg is known by trace id and span id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection

from collector import segment
from collector.legs import Integers, LegTable
from domain.labels import Labels
from domain.request import Leg

__all__ = ["Admitted", "KnownLegs"]

_MINUTE_NS = 60_000_000_000
_HOUR_NS = 3_600_000_000_000
_ROW_BITS = 24
_Refs = int | tuple[int, ...]  # table number << _ROW_BITS | row


@dataclass(slots=True)
class _Minute:
    refs: dict[bytes, _Refs] = field(default_factory=dict)
    tables: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The rows that are new, and for traces with several legs the legs before and with them."""

    rows: Integers
    joined: Sequence[tuple[Sequence[Leg], Sequence[Leg]]]


class KnownLegs:
    """An index over the legs that ended around the minutes last touched."""

    def __init__(self, *, join_window_s: int, most: int = 400_000) -> None:
        self._reach = -(-join_window_s // 60)
        self._window_ns = join_window_s * 1_000_000_000
        self._most = most
        self._minutes: dict[int, _Minute] = {}
        self._tables: dict[int, LegTable] = {}
        self._of_segment: dict[int, int] = {}
        self._next = 0
        self._held = 0
        self._hours: set[int] | None = None

    def forget(self) -> None:
        """What was admitted last is not in the store after all."""
        for known in (self._minutes, self._tables, self._of_segment):
            known.clear()
        self._held = 0
        self._hours = None

    def segments_changed(self) -> None:
        """Numbers of segments may have been given away anew; what is indexed stays right."""
        self._of_segment.clear()

    def admit(
        self, connection: Connection, table: LegTable, labels: Mapping[int, Labels]
    ) -> Admitted:
        """Which rows nobody has seen; `remember` them once they are stored."""
        minute = table.end_at_ns // _MINUTE_NS
        touched = np.unique(minute).tolist()
        self._load(connection, touched)
        traces = table.traces()
        if self._all_new(traces, minute, touched):
            return Admitted(rows=np.arange(len(table)), joined=())
        return self._sift(table, traces, labels)

    def remember(self, table: LegTable) -> None:
        """These legs are stored; none of them was known."""
        number = self._keep(table)
        self._index(number, table, table.end_at_ns // _MINUTE_NS)
        if self._hours is not None:
            self._hours.update(np.unique(table.end_at_ns // _HOUR_NS).tolist())

    def _all_new(self, traces: list[bytes], minute: Integers, touched: list[int]) -> bool:
        if len(set(traces)) < len(traces):
            return False
        for each in touched:
            inside = traces
            if len(touched) > 1:
                inside = [traces[row] for row in (minute == each).nonzero()[0].tolist()]
            for near in self._near(each):
                if not near.refs.keys().isdisjoint(inside):
                    return False
        return True

    def _near(self, minute: int) -> list[_Minute]:
        found = (self._minutes.get(minute + away) for away in range(-self._reach, self._reach + 1))
        return [near for near in found if near is not None and near.refs]

    def _sift(self, table: LegTable, traces: list[bytes], labels: Mapping[int, Labels]) -> Admitted:
        rows: list[int] = []
        before: dict[bytes, list[Leg]] = {}
        fresh: dict[bytes, dict[bytes, int]] = {}
        for row, trace in enumerate(traces):
            mine, span = fresh.setdefault(trace, {}), table.span_id(row)
            # why for each row: a trace may be longer than the window
            near = self._legs(trace, int(table.end_at_ns[row]), labels)
            known = before.setdefault(trace, [])
            known += [leg for leg in near if all(leg.span_id != each.span_id for each in known)]
            if span not in mine and all(leg.span_id != span for leg in known):
                mine[span] = row
                rows.append(row)
        joined = []
        for trace, mine in fresh.items():
            if mine and len(mine) + len(before[trace]) > 1:
                new = [table.leg(row, labels) for row in mine.values()]
                joined.append((before[trace], [*before[trace], *new]))
        return Admitted(rows=np.array(rows, np.int64), joined=joined)

    def _legs(self, trace: bytes, end_at_ns: int, labels: Mapping[int, Labels]) -> list[Leg]:
        """The known legs of a trace that ended within the window of this instant."""
        legs = []
        for near in self._near(end_at_ns // _MINUTE_NS):
            refs = near.refs.get(trace, ())
            for ref in (refs,) if isinstance(refs, int) else refs:
                table, row = self._tables[ref >> _ROW_BITS], ref & ((1 << _ROW_BITS) - 1)
                if abs(int(table.end_at_ns[row]) - end_at_ns) <= self._window_ns:
                    legs.append(table.leg(row, labels))
        return legs

    def _load(self, connection: Connection, touched: list[int]) -> None:
        """Have the minutes around these ready; the ones untouched for longest make room."""
        needed = {
            minute + away for minute in touched for away in range(-self._reach, self._reach + 1)
        }
        for minute in sorted(needed):
            known = self._minutes.pop(minute, None)
            self._minutes[minute] = known or _Minute()  # why: last touched stands last
            if known is None:
                self._load_minute(connection, minute)
        for minute in list(self._minutes):
            if self._held <= self._most or minute in needed:
                break
            self._drop(minute)

    def _load_minute(self, connection: Connection, minute: int) -> None:
        since, until = minute * _MINUTE_NS, (minute + 1) * _MINUTE_NS
        if since // _HOUR_NS not in self._stored_hours(connection):
            return  # why: spans from all over the ages must not cost a query for each minute
        rows = connection.exec_driver_sql(
            "SELECT id, columns FROM segment WHERE last_end_at_ns >= ? AND last_end_at_ns < ?"
            " AND first_end_at_ns < ?",
            (since, until + _HOUR_NS, until),
        )
        for segment_id, blob in rows:
            number = self._of_segment.get(segment_id)
            if number is None or number not in self._tables:
                number = self._of_segment[segment_id] = self._keep(segment.decode(blob))
            table = self._tables[number]
            at = table.end_at_ns // _MINUTE_NS
            self._index(number, table, np.where(at == minute, minute, -1))

    def _stored_hours(self, connection: Connection) -> set[int]:
        """Hours that have segments, or had some."""
        if self._hours is None:
            found = connection.exec_driver_sql(
                "SELECT DISTINCT last_end_at_ns / ? FROM segment", (_HOUR_NS,)
            )
            self._hours = {hour for (hour,) in found}
        return self._hours

    def _keep(self, table: LegTable) -> int:
        self._next += 1
        self._tables[self._next] = table
        return self._next

    def _index(self, number: int, table: LegTable, minute: Integers) -> None:
        base = number << _ROW_BITS
        distinct = np.unique(minute).tolist()
        traces = table.traces()
        for each in distinct:
            if each < 0:
                continue
            into = self._minutes.setdefault(each, _Minute())
            into.tables.add(number)
            rows = (
                (minute == each).nonzero()[0].tolist() if len(distinct) > 1 else range(len(table))
            )
            inside = traces if len(rows) == len(traces) else [traces[row] for row in rows]
            self._held += len(rows)
            if len(set(inside)) == len(inside) and into.refs.keys().isdisjoint(inside):
                into.refs.update(zip(inside, (base | row for row in rows), strict=True))
                continue
            for trace, row in zip(inside, rows, strict=True):
                refs = into.refs.get(trace, ())
                together = ((refs,) if isinstance(refs, int) else refs) + (base | row,)
                into.refs[trace] = together if len(together) > 1 else together[0]

    def _drop(self, minute: int) -> None:
        gone = self._minutes.pop(minute)
        self._held -= sum(1 if isinstance(r, int) else len(r) for r in gone.refs.values())
        for number in gone.tables:
            if not any(number in other.tables for other in self._minutes.values()):
                del self._tables[number]
        if len(self._of_segment) > 2 * len(self._tables) + 100:
            alive = self._of_segment.items()
            self._of_segment = {s: number for s, number in alive if number in self._tables}
