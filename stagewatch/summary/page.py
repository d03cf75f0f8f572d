"""The summary as a page: what `/metrics` of the pages shows besides our own health."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as PageExemplar

from stagewatch.summary.family import Exemplar, Family, Kind
from stagewatch.summary.summary import Told

__all__ = ["SummaryPage"]


class SummaryPage(Collector):
    """Shows what there is; nothing is worked out for a scrape."""

    def __init__(self, told: Callable[[float], Told | None]) -> None:
        self._told = told

    def collect(self) -> Iterator[Metric]:
        told = self._told(time.time())
        if told is not None:
            yield from (_metric(each) for each in told.families if each.samples)


def _metric(family: Family) -> Metric:
    name = family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name
    metric = Metric(name, family.help, family.kind.value)
    for each in family.samples:
        exemplar = _exemplar(each.exemplar) if each.exemplar is not None else None
        metric.add_sample(family.name, dict(each.labels), each.value, each.at_s, exemplar)
    return metric


def _exemplar(exemplar: Exemplar) -> PageExemplar:
    return PageExemplar({"trace_id": exemplar.trace_id}, exemplar.value, exemplar.at_s)
