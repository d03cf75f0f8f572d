"""Where our answers are written to, and how much of them waits while nobody takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from exporters.delivery.settings import WebAddress
from stagewatch.secret_headers import SecretHeaders

__all__ = ["RemoteWriteOutSettings"]

_MIB = 1024 * 1024
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class RemoteWriteOutSettings(BaseModel):
    """Prometheus remote-write 1.0, outward."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: WebAddress | None = Field(
        default=None,
        description="Where the summary is written to, such as http://mimir:9009/api/v1/push or "
        "http://prometheus:9090/api/v1/write. Null: nowhere.",
    )
    headers: SecretHeaders = Field(
        default={},
        description="Further headers, such as Authorization or X-Scope-OrgID; never printed.",
    )
    ca_file: Path | None = Field(
        default=None, description="Certificates (PEM) to trust for an `https://` address."
    )
    labels: Mapping[str, str] = Field(
        default={"job": "stagewatch"},
        description="Labels that every series gets; an empty value takes one away.",
    )
    timeout_s: float = Field(
        default=10.0, gt=0, le=60, description="A request must be answered within this time (s)."
    )
    spool_bytes: int = Field(
        default=64 * _MIB,
        ge=64 * 1024,
        description="What waits on disk (bytes, compressed); beyond, the oldest is dropped.",
    )
    spool_age_s: float = Field(
        default=3600.0,
        gt=0,
        description="What waited longer is dropped (s): Prometheus takes nothing that is much older "
        "than what it has.",
    )

    @field_validator("labels")
    @classmethod
    def _named(cls, labels: Mapping[str, str]) -> Mapping[str, str]:
        for name in labels:
            if not _LABEL.fullmatch(name) or name.startswith("__"):
                raise ValueError(f"{name!r} is no name of a label")
        return labels
