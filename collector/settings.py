"""The collector's settings: one frozen value, every field with its unit and its meaning."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from collector.remote_write_settings import RemoteWriteSettings

__all__ = ["JOIN_WINDOW_S", "CollectorSettings", "TierRetention"]

JOIN_WINDOW_S = 420
"""Two minutes of work on both sides, and clocks five minutes apart."""

_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S
_MIB = 1024 * 1024

_Port = Annotated[int, Field(ge=0, le=65_535)]
_Role = Literal["prefill", "decode", "both", "frontend"]


class TierRetention(BaseModel):
    """How long histograms and numbers are kept, finest tier first; a coarser tier keeps longer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tier_10s_s: int = Field(
        default=_DAY_S, ge=_HOUR_S, description="Tiles of 10 s are kept this long (s)."
    )
    tier_1m_s: int = Field(
        default=14 * _DAY_S, ge=_HOUR_S, description="Tiles of 1 min are kept this long (s)."
    )
    tier_1h_s: int = Field(
        default=400 * _DAY_S, ge=_DAY_S, description="Tiles of 1 h are kept this long (s)."
    )
    tier_1d_s: int = Field(
        default=1830 * _DAY_S, ge=_DAY_S, description="Tiles of 1 day are kept this long (s)."
    )

    @model_validator(mode="after")
    def _coarser_keeps_longer(self) -> "TierRetention":
        kept = tuple(self.by_tier().values())
        if list(kept) != sorted(kept):
            raise ValueError(
                f"a coarser tier must be kept at least as long as a finer one, not {kept}; "
                "raise the later numbers or lower the earlier ones"
            )
        return self

    def by_tier(self) -> Mapping[int, int]:
        """Seconds kept, by the tier's tile length in seconds."""
        return {
            10: self.tier_10s_s,
            60: self.tier_1m_s,
            3600: self.tier_1h_s,
            86_400: self.tier_1d_s,
        }


class CollectorSettings(BaseModel):
    """Where to listen, whom to let in, how much to take, how long to keep."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    otlp_http_port: _Port = Field(
        default=4318,
        description="Port of OTLP/HTTP (`/v1/traces`, `/v1/metrics`); 0 takes a free one.",
    )
    otlp_grpc_port: _Port = Field(
        default=4317, description="Port of OTLP/gRPC; 0 takes a free one."
    )
    tokens: tuple[SecretStr, ...] = Field(
        default=(), description="Bearer tokens that may send. Empty: anyone who can connect may."
    )
    firehose_keys: tuple[SecretStr, ...] = Field(
        default=(),
        description="Access keys of Firehose deliveries to `/v1/firehose`. Empty: nobody may deliver.",
    )
    max_body_bytes: int = Field(
        default=8 * _MIB,
        gt=0,
        description="Largest export as it travels, compressed or not (bytes).",
    )
    max_decompressed_bytes: int = Field(
        default=32 * _MIB, gt=0, description="Largest export once decompressed (bytes)."
    )
    max_items: int = Field(
        default=100_000, gt=0, description="Spans or data points in one export at most."
    )
    max_concurrent: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Exports read, decoded and stored at one time, per protocol.",
    )
    body_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="A sender that is slower than this with its body is cut off (s).",
    )
    queue_bytes: int = Field(
        default=64 * _MIB,
        gt=0,
        description="Exports waiting for the store; more is told to wait (bytes).",
    )
    lateness_s: int = Field(
        default=600,
        ge=0,
        description="Older than this is counted as late, and rolled up again (s).",
    )
    max_future_s: int = Field(
        default=300, ge=0, description="A time stamp further ahead of our clock is refused (s)."
    )
    join_window_s: int = Field(
        default=JOIN_WINDOW_S,
        gt=0,
        le=_HOUR_S,
        description="Spans of one request end at most this far apart, each by its own clock (s).",
    )
    requests_retention_s: int = Field(
        default=72 * _HOUR_S, ge=60, description="Single requests are kept this long (s)."
    )
    retention: TierRetention = Field(
        default=TierRetention(), description="How long each tier of histograms and numbers is kept."
    )
    max_series: int = Field(
        default=20_000,
        gt=0,
        le=16_000_000,
        description="Series at most; of further ones only service and source are kept.",
    )
    max_label_values: int = Field(
        default=2000,
        gt=0,
        description="Different values one label may take; further ones become `other`.",
    )
    roles: Mapping[str, _Role] = Field(
        default={},
        description="Role of a service whose spans do not say: `prefill`, `decode`, `frontend`.",
    )
    services: Mapping[str, str] = Field(
        default={}, description="Services to rename: `vllm-prefill: chat` joins it with `chat`."
    )
    remote_write: RemoteWriteSettings = Field(
        default=RemoteWriteSettings(), description="What Prometheus writes, and what it is called."
    )

    @model_validator(mode="after")
    def _no_empty_token(self) -> "CollectorSettings":
        if not all(token.get_secret_value().strip() for token in self.tokens):
            raise ValueError(
                "a token is empty and would let anyone in; remove it or give it a value"
            )
        return self

    @model_validator(mode="after")
    def _room_for_one(self) -> "CollectorSettings":
        if self.max_decompressed_bytes < self.max_body_bytes:
            raise ValueError(
                "max_decompressed_bytes is below max_body_bytes, so plain bodies of allowed size "
                "would be refused; raise the first or lower the second"
            )
        return self
