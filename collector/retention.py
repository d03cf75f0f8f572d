"""What is let go, in small transactions: tiles of each tier, segments, ledgers.

A tier is retired up to an instant only after everything below it stands in the next coarser tier;
from then on that instant is a cutoff in META, and what arrives for the time below it enters the
coarser tier. So nothing is lost and nothing counted twice.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from itertools import pairwise

from sqlalchemy import Connection

from collector.rollup import roll
from collector.schema import CROWDS, TIERS_S
from collector.tiles import DirtyWindows

__all__ = ["Begin", "cutoffs", "retire"]

Begin = Callable[[], AbstractContextManager[Connection]]

_HOUR_S = 3600
_SECOND_NS = 1_000_000_000
_WINDOWS = 64  # rolled in one transaction
_SEGMENTS = 32  # deleted in one
_CUMULATIVE_S = 7 * 86_400


def cutoffs(connection: Connection) -> dict[int, int]:
    """Up to which second each tier is retired."""
    rows = connection.exec_driver_sql("SELECT key, value FROM meta WHERE key LIKE 'cutoff:%'")
    return {int(key.partition(":")[2]): int(value) for key, value in rows}


def retire(
    begin: Begin,
    dirty: DirtyWindows,
    cutoff_s: dict[int, int],
    *,
    keep_s: Mapping[int, int],
    requests_keep_s: int,
    now_s: int,
    crowd_of: Mapping[int, int],
) -> None:
    """Let go of all that is older than it is kept. `cutoff_s` is moved on."""
    for tier, coarser in pairwise(TIERS_S):
        until_s = (now_s - keep_s[tier]) // coarser * coarser
        if until_s > cutoff_s.get(tier, 0):
            _move(begin, dirty, cutoff_s, crowd_of, (tier, until_s))
    for tier in TIERS_S[:-1]:
        _delete_tiles(begin, tier, cutoff_s.get(tier, 0))
    longest_s = now_s - keep_s[TIERS_S[-1]]
    _delete_tiles(begin, TIERS_S[-1], longest_s)
    _delete_segments(begin, now_s - requests_keep_s)
    with begin() as connection:
        for statement, before in (
            ("DELETE FROM readings WHERE at_s < ?", cutoff_s.get(TIERS_S[0], 0)),
            ("DELETE FROM coverage WHERE at_s < ?", longest_s),
            (
                "DELETE FROM endpoint_point WHERE at_s < ? AND period_s < 3600",
                now_s - keep_s[TIERS_S[1]],
            ),
            ("DELETE FROM endpoint_point WHERE at_s < ?", now_s - keep_s[TIERS_S[2]]),
            ("DELETE FROM cumulative WHERE at_ns < ?", (now_s - _CUMULATIVE_S) * _SECOND_NS),
        ):
            connection.exec_driver_sql(statement, (before,))


def _move(
    begin: Begin,
    dirty: DirtyWindows,
    cutoff_s: dict[int, int],
    crowd_of: Mapping[int, int],
    due: tuple[int, int],
) -> None:
    """Roll what a tier still owes the next one, then declare it retired."""
    tier, until_s = due
    coarser = TIERS_S[TIERS_S.index(tier) + 1]
    owed = sorted(w for w in dirty.touched_at_s if w[0] == coarser and w[2] < until_s)
    for at in range(0, len(owed), _WINDOWS):
        with begin() as connection:
            roll(connection, dirty, owed[at : at + _WINDOWS], crowd_of)
    with begin() as connection:
        connection.exec_driver_sql(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"cutoff:{tier}", str(until_s))
        )
    cutoff_s[tier] = until_s


def _delete_tiles(begin: Begin, tier: int, until_s: int) -> None:
    step_s = max(_HOUR_S, tier)
    crowds = [CROWDS[tier].name] if tier in CROWDS else []
    for table in (f"histogram_{tier}", f"number_{tier}", *crowds):
        at = _next(begin, table, -1, 0)
        while at is not None:
            metric, at_s = at
            if at_s >= until_s:
                at = _next(begin, table, metric + 1, 0)
                continue
            with begin() as connection:
                connection.exec_driver_sql(
                    f"DELETE FROM {table} WHERE metric = ? AND at_s >= ? AND at_s < ?",  # noqa: S608 - a table of ours
                    (metric, at_s, min(at_s + step_s, until_s)),
                )
            at = _next(begin, table, metric, at_s)


def _next(begin: Begin, table: str, metric: int, at_s: int) -> tuple[int, int] | None:
    """The first tile from here on."""
    with begin() as connection:
        row = connection.exec_driver_sql(
            f"SELECT metric, at_s FROM {table} WHERE (metric, at_s) >= (?, ?)"  # noqa: S608 - ours
            " ORDER BY metric, at_s LIMIT 1",
            (metric, at_s),
        ).one_or_none()
    return None if row is None else (row[0], row[1])


def _delete_segments(begin: Begin, before_s: int) -> None:
    while True:
        with begin() as connection:
            gone = connection.exec_driver_sql(
                "DELETE FROM segment WHERE id IN (SELECT id FROM segment"
                " WHERE last_end_at_ns < ? AND stored_at_s < ? LIMIT ?)",
                (before_s * _SECOND_NS, before_s, _SEGMENTS),
            ).rowcount
        if gone < _SEGMENTS:
            return
