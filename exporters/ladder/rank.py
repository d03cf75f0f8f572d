"""Quantiles of a few measured values: the value of rank ⌈q n⌉, with the rank and n beside it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["HONEST_P99", "QUANTILES", "Ranked", "Spread", "ranked", "spread"]

QUANTILES = {"p50": Fraction(50, 100), "p95": Fraction(95, 100), "p99": Fraction(99, 100)}
HONEST_P99 = 100
"""Below this many requests the rank of the P99 is the last one: it is the maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One quantile. `value_s` is None where the rank fell on a request that never got there."""

    value_s: float | None
    rank: int
    n: int

    @property
    def is_maximum(self) -> bool:
        return self.rank == self.n


def ranked(values_s: NDArray[np.float64], q: Fraction, *, never: int = 0) -> Ranked | None:
    """The value of rank ⌈q n⌉, n counting those that `never` got a value as slower than all.

    None when there is nothing to rank.
    """
    total = len(values_s) + never
    if not total:
        return None
    rank = max(math.ceil(q * total), 1)
    if rank > len(values_s):
        return Ranked(value_s=None, rank=rank, n=total)
    value_s = float(np.partition(values_s, rank - 1)[rank - 1])
    return Ranked(value_s=value_s, rank=rank, n=total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One figure over several runs: the middle one and the ends. None: a value that none has."""

    median: float | None
    low: float | None
    high: float | None
    runs: int


def spread(values: Sequence[float | None], *, none_is: float = math.inf) -> Spread:
    """Median by the same rank rule, and the ends; `none_is` says where a run without a value ranks.

    A latency that was never reached ranks last; a rate that could not be taken ranks first.
    """
    if not values:
        return Spread(median=None, low=None, high=None, runs=0)
    ordered = sorted(none_is if value is None else value for value in values)
    low, middle, high = ordered[0], ordered[(len(ordered) - 1) // 2], ordered[-1]
    return Spread(median=_known(middle), low=_known(low), high=_known(high), runs=len(ordered))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
