"""One consistent view of the store's file: a read transaction, what may be read in it, and labels.

Connections are read-only (any number of processes may hold some) and come from SQLAlchemy's pool;
rows are read through the driver's own cursor, because wrapping them costs as much as reading them.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import create_engine
from sqlalchemy.pool import QueuePool

from collector.cover import Kept
from collector.crowds import Crowds
from collector.past import STRIDE_S, Past
from collector.precedence import NEAR_S, contested, giving_way
from collector.schema import TIERS_S
from collector.store import file_of
from domain.errors import StoreError
from domain.labels import Labels, matches, project

__all__ = ["Grouping", "SeriesLabels", "Snapshot", "Snapshots"]

_BUSY_S = 5.0
_CHUNK_ROWS = 256
_MOST_QUESTIONS = 4096
_MOST_GROUPINGS = 64

Found = TypeVar("Found", bound=Sized)


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups that some labels make of some series, in order, and the group of each series."""

    names: Sequence[Labels]
    group_of: Mapping[int, int]
    members: Sequence[Sequence[int]]


@dataclass(slots=True)
class SeriesLabels:
    """The labels of every series, by number; grows with the store and is shared by all views."""

    by_id: dict[int, Labels] = field(default_factory=dict)
    crowds: Crowds = field(default_factory=Crowds)
    _found: dict[Labels, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    _contested: dict[tuple[Labels, bool], tuple[tuple[int, ...], Mapping[int, tuple[str, int]]]] = (
        field(default_factory=dict)
    )
    _groupings: dict[tuple[Labels, tuple[str, ...]], tuple[int, Grouping]] = field(
        default_factory=dict
    )
    _giving_way: dict[int, tuple[Mapping[int, tuple[str, int]], frozenset[int]]] = field(
        default_factory=dict
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Learn the series that are new; numbers ascend and are never given twice."""
        newest = connection.execute("SELECT max(id) FROM series").fetchone()[0] or 0
        with self._lock:
            known = next(reversed(self.by_id), 0)
            if newest > known:
                rows = connection.execute(
                    "SELECT id, labels FROM series WHERE id > ? ORDER BY id", (known,)
                )
                learnt = {
                    number: tuple((name, value) for name, value in json.loads(text))
                    for number, text in rows
                }
                self.crowds.learn(learnt)
                self.by_id = self.by_id | learnt

    def matching(self, where: Labels) -> tuple[int, ...]:
        """The numbers of the series that match, ascending; what was looked at is remembered."""
        with self._lock:
            looked, found = self._found.get(where, (0, ()))
            if looked < len(self.by_id):
                fresh = islice(self.by_id.items(), looked, None)
                found = (*found, *(number for number, own in fresh if matches(own, where)))
                if len(self._found) >= _MOST_QUESTIONS:
                    self._found.clear()
                self._found[where] = (len(self.by_id), found)
            return found

    def grouping(self, where: Labels, by: tuple[str, ...]) -> Grouping:
        """The groups of the series that match; made once for as long as there is no new series."""
        found = self.matching(where)
        with self._lock:
            count, known = self._groupings.get((where, by), (-1, Grouping((), {}, ())))
        if count != len(found):
            projected = {number: project(self.by_id[number], by) for number in found}
            names = sorted(set(projected.values()))
            place = {labels: index for index, labels in enumerate(names)}
            members: list[list[int]] = [[] for _ in names]
            for number, own in projected.items():
                members[place[own]].append(number)
            group_of = {number: place[own] for number, own in projected.items()}
            known = Grouping(names, group_of, members)
            with self._lock:
                if len(self._groupings) >= _MOST_GROUPINGS:
                    self._groupings.clear()
                self._groupings[where, by] = (len(found), known)
        return known

    def contested(self, where: Labels, *, apart: bool) -> Mapping[int, tuple[str, int]]:
        """Of these series, those whose service has several sources; judged once per set."""
        found = self.matching(where)
        with self._lock:
            judged, places = self._contested.get((where, apart), ((), {}))
        if judged != found:
            places = contested({number: self.by_id[number] for number in found}, apart=apart)
            with self._lock:
                if len(self._contested) >= _MOST_QUESTIONS:
                    self._contested.clear()
                self._contested[where, apart] = (found, places)
        return places

    def giving_way(self, places: Mapping[int, tuple[str, int]]) -> frozenset[int]:
        """Of contested series, those of which not every tile is believed."""
        key = id(places)
        with self._lock:
            known = self._giving_way.get(key)
        if known is None or known[0] is not places:
            known = places, giving_way(places)
            with self._lock:
                if len(self._giving_way) >= _MOST_GROUPINGS:
                    self._giving_way.clear()
                self._giving_way[key] = known
        return known[1]


class Snapshot:
    """The store as it was at one instant."""

    def __init__(
        self, connection: sqlite3.Connection, labels: SeriesLabels, past: Past, path: Path
    ) -> None:
        self._connection = connection
        self._past = past
        self.path = path
        self.labels = labels
        told = dict(self.rows("SELECT key, value FROM meta WHERE key <> 'version'"))
        self.cutoff_s: Mapping[int, int] = {
            int(key.partition(":")[2]): int(value)
            for key, value in told.items()
            if key.startswith("cutoff:")
        }
        # why less: whether a tile is believed, the minute after it may decide
        self.over_s = (int(told.get("closed_s", 0)) - NEAR_S) // STRIDE_S * STRIDE_S
        self._version = (told.get("late", ""), tuple(self.cutoff_s.items()))

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a small answer."""
        return self._connection.execute(sql, parameters).fetchall()

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of an answer of any size, a bounded number at a time."""
        cursor = self._connection.execute(sql, parameters)
        try:
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield chunk
        finally:
            cursor.close()

    def of_the_past(self, key: Hashable, make: Callable[[], Found]) -> Found:
        """What does not reach beyond `over_s`: made once, and again when something came for it."""
        return self._past.get(key, self._version, make)

    def kept(self, metric: int, since_s: int, until_s: int) -> Kept:
        """What may be read of a metric in and around a window."""
        day_s = TIERS_S[-1]
        dirty: list[tuple[int, int]] = []
        for tier_s in TIERS_S[1:]:
            rows = self.rows(
                "SELECT tier, at_s FROM dirty WHERE tier = ? AND metric = ? AND at_s BETWEEN ? AND ?",
                (tier_s, metric, since_s - day_s, until_s + day_s),
            )
            dirty.extend((tier, at_s) for tier, at_s in rows)
        return Kept(self.cutoff_s, frozenset(dirty))


class Snapshots:
    """Opens views of one store's file; safe to use from many threads."""

    def __init__(self, path: Path, *, connections: int = 4) -> None:
        self.path = file_of(path)
        if not self.path.exists():
            raise StoreError(
                "there is no store here",
                where=str(self.path),
                remedy="Start `stagewatch up` or import something first, or check `--data-dir`.",
            )
        self.labels = SeriesLabels()
        self._past = Past()
        self._engine = create_engine(
            "sqlite://",
            creator=self._connect,
            poolclass=QueuePool,
            pool_size=connections,
            max_overflow=2 * connections,
        )

    @contextmanager
    def open(self) -> Iterator[Snapshot]:
        """One read transaction."""
        try:
            pooled = self._engine.raw_connection()
            try:
                connection = pooled.driver_connection
                if not isinstance(connection, sqlite3.Connection):
                    raise TypeError(f"expected an SQLite connection, not {connection!r}")
                connection.execute("BEGIN")
                self.labels.refresh(connection)
                yield Snapshot(connection, self.labels, self._past, self.path)
            finally:
                pooled.close()  # why: the pool rolls back, which ends the transaction
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"the store cannot be read: {error}",
                where=str(self.path),
                remedy="Check that the file is a Stagewatch store on a local disk, and readable.",
            ) from error

    def close(self) -> None:
        self._engine.dispose()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str(self.path.absolute()))}?mode=ro",
            uri=True,
            timeout=_BUSY_S,
            isolation_level=None,  # why: BEGIN is ours
            check_same_thread=False,  # why: the pool hands a connection to one thread at a time
        )
        connection.execute("pragma query_only=on").close()
        return connection
