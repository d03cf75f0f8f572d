"""The table of segments: writing legs by the hour they ended in, and compacting an hour's small ones."""

import numpy as np
from sqlalchemy import Connection

from collector import segment
from collector.legs import LegTable, concat

__all__ = ["MANY", "compact_hour", "hours_to_compact", "write"]

_HOUR_NS = 3_600_000_000_000
_FULL = 8192  # legs in a compacted segment
_SMALL = 4096
MANY = 64


def write(connection: Connection, table: LegTable, *, stored_at_s: int) -> list[int]:
    """Store these legs; the hours they ended in."""
    hour = table.end_at_ns // _HOUR_NS
    hours: list[int] = np.unique(hour).tolist()
    for each in hours:
        part = table if len(hours) == 1 else table.take((hour == each).nonzero()[0])
        _insert(connection, part, segment.encode(part), stored_at_s)
    return hours


def hours_to_compact(connection: Connection) -> dict[int, int]:
    """How many small segments each hour has: asked once, counted from then on."""
    rows = connection.exec_driver_sql(
        "SELECT last_end_at_ns / ?, count(*) FROM segment WHERE n < ? GROUP BY 1",
        (_HOUR_NS, _SMALL),
    )
    return {row[0]: row[1] for row in rows}


def compact_hour(connection: Connection, hour: int) -> bool:
    """Merge an hour's small segments if they are many; whether anything changed."""
    rows = connection.exec_driver_sql(
        "SELECT id, stored_at_s, columns FROM segment"
        " WHERE last_end_at_ns >= ? AND last_end_at_ns < ? AND n < ?",
        (hour * _HOUR_NS, (hour + 1) * _HOUR_NS, _SMALL),
    ).fetchall()
    if len(rows) < MANY:
        return False
    table = concat([segment.decode(blob) for _, _, blob in rows])
    order = np.argsort(table.end_at_ns, kind="stable")
    stored_at_s = max(stored for _, stored, _ in rows)
    connection.exec_driver_sql(
        "DELETE FROM segment WHERE id = ?", [(number,) for number, _, _ in rows]
    )
    for at in range(0, len(order), _FULL):
        part = table.take(order[at : at + _FULL])
        _insert(connection, part, segment.encode(part, packed=True), stored_at_s)
    return True


def _insert(connection: Connection, table: LegTable, blob: bytes, stored_at_s: int) -> None:
    connection.exec_driver_sql(
        "INSERT INTO segment (first_end_at_ns, last_end_at_ns, stored_at_s, n, columns)"
        " VALUES (?, ?, ?, ?, ?)",
        (int(table.end_at_ns.min()), int(table.end_at_ns.max()), stored_at_s, len(table), blob),
    )
