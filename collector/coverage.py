"""The ledger that makes points idempotent: which interval of which stream is already counted.

A delta point covers (start, end]; it is a duplicate if all of that is covered, however it was
batched before. Intervals of one stream merge, so a steady sender costs 16 bytes per ten minutes.
A gauge's reading is one instant.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
from sqlalchemy import Connection

__all__ = ["Coverage", "covered", "merged"]

Interval = tuple[int, int]  # (start, end] in ns
_BUCKET_S = 600
_MINUTE_S = 60
_SECOND_NS = 1_000_000_000
_MOST = 200_000  # streams times buckets in memory; the rest is in the store


def covered(intervals: list[Interval], start_ns: int, end_ns: int) -> bool:
    """Whether one of these merged, sorted intervals holds all of (start, end]."""
    at = bisect_left(intervals, (start_ns + 1,)) - 1
    return at >= 0 and intervals[at][1] >= end_ns


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same instants in as few intervals as they need, sorted."""
    joined: list[Interval] = []
    for start_ns, end_ns in sorted(intervals):
        if joined and start_ns <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end_ns))
        else:
            joined.append((start_ns, end_ns))
    return joined


class Coverage:
    """Claims within one transaction; `save` writes them, `forget` drops what is not in the store."""

    def __init__(self) -> None:
        self._intervals: dict[tuple[int, bytes], list[Interval]] = {}
        self._readings: dict[tuple[int, bytes], set[int]] = {}
        self._claimed: set[tuple[int, bytes]] = set()
        self._read: dict[tuple[int, bytes], list[int]] = {}

    def forget(self) -> None:
        for known in (self._intervals, self._readings, self._claimed, self._read):
            known.clear()

    def claim(self, connection: Connection, stream: bytes, start_ns: int, end_ns: int) -> bool:
        """Count (start, end] of this stream? Not twice. The interval must not be empty."""
        pieces = list(_pieces(start_ns, end_ns))
        known = [self._of(connection, (at_s, stream)) for at_s, _, _ in pieces]
        if all(covered(k, s, e) for k, (_, s, e) in zip(known, pieces, strict=True)):
            return False
        for intervals, (at_s, start, end) in zip(known, pieces, strict=True):
            key = (at_s, stream)
            if intervals and intervals[-1][0] <= start <= intervals[-1][1] <= end:
                intervals[-1] = (intervals[-1][0], end)
            else:
                self._intervals[key] = merged([*intervals, (start, end)])
            self._claimed.add(key)
        return True

    def claim_reading(self, connection: Connection, stream: bytes, at_ns: int) -> bool:
        """Count this reading of a gauge? Not twice."""
        key = (at_ns // _SECOND_NS // _MINUTE_S * _MINUTE_S, stream)
        known = self._readings.get(key)
        if known is None:
            row = connection.exec_driver_sql(
                "SELECT at_ns FROM readings WHERE at_s = ? AND stream = ?", key
            ).one_or_none()
            known = self._readings[key] = set(np.frombuffer(row[0], "<i8").tolist() if row else ())
        if at_ns in known:
            return False
        known.add(at_ns)
        self._read.setdefault(key, []).append(at_ns)
        return True

    def save(self, connection: Connection) -> None:
        """Write what was claimed, and make room."""
        if self._claimed:
            connection.exec_driver_sql(
                "INSERT OR REPLACE INTO coverage VALUES (?, ?, ?)",
                [
                    (*key, np.array(self._intervals[key], "<i8").tobytes())
                    for key in sorted(self._claimed)
                ],
            )
            self._claimed.clear()
        if self._read:
            connection.exec_driver_sql(
                "INSERT INTO readings VALUES (?, ?, ?) ON CONFLICT (at_s, stream)"
                " DO UPDATE SET at_ns = CAST(at_ns || excluded.at_ns AS BLOB)",
                [
                    (*key, np.array(read, "<i8").tobytes())
                    for key, read in sorted(self._read.items())
                ],
            )
            self._read.clear()
        _make_room(self._intervals)
        _make_room(self._readings)

    def _of(self, connection: Connection, key: tuple[int, bytes]) -> list[Interval]:
        known = self._intervals.get(key)
        if known is None:
            row = connection.exec_driver_sql(
                "SELECT intervals FROM coverage WHERE at_s = ? AND stream = ?", key
            ).one_or_none()
            flat = np.frombuffer(row[0], "<i8").reshape(-1, 2).tolist() if row else []
            known = self._intervals[key] = [(start, end) for start, end in flat]
        return known


def _pieces(start_ns: int, end_ns: int) -> Iterable[tuple[int, int, int]]:
    """The interval cut at the ten minutes of the clock."""
    bucket_ns = _BUCKET_S * _SECOND_NS
    while start_ns < end_ns:
        at = start_ns // bucket_ns
        until_ns = min(end_ns, (at + 1) * bucket_ns)
        yield at * _BUCKET_S, start_ns, until_ns
        start_ns = until_ns


def _make_room(
    known: dict[tuple[int, bytes], list[Interval]] | dict[tuple[int, bytes], set[int]],
) -> None:
    """Drop the older half by event time: what is asked for next is mostly new."""
    if len(known) > _MOST:
        for key in sorted(known)[: len(known) // 2]:
            del known[key]
