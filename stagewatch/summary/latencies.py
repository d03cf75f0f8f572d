"""Quantiles of the last minutes with their doubt, and the mean time in each stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from collector.query import Reader, Selection, Series, Window
from domain.labels import Labels, labels_of
from stagewatch.summary.family import Family, Sample
from stagewatch.summary.settings import SummarySettings

__all__ = ["Groups", "Measured", "busiest", "latency_families", "measure"]

Groups = frozenset[Labels]
Measured = Mapping[str, Sequence[Series]]
"""Each latency with its groups."""


def measure(reader: Reader, settings: SummarySettings, window: Window) -> Measured:
    """Every group of each latency that is to be told."""
    selection = Selection(window=window, by=settings.labels)
    return {latency: reader.latency(latency, selection) for latency in settings.latencies}


def busiest(measured: Measured, counted: Iterable[Labels], most: int) -> tuple[Groups, int]:
    """The groups with the most values, and how many more there are. `counted`: further groups."""
    weights = Counter(dict.fromkeys(counted, 0))
    for series in (each for found in measured.values() for each in found):
        weights[series.labels] += sum(point.distribution.n for point in series.points)
    order = sorted(weights, key=lambda labels: (-weights[labels], labels))
    return frozenset(order[:most]), max(len(order) - most, 0)


def latency_families(
    reader: Reader, settings: SummarySettings, measured: Measured, groups: Groups, window: Window
) -> list[Family]:
    """Only of these groups. A quantile that nobody measured is absent."""
    told = [(latency, each) for latency, found in measured.items() for each in found]
    kept = [(latency, each) for latency, each in told if each.labels in groups]
    return [
        Family(
            name="stagewatch_latency_quantile_seconds",
            help="Quantile q of a latency over the last minutes; the truth lies from bound low to "
            "bound high.",
            samples=[
                sample
                for latency, each in kept
                for sample in _quantiles(latency, each, settings.quantiles)
            ],
        ),
        Family(
            name="stagewatch_latency_values",
            help="How many values those quantiles rest on.",
            samples=[sample for latency, each in kept for sample in _values(latency, each)],
        ),
        _stages(reader, groups, Selection(window=window, by=settings.labels)),
    ]


def _quantiles(latency: str, series: Series, asked: Sequence[float]) -> Iterator[Sample]:
    for point in series.points:
        for q in asked:
            found = point.distribution.quantile(q)
            if found is not None:
                for bound, value in (("low", found.low_s), ("high", found.high_s)):
                    about = {"latency": latency, "q": f"{q:g}", "bound": bound}
                    yield Sample(labels=_with(series.labels, about), value=value)


def _values(latency: str, series: Series) -> Iterator[Sample]:
    for point in series.points:
        yield Sample(
            labels=_with(series.labels, {"latency": latency}), value=float(point.distribution.n)
        )


def _stages(reader: Reader, groups: Groups, selection: Selection) -> Family:
    samples = [
        Sample(labels=_with(each.labels, {"stage": share.stage.value}), value=share.mean_s)
        for each in reader.stages(selection)
        if each.labels in groups
        for share in each.stages
        if share.mean_s is not None
    ]
    return Family(
        name="stagewatch_stage_mean_seconds",
        help="Mean time that requests of the last minutes spent in a stage.",
        samples=samples,
    )


def _with(labels: Labels, more: dict[str, str]) -> Labels:
    return labels_of({**dict(labels), **more})
