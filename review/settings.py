"""Settings of the weekly review: what is promised, what a worker costs and holds, how far it may go."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from review.money import Price, PriceTerms
from review.rails import Rails
from review.scores import Promise
from review.sizing import kv_bytes
from review.steps import Engine
from review.timetable import Cron

__all__ = ["KvSettings", "PriceSettings", "PromiseSettings", "ReviewSettings", "WorkerSettings"]


class PriceSettings(BaseModel):
    """What one worker of a kind costs; nothing is guessed where nobody says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_hour: float = Field(
        default=..., gt=0, lt=1e6, description="Price of one worker for one hour."
    )
    gpu: str = Field(
        default="", max_length=128, description="Of workers on this GPU type; empty: on any."
    )
    currency: str = Field(
        default="USD", pattern=r"^[A-Z]{3}$", description="Three letters; one for all prices."
    )
    terms: PriceTerms = Field(
        default=PriceTerms.ON_DEMAND, description="`on demand`, `reserved` or `spot`."
    )
    source: str = Field(
        default="", max_length=256, description="Who said so, and when; stands in the report."
    )

    @property
    def price(self) -> Price:
        """The same as the review takes it."""
        return Price(**self.model_dump())


class PromiseSettings(BaseModel):
    """What a request is promised."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ttft_s: float = Field(default=..., gt=0, lt=1e6, description="Time to the first token (s).")
    tpot_s: float = Field(default=..., gt=0, lt=1e6, description="Time per token after that (s).")
    target: float = Field(
        default=0.99, gt=0, lt=1, description="Share of requests that must have both."
    )

    @property
    def promise(self) -> Promise:
        """The same as the review takes it."""
        return Promise(**self.model_dump())


class WorkerSettings(BaseModel):
    """What a worker of a role can hold, as its engine is configured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kv_tokens: int | None = Field(
        default=None, gt=0, description="Tokens that its KV cache holds; unset: full pools unseen."
    )
    slots: int = Field(default=256, gt=0, description="Sequences it works on at once.")
    budget_tokens: int | None = Field(
        default=None, gt=0, description="Most prompt tokens of a step; unset: as seen."
    )

    @property
    def engine(self) -> Engine:
        """The same as the review takes it."""
        return Engine(**self.model_dump())


class KvSettings(BaseModel):
    """The shape of a model's KV cache: with it tokens are told in bytes too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layers: int = Field(default=..., gt=0, lt=10_000, description="Layers with attention.")
    kv_heads: int = Field(default=..., gt=0, lt=10_000, description="Heads of keys and values.")
    head_size: int = Field(default=..., gt=0, lt=100_000, description="Values of a head.")
    bytes_per_value: float = Field(default=2.0, gt=0, le=8, description="2: 16 bits; 1: FP8.")

    @property
    def token_bytes(self) -> float:
        """Of one token."""
        return kv_bytes(**self.model_dump(), tokens=1)


class ReviewSettings(BaseModel):
    """The weekly review. Prices stand in `prices`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    promise: PromiseSettings | None = Field(
        default=None, description="Unset: from the objectives of the service on TTFT and TPOT."
    )
    prefill: WorkerSettings = Field(
        default=WorkerSettings(), description="What a prefill worker holds."
    )
    decode: WorkerSettings = Field(
        default=WorkerSettings(), description="What a decode worker holds."
    )
    kv_cache: KvSettings | None = Field(
        default=None, description="The shape of the model's KV cache; unset: told in tokens only."
    )
    spare_workers: int = Field(
        default=0, ge=0, le=10_000, description="Workers that stand ready beyond those in use."
    )
    start_s: float | None = Field(
        default=None, gt=0, description="How long a worker takes to start, as measured (s)."
    )
    drain_s: float | None = Field(
        default=None, gt=0, description="How long a worker is drained, as configured (s)."
    )
    days_min: int = Field(default=5, ge=1, description="Whole days without which nothing is said.")
    requests_min: int = Field(default=20_000, ge=1, description="Requests, likewise.")
    peak_hour_min: int = Field(
        default=2_000, ge=1, description="Requests in the busiest hour, likewise."
    )
    growth_weekly: float | None = Field(
        default=None,
        ge=0.1,
        le=10,
        description="Next week's traffic over this week's; unset: as the same weekdays grew.",
    )
    saves_min_per_week: float = Field(
        default=0.0, ge=0, description="A move that saves less is not worth it."
    )
    cron: str | None = Field(
        default=None,
        max_length=128,
        description="When `stagewatch up` reviews by itself, as in `0 6 * * MON`; unset: never.",
    )
    zone: str = Field(default="UTC", max_length=64, description="By whose clock: an IANA name.")
    days: int = Field(default=7, ge=1, le=35, description="Of how many days until then.")
    services: tuple[str, ...] = Field(
        default=(), max_length=100, description="Of which services; empty: of each that is seen."
    )
    receivers: tuple[str, ...] = Field(
        default=(), max_length=100, description="Who is sent the result; empty: all `receivers`."
    )

    @model_validator(mode="after")
    def _schedule_is_one(self) -> Self:
        _ = self.schedule
        return self

    @property
    def schedule(self) -> Cron | None:
        """When it runs; None where nobody asked for that."""
        return None if self.cron is None else Cron(line=self.cron, zone=self.zone)

    @property
    def rails(self) -> Rails:
        """The limits within which anything is recommended."""
        return Rails(
            days_min=self.days_min,
            requests_min=self.requests_min,
            peak_hour_min=self.peak_hour_min,
            spare_workers=self.spare_workers,
            growth_weekly=self.growth_weekly or 1.0,
            saves_min_per_week=self.saves_min_per_week,
        )
