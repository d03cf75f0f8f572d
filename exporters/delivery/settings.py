"""Where exports go, and how much of them is kept while nobody takes them."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

__all__ = ["DeliverySettings", "WebAddress"]

_MIB = 1024 * 1024


def _web_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no web address; write http://host:port/metrics")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a password in a URL ends up in logs; leave it out of the address")
    return url


WebAddress = Annotated[str, AfterValidator(_web_address)]


class DeliverySettings(BaseModel):
    """What every sidecar can be told about the way to the collector."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: WebAddress | None = Field(
        default="http://127.0.0.1:4318",
        description="The collector's OTLP/HTTP address, without `/v1/metrics`. Null: do not push.",
    )
    token: SecretStr | None = Field(
        default=None, description="Bearer token that the collector asks for."
    )
    ca_file: Path | None = Field(
        default=None, description="Certificates (PEM) to trust for an `https://` endpoint."
    )
    push_timeout_s: float = Field(
        default=10.0, gt=0, le=60, description="An export must be answered within this time (s)."
    )
    spool_dir: Path | None = Field(
        default=Path("stagewatch-data/spool"),
        description="Directory for exports that wait, one folder per exporter in it; "
        "`stagewatch up` puts it into its data directory. Null: at most 16 MiB in memory.",
    )
    spool_bytes: int = Field(
        default=256 * _MIB,
        ge=64 * 1024,
        description="Exports that wait on disk (bytes, compressed); beyond, the oldest are dropped.",
    )
    spool_age_s: float = Field(
        default=86_400.0, gt=0, description="An export that waited longer is dropped (s)."
    )
