"""What our own `/metrics` shows, sent by OTLP every minute."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Self

from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client import Metric as Family
from prometheus_client.samples import Sample

from alerts.loop import Loop
from domain.labels import Labels
from stagewatch.release import VERSION
from stagewatch.telemetry.takers import Taker

__all__ = ["MetricsSender", "metrics_data"]

_CUMULATIVE = sdk.AggregationTemporality.CUMULATIVE
_SECOND_NS = 1_000_000_000
_BUCKET_LABEL = "le"


class MetricsSender:
    """Sends while its block lasts."""

    def __init__(
        self,
        registry: CollectorRegistry,
        exporter: sdk.MetricExporter,
        resource: Resource,
        taker: Taker,
        *,
        interval_s: float,
    ) -> None:
        self._registry, self._exporter, self._resource = registry, exporter, resource
        self._taker, self._interval_s = taker, interval_s
        self._begun_ns = time.time_ns()
        self._loop = Loop("sending of our own metrics", self.send)
        self._stop = threading.Event()
        # why a daemon: one that hangs in a cut connection must not keep the process from ending
        self._thread = threading.Thread(target=self._run, name="own metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._exporter.shutdown()
        self._thread.join(1.0)

    def problem(self) -> str | None:
        """Why nobody gets them, or None."""
        return self._taker.problem() or self._loop.problem()

    def send(self, now_s: float) -> None:
        """All that there is, once."""
        told = metrics_data(
            self._registry.collect(),
            self._resource,
            begun_ns=self._begun_ns,
            now_ns=int(now_s * _SECOND_NS),
        )
        done = self._exporter.export(told)
        self._taker.note(taken=done is sdk.MetricExportResult.SUCCESS)

    def _run(self) -> None:
        self._loop.run(self._stop, clock=time.time, cadence_s=self._interval_s)


def metrics_data(
    families: Iterable[Family], resource: Resource, *, begun_ns: int, now_ns: int
) -> sdk.MetricsData:
    """Families of Prometheus as the SDK has them; what has no sample is left out."""
    scope = InstrumentationScope("stagewatch", VERSION)
    metrics = [
        sdk.Metric(
            name=family.name,
            description=family.documentation,
            unit="s" if family.name.endswith("_seconds") else "1",
            data=_data(family, begun_ns, now_ns),
        )
        for family in families
        if family.samples
    ]
    of_scope = sdk.ScopeMetrics(scope=scope, metrics=metrics, schema_url="")
    return sdk.MetricsData(
        resource_metrics=[
            sdk.ResourceMetrics(resource=resource, scope_metrics=[of_scope], schema_url="")
        ]
    )


def _data(family: Family, begun_ns: int, now_ns: int) -> sdk.Sum | sdk.Gauge | sdk.Histogram:
    if family.type == "histogram":
        points = list(_histograms(family.samples, begun_ns, now_ns))
        return sdk.Histogram(data_points=points, aggregation_temporality=_CUMULATIVE)
    if family.type == "counter":
        counted = [each for each in family.samples if each.name.endswith("_total")]
        return sdk.Sum(
            data_points=[_number(each, begun_ns, now_ns) for each in counted],
            aggregation_temporality=_CUMULATIVE,
            is_monotonic=True,
        )
    return sdk.Gauge(data_points=[_number(each, 0, now_ns) for each in family.samples])


def _number(sample: Sample, begun_ns: int, now_ns: int) -> sdk.NumberDataPoint:
    return sdk.NumberDataPoint(
        attributes=sample.labels,
        start_time_unix_nano=begun_ns,
        time_unix_nano=now_ns,
        value=sample.value,
    )


def _histograms(
    samples: Iterable[Sample], begun_ns: int, now_ns: int
) -> Iterator[sdk.HistogramDataPoint]:
    """One per set of labels. Buckets of Prometheus add up from below, those of OTLP do not."""
    buckets: defaultdict[Labels, dict[float, float]] = defaultdict(dict)
    sums: dict[Labels, float] = {}
    for each in samples:
        own = _without_edge(each.labels)
        if each.name.endswith("_bucket"):
            buckets[own][float(each.labels[_BUCKET_LABEL])] = each.value
        elif each.name.endswith("_sum"):
            sums[own] = each.value
    for labels, cumulated in sorted(buckets.items()):
        edges = sorted(cumulated)
        below = [0.0, *(cumulated[edge] for edge in edges)]
        yield sdk.HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=begun_ns,
            time_unix_nano=now_ns,
            count=round(below[-1]),
            sum=sums.get(labels, 0.0),
            bucket_counts=[round(b - a) for a, b in pairwise(below)],
            explicit_bounds=edges[:-1],
            min=None,  # type: ignore[arg-type] # nobody knows; the encoder then leaves it out
            max=None,  # type: ignore[arg-type] # the same
        )


def _without_edge(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted((k, v) for k, v in labels.items() if k != _BUCKET_LABEL))
