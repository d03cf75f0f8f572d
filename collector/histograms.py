"""OTLP histogram points, checked, as pairs for the tiles: exact where cells are fine enough."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
)

from collector import words
from collector.tiles import Pair
from domain.buckets import from_buckets, layout
from domain.distribution import Distribution
from domain.exponential import from_exponential
from domain.grid import CELLS, OTEL_OFFSET, SCALE, cells_of

__all__ = ["MOST_VALUES", "Explicit", "Exponential", "Refused", "explicit", "exponential"]

MOST_VALUES = 1 << 32
"""In one interval of one stream. More is no measurement, and would fill the store word by word."""

_MOST_BUCKETS = 200_000
_MOST_EVER = 1 << 53  # a cumulative stream may have come far; beyond this floats miscount
_TINY_S = 1e-9


class Refused(Exception):  # noqa: N818 - a verdict on one point, told to the sender
    """Why a point is not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explicit:
    """Classic buckets: ascending edges in seconds, the last one infinite."""

    edges_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float | None

    @property
    def shape(self) -> str:
        """What must stay the same for two readings to be comparable."""
        return repr(self.edges_s)

    def pair(self, *, bound: str, noise_s: float | None = None) -> tuple[Pair, bool]:
        """The pair, and whether the sum contradicted the counts."""
        if bound:
            raise Refused("one side of a pair comes as an exponential histogram")
        try:
            source = layout(self.edges_s)
        except ValueError as error:
            raise Refused(str(error)) from error
        interval = from_buckets(
            source, np.array(self.counts, np.int64), self.sum_s, noise_s=noise_s
        )
        return _pair(interval.distribution), self.sum_s is not None and not interval.sum_used

    def grown(self, counts: tuple[int, ...], sum_s: float | None) -> Explicit:
        return Explicit(edges_s=self.edges_s, counts=counts, sum_s=sum_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """Base-2 buckets from `offset` on, values in units of `unit_s`; the last count is the zeros."""

    scale: int
    offset: int
    counts: tuple[int, ...]
    sum_s: float | None
    unit_s: float
    zero_s: float  # values up to here count as zero

    @property
    def shape(self) -> str:
        return f"scale {self.scale}"

    def pair(self, *, bound: str, noise_s: float | None = None) -> tuple[Pair, bool]:  # noqa: ARG002 - as Explicit
        distribution = self._distribution()
        if not bound:
            return _pair(distribution), False
        if not distribution.exact:
            raise Refused("one side of a pair must have scale 6 or finer")
        side = words.encode(distribution.low)
        if bound == "low":
            return Pair(n=distribution.n, sum_ns=_nanoseconds(self.sum_s), low=side), False
        if bound == "high":
            return Pair(high=side), False
        raise Refused(f"stagewatch.bound is low or high, not {bound!r}")

    def grown(self, counts: tuple[int, ...], sum_s: float | None) -> Exponential:
        return Exponential(
            scale=self.scale,
            offset=self.offset,
            counts=counts,
            sum_s=sum_s,
            unit_s=self.unit_s,
            zero_s=self.zero_s,
        )

    def on_grid(self) -> Exponential:
        """The same from one fixed offset on, so that two readings have the same places."""
        scale = min(self.scale, SCALE)
        first = -OTEL_OFFSET >> (SCALE - scale)
        dense = np.zeros((CELLS >> (SCALE - scale)) + 3, np.int64)
        index = (np.arange(len(self.counts) - 1) + self.offset) >> (self.scale - scale)
        np.add.at(dense, np.clip(index - first, 0, len(dense) - 2), self.counts[:-1])
        dense[-1] = self.counts[-1]
        return Exponential(
            scale=scale,
            offset=first,
            counts=tuple(dense.tolist()),
            sum_s=self.sum_s,
            unit_s=self.unit_s,
            zero_s=self.zero_s,
        )

    def _distribution(self) -> Distribution:
        *counts, zeros = self.counts
        if self.unit_s == 1.0 and (not zeros or self.zero_s <= _TINY_S):
            return from_exponential(
                scale=self.scale,
                zero_count=zeros,
                offset=self.offset,
                counts=counts,
                sum_s=self.sum_s,
            )
        # why: in another unit, or with a wide zero bucket, buckets are not cells: a pair
        exponent = np.clip(
            (np.arange(len(counts) + 1) + self.offset) * math.exp2(-self.scale), -1000, 1000
        )
        edges_s = np.exp2(exponent) * self.unit_s
        low = cells_of(np.nextafter(np.append(edges_s[:-1], 0.0), np.inf))
        high = cells_of(np.append(edges_s[1:], self.zero_s))
        weight = np.array(self.counts, np.float64)
        best, worst = (
            np.bincount(side, weights=weight, minlength=CELLS).astype(np.int64)
            for side in (low, high)
        )
        return Distribution(best, worst, exact=False, sum_s=self.sum_s)


def explicit(point: HistogramDataPoint, unit_s: float) -> Explicit:
    """A classic point, or why it cannot be."""
    _check_count(point)
    counts, bounds = tuple(point.bucket_counts), tuple(point.explicit_bounds)
    if not counts and not bounds:
        counts = (point.count,)
    if len(counts) != len(bounds) + 1 or len(counts) > _MOST_BUCKETS:
        raise Refused(f"{len(counts)} counts do not fit {len(bounds)} bounds")
    if sum(counts) != point.count:
        raise Refused(f"buckets hold {sum(counts)}, the point says {point.count}")
    if not all(math.isfinite(bound) for bound in bounds[:-1]):
        raise Refused("bounds must be finite and ascend")
    if bounds and math.isinf(bounds[-1]):  # some senders write the open bucket out, and it is empty
        bounds, counts = bounds[:-1], (*counts[:-2], counts[-2] + counts[-1])
    return Explicit(
        edges_s=(*(bound * unit_s for bound in bounds), math.inf),
        counts=counts,
        sum_s=_sum_s(point, unit_s),
    )


def exponential(point: ExponentialHistogramDataPoint, unit_s: float) -> Exponential:
    """An exponential point, or why it cannot be."""
    _check_count(point)
    counts = tuple(point.positive.bucket_counts)
    if any(point.negative.bucket_counts):
        raise Refused("a duration cannot be negative")
    if sum(counts) + point.zero_count != point.count:
        raise Refused(
            f"buckets hold {sum(counts) + point.zero_count}, the point says {point.count}"
        )
    if not -10 <= point.scale <= 20 or len(counts) > _MOST_BUCKETS:
        raise Refused(f"scale {point.scale} with {len(counts)} buckets cannot be read")
    if not 0 <= point.zero_threshold < math.inf:
        raise Refused(f"a zero threshold of {point.zero_threshold:g} cannot be")
    return Exponential(
        scale=point.scale,
        offset=point.positive.offset,
        counts=(*counts, point.zero_count),
        sum_s=_sum_s(point, unit_s),
        unit_s=unit_s,
        zero_s=point.zero_threshold * unit_s,
    )


def _check_count(point: HistogramDataPoint | ExponentialHistogramDataPoint) -> None:
    if point.count >= _MOST_EVER:
        raise Refused("a count of 2^53 or more cannot be")


def _sum_s(
    point: HistogramDataPoint | ExponentialHistogramDataPoint, unit_s: float
) -> float | None:
    """None where it is absent or cannot be the sum of durations."""
    if not point.HasField("sum") or not 0 <= point.sum < math.inf:
        return None
    return float(point.sum) * unit_s


def _nanoseconds(sum_s: float | None) -> int | None:
    return None if sum_s is None or sum_s > 9e9 else round(sum_s * 1e9)


def _pair(distribution: Distribution) -> Pair:
    n, sum_ns = distribution.n, _nanoseconds(distribution.sum_s)
    if distribution.exact:
        return Pair(n=n, sum_ns=sum_ns, exact=words.encode(distribution.low))
    low, high = words.encode(distribution.low), words.encode(distribution.high)
    return Pair(n=n, sum_ns=sum_ns, low=low, high=high)
