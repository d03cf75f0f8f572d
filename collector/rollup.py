"""Coarse tiles from finer ones: dirty windows only, by exact integer adds, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from collector import words
from collector.schema import TIERS_S
from collector.tiles import DirtyWindows, Window

__all__ = ["QUIET_S", "due", "finer", "roll"]

QUIET_S: Mapping[int, float] = {60: 2.0, 3600: 20.0, 86_400: 300.0}
"""A window is rolled once nothing came for so long: while it fills, readers use the finer tier."""

_Readings = tuple[int, float, float, float, float, int]
_CHUNK = 256
_PENDING_BYTES = 16_384


def finer(tier: int) -> int:
    """The next finer tier."""
    return TIERS_S[TIERS_S.index(tier) - 1]


def due(dirty: DirtyWindows, *, now_s: float) -> list[Window]:
    """The windows that fell quiet, finest first."""
    quiet = [
        window
        for window, touched_at_s in dirty.touched_at_s.items()
        if now_s - touched_at_s >= QUIET_S[window[0]]
    ]
    return sorted(quiet)


def roll(
    connection: Connection,
    dirty: DirtyWindows,
    windows: Sequence[Window],
    crowd_of: Mapping[int, int],
) -> None:
    """Roll these windows, and first the dirty finer ones inside them."""
    wanted = set(windows)
    for tier, metric, at_s in windows:
        wanted.update(
            inner
            for inner in dirty.touched_at_s
            if inner[0] < tier and inner[1] == metric and at_s <= inner[2] < at_s + tier
        )
    for window in sorted(wanted):
        _histograms(connection, window, crowd_of)
        _numbers(connection, window)
    dirty.clear(connection, sorted(wanted))


@dataclass(slots=True)
class _Sum:
    """One series of a window while its finer tiles are added up."""

    n: int = 0
    failed: int = 0
    sum_ns: int | None = 0
    sides: tuple[list[bytes], list[bytes], list[bytes]] = field(
        default_factory=lambda: ([], [], [])
    )
    pending_bytes: int = 0

    def add(self, n: int, failed: int, sum_ns: int | None, blobs: Sequence[bytes]) -> None:
        self.n += n
        self.failed += failed
        self.sum_ns = None if self.sum_ns is None or sum_ns is None else self.sum_ns + sum_ns
        for side, blob in zip(self.sides, blobs, strict=True):
            if blob:
                side.append(blob)
                self.pending_bytes += len(blob)
        if self.pending_bytes > _PENDING_BYTES:
            for side, blob in zip(self.sides, self.blobs(), strict=True):
                side[:] = [blob] if blob else []
            self.pending_bytes = 0

    def blobs(self) -> list[bytes]:
        return [words.encode(words.decode(side)) if side else b"" for side in self.sides]


def _histograms(connection: Connection, window: Window, crowd_of: Mapping[int, int]) -> None:
    tier = window[0]
    sums: dict[int, _Sum] = {}
    crowds: dict[int, _Sum] = {}
    for series_id, n, failed, sum_ns, *blobs in _rows(
        connection,
        f"SELECT series_id, n, failed, sum_ns, exact, low, high FROM histogram_{finer(tier)}",  # noqa: S608 - ours
        window,
    ):
        sums.setdefault(series_id, _Sum()).add(n, failed, sum_ns, blobs)
        crowds.setdefault(crowd_of[series_id], _Sum()).add(n, failed, sum_ns, blobs)
    if sums:
        _put(connection, f"histogram_{tier}", window, sums)
        _put(connection, f"crowd_{tier}", window, crowds)


def _put(connection: Connection, table: str, window: Window, sums: Mapping[int, _Sum]) -> None:
    _, metric, at_s = window
    connection.exec_driver_sql(
        f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - ours
        [
            (metric, at_s, series_id, each.n, each.failed, each.sum_ns, *each.blobs())
            for series_id, each in sorted(sums.items())
        ],
    )


def _numbers(connection: Connection, window: Window) -> None:
    tier, metric, at_s = window
    sums: dict[int, _Readings] = {}
    for series_id, *row in _rows(
        connection,
        f"SELECT series_id, n, sum, low, high, last, last_at_ns FROM number_{finer(tier)}",  # noqa: S608 - ours
        window,
    ):
        n, total, low, high, last, last_at_ns = row
        before = sums.get(series_id)
        if before is None:
            sums[series_id] = (n, total, low, high, last, last_at_ns)
            continue
        newer = (last, last_at_ns) if last_at_ns >= before[5] else before[4:]
        sums[series_id] = (
            before[0] + n,
            before[1] + total,
            min(before[2], low),
            max(before[3], high),
            *newer,
        )
    if sums:
        connection.exec_driver_sql(
            f"INSERT OR REPLACE INTO number_{tier} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - ours
            [(metric, at_s, series_id, *each) for series_id, each in sorted(sums.items())],
        )


def _rows(connection: Connection, select: str, window: Window) -> Iterator[Sequence[Any]]:
    tier, metric, at_s = window
    found = connection.exec_driver_sql(
        f"{select} WHERE metric = ? AND at_s >= ? AND at_s < ?", (metric, at_s, at_s + tier)
    )
    while rows := found.fetchmany(_CHUNK):
        yield from rows
