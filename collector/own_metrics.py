"""The collector's own health: its counters on `/metrics`, alive on `/healthz`, ready on `/readyz`."""

from collections.abc import Callable, Iterator, Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from collector.own_words import WORDS

__all__ = ["OwnMetrics", "health_router"]

_PREFIX = "stagewatch_collector_"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Readings = Callable[[], Mapping[str, float]]
"""What another part counts, by name: `…_total` is a counter, anything else a gauge."""


class OwnMetrics:
    """What the receivers count, in a registry that is handed in or its own; never the global one."""

    def __init__(self, *, version: str = "", registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        by_signal = ("protocol", "signal")
        self.received_spans = self._counter(
            "received_spans", "Spans in exports taken", ("protocol",)
        )
        self.received_points = self._counter(
            "received_points", "Data points in exports taken", ("protocol",)
        )
        self.rejected_spans = self._counter(
            "rejected_spans", "Spans refused in exports otherwise taken", ("protocol",)
        )
        self.rejected_points = self._counter(
            "rejected_points", "Data points refused in exports otherwise taken", ("protocol",)
        )
        self.exports = self._counter("exports", "Exports taken, wholly or in part", by_signal)
        self.refused = self._counter(
            "refused_exports",
            "Exports refused (reason partial: taken in part)",
            (*by_signal, "reason"),
        )
        self.received_bytes = self._counter(
            "received_bytes", "Bytes of export bodies as they travelled", by_signal
        )
        self.duration_s = Histogram(
            f"{_PREFIX}export_duration_seconds",
            "From the first byte of an export to its answer",
            by_signal,
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.in_flight = Gauge(
            f"{_PREFIX}exports_in_flight",
            "Exports being read, decoded or stored",
            ("protocol",),
            registry=self.registry,
        )
        build = Gauge("stagewatch_build_info", "Always 1", ("version",), registry=self.registry)
        build.labels(version).set(1)

    def watch(self, readings: Readings) -> None:
        """Show on `/metrics` what another part counts: asked for at each scrape."""
        self.registry.register(_Readings(readings))

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(_PREFIX + name, text, labels, registry=self.registry)


class _Readings(Collector):
    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def describe(self) -> Iterator[Metric]:
        yield from ()  # why: registering must not ask, the part may not have started yet

    def collect(self) -> Iterator[Metric]:
        for name, value in sorted(self._readings().items()):
            full_name = name if name.startswith("stagewatch_") else _PREFIX + name
            text = WORDS.get(full_name) or name.removeprefix(_PREFIX).replace("_", " ")
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(full_name, text, value=value)


def _beside(own: CollectorRegistry, page: Collector) -> CollectorRegistry:
    """Both on one page, while the other pages of this process show our own alone."""
    registry = CollectorRegistry()
    registry.register(own)
    registry.register(page)
    return registry


def health_router(
    metrics: OwnMetrics,
    problem: Callable[[], str | None],
    warning: Callable[[], str | None] = lambda: None,
    page: Collector | None = None,
) -> APIRouter:
    """`problem` says why no export can be stored now, or None; it may block and is asked anew.

    `warning` says what somebody should look at, and keeps nobody away. `page` is shown on
    `/metrics` besides our own counters.
    """
    router = APIRouter(tags=["health"])
    shown = metrics.registry if page is None else _beside(metrics.registry, page)

    @router.get("/metrics", response_class=PlainTextResponse)
    def own_metrics(request: Request) -> Response:
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(shown), media_type=media_type)

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @router.get("/readyz")
    def readyz(response: Response) -> dict[str, str]:
        reason = problem()
        if reason is None:
            said = warning()
            return {"status": "ready"} if said is None else {"status": "ready", "warning": said}
        response.status_code = 503
        return {"status": "not ready", "reason": reason}

    return router
