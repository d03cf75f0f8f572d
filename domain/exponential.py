"""OTel exponential histograms, in and out: finer scales fold exactly, coarser ones become pairs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from domain.distribution import Distribution
from domain.grid import CELLS, OTEL_OFFSET, OVER, SCALE, Cells

__all__ = ["Sparse", "from_exponential", "scale_error", "to_sparse"]

Floats = NDArray[np.float64]

_OFFSET_END = 2**31
_COUNT_MAX = 2**53  # float64 adds integers exactly up to here


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """One side as OTel writes it at scale 6: counts of consecutive buckets from `offset` on."""

    zero_count: int
    offset: int
    counts: Sequence[int]


def from_exponential(
    *,
    scale: int,
    zero_count: int,
    offset: int,
    counts: Sequence[int],
    sum_s: float | None,
) -> Distribution:
    """The distribution of one exponential histogram of any scale.

    Bucket `offset + k` of scale s is (2^(i/2^s), 2^((i+1)/2^s)]. A finer bucket lies inside one
    cell: exact. A coarser one spans 2^(6-s) cells: the low side takes the first, the high side the
    last. What lies beyond the grid goes to its end cells. A sum that no durations have is not
    known; counts or a layout that no histogram has are refused.
    """
    if not -10 <= scale <= 20:
        raise ValueError(f"scale {scale} is outside OTel's -10 … 20")
    if not -_OFFSET_END <= offset < _OFFSET_END:
        raise ValueError(f"offset {offset} is no 32-bit number")
    if min(zero_count, min(counts, default=0)) < 0 or zero_count + sum(counts) > _COUNT_MAX:
        raise ValueError("counts are 0 or more, and fewer than 2^53 in all")
    weight = np.array(counts, np.float64)
    index = np.arange(offset, offset + len(weight), dtype=np.int64)
    if scale >= SCALE:
        low = high = (index >> (scale - SCALE)) + OTEL_OFFSET
    else:
        low = (index << (SCALE - scale)) + OTEL_OFFSET
        high = low + (1 << (SCALE - scale)) - 1
    exact = scale >= SCALE
    low_side = _side(low, weight, zero_count)
    high_side = low_side if exact else _side(high, weight, zero_count)
    believed_s = sum_s if sum_s is not None and 0 <= sum_s < math.inf else None
    return Distribution(low_side, high_side, exact=exact, sum_s=believed_s)


def to_sparse(side: Cells) -> Sparse:
    """One side for the wire. The open last cell is written as the bucket just above the grid."""
    held = side[1:].nonzero()[0] + 1
    if not len(held):
        return Sparse(zero_count=int(side[0]), offset=0, counts=())
    first, last = int(held[0]), int(held[-1])
    return Sparse(
        zero_count=int(side[0]),
        offset=first - OTEL_OFFSET,
        counts=side[first : last + 1].tolist(),
    )


def _side(cells: Cells, weight: Floats, zero_count: int) -> Cells:
    within = np.minimum(np.maximum(cells, 0), OVER)
    side = np.bincount(within, weights=weight, minlength=CELLS).astype(np.int64)
    side[0] += zero_count
    return side


def scale_error(scale: int) -> float:
    """The relative midpoint error of a histogram of this scale: (g - 1) / (g + 1)."""
    growth = math.exp2(math.exp2(-scale))
    return (growth - 1) / (growth + 1)
