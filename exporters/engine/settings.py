"""The engine exporter's settings: whom to read, how often, where to send."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from domain.labels import LABEL_NAMES, MAX_LABEL_LENGTH, Labels, labels_of
from exporters.delivery.settings import DeliverySettings, WebAddress

__all__ = ["EngineSettings", "TargetSettings"]

_MIB = 1024 * 1024
_OURS = ("source", "reason", "finish_reason", "gpu_uuid", "gpu_name", "gpu_parent")
_OWN_FIELDS = ("service", "replica", "role", "pool")
_FREE = tuple(name for name in LABEL_NAMES if name not in (*_OURS, *_OWN_FIELDS))


_Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_LENGTH)]


class TargetSettings(BaseModel):
    """One engine's page, and what we call it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: WebAddress = Field(description="The engine's page; `/metrics` is added to a bare host.")
    service: _Label = Field(description="The service; the same as `service.name` of its spans.")
    replica: _Label | None = Field(
        default=None, description="This replica's name; host and port when absent."
    )
    role: Literal["prefill", "decode", "both"] | None = Field(
        default=None,
        description="What the replica does. Engines do not say it, so the operator must.",
    )
    pool: _Label | None = Field(default=None, description="The pool it belongs to.")
    slots: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Requests that it works on at once (vLLM's `max_num_seqs`); no page says it."
        " A diagnosis needs it to name a limit of concurrency (A8).",
    )
    batch_profile: Literal["chat", "bulk"] | None = Field(
        default=None,
        description="For which traffic batch size and scheduler were tuned; no page says it."
        " A diagnosis holds it against the `use_case` of requests (B8).",
    )
    labels: Mapping[str, _Label] = Field(
        default={}, description="More labels of this target, such as `region` or `use_case`."
    )

    @model_validator(mode="after")
    def _known_labels(self) -> Self:
        for name in self.labels:
            if name in _OWN_FIELDS:
                raise ValueError(f"{name} is a setting of its own; move it out of `labels`")
            if name not in _FREE:
                raise ValueError(f"{name!r} is no label; use one of {', '.join(_FREE)}")
        return self

    @property
    def page_url(self) -> str:
        """The address of the page itself."""
        parts = urlsplit(self.url)
        return parts._replace(path="/metrics").geturl() if parts.path in ("", "/") else self.url

    @property
    def declared(self) -> Mapping[str, float]:
        """What the operator says of it, as levels by metric."""
        told = {
            "request_slots": self.slots,
            "batch_profile": None
            if self.batch_profile is None
            else float(self.batch_profile == "bulk"),
        }
        return {metric: float(value) for metric, value in told.items() if value is not None}

    @property
    def series(self) -> Labels:
        """The labels that all of this target's series carry."""
        own = {
            "service": self.service,
            "replica": self.replica or urlsplit(self.url).netloc,
            "role": self.role or "",
            "pool": self.pool or "",
        }
        return labels_of({**self.labels, **own})


class EngineSettings(DeliverySettings):
    """All targets of one sidecar, and where what they say goes."""

    targets: tuple[TargetSettings, ...] = Field(min_length=1, description="The engines to read.")
    interval_s: float = Field(
        default=1.0,
        ge=0.1,
        le=60,
        description="From one scrape to the next (s). The shorter, the tighter the intervals.",
    )
    timeout_s: float = Field(
        default=5.0, gt=0, le=60, description="A page must have arrived within this time (s)."
    )
    stall_after_s: float = Field(
        default=5.0,
        ge=1,
        description="An engine with requests stands still when nothing moved for this long (s).",
    )
    max_page_bytes: int = Field(
        default=16 * _MIB, ge=1024, description="A page longer than this is refused (bytes)."
    )
    listen_host: str = Field(
        default="127.0.0.1", min_length=1, description="Address of the exporter's own page."
    )
    listen_port: int | None = Field(
        default=9464,
        ge=0,
        le=65_535,
        description="Port of the exporter's own `/metrics`; 0: a free one. Null: no page.",
    )

    @model_validator(mode="after")
    def _distinct_targets(self) -> Self:
        seen: set[Labels] = set()
        for target in self.targets:
            if target.series in seen:
                raise ValueError(
                    f"two targets are called {dict(target.series)}; give each its own `replica`"
                )
            seen.add(target.series)
        return self
