"""One group of requests against another at like load: a factor, and the interval that holds it.

Requests are compared only with others in the same cell of batch size and prompt length. Those of
one replica within ten seconds share their steps and are no independent witnesses, so doubt is
counted by such clusters and not by requests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEWEST_EACH", "Match", "cells_of_load", "matched"]

FEWEST_EACH = 50
"""Requests on either side that found their like."""

_FEWEST_CLUSTERS = 6
_BATCH_STEP = 0.15
_PROMPT_STEP = 1.0
_PROMPT_CELLS = 64
_Z = 2.576  # 99 %, two-sided

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How many times as long it took, within [low, high]; who was compared with whom."""

    factor: float
    low: float
    high: float
    of: int
    against: int


def cells_of_load(batch: Floats, prompt_tokens: Floats) -> Ints:
    """Like batch (15 % apart) and like prompt (a factor of two) are one cell."""
    by_batch = np.round(np.log(np.maximum(batch, 1.0)) / _BATCH_STEP)
    by_prompt = np.round(np.log2(np.maximum(prompt_tokens, 1.0)) / _PROMPT_STEP)
    codes = by_batch.astype(np.int64) * _PROMPT_CELLS + by_prompt.astype(np.int64)
    _, cells = np.unique(codes, return_inverse=True)
    return cells.reshape(-1).astype(np.int64)


def matched(
    seconds: Floats, treated: NDArray[np.bool_], cells: Ints, clusters: Ints
) -> Match | None:
    """None below the minimum data: too few on either side, or in too few moments."""
    own, other = _counts(cells, treated), _counts(cells, ~treated)
    both = ((own > 0) & (other > 0))[cells]
    log_s, mine = np.log(seconds[both]), treated[both]
    if min(int(mine.sum()), int((~mine).sum())) < FEWEST_EACH:
        return None
    cells, clusters = cells[both], clusters[both]
    if min(len(np.unique(clusters[mine])), len(np.unique(clusters[~mine]))) < _FEWEST_CLUSTERS:
        return None
    x = mine - _means(mine.astype(float), cells)
    y = log_s - _means(log_s, cells)
    weight = float(x @ x)
    if not weight > 0:
        return None
    slope = float(x @ y) / weight
    _, place = np.unique(clusters, return_inverse=True)
    scores = np.bincount(place.reshape(-1), weights=x * (y - slope * x))
    many = len(scores)
    doubt = math.sqrt(float(scores @ scores) * many / (many - 1)) / weight
    reach = _quantile(many - 1) * doubt
    return Match(
        factor=math.exp(slope),
        low=math.exp(slope - reach),
        high=math.exp(slope + reach),
        of=int(mine.sum()),
        against=int((~mine).sum()),
    )


def _counts(cells: Ints, which: NDArray[np.bool_]) -> Ints:
    return np.bincount(cells, weights=which, minlength=int(cells.max(initial=0)) + 1).astype(
        np.int64
    )


def _means(values: Floats, cells: Ints) -> Floats:
    sums = np.bincount(cells, weights=values)
    found: Floats = (sums / np.maximum(np.bincount(cells), 1))[cells]
    return found


def _quantile(degrees: int) -> float:
    """Student's t for 99 %, by its expansion (Cornish and Fisher); exact enough from 5 on."""
    z = _Z
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / degrees + second / degrees**2
