"""Our own telemetry in a process: opened where it is asked for, and nothing loaded where it is not."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from domain.own_work import traced_by
from stagewatch.extras import missing
from stagewatch.telemetry.settings import TelemetrySettings

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.sampling import Sampler
    from prometheus_client import CollectorRegistry

__all__ = ["own_telemetry"]

_UNTRACED = "00"
_LAST_S = 2.0
_NOWHERE = TelemetrySettings()


@contextmanager
def own_telemetry(
    service: str,
    settings: TelemetrySettings = _NOWHERE,
    *,
    registry: CollectorRegistry | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Callable[[], str | None]]:
    """While the block lasts; gives what can be asked for a problem. `registry`: metrics to send."""
    asked = _Asked(settings, environment)
    problems: list[Callable[[], str | None]] = []
    with ExitStack() as stack:
        try:
            if asked.traces:
                problems.append(_trace(asked, service, stack))
            if asked.metrics and registry is not None:
                problems.append(_measure(asked, service, registry, stack))
        except ModuleNotFoundError as error:
            raise missing(error, "with telemetry") from error
        yield lambda: "; ".join(said for each in problems if (said := each())) or None


class _Asked:
    """Settings go before the environment; `OTEL_SDK_DISABLED` before both."""

    def __init__(self, settings: TelemetrySettings, environment: Mapping[str, str]) -> None:
        self.settings, self.environment = settings, environment
        on = environment.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
        self.traces = on and settings.traces and self._asked_for("OTEL_TRACES_EXPORTER")
        self.metrics = on and settings.metrics and self._asked_for("OTEL_METRICS_EXPORTER")

    def _asked_for(self, variable: str) -> bool:
        named = {each.strip() for each in self.environment.get(variable, "").split(",")}
        return self.settings.endpoint is not None or "otlp" in named

    def way(self, path: str) -> dict[str, Any]:
        """For an exporter of the SDK; what is None it looks up in the environment."""
        settings = self.settings
        endpoint = None if settings.endpoint is None else settings.endpoint.rstrip("/") + path
        ca_file = None if settings.ca_file is None else str(settings.ca_file)
        headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        # why: what we send of our own is not traced where it arrives, least of all if that is here
        quiet = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-{_UNTRACED}"
        return {
            "endpoint": endpoint,
            "certificate_file": ca_file,
            "headers": {**_headers(self.environment), **headers, "traceparent": quiet},
        }

    def sampler(self) -> Sampler | None:
        from opentelemetry.sdk.trace.sampling import (  # noqa: PLC0415 - heavy
            ParentBased,
            TraceIdRatioBased,
        )

        if "OTEL_TRACES_SAMPLER" in self.environment:
            return None
        return ParentBased(TraceIdRatioBased(self.settings.sample_ratio))

    def resource(self, service: str) -> Resource:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - heavy

        from stagewatch.release import VERSION  # noqa: PLC0415

        named = {"service.version": VERSION}
        if "OTEL_SERVICE_NAME" not in self.environment:
            named["service.name"] = service
        return Resource.create(named)


def _headers(environment: Mapping[str, str]) -> dict[str, str]:
    from opentelemetry.util.re import parse_env_headers  # noqa: PLC0415 - heavy

    told = environment.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    return dict(parse_env_headers(told, liberal=True))


def _trace(asked: _Asked, service: str, stack: ExitStack) -> Callable[[], str | None]:
    from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: PLC0415 - heavy
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    from stagewatch.telemetry.takers import Taker, WatchedSpans, without_its_words  # noqa: PLC0415
    from stagewatch.telemetry.tracer import SdkTracer  # noqa: PLC0415

    taker = Taker("traces")
    exporter = OTLPSpanExporter(
        **asked.way("/v1/traces"),
        timeout=_LAST_S,
        compression=Compression.Gzip,
        session=taker.session,
    )
    stack.enter_context(without_its_words())
    provider = TracerProvider(
        sampler=asked.sampler(), resource=asked.resource(service), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(WatchedSpans(exporter, taker)))
    stack.callback(provider.shutdown)
    stack.enter_context(traced_by(SdkTracer(provider)))
    return taker.problem


def _measure(
    asked: _Asked, service: str, registry: CollectorRegistry, stack: ExitStack
) -> Callable[[], str | None]:
    from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: PLC0415 - heavy
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415
        OTLPMetricExporter,
    )

    from stagewatch.telemetry.metrics import MetricsSender  # noqa: PLC0415
    from stagewatch.telemetry.takers import Taker, without_its_words  # noqa: PLC0415

    taker = Taker("metrics")
    exporter = OTLPMetricExporter(
        **asked.way("/v1/metrics"),
        timeout=_LAST_S,
        compression=Compression.Gzip,
        session=taker.session,
    )
    stack.enter_context(without_its_words())
    sender = MetricsSender(
        registry,
        exporter,
        asked.resource(service),
        taker,
        interval_s=asked.settings.metrics_interval_s,
    )
    return stack.enter_context(sender).problem
