"""What can be set about the simulated fleet."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from stagewatch.demo.incidents import INCIDENTS

__all__ = ["FleetSettings"]


class FleetSettings(BaseModel):
    """The demo's fleet: where it sends to, how busy it is, and what goes wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: str = Field(
        default="http://127.0.0.1:4318",
        pattern=r"^https?://",
        description="OTLP/HTTP base of a collector.",
    )
    headers: dict[str, str] = Field(
        default={}, description="Sent with every export, such as a token."
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address the pages listen on.")
    base_port: int = Field(
        default=0, ge=0, le=65_000, description="Port of the first replica's page; 0: free ones."
    )
    seed: int = Field(default=1, description="The same seed, the same users and engines.")
    load: float = Field(
        default=1.5,
        gt=0,
        le=4,
        description="Users per user of the fitted traces; beyond 2 queues grow.",
    )
    speed: float = Field(
        default=1.0,
        ge=0.1,
        le=20,
        description="Seconds of traffic per second, on engines as much wider; durations stay real.",
    )
    trace: Path | None = Field(
        default=None,
        description="A request table to replay to the assistant instead of invented users.",
    )
    incident: str = Field(default="none", description=f"none, {', '.join(sorted(INCIDENTS))}.")
    incident_start_s: float = Field(default=60.0, ge=0, description="When the fault begins (s).")
    incident_duration_s: float = Field(default=600.0, gt=0, description="How long it lasts (s).")
    client_share: float = Field(
        default=0.5, ge=0, le=1, description="Users whose client sends spans."
    )
    hang_up_share: float = Field(
        default=0.015, ge=0, le=1, description="Users who leave before the end."
    )
    patience_s: float = Field(
        default=60.0, gt=0, description="Nobody waits longer for a first token (s)."
    )
    export_every_s: float = Field(
        default=1.0, ge=0.1, le=10, description="Between two exports (s)."
    )
    buffer_bytes: int = Field(
        default=64 << 20, ge=1 << 16, description="Spans kept while the collector is away."
    )
