"""Energy per token: joules that the counters grew by, over the tokens that came of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["EnergyFit", "EnergyPerToken", "EnergyWindow", "energy_per_token", "fit_energy"]

_FEWEST_WINDOWS = 12
_WORST_CONDITION = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyPerToken:
    """Of a pool that does one thing: its prompt tokens, or its output tokens."""

    joules: float
    idle_share: float | None
    """How much of it would have been used without any token; None where idle power is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyWindow:
    """One window of a pool that does both: all increments, and for how long it was observed."""

    joules: float
    prompt_tokens: float
    output_tokens: float
    observed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyFit:
    """ΔE = idle W · Δt + a · prompt tokens + b · output tokens, and how well that fits."""

    idle_w: float
    joules_per_prompt_token: float
    joules_per_output_token: float
    r_squared: float
    windows: int


def energy_per_token(
    joules: float, tokens: float, *, observed_s: float, idle_w: float | None = None
) -> EnergyPerToken | None:
    """None without tokens: energy that nothing came of is no price of a token."""
    if not tokens > 0 or not joules >= 0:
        return None
    idle_share = None
    if idle_w is not None and joules > 0:
        idle_share = min(idle_w * observed_s / joules, 1.0)
    return EnergyPerToken(joules=joules / tokens, idle_share=idle_share)


def fit_energy(windows: Sequence[EnergyWindow]) -> EnergyFit | None:
    """Least squares over windows; None where they are few, or too alike to tell the parts apart."""
    if len(windows) < _FEWEST_WINDOWS:
        return None
    design = np.array([(w.observed_s, w.prompt_tokens, w.output_tokens) for w in windows], float)
    joules = np.array([w.joules for w in windows], float)
    scale = np.abs(design).max(axis=0)
    if not (np.isfinite(design).all() and np.isfinite(joules).all() and (scale > 0).all()):
        return None
    if np.linalg.cond(design / scale) > _WORST_CONDITION:
        return None
    parts = np.linalg.lstsq(design / scale, joules, rcond=None)[0] / scale
    left = joules - design @ parts
    spread = ((joules - joules.mean()) ** 2).sum()
    return EnergyFit(
        idle_w=float(parts[0]),
        joules_per_prompt_token=float(parts[1]),
        joules_per_output_token=float(parts[2]),
        r_squared=float(1 - (left**2).sum() / spread) if spread > 0 else 0.0,
        windows=len(windows),
    )
