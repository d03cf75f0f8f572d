"""What a ladder leaves in the store at its end: where first tokens began to wait."""

import asyncio
import gzip
from dataclasses import dataclass

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from exporters.delivery.settings import DeliverySettings
from exporters.ladder.knee import Beyond, Knee
from exporters.ladder.store import sending
from exporters.probe.settings import ProbeTarget
from tests.exporters.fake_engine import answering, serving

OK = b""
TARGET = ProbeTarget(service="chat", url="http://127.0.0.1:9/v1/chat/completions", model="m")


@dataclass(frozen=True)
class Climbed:
    """A shape that was climbed to its knee."""

    knee: Knee


@dataclass(frozen=True)
class Measured:
    climbs: tuple


def told(*knees):
    """The levels that a collector was sent."""

    async def conclude(endpoint):
        delivery = DeliverySettings(endpoint=endpoint, spool_dir=None)
        async with sending(TARGET, delivery) as store:
            await store.conclude(Measured(tuple(map(Climbed, knees))))

    with serving(answering(OK)) as collector:
        asyncio.run(conclude(collector.root))
    return [
        (metric.name, point.as_double)
        for _, headers, body in collector.requests
        for resource in _decoded(headers, body).resource_metrics
        for metric in resource.scope_metrics[0].metrics
        for point in metric.gauge.data_points
    ]


def _decoded(headers, body):
    plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
    return ExportMetricsServiceRequest.FromString(plain)


def test_the_lowest_knee_of_all_shapes_is_kept():
    knees = [
        Knee(rungs=(), beyond=Beyond.QUEUES, at=8, slots=4.1),
        Knee(rungs=(), beyond=Beyond.SLOWS, at=16),
    ]

    assert told(*knees) == [("stagewatch_concurrency_knee", 4.0)]


@pytest.mark.parametrize("beyond", [Beyond.RISES, Beyond.UNKNOWN])
def test_a_ladder_that_never_bent_leaves_nothing(beyond):
    assert told(Knee(rungs=(), beyond=beyond, at=16)) == []
