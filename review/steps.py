"""How long a step takes: curves per kind of worker, and what a fleet's other parts take. Seconds, tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from review.period import Kind
from review.routing import LEAST_LOADED, Choice

__all__ = ["DecodeCurve", "Engine", "Handover", "Knots", "Model", "PrefillCurve"]

Floats = NDArray[np.float64]
Knots = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What a worker of a kind can hold, as its engine is configured. None: nobody told.

    Without `kv_tokens` nothing is refused for want of KV cache, and a review says so.
    """

    kv_tokens: int | None = None
    slots: int = 256
    budget_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("kv_tokens", "slots", "budget_tokens"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1 << 40:
                raise ValueError(f"{name} is a number of things, not {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillCurve:
    """base + token x n + attention x n x context + square x n², and knots over a step's n tokens.

    `noise`: 512 quantiles of observed over predicted. `bias`: misfit over quantile bins.
    """

    base_s: float
    token_s: float
    attention_s: float
    square_s: float
    budget_tokens: float
    knots: Knots = ()
    noise: tuple[float, ...] = (1.0,)
    requests: int = 0
    clean_share: float = 1.0
    bias: float = 0.0

    def step_s(self, new_tokens: Any, context_tokens: Any) -> Floats:
        """Prompts of which each has a step, or several, of its own."""
        new = np.asarray(new_tokens, np.float64)
        before = np.asarray(context_tokens, np.float64) - new
        steps = np.ceil(new / self.budget_tokens)
        found = self.base_s * steps + self.token_s * new
        found = found + self.attention_s * new * (before + 0.5 * new)
        whole, rest = steps - 1, new - (steps - 1) * self.budget_tokens
        found = found + self.square_s * (whole * self.budget_tokens**2 + rest**2)
        for knot, slope in self.knots:
            found = found + slope * np.maximum(rest - knot, 0)
            found = found + slope * whole * max(self.budget_tokens - knot, 0)
        return np.maximum(found, 2e-4)

    @property
    def tokens_per_s(self) -> float:
        """Of a worker that is never idle, without attention."""
        full_s = float(self.step_s(self.budget_tokens, self.budget_tokens / 2))
        return self.budget_tokens / full_s


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCurve:
    """base + sequence x batch + kv x KV tokens, and knots over the KV tokens.

    Noise by output length: `noise[k]` belongs to answers of at least `noise_from[k]` tokens.
    """

    base_s: float
    sequence_s: float
    kv_token_s: float
    knots: Knots = ()
    noise_from: tuple[float, ...] = (0.0,)
    noise: tuple[tuple[float, ...], ...] = ((1.0,),)
    requests: int = 0
    bias: float = 0.0
    batch_max: float = 0.0
    kv_max: float = 0.0

    def step_s(self, batch: Any, kv_tokens: Any) -> Floats:
        kv = np.asarray(kv_tokens, np.float64)
        found = self.base_s + self.sequence_s * np.asarray(batch, np.float64)
        found = found + self.kv_token_s * kv
        for knot, slope in self.knots:
            found = found + slope * np.maximum(kv - knot, 0)
        return np.maximum(found, 5e-5)

    def batch_at(self, step_s: float, context_tokens: float, slots: int) -> int:
        """The largest batch of such requests whose step takes no longer; 0 where even one does."""
        batch = np.arange(1, slots + 1)
        fits = self.step_s(batch, batch * context_tokens) <= step_s
        return int(batch[fits].max()) if fits.any() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Prefill's end to decode's line; some engines look for arrivals only every so many steps.

    `by_decode`: the first token is decode's.
    """

    base_s: float = 0.0
    token_s: float = 0.0
    steps: float = 0.0
    by_decode: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Everything that a replay needs of a fleet. `speed`: factors of workers by name, 1 where absent.

    `notes` say what was assumed because nobody told it.
    """

    prefill: Mapping[Kind, PrefillCurve]
    decode: Mapping[Kind, DecodeCurve]
    engines: Mapping[Kind, Engine]
    handover: Handover
    prefill_choice: Choice = field(default_factory=lambda: Choice(policy=LEAST_LOADED))
    decode_choice: Choice = field(default_factory=lambda: Choice(policy=LEAST_LOADED))
    speed: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def engine(self, kind: Kind) -> Engine:
        return self.engines.get(kind, Engine())
