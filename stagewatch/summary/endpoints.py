"""Managed endpoints: the newest settled period of each metric, under the instant at which it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from collector.query import EndpointReading, EndpointSeries, Reader, Window
from domain.endpoint import PointState
from domain.endpoint_metric import EndpointMetric, Meaning
from domain.labels import Labels, labels_of
from domain.managed_endpoint import ManagedEndpoint, managed, metric_in
from stagewatch.summary.family import Family, Sample

__all__ = ["endpoint_families"]

_TAKEN_S = 3000
"""Prometheus takes nothing that is an hour older than what it has."""
_PLAIN = {"Average": "mean", "Maximum": "maximum"}


def endpoint_families(reader: Reader, until_s: int, most: int) -> list[Family]:
    """Of so many endpoints, those first of which something newer is known."""
    window = Window(since_s=max(until_s - _TAKEN_S, 0), until_s=until_s)
    found = sorted(managed(reader.endpoints(window)), key=_order)
    samples: dict[Meaning, dict[Labels, Sample]] = {meaning: {} for meaning in Meaning}
    settled: dict[Labels, Sample] = {}
    for endpoint in islice(found, most):
        place = _place(endpoint)
        for meaning, sample in _samples(endpoint, place):
            samples[meaning].setdefault(sample.labels, sample)
        newest_s = _newest_s(endpoint)
        if newest_s is not None:
            settled[place] = Sample(labels=place, value=float(newest_s))
    return [
        Family(
            name="stagewatch_endpoint_latency_seconds",
            help="A latency of a managed endpoint in its newest settled period.",
            samples=list(samples[Meaning.LATENCY].values()),
        ),
        Family(
            name="stagewatch_endpoint_events",
            help="How many of an event a managed endpoint had in its newest settled period.",
            samples=list(samples[Meaning.EVENTS].values()),
        ),
        Family(
            name="stagewatch_endpoint_level",
            help="A level of a managed endpoint (shares from 0 to 1) in its newest settled period.",
            samples=list(samples[Meaning.LEVEL].values()),
        ),
        Family(
            name="stagewatch_endpoint_settled_timestamp_seconds",
            help="The end of the newest settled period of a managed endpoint.",
            samples=list(settled.values()),
        ),
        Family(
            name="stagewatch_answers_endpoints_left_out",
            help="Managed endpoints beyond `summary.max_groups`, which are not told.",
            samples=[Sample(labels=(), value=float(max(len(found) - most, 0)))],
        ),
    ]


def _order(endpoint: ManagedEndpoint) -> tuple[int, Labels]:
    return -(_newest_s(endpoint) or 0), _place(endpoint)


def _place(endpoint: ManagedEndpoint) -> Labels:
    return labels_of(
        {
            "service": endpoint.service,
            "endpoint": "/".join(value for _, value in endpoint.dimensions),
            "kind": endpoint.kind,
            "account": endpoint.account,
            "region": endpoint.region,
        }
    )


def _newest_s(endpoint: ManagedEndpoint) -> int | None:
    ends = (_settled(each) for each in _series(endpoint))
    return max((each.until_s for each in ends if each is not None), default=None)


def _series(endpoint: ManagedEndpoint) -> Sequence[EndpointSeries]:
    return [each for each in endpoint.by_metric.values() if isinstance(each, EndpointSeries)]


def _settled(series: EndpointSeries) -> EndpointReading | None:
    """The newest that does not change any more."""
    known = (each for each in reversed(series.points) if not each.provisional)
    return next(known, None)


def _samples(endpoint: ManagedEndpoint, place: Labels) -> Iterator[tuple[Meaning, Sample]]:
    for each in _series(endpoint):
        row, newest = metric_in(each), _settled(each)
        divisor = endpoint.accelerators if row is not None and row.per_accelerator else 1
        if row is None or newest is None or divisor is None:
            continue
        for statistic, value in _told(row, newest):
            about = {"metric": row.ours, "statistic": statistic}
            labels = labels_of({**dict(place), **about})
            yield (
                row.meaning,
                Sample(labels=labels, value=value / divisor, at_s=float(newest.until_s)),
            )


def _told(row: EndpointMetric, reading: EndpointReading) -> Iterator[tuple[str, float]]:
    """What nobody published is no sample; an event that did not happen is 0."""
    told = reading.statistics
    if row.meaning is Meaning.EVENTS:
        if reading.state is PointState.ZERO:
            yield "sum", 0.0
        elif "Sum" in told:
            yield "sum", told["Sum"]
        return
    samples = told.get("SampleCount")
    if samples and "Sum" in told and "Average" not in told:
        yield "mean", told["Sum"] / samples
    for name, value in sorted(told.items()):
        if name in _PLAIN:
            yield _PLAIN[name], value
        elif name.startswith("p"):
            yield name, value
