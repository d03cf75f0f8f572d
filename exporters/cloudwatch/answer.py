"""GetMetricData's answers: pages merged by Id, whatever became of other pages and other ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from domain.endpoint_soundness import is_measurement, is_number, problem_in
from exporters.cloudwatch.asked import Asked
from exporters.cloudwatch.query import query_id

__all__ = ["Result", "SeriesAnswer", "merge", "of_series"]

COMPLETE = "Complete"
MISSING = "Missing"
_STATES = frozenset((COMPLETE, "PartialData", "InternalError", "Forbidden"))


@dataclass(slots=True)
class Result:
    """What all pages gave for one Id. `status` is that of its last page; `Missing` before any."""

    values: dict[int, object] = field(default_factory=dict)
    status: str = MISSING
    timeless: int = 0
    """Values whose time stamp is none."""
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
        for told in _list(page.get("MetricDataResults")):
            if isinstance(told, Mapping):
                _take(told, results.setdefault(str(told.get("Id", "")), Result()))
    return results, said


def _take(told: Mapping[str, Any], into: Result) -> None:
    """One result of one page. One that contradicts itself is not complete, whatever it says."""
    stamps, values = _list(told.get("Timestamps")), _list(told.get("Values"))
    for at, value in zip(stamps, values, strict=False):
        second = _second(at)
        if second is None:
            into.timeless += 1
        else:
            into.values[second] = value
    status = told.get("StatusCode", MISSING)
    believed = status in (*_STATES, MISSING) and len(stamps) == len(values)
    into.status = status if believed else "InternalError"
    into.messages.extend(_messages(told))


def _list(told: object) -> list[Any]:
    return told if isinstance(told, list) else []


def _messages(told: Mapping[str, Any]) -> list[str]:
    return [
        f"{each.get('Code', '')}: {each.get('Value', '')}"[:300]
        for each in _list(told.get("Messages"))
        if isinstance(each, Mapping)
    ]


def _second(at: object) -> int | None:
    instant = at.timestamp() if isinstance(at, datetime) else at
    return int(instant) if is_measurement(instant) else None


def of_series(results: Mapping[str, Result], at: int, asked: Asked) -> SeriesAnswer:
    """The results of one series of a batch, put together."""
    values: dict[int, dict[str, float]] = {}
    refused: Counter[str] = Counter()
    found: Sequence[Result] = [
        results.get(query_id(at, number), Result()) for number in range(len(asked.statistics))
    ]
    for (_, ours), result in zip(asked.statistics, found, strict=True):
        refused += Counter(no_instant=result.timeless)
        for second, value in result.values.items():
            if not is_number(value):
                refused["not_a_number"] += 1
            elif second % asked.key.period_s:
                refused["unaligned"] += 1
            elif problem_in({ours: value}, asked.metric):
                refused["impossible"] += 1
            else:
                values.setdefault(second, {})[ours] = value * _factor(ours, asked)
    worst = next((each.status for each in found if each.status != COMPLETE), COMPLETE)
    return SeriesAnswer(values=values, complete=worst == COMPLETE, status=worst, refused=refused)


def _factor(statistic: str, asked: Asked) -> float:
    """Counts and percents of samples are what they are in any unit."""
    is_count = statistic == "SampleCount" or statistic.startswith("PR(")
    return 1.0 if is_count else asked.metric.per_unit
