"""Legs of a window as columns: the newest by the thousand, read without joining them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from collector.legs import LegTable, concat
from collector.query import Window
from collector.segment_cache import Segments
from collector.snapshot import Snapshot
from domain.labels import Labels
from domain.leg_columns import LEG_VALUES, LegColumns

__all__ = ["legs"]

_NS = 1_000_000_000
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no half is lost


def legs(
    snapshot: Snapshot, segments: Segments, window: Window, where: Labels, *, most: int
) -> LegColumns:
    """Those that match and ended in the window, the newest `most` or a few more, in no order."""
    since_ns, until_ns = window.since_s * _NS, window.until_s * _NS
    keys = segments.keys(snapshot, since_ns, until_ns)
    wanted = np.fromiter(snapshot.labels.matching(where), np.int64)
    found: list[LegTable] = []
    count = 0
    while keys and count < most:
        (table,) = segments.tables(snapshot, [keys.pop()])
        inside = (table.end_at_ns >= since_ns) & (table.end_at_ns < until_ns)
        rows = (inside & np.isin(table.series_id, wanted)).nonzero()[0]
        if len(rows):
            found.append(table.take(rows))
            count += len(rows)
    if not found:
        return LegColumns.empty()
    reached_ns = max((key[3] for key in keys), default=0)
    reaches_s = -(-(reached_ns + 1) // _NS) if reached_ns >= since_ns else None
    return _columns(concat(found), snapshot, reaches_s)


def _columns(table: LegTable, snapshot: Snapshot, reaches_s: int | None) -> LegColumns:
    numbers, series = np.unique(table.series_id, return_inverse=True)
    by_id = snapshot.labels.by_id
    halves = np.frombuffer(table.trace_ids, "<u8").reshape(-1, 2)
    return LegColumns(
        trace=(halves[:, 0] * _MIX) ^ halves[:, 1],
        kind=table.kind,
        outcome=table.outcome,
        series=series.reshape(-1).astype(np.int64),
        names=[by_id[number] for number in numbers.tolist()],
        end_at_s=table.end_at_ns / _NS,
        length_s=(table.end_at_ns - table.start_at_ns) / _NS,
        values={name: _values(table, name) for name in LEG_VALUES},
        finish=table.finish,
        reaches_s=reaches_s,
    )


def _values(table: LegTable, name: str) -> NDArray[np.float64]:
    if name in table.tokens:
        counts = table.tokens[name]
        return np.where(counts < 0, np.nan, counts)
    return table.seconds[f"{name}_s"]
