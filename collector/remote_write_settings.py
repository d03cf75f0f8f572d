"""What a Prometheus that writes to us calls things, and how much of it we keep in mind."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from domain.labels import LABEL_NAMES

__all__ = ["RemoteWriteSettings"]

_Role = Literal["prefill", "decode", "both"]
_Name = Annotated[str, Field(min_length=1, max_length=256)]
_OURS = ("service", "replica", "source", "reason", "finish_reason")
_FREE = tuple(name for name in LABEL_NAMES if name not in _OURS)
_SAME = ("model_version", "pool", "region", "role", "tenant", "use_case", "zone")


class RemoteWriteSettings(BaseModel):
    """A target of Prometheus is a replica of ours; its job is the service."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    service_label: _Name = Field(default="job", description="Their label that names the service.")
    replica_label: _Name = Field(
        default="instance", description="Their label that names the replica."
    )
    services: Mapping[str, _Name] = Field(
        default={}, description="What a job is called here: `vllm-prod: chat`."
    )
    roles: Mapping[str, _Role] = Field(
        default={}, description="Role by job, service or instance: `vllm-prefill: prefill`."
    )
    labels: Mapping[_Name, str] = Field(
        default={name: name for name in _SAME},
        description="Their labels of a target that pass, and what they are called here.",
    )
    apart: tuple[_Name, ...] = Field(
        default=("cluster",),
        description="Labels that tell apart targets of the same job and instance.",
    )
    senders: tuple[_Name, ...] = Field(
        default=("prometheus", "prometheus_replica", "__replica__"),
        description="Labels that differ between Prometheuses that scrape the same targets: one "
        "of them is believed at a time.",
    )
    failover_s: float = Field(
        default=30.0, gt=0, description="Another one is believed when this one lags so far (s)."
    )
    settle_s: float = Field(
        default=10.0,
        ge=0.1,
        le=300,
        description="Parts of one scrape arrive within this time, when series come or go (s).",
    )
    patience_s: float = Field(
        default=60.0, ge=0.1, le=600, description="A scrape that lacks series is given up (s)."
    )
    forget_after_s: float = Field(
        default=3600.0, ge=60, description="A target silent for so long begins anew (s)."
    )
    max_targets: int = Field(default=2000, gt=0, description="Targets at most.")
    max_series: int = Field(
        default=400_000, gt=0, description="Series of all targets at most; 1 to 2 KB each."
    )
    max_series_per_target: int = Field(
        default=10_000, gt=0, description="Series of one target at most."
    )

    @model_validator(mode="after")
    def _known_labels(self) -> Self:
        for theirs, ours in self.labels.items():
            if ours not in _FREE:
                raise ValueError(
                    f"labels.{theirs}: {ours!r} is no label that can be set here; "
                    f"use one of {', '.join(_FREE)}"
                )
        return self
