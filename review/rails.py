"""The limits within which a review recommends anything; every one can be set."""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.errors import ConfigError

__all__ = ["Rails"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rails:
    """Gates and guard rails. `spare_workers`: GPUs that stand ready beyond those in use."""

    replay_p99_off: float = 0.20
    replay_goodput_off: float = 0.02
    days_min: int = 5
    requests_min: int = 20_000
    peak_hour_min: int = 2_000
    traced_min: float = 0.95
    sure: float = 0.95
    cheaper_min: float = 0.10
    saves_min_per_week: float = 0.0
    stress: float = 1.2
    headroom: float = 1.5
    seen_factor: float = 1.1
    moves_max: int = 1
    spare_workers: int = 0
    splits_max: int = 20
    growth_weekly: float = 1.0
    bootstrap_draws: int = 4_000
    parameter_draws: int = 2
    interpreted_requests: int = field(default=30_000)

    def __post_init__(self) -> None:
        shares = (self.replay_p99_off, self.replay_goodput_off, self.traced_min, self.sure)
        if not all(0 < share <= 1 for share in shares):
            raise ConfigError(
                "a share lies outside 0 to 1", where="review", remedy="Use shares such as 0.2."
            )
        if not 1 <= self.stress <= self.headroom < 10:
            raise ConfigError(
                "stress is a factor of today's traffic, and headroom no smaller",
                where="review",
                remedy="Use factors such as 1.2 and 1.5.",
            )
