"""GetMetricData's answers: pages merged by Id, whatever became of other pages and other ids."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from exporters.cloudwatch.asked import Asked
from exporters.cloudwatch.query import query_id

__all__ = ["Result", "SeriesAnswer", "merge", "of_series"]

COMPLETE = "Complete"
_STATES = frozenset((COMPLETE, "PartialData", "InternalError", "Forbidden"))
_LARGEST = 1e18


@dataclass(slots=True)
class Result:
    """What all pages gave for one Id. `status` is that of its last page; `Missing` before any."""

    values: dict[int, float] = field(default_factory=dict)
    status: str = "Missing"
    messages: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesAnswer:
    """One series: statistics in our units by the start of their period."""

    values: Mapping[int, Mapping[str, float]]
    complete: bool
    status: str  # the worst of its statistics
    refused: Counter[str]


def merge(pages: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Result], list[str]]:
    """Results by Id, and what was said about the call itself."""
    results: dict[str, Result] = {}
    said: list[str] = []
    for page in pages:
        said.extend(_messages(page))
        for told in page.get("MetricDataResults", ()):
            into = results.setdefault(str(told.get("Id", "")), Result())
            stamps, values = told.get("Timestamps", ()), told.get("Values", ())
            into.values.update(
                (_second(at), value) for at, value in zip(stamps, values, strict=False)
            )
            status = told.get("StatusCode", COMPLETE)
            into.status = status if status in _STATES else "InternalError"
            into.messages.extend(_messages(told))
    return results, said


def _messages(told: Mapping[str, Any]) -> list[str]:
    return [
        f"{each.get('Code', '')}: {each.get('Value', '')}"[:300]
        for each in told.get("Messages") or ()
    ]


def _second(at: datetime | float) -> int:
    return int(at.timestamp() if isinstance(at, datetime) else at)


def of_series(results: Mapping[str, Result], at: int, asked: Asked) -> SeriesAnswer:
    """The results of one series of a batch, put together."""
    values: dict[int, dict[str, float]] = {}
    refused: Counter[str] = Counter()
    found: Sequence[Result] = [
        results.get(query_id(at, number), Result()) for number in range(len(asked.statistics))
    ]
    for (_, ours), result in zip(asked.statistics, found, strict=True):
        for second, value in result.values.items():
            if reason := _unsound(second, value, asked):
                refused[reason] += 1
            else:
                values.setdefault(second, {})[ours] = value * _factor(ours, asked)
    worst = next((each.status for each in found if each.status != COMPLETE), COMPLETE)
    return SeriesAnswer(values=values, complete=worst == COMPLETE, status=worst, refused=refused)


def _unsound(second: int, value: object, asked: Asked) -> str:
    if second % asked.key.period_s:
        return "unaligned"
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "not_a_number"
    if not abs(value) <= _LARGEST:
        return "impossible"
    return ""


def _factor(statistic: str, asked: Asked) -> float:
    """Counts and percents of samples are what they are in any unit."""
    is_count = statistic == "SampleCount" or statistic.startswith("PR(")
    return 1.0 if is_count else asked.metric.per_unit
