"""Classic bucket histograms as pairs: what the counts and the sum of one scrape interval allow.

Let bucket b hold c_b values in (l_b, u_b], and let S be the sum of all values. Then

    E = S - sum_j l_j c_j   is what the values lie above the bottoms of their buckets, in all, and
    D = sum_j u_j c_j - S   is what they lie below the tops.

The k largest values of bucket b lie above its bottom by at least k times what the k-th largest
does, and by no more than E together: the k-th largest is at most l_b + E / k. In the same way the
k-th smallest is at least u_b - D / k. So each bucket's values, sorted, lie rank by rank between
max(l_b, u_b - D/k) (k from the smallest) and min(u_b, l_b + E/k) (k from the largest): that is the
pair. A value above the last finite edge leaves D unbounded, so the low side stays at the bottoms.

Edges are snapped inward to the grid: counts at a source's own edges stay exact (as long as the
edges are three cells, 3.3 %, apart), and the interval that a quantile gives is widened by one cell.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from domain.distribution import Distribution
from domain.grid import CELLS, EDGES_S, OVER, Cells, cells_of

__all__ = ["Interval", "Layout", "from_buckets", "layout"]

Floats = NDArray[np.float64]

_ALL_RANKS = 512  # beyond, ranks are taken in groups 1/128 wide: below one cell of 1/92
_GROUP = 1 + 1 / 128
_NOTHING = Distribution(
    np.zeros(CELLS, np.int64), np.zeros(CELLS, np.int64), exact=False, sum_s=0.0
)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The edges of a classic histogram and the cells that each bucket may use."""

    upper_s: Floats
    lower_s: Floats
    first_cell: Cells
    last_cell: Cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One scrape interval: its distribution, and whether its sum could be believed."""

    distribution: Distribution
    sum_used: bool


@lru_cache(maxsize=1024)
def layout(upper_edges_s: tuple[float, ...]) -> Layout:
    """The layout of ascending upper edges, the last one infinite."""
    upper = np.array(upper_edges_s)
    if len(upper) < 1 or not math.isinf(upper[-1]) or not (np.diff(upper) > 0).all():
        raise ValueError(f"bucket edges must ascend to +Inf: {upper_edges_s}")
    if upper[0] < 0:
        raise ValueError(f"a duration has no bucket below 0: {upper_edges_s}")
    lower = np.concatenate(([0.0], upper[:-1]))
    first = cells_of(lower) + 1
    first[0] = 0
    last = cells_of(upper)
    last[~np.isin(upper, EDGES_S) & (last > 0) & (last < OVER)] -= 1
    # why: where two edges fall into neighbouring cells, bounds matter more than exact edges
    return Layout(upper, lower, np.minimum(first, last), np.maximum(first, last))


def from_buckets(
    source: Layout, counts: Cells, sum_s: float | None, *, noise_s: float | None = None
) -> Interval:
    """The pair of one interval: counts per bucket (not cumulative) and their sum, if known.

    `noise_s` says how far the sum may be off; a difference of two running sums is off by a few
    units in the last place of the later one. A sum that contradicts its counts is not used.
    """
    held = counts.nonzero()[0]
    upper, lower, count = source.upper_s[held], source.lower_s[held], counts[held]
    above_s, below_s = math.inf, math.inf
    if sum_s is not None:
        noise = 16 * math.ulp(sum_s) if noise_s is None else noise_s
        above_s = sum_s - float(lower @ count) + noise
        below_s = float(upper @ count) - sum_s + noise
    sum_used = sum_s is not None and above_s >= 0 and below_s >= 0
    if not sum_used:
        above_s, below_s = math.inf, math.inf

    if not len(held):
        return Interval(distribution=_NOTHING, sum_used=sum_used or sum_s is None)
    low, high, weight = _rank_by_rank(source, held, count, above_s=above_s, below_s=below_s)
    return Interval(
        distribution=Distribution(
            _histogram(low, weight),
            _histogram(high, weight),
            exact=False,
            sum_s=sum_s if sum_used else None,
        ),
        sum_used=sum_used,
    )


def _rank_by_rank(
    source: Layout, held: Cells, count: Cells, *, above_s: float, below_s: float
) -> tuple[Cells, Cells, Cells]:
    """The lowest and the highest cell of each rank of each bucket held, and their weights."""
    groups = [_ranks(int(c)) for c in count]
    rank = np.concatenate([ranks for ranks, _ in groups])
    weight = np.concatenate([weights for _, weights in groups])
    bucket = held.repeat([len(ranks) for ranks, _ in groups])
    bottom, top = source.lower_s[bucket], source.upper_s[bucket]
    low_s = bottom if math.isinf(below_s) else np.maximum(bottom, top - below_s / rank)
    high_s = np.minimum(top, bottom + above_s / rank)
    first, last = source.first_cell[bucket], source.last_cell[bucket]
    low, high = cells_of(np.concatenate((low_s, high_s))).reshape(2, -1)
    within = np.minimum(np.maximum(low, first), last), np.minimum(np.maximum(high, first), last)
    return *within, weight


def _histogram(cells: Cells, weight: Cells) -> Cells:
    return np.bincount(cells, weights=weight, minlength=CELLS).astype(np.int64)


@lru_cache(maxsize=4096)
def _ranks(count: int) -> tuple[Floats, Cells]:
    """Ranks 1 … count, each with how many ranks it stands for: itself and those up to the next.

    A group stands where its first rank does, which is the careful side for both bounds.
    """
    if count <= _ALL_RANKS:
        return np.arange(1.0, count + 1), np.ones(count, np.int64)
    steps = math.ceil(math.log(count / _ALL_RANKS, _GROUP))
    tail = np.unique((_ALL_RANKS * _GROUP ** np.arange(1, steps)).astype(np.int64))
    ranks = np.concatenate((np.arange(1, _ALL_RANKS + 1), tail[(tail > _ALL_RANKS) & (tail < count)]))
    return ranks.astype(np.float64), np.diff(ranks, append=count + 1)
