"""What was lost, as an export of its own: so that the collector learns what it will never see."""

import gzip
from collections import Counter
from collections.abc import Mapping

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from domain.labels import Labels, value_of
from domain.metric import METRICS
from exporters.delivery.frame import Record
from exporters.delivery.span import Span, merged

__all__ = ["LossBook", "Losses", "losses_in"]

Losses = Counter[tuple[Labels, str]]
"""Exports lost, by whose they were and why."""

_SCOPE = "stagewatch.exporters.delivery"


class LossBook:
    """What was lost since this process began, and what of it no record tells yet.

    `gone` are the numbers of records that the untold losses speak of.
    """

    def __init__(self) -> None:
        self.lost: Losses = Counter()
        self.untold: Losses = Counter()
        self.gone: list[Span] = []
        self._told_at_ns = 0

    def note(self, losses: Losses) -> None:
        self.lost.update(losses)
        self.untold.update(losses)

    def note_record(self, record: Record, reason: str) -> None:
        """A record goes: it is lost itself, or has to be told again by another.

        A collector that refuses to hear of losses is not told them again and again.
        """
        if record.lost and reason != "refused":
            self.untold.update(losses_in(record))
        elif not record.lost:
            self.note(Counter({(record.owner, reason): 1}))

    def record(self, now_ns: int) -> Record:
        """A record of all that is untold. `told` is to be called once it is kept."""
        self._told_at_ns = max(now_ns, self._told_at_ns + 1)  # why: one instant, one loss
        return _record(self.untold, self._told_at_ns, tuple(merged(self.gone)))

    def told(self) -> None:
        self.untold.clear()
        self.gone.clear()


def losses_in(record: Record) -> Losses:
    """What a record tells of."""
    return Counter({(owner, why): n for owner, why, n in record.lost})


def _record(losses: Losses, at_ns: int, gone: tuple[Span, ...]) -> Record:
    told = tuple((owner, reason, n) for (owner, reason), n in sorted(losses.items()) if n)
    body = _request(told, at_ns).SerializeToString()
    return Record(
        number=0,
        put_at_ns=at_ns,
        at_ns=at_ns,
        owner=told[0][0] if told else (),
        packed=gzip.compress(body, 1, mtime=0),
        plain_bytes=len(body),
        lost=told,
        gone=gone,
    )


def _request(told: tuple[tuple[Labels, str, int], ...], at_ns: int) -> ExportMetricsServiceRequest:
    by_owner: dict[Labels, list[tuple[str, int]]] = {}
    for owner, reason, n in told:
        by_owner.setdefault(owner, []).append((reason, n))
    return ExportMetricsServiceRequest(
        resource_metrics=[_resource(owner, counts, at_ns) for owner, counts in by_owner.items()]
    )


def _resource(owner: Labels, counts: list[tuple[str, int]], at_ns: int) -> otlp.ResourceMetrics:
    known = METRICS["exports_dropped"]
    points = [
        otlp.NumberDataPoint(
            # why not since the last loss: this instant is nobody else's, whoever died in between
            start_time_unix_nano=at_ns - 1,
            time_unix_nano=at_ns,
            as_double=n,
            attributes=_attributes(
                {**{f"stagewatch.{key}": value for key, value in owner}, "stagewatch.reason": why}
            ),
        )
        for why, n in counts
    ]
    total = otlp.Sum(
        data_points=points,
        aggregation_temporality=otlp.AGGREGATION_TEMPORALITY_DELTA,
        is_monotonic=True,
    )
    metric = otlp.Metric(name=known.full_name, unit=known.unit, description=known.help, sum=total)
    who = {
        "service.name": value_of(owner, "service"),
        "service.instance.id": value_of(owner, "replica"),
    }
    return otlp.ResourceMetrics(
        resource=Resource(attributes=_attributes({k: v for k, v in who.items() if v})),
        scope_metrics=[
            otlp.ScopeMetrics(scope=InstrumentationScope(name=_SCOPE), metrics=[metric])
        ],
    )


def _attributes(pairs: Mapping[str, str]) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=AnyValue(string_value=value))
        for key, value in sorted(pairs.items())
    ]
