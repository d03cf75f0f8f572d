"""Cumulative streams: the increase since the last reading, across restarts of collector and sender."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from domain.counter import increase

__all__ = ["Cumulative", "Grown", "Reading"]

_FRESH_NS = 120_000_000_000
"""A stream that began this shortly before its first reading has told all it ever counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a stream stands at. `counts` by bucket; a counter has its value as `sum` alone."""

    start_at_ns: int
    at_ns: int
    sum: float | None
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What came since the reading before. `noise` is how far a difference of sums may be off."""

    sum: float | None
    counts: tuple[int, ...]
    noise: float
    restarted: bool


class Cumulative:
    """The last reading of each stream, in memory and in the store."""

    def __init__(self) -> None:
        self._last: dict[bytes, Reading] = {}
        self._unsaved: set[bytes] = set()

    def forget(self) -> None:
        self._last.clear()
        self._unsaved.clear()

    def grown(self, connection: Connection, stream: bytes, now: Reading) -> Grown | None:
        """The increase up to this reading; None for one that is not newer than the last."""
        before = self._before(connection, stream)
        if before is not None and now.at_ns <= before.at_ns:
            return None
        self._last[stream] = now
        self._unsaved.add(stream)
        if before is None:
            if not 0 < now.at_ns - now.start_at_ns <= _FRESH_NS:
                return Grown(sum=0.0, counts=(0,) * len(now.counts), noise=0.0, restarted=False)
            before = Reading(start_at_ns=now.start_at_ns, at_ns=0, sum=0.0, counts=())
        return _difference(before, now)

    def save(self, connection: Connection) -> None:
        if self._unsaved:
            connection.exec_driver_sql(
                "INSERT OR REPLACE INTO cumulative VALUES (?, ?, ?, ?, ?)",
                [_row(stream, self._last[stream]) for stream in sorted(self._unsaved)],
            )
            self._unsaved.clear()

    def _before(self, connection: Connection, stream: bytes) -> Reading | None:
        if stream not in self._last:
            row = connection.exec_driver_sql(
                "SELECT start_at_ns, at_ns, sum, counts FROM cumulative WHERE stream = ?", (stream,)
            ).one_or_none()
            if row is None:
                return None
            counts = tuple(np.frombuffer(row[3], "<i8").tolist())
            self._last[stream] = Reading(
                start_at_ns=row[0], at_ns=row[1], sum=row[2], counts=counts
            )
        return self._last[stream]


def _difference(before: Reading, now: Reading) -> Grown:
    counter = not now.counts and now.sum is not None
    told = dict(enumerate(now.counts)) if not counter else {0: now.sum or 0.0}
    was = dict(enumerate(before.counts)) if not counter else {0: before.sum or 0.0}
    grown = increase(was, told, restarted=now.start_at_ns > before.start_at_ns)
    base = 0.0 if grown.restarted else before.sum
    rest = None if now.sum is None or base is None else now.sum - base
    return Grown(
        sum=grown.by[0] if counter else rest,
        counts=() if counter else tuple(int(grown.by[k]) for k in range(len(now.counts))),
        noise=16 * float(np.spacing(abs(now.sum or 0.0))),
        restarted=grown.restarted,
    )


def _row(stream: bytes, reading: Reading) -> tuple[bytes, int, int, float | None, bytes]:
    counts = np.array(reading.counts, "<i8").tobytes()
    return stream, reading.start_at_ns, reading.at_ns, reading.sum, counts
