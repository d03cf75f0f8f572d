"""GetMetricData's queries: at most 500 in a call, and never one metric in two calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from exporters.cloudwatch.asked import Asked

__all__ = ["MOST_QUERIES", "Batch", "batches", "queries", "query_id"]

MOST_QUERIES = 500
Batch = tuple[Asked, ...]


def batches(asked: Iterable[Asked], *, most: int = MOST_QUERIES) -> list[Batch]:
    """Calls in order; a metric that is split over two calls would be billed twice."""
    cut: list[Batch] = []
    current: list[Asked] = []
    held = 0
    for each in asked:
        if current and held + len(each.statistics) > most:
            cut.append(tuple(current))
            current, held = [], 0
        current.append(each)
        held += len(each.statistics)
    return [*cut, tuple(current)] if current else cut


def query_id(series: int, statistic: int) -> str:
    """The Id of one statistic of one series of a batch."""
    return f"m{series}_{statistic}"


def queries(batch: Sequence[Asked]) -> list[dict[str, Any]]:
    """What GetMetricData is asked. No Unit: one that is not the published one finds nothing."""
    return [
        _query(query_id(series, at), each, theirs)
        for series, each in enumerate(batch)
        for at, (theirs, _) in enumerate(each.statistics)
    ]


def _query(id_: str, each: Asked, statistic: str) -> dict[str, Any]:
    key = each.key
    metric = {
        "Namespace": key.namespace,
        "MetricName": key.name,
        "Dimensions": [{"Name": name, "Value": value} for name, value in key.dimensions],
    }
    query: dict[str, Any] = {
        "Id": id_,
        "MetricStat": {"Metric": metric, "Period": key.period_s, "Stat": statistic},
        "ReturnData": True,
    }
    return query if each.query_account is None else {**query, "AccountId": each.query_account}
