"""The settings of what follows an alert: escalation, heartbeat, lead; every field explained."""

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

__all__ = ["EscalationSettings", "HeartbeatSettings", "LeadSettings"]


class EscalationSettings(BaseModel):
    """Who is told when nobody has acknowledged a page for so long."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after_s: int = Field(gt=0, le=86_400, description="Seconds without an acknowledgement.")
    receivers: tuple[str, ...] = Field(min_length=1, description="The receivers told then.")


class HeartbeatSettings(BaseModel):
    """A dead man's switch: a call to somebody who tells you when it no longer comes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: SecretStr | None = Field(
        default=None,
        description="Called after an evaluation that went through, from the reading of the data to "
        "an outbox without anything overdue (healthchecks.io, Dead Man's Snitch, …); never printed.",
    )
    method: Literal["GET", "POST"] = Field(default="GET", description="How it is called.")
    interval_s: float = Field(
        default=60.0,
        ge=1,
        le=86_400,
        description="How often (s); let the other side wait twice it.",
    )
    overdue_s: float = Field(
        default=300.0,
        gt=0,
        description="A notification undelivered for longer holds the heartbeat back (s).",
    )
    timeout_s: float = Field(default=5.0, gt=0, le=60, description="Patience for one call (s).")
    allow_private: bool = Field(
        default=False, description="Allow a target on loopback and private networks."
    )

    @field_validator("url")
    @classmethod
    def _http(cls, url: SecretStr | None) -> SecretStr | None:
        parts = urlsplit(url.get_secret_value()) if url is not None else None
        if parts is not None and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("a heartbeat's url begins with http:// or https:// and names a host")
        return url


class LeadSettings(BaseModel):
    """Which of several processes on one PostgreSQL evaluates."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lease_s: float = Field(
        default=5.0,
        ge=2,
        le=60,
        description="A leader that is not heard of for so long is followed by another (s).",
    )
