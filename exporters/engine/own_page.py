"""What the exporter read, under our names on its own `/metrics`, and how the exporter is.

A latency is a classic histogram twice: `bound="low"` counts every value where it may lie at best,
`bound="high"` where it may lie at worst. For any `le` the truth lies between the two. `_sum` is NaN
as soon as one interval's sum could not be believed.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from domain.distribution import Distribution
from domain.grid import EDGES_S, OVER
from domain.labels import Labels
from domain.metric import LATENCIES, METRICS
from exporters.delivery.delivery import Delivery
from exporters.engine.reading import Level, Reading

__all__ = ["LE_S", "OwnPage"]

LE_S: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0),
    *(1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_BELOW = np.searchsorted(EDGES_S, LE_S, side="right") - 1
_REACHED = np.minimum(np.where(EDGES_S[_BELOW] == LE_S, _BELOW, _BELOW + 1), OVER)

_SERIES = tuple[str, Labels]


def _none() -> NDArray[np.int64]:
    return np.zeros(len(LE_S), np.int64)


@dataclass(slots=True)
class _Counts:
    """Values at most each edge so far: possibly (the low side) and surely (the high side)."""

    possibly: NDArray[np.int64] = field(default_factory=_none)
    surely: NDArray[np.int64] = field(default_factory=_none)
    n: int = 0
    sum_s: float = 0.0

    def add(self, one: Distribution) -> None:
        self.possibly += one.low.cumsum()[_REACHED]
        self.surely += one.high.cumsum()[_BELOW]
        self.n += one.n
        self.sum_s += math.nan if one.sum_s is None else one.sum_s


class OwnPage(Collector):
    """Everything since the exporter started; a collector for prometheus_client."""

    def __init__(self, delivery: Delivery | None = None) -> None:
        self._delivery = delivery
        self._lock = Lock()
        self._counts: dict[_SERIES, _Counts] = defaultdict(_Counts)
        self._totals: dict[_SERIES, float] = defaultdict(float)
        self._levels: dict[Labels, tuple[Level, ...]] = {}
        self._absent: dict[Labels, tuple[str, ...]] = {}

    def update(self, reading: Reading) -> None:
        """Take in one scrape of one target."""
        with self._lock:
            for latency in reading.latencies:
                self._counts[latency.metric, latency.labels].add(latency.distribution)
            for increment in reading.increments:
                self._totals[increment.metric, increment.labels] += increment.by
            self._levels[reading.target] = reading.levels
            self._absent[reading.target] = reading.absent

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            families = [*self._histograms(), *self._counters(), *self._gauges(), *self._health()]
        yield from families

    def _histograms(self) -> Iterator[Metric]:
        for name in LATENCIES:
            series = {labels: one for (own, labels), one in self._counts.items() if own == name}
            if series:
                yield _histogram(name, series)

    def _counters(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for (name, labels), value in self._totals.items():
            full_name = METRICS[name].full_name
            family = families.setdefault(
                name, Metric(full_name.removesuffix("_total"), METRICS[name].help, "counter")
            )
            family.add_sample(full_name, dict(labels), value)
        yield from families.values()

    def _gauges(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for level in (level for levels in self._levels.values() for level in levels):
            known = METRICS[level.metric]
            family = families.setdefault(level.metric, Metric(known.full_name, known.help, "gauge"))
            family.add_sample(known.full_name, dict(level.labels), level.value)
        yield from families.values()

    def _health(self) -> Iterator[Metric]:
        absent = Metric(
            "stagewatch_exporter_metric_absent",
            "1 for a metric that the engine reported before and does not report any more.",
            "gauge",
        )
        for target, names in self._absent.items():
            for name in names:
                absent.add_sample(absent.name, {**dict(target), "metric": name}, 1)
        yield absent
        if self._delivery is not None:
            yield from self._delivery.metrics()


def _histogram(name: str, series: dict[Labels, _Counts]) -> Metric:
    known = METRICS[name]
    family = Metric(known.full_name, known.help, "histogram")
    for labels, one in series.items():
        for bound, counts in (("low", one.possibly), ("high", one.surely)):
            own = {**dict(labels), "bound": bound}
            edges = (*map(floatToGoString, LE_S), "+Inf")
            for edge, count in zip(edges, (*counts.tolist(), one.n), strict=True):
                family.add_sample(f"{known.full_name}_bucket", {**own, "le": edge}, count)
            family.add_sample(f"{known.full_name}_count", own, one.n)
            family.add_sample(f"{known.full_name}_sum", own, one.sum_s)
    return family
