"""Whether our own traces and metrics are sent, and where to."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from exporters.delivery.settings import WebAddress
from stagewatch.secret_headers import SecretHeaders

__all__ = ["TelemetrySettings"]


class TelemetrySettings(BaseModel):
    """Our own telemetry by OTLP/HTTP. What is not set here is taken from the `OTEL_…` variables."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    endpoint: WebAddress | None = Field(
        default=None,
        description="Where to, without `/v1/traces`, such as http://otel-collector:4318. Null: "
        "nowhere, unless `OTEL_TRACES_EXPORTER` or `OTEL_METRICS_EXPORTER` is `otlp`.",
    )
    headers: SecretHeaders = Field(
        default={}, description="Further headers, such as Authorization; never printed."
    )
    ca_file: Path | None = Field(
        default=None, description="Certificates (PEM) to trust for an `https://` address."
    )
    traces: bool = Field(default=True, description="Send traces of our own work.")
    sample_ratio: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="This share of traces; `OTEL_TRACES_SAMPLER` goes before it.",
    )
    metrics: bool = Field(default=True, description="Send what our own `/metrics` shows, too.")
    metrics_interval_s: float = Field(
        default=60.0, ge=1, le=3600, description="Metrics are sent so often (s)."
    )
