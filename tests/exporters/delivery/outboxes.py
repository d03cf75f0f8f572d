"""Outboxes with exports in them, and what can be read out of what was sent."""

import gzip
from random import Random

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics, ScopeMetrics

from exporters.delivery.export import Export
from exporters.delivery.memory import Memory
from exporters.delivery.outbox import Outbox

__all__ = ["OWNER", "SECOND_NS", "Clock", "drained", "export", "names_in", "opened", "told_in"]

OWNER = (("replica", "r0"), ("service", "chat"), ("source", "page"))
SECOND_NS = 1_000_000_000


class Clock:
    """A wall clock that goes when it is told to."""

    def __init__(self, at_s=1_790_000_000):
        self.at_ns = at_s * SECOND_NS

    def __call__(self):
        return self.at_ns

    def go(self, seconds):
        self.at_ns += int(seconds * SECOND_NS)


def export(name, *, owner=OWNER, at_ns=1, memo=None, size=0):
    """An export of one metric of that name; of about `size` bytes that do not compress."""
    filler = Random(name).randbytes(size).hex()  # noqa: S311 - no secret
    scope = ScopeMetrics(metrics=[Metric(name=name, description=filler)])
    request = ExportMetricsServiceRequest(resource_metrics=[ResourceMetrics(scope_metrics=[scope])])
    return Export(owner=owner, at_ns=at_ns, body=request.SerializeToString(), memo=memo)


def opened(folder, *names, max_bytes=1_000_000, max_age_s=3600, memory_bytes=1_000_000, **others):
    box = Outbox(
        folder, max_bytes=max_bytes, max_age_s=max_age_s, memory=Memory(memory_bytes), **others
    )
    for name in names:
        box.put(export(name))
    return box


def names_in(body):
    """The names of the metrics in a gzipped body, in order."""
    request = ExportMetricsServiceRequest.FromString(gzip.decompress(body))
    return [
        metric.name
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]


def told_in(body):
    """The losses that a gzipped body tells: by service and reason, how many."""
    request = ExportMetricsServiceRequest.FromString(gzip.decompress(body))
    found = {}
    for resource in request.resource_metrics:
        for metric in resource.scope_metrics[0].metrics:
            for point in metric.sum.data_points if metric.name.endswith("dropped_total") else ():
                said = {each.key: each.value.string_value for each in point.attributes}
                key = said["stagewatch.service"], said["stagewatch.reason"]
                found[key] = found.get(key, 0) + point.as_double
    return found


def drained(box):
    """Everything that waits, as it would be sent: names of exports, and losses told."""
    names, told = [], {}
    while records := box.take(1_000_000):
        for record in records:
            names += [name for name in names_in(record.packed) if not name.endswith("_total")]
            for key, n in told_in(record.packed).items():
                told[key] = told.get(key, 0) + n
            box.settle()
        box.release()
    return names, told
