"""Points of endpoints in the store: one row per series and period, the last word wins.

CloudWatch tells a period several times, and changes it; a poll, a stream and a repeated delivery
may tell the same one. Rows are upserted: an equal value changes nothing, another one counts up the
revision, an older reading never replaces a younger one.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from domain.endpoint import EndpointKey, EndpointPoint, PointState
from domain.endpoint_catalogue import metric_of

__all__ = ["EndpointRows", "Row", "merged"]

_MOST_SERIES = 20_000
_SELECT = (
    "SELECT has_value, statistics, settled_at_s, fetched_at_s, revision, source"
    " FROM endpoint_point WHERE series_id = ? AND period_s = ? AND at_s = ?"
)
_UPSERT = "INSERT OR REPLACE INTO endpoint_point VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One period of one series as it stands."""

    has_value: bool
    statistics: Mapping[str, float]
    settled_at_s: float | None
    fetched_at_s: float
    revision: int = 1
    source: str = "poll"


def merged(stands: Row, comes: Row) -> Row:
    """What stands after a reading; the same whichever of the two came first."""
    younger, older = (
        (comes, stands) if comes.fetched_at_s >= stands.fetched_at_s else (stands, comes)
    )
    if not younger.has_value and older.has_value:
        younger, older = older, younger  # why: CloudWatch does not take a value back
    both = younger.statistics.keys() & older.statistics.keys()
    same = younger.has_value == older.has_value and all(
        younger.statistics[name] == older.statistics[name] for name in both
    )
    if not same and not _same_samples(younger, older):
        return replace(younger, revision=stands.revision + (younger is comes))
    settled = [each.settled_at_s for each in (younger, older) if each.settled_at_s is not None]
    return replace(
        younger,
        statistics={**older.statistics, **younger.statistics},
        settled_at_s=min(settled, default=None) if same else younger.settled_at_s,
        fetched_at_s=max(younger.fetched_at_s, older.fetched_at_s),
        revision=stands.revision + (not same and younger is comes),
    )


def _same_samples(one: Row, other: Row) -> bool:
    """Whether both were told of the very same samples, so that what only one has still holds."""
    return all(
        name in one.statistics and one.statistics[name] == other.statistics.get(name)
        for name in ("SampleCount", "Sum")
    )


class EndpointRows:
    """Writes points; remembers the numbers of series between transactions."""

    def __init__(self) -> None:
        self._ids: dict[EndpointKey, tuple[int, str]] = {}
        self._known = -1

    def forget(self) -> None:
        """The last transaction came to nothing."""
        self._ids.clear()
        self._known = -1

    def keep(
        self, connection: Connection, points: Iterable[EndpointPoint], counts: Counter[str]
    ) -> Counter[str]:
        """Upsert these; how many were refused, by reason."""
        refused: Counter[str] = Counter()
        for point in points:
            series_id = self._series(connection, point)
            if series_id is None:
                refused[f"more than {_MOST_SERIES} series of endpoints"] += 1
                continue
            outcome = _upsert(connection, series_id, point)
            counts[f"{outcome}_endpoint_points_total"] += 1
        return refused

    def _series(self, connection: Connection, point: EndpointPoint) -> int | None:
        key = replace(point.key, period_s=0)
        if key in self._ids:
            number, service = self._ids[key]
            if point.source != "stream" and service != point.service:
                self._rename(connection, key, number, point.service)
            return number
        found = connection.exec_driver_sql(
            "SELECT id, service FROM endpoint_series WHERE key = ?", (_digest(key),)
        ).one_or_none()
        if found is None and self._count(connection) >= _MOST_SERIES:
            return None
        if found is None:
            self._known += 1
            self._ids[key] = (_insert(connection, key, point), point.service)
        else:
            self._ids[key] = (found[0], found[1])
            return self._series(connection, point)
        return self._ids[key][0]

    def _count(self, connection: Connection) -> int:
        if self._known < 0:
            self._known = connection.exec_driver_sql(
                "SELECT count(*) FROM endpoint_series"
            ).scalar_one()
        return self._known

    def _rename(self, connection: Connection, key: EndpointKey, number: int, service: str) -> None:
        """A poll knows what the operator calls it; a stream only guesses."""
        connection.exec_driver_sql(
            "UPDATE endpoint_series SET service = ? WHERE id = ?", (service, number)
        )
        self._ids[key] = (number, service)


def _insert(connection: Connection, key: EndpointKey, point: EndpointPoint) -> int:
    known = metric_of(key.namespace, key.name, (name for name, _ in key.dimensions))
    ours, unit = (known[0].ours, known[0].our_unit) if known else (key.name, "")
    result = connection.exec_driver_sql(
        "INSERT INTO endpoint_series (key, account, region, namespace, name, dimensions,"
        " service, ours, unit, level) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            _digest(key),
            key.account,
            key.region,
            key.namespace,
            key.name,
            json.dumps(key.dimensions),
            point.service,
            ours,
            unit,
            known[1] if known else "endpoint",
        ),
    )
    return int(result.lastrowid)


def _digest(key: EndpointKey) -> bytes:
    told = json.dumps([key.account, key.region, key.namespace, key.name, key.dimensions])
    return hashlib.blake2b(told.encode(), digest_size=16).digest()


def _upsert(connection: Connection, series_id: int, point: EndpointPoint) -> str:
    place = (series_id, point.key.period_s, point.start_s)
    comes = Row(
        has_value=point.state is PointState.VALUE,
        statistics=point.statistics,
        settled_at_s=point.settled_at_s,
        fetched_at_s=point.fetched_at_s,
        source=point.source,
    )
    found = connection.exec_driver_sql(_SELECT, place).one_or_none()
    if found is None:
        row, outcome = comes, "new"
    else:
        stands = Row(
            has_value=bool(found[0]),
            statistics=json.loads(found[1]),
            settled_at_s=found[2],
            fetched_at_s=found[3],
            revision=found[4],
            source=found[5],
        )
        row = merged(stands, comes)
        if row == stands:
            return "known"
        outcome = "revised" if row.revision > stands.revision else "confirmed"
    told = json.dumps(dict(sorted(row.statistics.items())))
    values = (row.has_value, told, row.settled_at_s, row.fetched_at_s, row.revision, row.source)
    connection.exec_driver_sql(_UPSERT, (*place, *values))
    return outcome
