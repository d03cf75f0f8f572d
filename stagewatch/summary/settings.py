"""How much of our answers a Prometheus gets, and by which labels."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["SummarySettings"]

_Label = Literal[
    "service",
    "model",
    "model_version",
    "engine",
    "replica",
    "role",
    "pool",
    "region",
    "zone",
    "use_case",
    "tenant",
]
_Latency = Literal[
    "ttft",
    "tpot",
    "itl",
    "itl_max",
    "e2e",
    "network",
    "overhead",
    "queue",
    "prefill",
    "kv_transfer",
    "decode",
]
_MOST_SERIES = 20_000


class SummarySettings(BaseModel):
    """The summary on `/metrics` of the process that serves the pages."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description="Show our answers on the pages' `/metrics`.")
    labels: tuple[_Label, ...] = Field(
        default=("service", "model", "role"),
        min_length=1,
        description="Latencies and requests are told by these labels.",
    )
    latencies: tuple[_Latency, ...] = Field(
        default=("ttft", "itl", "tpot", "e2e", "queue", "prefill", "kv_transfer", "decode"),
        description="Of these latencies quantiles are told.",
    )
    quantiles: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        default=(0.5, 0.99), min_length=1, max_length=10, description="Which quantiles."
    )
    window_s: int = Field(
        default=300, ge=30, le=3600, description="Quantiles and means are of so many last seconds."
    )
    refresh_s: float = Field(
        default=15.0, ge=1, le=300, description="They are worked out again so often (s)."
    )
    max_groups: int = Field(
        default=100,
        ge=1,
        le=5000,
        description="Combinations of `labels` that are told, the busiest first; of the others only "
        "how many there are.",
    )

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        series = self.max_groups * len(self.latencies) * (2 * len(self.quantiles) + 1)
        if series > _MOST_SERIES:
            raise ValueError(
                f"up to {series} series are more than {_MOST_SERIES}; lower max_groups, or tell "
                "fewer latencies or quantiles"
            )
        return self
