"""The way in: what a receiver hands over, and what it is told in return."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from domain.endpoint import EndpointPoint

__all__ = ["EndpointIntake", "Intake", "Outcome", "Overloaded"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an export: how many spans or points were refused, and why.

    `message` may be set with nothing rejected: then it is a warning (OTLP partial success).
    """

    rejected: int = 0
    message: str = ""

    def __post_init__(self) -> None:
        if self.rejected < 0:
            raise ValueError(f"nobody rejects fewer than none: {self}")


class Overloaded(Exception):  # noqa: N818 - a state of ours that the sender is told, no mistake of his
    """The queue is full: nothing was kept, and the same export is welcome again later."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"the queue is full; try again in {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


class Intake(Protocol):
    """Takes one export and returns once it is safe on disk. Called from many threads; blocks."""

    def traces(self, request: ExportTraceServiceRequest) -> Outcome:
        """Keep the spans, or raise `Overloaded`."""
        ...

    def metrics(self, request: ExportMetricsServiceRequest) -> Outcome:
        """Keep the points, or raise `Overloaded`."""
        ...


class EndpointIntake(Intake, Protocol):
    """Takes points of endpoints that did not come as OTLP, too."""

    def endpoints(self, points: Sequence[EndpointPoint]) -> Outcome:
        """Keep the points of endpoints, or raise `Overloaded`."""
        ...
