"""The way to the collector as plain values: settings that were checked, without what checks them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Way"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """`exporters.delivery.settings.DeliverySettings` says what each of these means."""

    endpoint: str | None
    token: str | None = field(repr=False)
    ca_file: Path | None
    push_timeout_s: float
    spool_dir: Path | None
    spool_bytes: int
    spool_age_s: float

    @staticmethod
    def from_plain(told: dict[str, Any]) -> "Way":
        """From what `dataclasses.asdict` and JSON made of one, with paths as text."""
        paths = {
            name: Path(told[name]) if told[name] is not None else None
            for name in ("ca_file", "spool_dir")
        }
        return Way(**{**told, **paths})
