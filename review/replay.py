"""What became of each request in a replay, and how full the workers were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Replay"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """By request in seconds since arrival, NaN where there is none; by worker over the period.

    `decode_batch`, `decode_kv`: the 99th percentile over generated tokens; None for merged workers.
    """

    start_s: Floats
    prefilled_s: Floats
    joined_s: Floats
    first_s: Floats
    last_s: Floats
    tpot_s: Floats
    prefiller: NDArray[np.int16]
    decoder: NDArray[np.int16]
    prefill_busy: tuple[float, ...]
    prefill_held_max: tuple[float, ...]
    decode_busy: tuple[float, ...]
    decode_batch_mean: tuple[float, ...]
    decode_batch: float | None
    decode_kv: float | None
    tokens: int
    interpreted: bool
