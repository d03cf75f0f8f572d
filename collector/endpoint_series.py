"""What is kept of managed endpoints, read back: series with their points, and what has settled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from collector.query import EndpointReading, EndpointSeries, Window
from collector.snapshot import Snapshot
from domain.endpoint import EndpointKey, PointState
from domain.endpoint_instance import ACCELERATORS_NAMESPACE
from domain.endpoint_silence import counts_events, none_happened

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
_NEWEST = (
    "SELECT period_s, at_s, has_value, statistics, settled_at_s, fetched_at_s, revision, source"
    " FROM endpoint_point WHERE series_id = ?1 AND at_s < ?3 ORDER BY at_s DESC LIMIT 1"
)
"""Of what does not change for months, the newest stands, before the window too."""
_THERE = (
    "SELECT DISTINCT at_s FROM endpoint_point JOIN endpoint_series ON id = series_id"
    " WHERE account = ? AND region = ? AND dimensions = ? AND period_s = ? AND has_value"
    " AND at_s >= ? AND at_s < ?"
)
_SETTLED = (
    "SELECT period_s, max(at_s) FROM endpoint_point WHERE series_id = ? AND settled_at_s <= ?"
    " GROUP BY period_s"
)


_There = dict[tuple[str, str, str, int], frozenset[int]]
"""Starts of the periods in which an endpoint told anything."""


def endpoints(
    snapshot: Snapshot, window: Window, *, service: str, metric: str, now_s: float
) -> list[EndpointSeries]:
    """One series per metric, set of dimensions and period; also those without a point there."""
    if not snapshot.rows("SELECT 1 FROM sqlite_master WHERE name = 'endpoint_point'"):
        return []  # a store of before there were any
    found = [
        each
        for row in snapshot.rows(_SERIES, (service, metric))
        for each in _of_series(snapshot, row, window, now_s)
    ]
    there: _There = {}
    return [_without_silence(snapshot, each, window, there) for each in found]


def _without_silence(
    snapshot: Snapshot, series: EndpointSeries, window: Window, there: _There
) -> EndpointSeries:
    """A count of events that was silent while its endpoint was there: none happened."""
    key = series.key
    metric = counts_events(key.namespace, key.name, dict(key.dimensions))
    silent = [point.since_s for point in series.points if point.state is PointState.NO_DATA]
    if metric is None or not silent:
        return series
    endpoint = (key.account, key.region, json.dumps(key.dimensions), key.period_s)
    if endpoint not in there:
        told = snapshot.rows(_THERE, (*endpoint, window.since_s, window.until_s))
        there[endpoint] = frozenset(int(str(at_s)) for (at_s,) in told)
    zero = none_happened(metric)
    points = [
        replace(point, state=PointState.ZERO, statistics=zero)
        if point.state is PointState.NO_DATA and point.since_s in there[endpoint]
        else point
        for point in series.points
    ]
    return replace(series, points=points)


def _of_series(
    snapshot: Snapshot, row: Sequence[object], window: Window, now_s: float
) -> list[EndpointSeries]:
    number, account, region, namespace, name, dimensions, service, ours, unit, level = row
    lasting = namespace == ACCELERATORS_NAMESPACE  # why: what AWS is asked for has settled once
    settled = {} if lasting else dict(snapshot.rows(_SETTLED, (number, now_s)))
    points: dict[int, list[EndpointReading]] = {int(period): [] for period in settled}
    asked = _NEWEST if lasting else _POINTS
    for found in snapshot.rows(asked, (number, window.since_s, window.until_s)):
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
