"""Families of one page: histograms, counters and gauges whose numbers can all be true."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from domain.labels import Labels
from exporters.engine.failure import FamilyError
from exporters.engine.table import CREATED, Family
from exporters.engine.text import Page, Series

__all__ = [
    "Histogram",
    "counter",
    "created_at_s",
    "gauge",
    "histogram",
    "info",
    "matching",
    "without",
]

_MAX_COUNT = 2**53
_MAX_SERIES = 2000

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """One classic histogram: ascending edges, the last infinite, and counts per bucket.

    `total` is the page's `_sum` in the family's own unit; None where the page has none that is a
    number.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    total: float | None

    def at(self, edges: tuple[float, ...]) -> tuple[int, ...]:
        """The counts per bucket of a coarser layout, whose edges are some of ours."""
        if edges == self.edges:
            return self.counts
        kept, coarse, running = set(edges), [], 0
        for edge, count in zip(self.edges, self.counts, strict=True):
            running += count
            if edge in kept:
                coarse.append(running)
                running = 0
        return tuple(coarse)


def histogram(page: Page, family: str) -> dict[Labels, Histogram]:
    """Every series of a histogram family; empty when the page has none, refused when torn.

    A family of buckets alone, without any count or sum, counts by its +Inf buckets.
    """
    _check(page, family, ("_bucket", "_sum", "_count"), {"histogram", "untyped", "unknown"})
    buckets: dict[Labels, dict[float, float]] = {}
    for series, value in page.samples(f"{family}_bucket"):
        if series.le is None:
            raise _refused(family, "a bucket has no `le`")
        buckets.setdefault(series.labels, {})[series.le] = value
    counts = _values(page.samples(f"{family}_count"))
    totals = _values(page.samples(f"{family}_sum"))
    if not counts and not totals and not page.torn:
        counts = {labels: edges.get(math.inf, math.nan) for labels, edges in buckets.items()}
    if counts.keys() != buckets.keys():
        raise _refused(family, "buckets and counts do not belong together: the page was cut off")
    return {
        labels: _histogram(family, edges, counts[labels], totals.get(labels))
        for labels, edges in buckets.items()
    }


def counter(page: Page, family: str) -> dict[Labels, float]:
    """Every series of a counter family, by the name its samples carry."""
    _check(page, family, ("",), {"counter", "untyped", "unknown", "gauge"})
    values = _values(page.samples(family))
    if any(not 0 <= value <= _MAX_COUNT for value in values.values()):
        raise _refused(family, "a counter is negative, beyond reason or no number")
    return values


def gauge(page: Page, family: str, copies: Iterable[str] = ()) -> dict[Labels, float]:
    """Every series of a gauge family that has a value: NaN and sentinels below 0 say nothing.

    One process of several may write a gauge and the others leave it at 0 under a `pid` of their
    own (vllm#28792), and ranks that work on the same requests each tell of them: the greatest of
    such copies is the true one.
    """
    _check(page, family, ("",), {"gauge", "counter", "untyped", "unknown"})
    return _greatest(_values(page.samples(family)), copies)


def info(page: Page, family: str, label: str, copies: Iterable[str] = ()) -> dict[Labels, float]:
    """The numbers that stand in a label of an info family; what is none says nothing."""
    _check(page, family, ("",), {"gauge", "info", "untyped", "unknown"})
    told = {
        tuple(pair for pair in series.labels if pair[0] != label): dict(series.labels).get(
            label, ""
        )
        for series, _ in page.samples(family)
    }
    return _greatest({labels: _whole(raw) for labels, raw in told.items()}, copies)


def matching(series: Mapping[Labels, Value], family: Family) -> dict[Labels, Value]:
    """The series that the table means: those with `only`, without those of `but`."""
    if not family.only and not family.but:
        return dict(series)
    only, but = set(family.only), set(family.but)
    return {
        labels: value
        for labels, value in series.items()
        if only.issubset(labels) and but.isdisjoint(labels)
    }


def without(series: Mapping[Labels, float], copies: Iterable[str]) -> frozenset[Labels]:
    """Of series that tell the same, one each: the greatest, the first of equals."""
    if not copies:
        return frozenset(series)
    found: dict[Labels, Labels] = {}
    for labels, value in sorted(series.items()):
        one = _less(labels, copies)
        if one not in found or value > series[found[one]]:
            found[one] = labels
    return frozenset(found.values())


def _greatest(values: Mapping[Labels, float], copies: Iterable[str]) -> dict[Labels, float]:
    greatest: dict[Labels, float] = {}
    for labels, value in values.items():
        if 0 <= value <= _MAX_COUNT:
            one = _less(labels, ("pid", *copies))
            greatest[one] = max(greatest.get(one, value), value)
    return greatest


def _less(labels: Labels, names: Iterable[str]) -> Labels:
    return tuple(pair for pair in labels if pair[0] not in names)


def _whole(raw: str) -> float:
    """A number as an info label writes it; NaN where it is none."""
    return float(raw) if raw.isascii() and raw.isdigit() and len(raw) < 16 else math.nan


def created_at_s(page: Page, family: str) -> float | None:
    """When the oldest series of the family was made: prometheus_client's `_created` gauges."""
    stem = family.removesuffix("_total")
    names = (family + CREATED, stem + CREATED)
    times = [value for name in names for _, value in page.samples(name)]
    return min(times, default=None)


def _check(page: Page, family: str, parts: Iterable[str], types: set[str]) -> None:
    names = [family + part for part in parts]
    doubted = page.suspects.intersection(names)
    if doubted:
        raise _refused(family, f"{min(doubted)} stands twice with two values, or is malformed")
    declared = page.types.get(family)
    if declared is not None and declared not in types:
        raise _refused(family, f"its type is {declared} here")
    series = page.samples(names[-1])
    if len(series) > _MAX_SERIES:
        raise _refused(family, f"it has {len(series)} series, more than {_MAX_SERIES}")


def _values(samples: Iterable[tuple[Series, float]]) -> dict[Labels, float]:
    return {series.labels: value for series, value in samples}


def _histogram(
    family: str, buckets: Mapping[float, float], count: float, total: float | None
) -> Histogram:
    edges = tuple(sorted(buckets))
    cumulative = [buckets[edge] for edge in edges]
    if edges[-1] != math.inf:
        raise _refused(family, "it has no +Inf bucket: the page was cut off")
    if edges[0] < 0:
        raise _refused(family, "it has a bucket below 0")
    if not all(0 <= value <= _MAX_COUNT and value == int(value) for value in cumulative):
        raise _refused(family, "a bucket holds no whole number")
    counts = tuple(int(now - below) for below, now in pairwise((0.0, *cumulative)))
    if min(counts) < 0:
        raise _refused(family, "its buckets do not ascend: the page was torn")
    if count != cumulative[-1]:
        raise _refused(family, f"its count is {count} but its buckets hold {cumulative[-1]}")
    finite = total is not None and math.isfinite(total)
    return Histogram(edges=edges, counts=counts, total=total if finite else None)


def _refused(family: str, problem: str) -> FamilyError:
    return FamilyError(problem, where=family, remedy="The next page is read afresh.")
