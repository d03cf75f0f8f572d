"""What workers cost. Prices are given, never guessed: per worker and hour, with where they are from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from domain.errors import ConfigError
from review.period import Kind
from review.split import Split

__all__ = ["HOURS_PER_WEEK", "Money", "Price", "PriceTerms", "money_of", "per_10k_tokens"]

HOURS_PER_WEEK: Final = 168.0
_WEEKS_PER_YEAR: Final = 365 / 7


class PriceTerms(StrEnum):
    """How a worker is paid for."""

    ON_DEMAND = "on demand"
    RESERVED = "reserved"
    SPOT = "spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Of one worker of a kind. An empty `gpu` stands for any. `source`: who said so, and when."""

    per_hour: float
    gpu: str = ""
    currency: str = "USD"
    terms: PriceTerms = PriceTerms.ON_DEMAND
    source: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.per_hour < 1e6:
            raise ConfigError(
                f"a worker costs something per hour, not {self.per_hour}",
                where=f"prices, {self.gpu or 'any GPU'}",
                remedy="Give the price of one worker for one hour.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Of a split. None where its price or its traffic is not known.

    `idle_per_week` is the share of the cost while workers are not loaded: prefill's busy share,
    decode's load ratio. `reserved_saves_per_week`: the same workers at the reserved price.
    """

    currency: str
    per_hour: float
    per_week: float
    per_year: float
    per_10k_tokens: float | None
    per_1k_good: float | None
    idle_per_week: float | None
    reserved_saves_per_week: float | None = None
    spot_saves_per_week: float | None = None


def per_10k_tokens(per_hour: float, tokens_per_s: float) -> float | None:
    """$/h / (tokens/s) / 3600 x 10 000."""
    return per_hour / tokens_per_s / 3600 * 10_000 if tokens_per_s > 0 else None


def money_of(
    split: Split,
    prices: Sequence[Price],
    *,
    good_per_s: float,
    good_tokens_per_s: float,
    load: dict[str, float] | None = None,
) -> Money | None:
    """None where a worker of the split has no price: nothing is guessed.

    `good_tokens_per_s` is the effective throughput: output tokens of requests that kept their
    promise. `load`: by role, from 0 to 1.
    """
    hourly = [_hourly(kind, count, prices, PriceTerms.ON_DEMAND) for kind, count in split.counts]
    known = [each for each in hourly if each is not None]
    if len(known) < len(hourly):
        return None
    per_hour = sum(known)
    per_week = per_hour * HOURS_PER_WEEK
    idle = None
    if load is not None:
        idle = HOURS_PER_WEEK * sum(
            each * (1 - min(load.get(kind.role, 1.0), 1.0))
            for each, (kind, _) in zip(known, split.counts, strict=True)
        )
    return Money(
        currency=prices[0].currency,
        per_hour=per_hour,
        per_week=per_week,
        per_year=per_week * _WEEKS_PER_YEAR,
        per_10k_tokens=per_10k_tokens(per_hour, good_tokens_per_s),
        per_1k_good=per_hour / good_per_s / 3600 * 1_000 if good_per_s > 0 else None,
        idle_per_week=idle,
        reserved_saves_per_week=_saves(split, prices, PriceTerms.RESERVED, per_hour),
        spot_saves_per_week=_saves(split, prices, PriceTerms.SPOT, per_hour),
    )


def _hourly(kind: Kind, count: int, prices: Sequence[Price], terms: PriceTerms) -> float | None:
    """The GPU type's own price, or that of any; on these terms."""
    if len({price.currency for price in prices}) > 1:
        raise ConfigError(
            "prices are in several currencies",
            where="prices",
            remedy="Give all prices in one currency.",
        )
    fitting = [each for each in prices if each.gpu in (kind.gpu, "") and each.terms is terms]
    best = sorted(fitting, key=lambda price: price.gpu != kind.gpu)[:1]
    return best[0].per_hour * count if best else None


def _saves(
    split: Split, prices: Sequence[Price], terms: PriceTerms, per_hour: float
) -> float | None:
    found = [_hourly(kind, count, prices, terms) for kind, count in split.counts]
    known = [each for each in found if each is not None]
    return (per_hour - sum(known)) * HOURS_PER_WEEK if len(known) == len(found) else None
