"""What one page has said so far, series by series of ours, added up where several are one."""

import math
from collections import defaultdict
from collections.abc import Iterable

from domain.distribution import Distribution, add_all
from domain.labels import Labels
from domain.metric import METRICS, Kind
from exporters.engine.reading import Increment, Latency, Level

__all__ = ["Gathered"]

Key = tuple[str, Labels, int]


class Gathered:
    """Pairs, increments and levels of one page.

    Numbers of several ranks or models of one target add up where their labels of ours are the same.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._pairs: dict[Key, list[Distribution]] = defaultdict(list)
        self._samples: dict[str, str] = {}
        self._sums: dict[Key, float] = defaultdict(float)
        self._levels: dict[tuple[str, Labels], list[float]] = defaultdict(list)

    def pair(self, metric: str, labels: Labels, start_at_ns: int, pair: Distribution) -> None:
        self._pairs[metric, labels, start_at_ns].append(pair)

    def sample(self, metric: str, sample: str) -> None:
        """What one value of a metric is of."""
        self._samples[metric] = sample

    def add(self, metric: str, labels: Labels, start_at_ns: int, by: float) -> None:
        self._sums[metric, labels, start_at_ns] += by

    def level(self, metric: str, labels: Labels, value: float) -> None:
        self._levels[metric, labels].append(value)

    def drop_levels(self, metric: str) -> None:
        for key in [key for key in self._levels if key[0] == metric]:
            del self._levels[key]

    def increase(self, metric: str) -> float | None:
        """What a counter grew by in all; None where the page says nothing of it."""
        found = [by for (name, _, _), by in self._sums.items() if name == metric]
        return math.fsum(found) if found else None

    def together(self, metric: str) -> float | None:
        """A level over all of its series; None where the page says nothing of it."""
        found = [
            value
            for (name, _), values in self._levels.items()
            if name == metric
            for value in values
        ]
        return _together(metric, found) if found else None

    def latencies(self) -> tuple[Latency, ...]:
        return tuple(
            Latency(
                metric=metric,
                labels=labels,
                start_at_ns=start_at_ns,
                distribution=parts[0] if len(parts) == 1 else add_all(parts),
                sample=self._samples.get(metric, ""),
            )
            for (metric, labels, start_at_ns), parts in self._pairs.items()
        )

    def increments(self) -> tuple[Increment, ...]:
        return tuple(
            Increment(metric=metric, labels=labels, start_at_ns=start_at_ns, by=by)
            for (metric, labels, start_at_ns), by in self._sums.items()
        )

    def levels(self) -> tuple[Level, ...]:
        """Levels of several ranks add up, ratios are averaged: the ranks are of one size."""
        return tuple(
            Level(metric=metric, labels=labels, value=_together(metric, values))
            for (metric, labels), values in self._levels.items()
        )


def _together(metric: str, values: Iterable[float]) -> float:
    all_of_them = list(values)
    together = math.fsum(all_of_them)
    return together / len(all_of_them) if METRICS[metric].kind is Kind.RATIO else together
