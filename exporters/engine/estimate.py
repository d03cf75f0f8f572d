"""Durations that follow one another, each known as a histogram, put together into one.

Which value of one part belongs to which of another nobody knows. So a whole lies between the sum of
the least and the sum of the greatest that the parts had, and their mean is the sum of their means.
Where a part was counted less often than the first (one prefill for a batch of several requests) its
mean over requests is only known to lie among its values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from domain.buckets import from_buckets, layout
from domain.distribution import Distribution
from exporters.engine.growth import Grown

__all__ = ["Part", "estimate", "part_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The values of one part: how many, between which bucket edges, and their sum if known."""

    n: int
    low_s: float
    high_s: float
    sum_s: float | None

    def __add__(self, other: Part) -> Part:
        known = self.sum_s is not None and other.sum_s is not None
        return Part(
            n=self.n + other.n,
            low_s=min(self.low_s, other.low_s),
            high_s=max(self.high_s, other.high_s),
            sum_s=(self.sum_s or 0.0) + (other.sum_s or 0.0) if known else None,
        )


def part_of(grown: Grown) -> Part | None:
    """What a histogram grew by, in brief; None where nothing happened."""
    filled = [position for position, count in enumerate(grown.counts) if count]
    if not filled:
        return None
    first = filled[0]
    return Part(
        n=sum(grown.counts),
        low_s=grown.edges[first - 1] if first else 0.0,
        high_s=grown.edges[filled[-1]],
        sum_s=grown.total,
    )


def estimate(parts: list[Part]) -> Distribution:
    """As many wholes as the first part was counted."""
    n = parts[0].n
    low_s = math.fsum(part.low_s for part in parts)
    high_s = math.fsum(part.high_s for part in parts)
    edges = (*((low_s,) if low_s else ()), *((high_s,) if high_s < math.inf else ()), math.inf)
    counts = np.zeros(len(edges), np.int64)
    counts[1 if low_s else 0] = n
    sum_s, noise_s = _sum(parts)
    return from_buckets(layout(edges), counts, sum_s, noise_s=noise_s).distribution


def _sum(parts: list[Part]) -> tuple[float | None, float | None]:
    """The sum of the wholes, and by how much it may be off."""
    n = parts[0].n
    doubt_s = math.fsum(n * (part.high_s - part.low_s) for part in parts if part.n != n)
    means_s = [part.sum_s / part.n for part in parts if part.sum_s is not None]
    if len(means_s) < len(parts) or not math.isfinite(doubt_s):
        return None, None
    total_s = n * math.fsum(means_s)
    return total_s, doubt_s + 64 * n * math.ulp(total_s)
