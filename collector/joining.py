"""Which legs are already stored, by trace, around a minute: what makes spans idempotent and joins them.

Minutes of event time are loaded from the segments when first touched and kept while there is room,
so a restart or an old file needs no special case. A leg is known by trace id and span id. Halves of
a request that met in a room may stand in two traces: a room's key stands for it as an id does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection

from collector import segment
from collector.legs import Integers, LegTable, room_key
from domain.kin import kin
from domain.labels import Labels
from domain.leg import Leg
from domain.telling import JOINED_LEGS_MAX

__all__ = ["Admitted", "KnownLegs"]

_MINUTE_NS = 60_000_000_000
_HOUR_NS = 3_600_000_000_000
_ROW_BITS = 24
_MOST_RECENT = 20_000
_Refs = int | tuple[int, ...]  # table number << _ROW_BITS | row


@dataclass(slots=True)
class _Minute:
    refs: dict[bytes, _Refs] = field(default_factory=dict)
    tables: set[int] = field(default_factory=set)

    def add(self, key: bytes, ref: int) -> None:
        """One more leg of a trace, or in a room."""
        refs = self.refs.get(key, ())
        together = ((refs,) if isinstance(refs, int) else refs) + (ref,)
        self.refs[key] = together if len(together) > 1 else together[0]


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
        self._recent: dict[int, Leg] = {}  # by a number that is never given away anew
        self._next = 0
        self._held = 0
        self._hours: set[int] | None = None

    def forget(self) -> None:
        """What was admitted last is not in the store after all."""
        for known in (self._minutes, self._tables, self._of_segment, self._recent):
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
        if self._all_new(traces, table.rooms(), minute, touched):
            return Admitted(rows=np.arange(len(table)), joined=())
        return self._sift(table, traces, labels)

    def remember(self, table: LegTable) -> None:
        """These legs are stored; none of them was known."""
        number = self._keep(table)
        self._index(number, table, table.end_at_ns // _MINUTE_NS)
        if self._hours is not None:
            self._hours.update(np.unique(table.end_at_ns // _HOUR_NS).tolist())

    def _all_new(
        self,
        traces: list[bytes],
        rooms: list[tuple[int, bytes]],
        minute: Integers,
        touched: list[int],
    ) -> bool:
        if len(set(traces)) < len(traces) or len({key for _, key in rooms}) < len(rooms):
            return False
        for each in touched:
            inside = traces
            if len(touched) > 1:
                inside = [traces[row] for row in (minute == each).nonzero()[0].tolist()]
            keys = inside + [key for row, key in rooms if minute[row] == each]
            for near in self._near(each):
                if not near.refs.keys().isdisjoint(keys):
                    return False
        return True

    def _near(self, minute: int) -> list[_Minute]:
        found = (self._minutes.get(minute + away) for away in range(-self._reach, self._reach + 1))
        return [near for near in found if near is not None and near.refs]

    def _sift(self, table: LegTable, traces: list[bytes], labels: Mapping[int, Labels]) -> Admitted:
        rows: list[int] = []
        before: dict[bytes, dict[bytes, Leg]] = {}
        fresh: dict[bytes, dict[bytes, int]] = {}
        ends: dict[bytes, list[int]] = {}
        for trace, end_at_ns in zip(traces, table.end_at_ns.tolist(), strict=True):
            ends.setdefault(trace, []).append(end_at_ns)
        for trace, of_trace in ends.items():
            near = self._legs(trace, of_trace, labels)
            before[trace] = {leg.span_id: leg for leg in reversed(near)}
        for row, trace in enumerate(traces):
            mine, span = fresh.setdefault(trace, {}), table.span_id(row)
            if span not in mine and span not in before[trace]:
                mine[span] = row
                rows.append(row)
        new = {
            trace: [table.leg(row, labels) for row in mine.values()]
            for trace, mine in fresh.items()
            if mine
        }
        together = _Together(before, new)
        for trace, legs in new.items():
            self._follow(trace, [*before[trace].values(), *legs], together, labels)
        together.meet_anew()
        return Admitted(rows=np.array(rows, np.int64), joined=together.joined())

    def _follow(
        self, trace: bytes, legs: Sequence[Leg], together: _Together, labels: Mapping[int, Labels]
    ) -> None:
        """Into the rooms of these legs, and of those who are there, to what is known of them."""
        waiting, seen = [leg for leg in legs if leg.room], set[int]()
        while waiting:
            leg = waiting.pop()
            if leg.room in seen:
                continue
            seen.add(leg.room)
            for other in self._legs(room_key(leg.room), [leg.end_at_ns], labels):
                beside = self._legs(other.trace_id, [other.end_at_ns], labels)
                together.meet(trace, other.trace_id, beside)
                waiting += [each for each in beside if each.room]

    def _legs(
        self, trace: bytes, ends_at_ns: Sequence[int], labels: Mapping[int, Labels]
    ) -> list[Leg]:
        """The known legs of a trace that ended within the window of one of these instants."""
        near = np.unique(np.array(ends_at_ns, np.int64))  # a trace may be longer than the window
        minutes = {
            minute + away
            for minute in np.unique(near // _MINUTE_NS).tolist()
            for away in range(-self._reach, self._reach + 1)
        }
        refs: list[int] = []
        for minute in sorted(minutes & self._minutes.keys()):
            found = self._minutes[minute].refs.get(trace, ())
            refs += (found,) if isinstance(found, int) else found
        legs = [self._leg(ref, labels) for ref in refs]
        ends = np.array([leg.end_at_ns for leg in legs], np.int64)
        at = np.searchsorted(near, ends)
        below, above = near[np.maximum(at - 1, 0)], near[np.minimum(at, len(near) - 1)]
        away = np.minimum(np.abs(ends - below), np.abs(above - ends))
        return [
            leg for leg, each in zip(legs, away.tolist(), strict=True) if each <= self._window_ns
        ]

    def _leg(self, ref: int, labels: Mapping[int, Labels]) -> Leg:
        """A known leg; those of long traces are asked for again and again."""
        leg = self._recent.get(ref)
        if leg is None:
            if len(self._recent) >= _MOST_RECENT:
                self._recent.clear()
            table, row = self._tables[ref >> _ROW_BITS], ref & ((1 << _ROW_BITS) - 1)
            leg = self._recent[ref] = table.leg(row, labels)
        return leg

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
            for row, key in table.rooms():
                if minute[row] == each:
                    into.add(key, base | row)
            if len(set(inside)) == len(inside) and into.refs.keys().isdisjoint(inside):
                into.refs.update(zip(inside, (base | row for row in rows), strict=True))
                continue
            for trace, row in zip(inside, rows, strict=True):
                into.add(trace, base | row)

    def _drop(self, minute: int) -> None:
        gone = self._minutes.pop(minute)
        self._held -= sum(1 if isinstance(r, int) else len(r) for r in gone.refs.values())
        for number in gone.tables:
            if not any(number in other.tables for other in self._minutes.values()):
                del self._tables[number]
        if len(self._of_segment) > 2 * len(self._tables) + 100:
            alive = self._of_segment.items()
            self._of_segment = {s: number for s, number in alive if number in self._tables}


class _Together:
    """Legs before and new ones by trace, and traces whose legs met in a room."""

    def __init__(
        self, before: dict[bytes, dict[bytes, Leg]], new: Mapping[bytes, list[Leg]]
    ) -> None:
        self._before = before
        self._new = new
        self._chief = {trace: trace for trace in before}

    def meet(self, trace: bytes, other: bytes, legs: Sequence[Leg]) -> None:
        """Another trace, of which these legs are known, one of them in a room of this trace."""
        known = self._before.setdefault(other, {})
        for leg in legs:
            known.setdefault(leg.span_id, leg)
        self._unite(trace, other)

    def meet_anew(self) -> None:
        """Traces of the batch itself whose legs have the same room."""
        first: dict[bytes, bytes] = {}
        for trace, legs in self._new.items():
            for leg in legs:
                if leg.room:
                    self._unite(first.setdefault(room_key(leg.room), trace), trace)

    def joined(self) -> list[tuple[list[Leg], list[Leg]]]:
        """Before and after, of each that has something new and more than one leg."""
        groups: dict[bytes, tuple[list[Leg], list[Leg]]] = {}
        for trace, known in self._before.items():
            old, new = groups.setdefault(self._find(trace), ([], []))
            old += known.values()
            new += self._new.get(trace, ())
        return [both for old, new in groups.values() if new for both in _to_tell(old, new)]

    def _unite(self, one: bytes, other: bytes) -> None:
        for trace in (one, other):
            self._chief.setdefault(trace, trace)
        self._chief[self._find(other)] = self._find(one)

    def _find(self, trace: bytes) -> bytes:
        while self._chief[trace] != trace:
            trace = self._chief[trace]
        return trace


def _to_tell(old: list[Leg], new: list[Leg]) -> Iterator[tuple[list[Leg], list[Leg]]]:
    """Before and after; of a long trace only the kin of what is new."""
    legs = [*old, *new]
    if len(legs) <= JOINED_LEGS_MAX:
        if len(legs) > 1:
            yield old, legs
        return
    if len(old) <= JOINED_LEGS_MAX:  # why: so far it was looked at as a whole
        yield old, legs
        return
    fresh = {(leg.trace_id, leg.span_id) for leg in new}
    for group in kin(legs):
        before = [leg for leg in group if (leg.trace_id, leg.span_id) not in fresh]
        if len(before) < len(group) > 1:
            yield before, group
