"""What is kept of managed endpoints, read back: series with their points, and what has settled."""

from __future__ import annotations

import json
from collections.abc import Sequence

from collector.query import EndpointReading, EndpointSeries, Window
from collector.snapshot import Snapshot
from domain.endpoint import EndpointKey, PointState

__all__ = ["endpoints"]

_SERIES = (
    "SELECT id, account, region, namespace, name, dimensions, service, ours, unit, level"
    " FROM endpoint_series"
    " WHERE (?1 = '' OR service = ?1) AND (?2 = '' OR ours = ?2 OR name = ?2)"
    " ORDER BY service, namespace, name, dimensions, id"
)
_POINTS = (
    "SELECT period_s, at_s, has_value, statistics, settled_at_s, fetched_at_s, revision, source"
    " FROM endpoint_point WHERE series_id = ? AND at_s >= ? AND at_s < ? ORDER BY period_s, at_s"
)
_SETTLED = (
    "SELECT period_s, max(at_s) FROM endpoint_point WHERE series_id = ? AND settled_at_s <= ?"
    " GROUP BY period_s"
)


def endpoints(
    snapshot: Snapshot, window: Window, *, service: str, metric: str, now_s: float
) -> list[EndpointSeries]:
    """One series per metric, set of dimensions and period; also those without a point there."""
    if not snapshot.rows("SELECT 1 FROM sqlite_master WHERE name = 'endpoint_point'"):
        return []  # a store of before there were any
    return [
        each
        for row in snapshot.rows(_SERIES, (service, metric))
        for each in _of_series(snapshot, row, window, now_s)
    ]


def _of_series(
    snapshot: Snapshot, row: Sequence[object], window: Window, now_s: float
) -> list[EndpointSeries]:
    number, account, region, namespace, name, dimensions, service, ours, unit, level = row
    settled = dict(snapshot.rows(_SETTLED, (number, now_s)))
    points: dict[int, list[EndpointReading]] = {int(period): [] for period in settled}
    for found in snapshot.rows(_POINTS, (number, window.since_s, window.until_s)):
        points.setdefault(found[0], []).append(_reading(found, now_s))
    return [
        EndpointSeries(
            key=EndpointKey(
                account=str(account),
                region=str(region),
                namespace=str(namespace),
                name=str(name),
                dimensions=tuple((k, v) for k, v in json.loads(str(dimensions))),
                period_s=period_s,
            ),
            service=str(service),
            metric=str(ours),
            unit=str(unit),
            level=str(level),
            settled_until_s=settled[period_s] + period_s if period_s in settled else None,
            points=points[period_s],
        )
        for period_s in sorted(points)
    ]


def _reading(row: Sequence[object], now_s: float) -> EndpointReading:
    period_s, at_s, has_value, statistics, settled_at_s, fetched_at_s, revision, source = row
    return EndpointReading(
        since_s=int(str(at_s)),
        until_s=int(str(at_s)) + int(str(period_s)),
        state=PointState.VALUE if has_value else PointState.NO_DATA,
        statistics=json.loads(str(statistics)),
        provisional=settled_at_s is None or float(str(settled_at_s)) > now_s,
        fetched_at_s=float(str(fetched_at_s)),
        revision=int(str(revision)),
        source=str(source),
    )
