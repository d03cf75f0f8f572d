"""What users ask of a fleet: every arrival of a period, also those that were refused.

Tokens that nobody told are drawn from requests that told theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from domain.errors import InputError
from review.period import Period

__all__ = ["Load", "load_of", "louder", "some", "with_hit_rate"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int32]

_SPREAD_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """Requests in order of arrival. `served` marks those whose outcome was measured.

    `hit_ratio` is None where no prefix cache tells of itself: absent is not zero.
    """

    length_s: float
    arrival_s: Floats
    new_tokens: Whole
    context_tokens: Whole
    output_tokens: Whole
    served: NDArray[np.bool_]
    hit_ratio: float | None
    drawn: int = 0

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def demand_per_s(self) -> float:
        return len(self) / self.length_s


def load_of(period: Period, *, seed: int = 0) -> Load:
    """The offered load of a period."""
    dice = np.random.default_rng(seed)
    prompt, drawn_prompts = _filled(period.prompt_tokens, 1, "prompt_tokens", dice)
    output, drawn_outputs = _filled(period.output_tokens, 1, "output_tokens", dice)
    cached = np.minimum(np.maximum(period.cached_tokens, 0), prompt - 1)
    told = period.cached_tokens >= 0
    hit = float(cached[told].sum() / prompt[told].sum()) if told.any() else None
    return Load(
        length_s=period.length_s,
        arrival_s=period.arrival_s,
        new_tokens=(prompt - cached).astype(np.int32),
        context_tokens=prompt,
        output_tokens=output,
        served=period.served,
        hit_ratio=hit,
        drawn=max(drawn_prompts, drawn_outputs),
    )


def louder(load: Load, factor: float, *, seed: int = 0) -> Load:
    """The same hours with this much traffic: some requests come again within a minute, or not at all."""
    if not 0 < factor < 100:
        raise ValueError(f"traffic grows by a factor between 0 and 100, not {factor}")
    dice = np.random.default_rng(seed)
    copies = np.floor(factor + dice.random(len(load))).astype(np.int64)
    rows = np.repeat(np.arange(len(load)), copies)
    again = np.concatenate(([False], rows[1:] == rows[:-1])) if len(rows) else rows.astype(bool)
    arrival_s = load.arrival_s[rows] + np.where(again, dice.random(len(rows)) * _SPREAD_S, 0.0)
    arrival_s = np.minimum(arrival_s, load.length_s)
    order = np.argsort(arrival_s, kind="stable")
    return _rows(load, rows[order], arrival_s[order])


def with_hit_rate(load: Load, factor: float) -> Load:
    """The same requests with this share of their prefix-cache hits."""
    cached = (load.context_tokens - load.new_tokens) * factor
    new = np.clip(load.context_tokens - cached, 1, load.context_tokens).astype(np.int32)
    hit = None if load.hit_ratio is None else load.hit_ratio * factor
    return Load(
        length_s=load.length_s,
        arrival_s=load.arrival_s,
        new_tokens=new,
        context_tokens=load.context_tokens,
        output_tokens=load.output_tokens,
        served=load.served,
        hit_ratio=hit,
        drawn=load.drawn,
    )


def some(load: Load, rows: NDArray[Any]) -> Load:
    """Some of the requests, on the same clock."""
    return _rows(load, np.flatnonzero(rows), load.arrival_s[rows])


def _rows(load: Load, rows: NDArray[np.int64], arrival_s: Floats) -> Load:
    return Load(
        length_s=load.length_s,
        arrival_s=arrival_s,
        new_tokens=load.new_tokens[rows],
        context_tokens=load.context_tokens[rows],
        output_tokens=load.output_tokens[rows],
        served=load.served[rows],
        hit_ratio=load.hit_ratio,
        drawn=load.drawn,
    )


def _filled(column: Whole, least: int, name: str, dice: np.random.Generator) -> tuple[Whole, int]:
    """The column with what is unknown drawn from what is known."""
    unknown = column < least
    count = int(unknown.sum())
    if not count:
        return column, 0
    known = column[~unknown]
    if not len(known):
        raise InputError(
            "no request tells it",
            where=name,
            remedy="Send spans with token counts (gen_ai.usage.*).",
        )
    filled = column.copy()
    filled[unknown] = dice.choice(known, count)
    return filled, count
