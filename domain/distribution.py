"""A latency distribution that carries its own doubt: a pair of histograms on one grid.

`low` is the best that the source allows, `high` the worst: for every rank, the value of that rank
lies between the two. Exact sources have `low == high`, and any quantile is within 0.542 %. Pairs
add, over time, replicas and different bucket layouts; nothing is interpolated, nothing averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from domain.grid import (
    CELLS,
    EDGES_S,
    OVER,
    Cells,
    cells_of,
    lower_edge_s,
    middle_s,
    upper_edge_s,
)

__all__ = ["EMPTY", "Distribution", "Quantile", "add_all", "exact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """The value of one rank: surely within [low_s, high_s].

    `value_s` is the relative midpoint of the interval where the interval is one cell wide, so that
    it is right within 0.542 %; None where the source does not say more than the interval.
    """

    low_s: float
    high_s: float
    value_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Counts per cell, at best and at worst, and the sum of the values where it is known."""

    low: Cells
    high: Cells
    exact: bool
    sum_s: float | None = None
    _cumulative: list[Cells] = field(default_factory=list, repr=False)

    def __add__(self, other: Distribution) -> Distribution:
        return add_all((self, other))

    @property
    def n(self) -> int:
        return int(self._sides[0][-1])

    @property
    def mean_s(self) -> float | None:
        """None without values or without a sum that can be believed."""
        return self.sum_s / self.n if self.n and self.sum_s is not None else None

    @property
    def _sides(self) -> list[Cells]:
        if not self._cumulative:
            low = self.low.cumsum()
            self._cumulative.extend((low, low if self.exact else self.high.cumsum()))
        return self._cumulative

    def at_most(self, threshold_s: float) -> tuple[int, int]:
        """(surely, possibly) this many values are <= threshold.

        Equal at the edges of the grid for exact sources and at a coarse source's own edges. At
        other thresholds a coarse source's edges, snapped to the grid, put the threshold off by up
        to one cell: surely(t / g) <= truth(t) <= possibly(t g) with g = 2^(1/64). Cell 0 is zero.
        """
        below = max(int(EDGES_S.searchsorted(threshold_s, side="right")) - 1, 0)
        whole = EDGES_S[below] >= threshold_s
        low, high = self._sides
        # a cell that the threshold cuts is possible, not sure
        return int(high[below]), int(low[below if whole else below + 1])

    def quantile(self, q: float | Fraction) -> Quantile | None:
        """The value of rank ceil(q n), 0 <= q <= 1; None without values.

        The interval of a coarse source reaches one cell beyond its end cells, because the source's
        edges were snapped inward; so it contains the truth, always.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
        if not self.n:
            return None
        share = q if isinstance(q, Fraction) else Fraction(str(q))
        rank = max(math.ceil(share * self.n), 1)
        # why sorted: sides that belie each other leave doubt between them, whichever came as which
        low, high = sorted(int(side.searchsorted(rank)) for side in self._sides)
        if self.exact:
            return Quantile(
                low_s=lower_edge_s(low), high_s=upper_edge_s(low), value_s=middle_s(low)
            )
        return Quantile(
            low_s=lower_edge_s(low - 1), high_s=upper_edge_s(min(high + 1, OVER)), value_s=None
        )


def add_all(parts: Iterable[Distribution]) -> Distribution:
    """The distribution of all values of all parts; exact only if each part is."""
    low, high = np.zeros(CELLS, np.int64), np.zeros(CELLS, np.int64)
    sum_s: float | None = 0.0
    all_exact = True
    for part in parts:
        low += part.low
        high += part.high
        all_exact = all_exact and part.exact
        sum_s = None if sum_s is None or part.sum_s is None else sum_s + part.sum_s
    return Distribution(low, low if all_exact else high, all_exact, sum_s)


def exact(values_s: NDArray[np.float64]) -> Distribution:
    """An exact source: every value is known. Refuses what is no duration."""
    if not (values_s >= 0).all():
        raise ValueError("a duration is a number of seconds, 0 or more; drop and count the rest")
    cells = np.bincount(cells_of(values_s), minlength=CELLS)
    return Distribution(cells, cells, exact=True, sum_s=float(values_s.sum()))


EMPTY = Distribution(np.zeros(CELLS, np.int64), np.zeros(CELLS, np.int64), exact=True, sum_s=0.0)
