"""Classic bucket histograms as pairs: what the counts and the sum of one scrape interval allow.

Let bucket b hold c_b values in (l_b, u_b], and let S be the sum of all values. Then

    E = S - sum_j l_j c_j   is what the values lie above the bottoms of their buckets, in all, and
    D = sum_j u_j c_j - S   is what they lie below the tops.

The k largest values of bucket b lie above its bottom by at least k times what the k-th largest
does, and by no more than E together: the k-th largest is at most l_b + E / k. In the same way the
k-th smallest is at least u_b - D / k. So each bucket's values, sorted, lie rank by rank between
max(l_b, u_b - D/k) (k from the smallest) and min(u_b, l_b + E/k) (k from the largest): that is the
pair. A value above the last finite edge leaves D unbounded, so the low side stays at the bottoms;
only where it is the only one there, it is at least what S leaves for it.

Edges are snapped inward to the grid: counts at a source's own edges stay exact (as long as the
edges are three cells, 3.3 %, apart), and the interval that a quantile gives is widened by one cell.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from domain.distribution import EMPTY, Distribution
from domain.grid import CELLS, EDGES_S, OVER, Cells, cells_of

__all__ = ["Interval", "Layout", "from_buckets", "layout"]

Floats = NDArray[np.float64]

_ALL_RANKS = 512  # beyond, ranks are taken in groups 1/128 wide: below one cell of 1/92
_GROUP = 1 + 1 / 128
_GROUPS = np.floor(_ALL_RANKS * _GROUP ** np.arange(math.log(2**44, _GROUP)))
# why no np.unique: it imports numpy.ma, a twelfth of a sidecar's start
_RANKS = np.concatenate((np.arange(1, _ALL_RANKS), _GROUPS[np.diff(_GROUPS, prepend=0) > 0]))
_WEIGHTS = np.diff(_RANKS, append=math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The upper edges, and a column per bucket for the arithmetic.

    `spans_s`: lower and upper edge, a point in the first and in the last cell used. The open bucket
    has no upper edge; 0 stands there, so that sums over the tops leave it out.
    """

    upper_s: Floats
    spans_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One scrape interval: its distribution, and whether its sum could be believed."""

    distribution: Distribution
    sum_used: bool


@lru_cache(maxsize=1024)
def layout(upper_edges_s: tuple[float, ...]) -> Layout:
    """The layout of ascending upper edges, the last one infinite."""
    upper = np.array(upper_edges_s, np.float64)
    if len(upper) < 1 or upper[-1] != math.inf or not (upper[1:] > upper[:-1]).all():
        raise ValueError(f"bucket edges must ascend to +Inf: {upper_edges_s}")
    if upper[0] < 0:
        raise ValueError(f"a duration has no bucket below 0: {upper_edges_s}")
    lower = np.concatenate(([0.0], upper[:-1]))
    first = np.minimum(cells_of(lower) + 1, OVER)
    first[0] = 0
    last = cells_of(upper)
    last[~np.isin(upper, EDGES_S) & (last > 0) & (last < OVER)] -= 1
    # why: where two edges fall into neighbouring cells, bounds matter more than exact edges
    first, last = np.minimum(first, last), np.maximum(first, last)
    point = np.append(EDGES_S, math.inf)
    top = np.append(upper[:-1], 0.0)
    return Layout(upper, np.array((lower, top, point[first], point[last])))


def from_buckets(
    source: Layout, counts: Cells, sum_s: float | None, *, noise_s: float | None = None
) -> Interval:
    """The pair of one interval: counts per bucket (not cumulative) and their sum, if known.

    `noise_s` says how far the sum may be off: by half a unit in the last place of the (later) sum
    per value added. A sum that contradicts its counts is not used.
    """
    sizes = counts.tolist()
    if min(sizes) < 0:
        raise ValueError(f"a bucket holds 0 values or more: {sizes}")
    spans_s = source.spans_s
    above_s, below_s = math.inf, math.inf
    sum_used = False
    if sum_s is not None:
        noise_s = (16 + sum(sizes)) * math.ulp(sum_s) if noise_s is None else noise_s
        bottoms_s, tops_s = spans_s[:2].dot(counts.astype(np.float64)).tolist()
        above_s = sum_s - bottoms_s + noise_s
        below_s = tops_s - sum_s + noise_s if not sizes[-1] else math.inf
        sum_used = 0 <= above_s < math.inf and below_s >= 0
        if not sum_used:
            above_s, below_s = math.inf, math.inf
        elif sizes[-1] == 1:
            spans_s = spans_s.copy()
            spans_s[2, -1] = max(spans_s[2, -1], sum_s - tops_s - noise_s)
    if not any(sizes):
        return Interval(distribution=EMPTY, sum_used=sum_used)
    low, high = _rank_by_rank(spans_s, counts, above_s=above_s, below_s=below_s)
    return Interval(
        distribution=Distribution(low, high, exact=False, sum_s=sum_s if sum_used else None),
        sum_used=sum_used,
    )


def _rank_by_rank(
    spans_s: Floats, counts: Cells, *, above_s: float, below_s: float
) -> tuple[Cells, Cells]:
    """Every rank of every bucket at its lowest and at its highest, as two histograms.

    A group of ranks stands where its first rank does, which is the careful side for both.
    """
    all_ranks = max(counts.tolist()) <= _ALL_RANKS
    ranks = counts if all_ranks else _RANKS.searchsorted(counts, side="right")
    ends = ranks.cumsum()
    bucket = np.arange(len(ranks)).repeat(ranks)
    rank = np.arange(len(bucket)) - (ends - ranks).take(bucket)
    k = _RANKS.take(rank)
    bottom, top, first, last = spans_s.take(bucket, axis=1)
    high_s = np.minimum(np.maximum(bottom + above_s / k, first), last)
    low_s = first if below_s == math.inf else np.minimum(np.maximum(top - below_s / k, first), last)
    low, high = cells_of(low_s), cells_of(high_s)
    if all_ranks:
        return np.bincount(low, minlength=CELLS), np.bincount(high, minlength=CELLS)
    weight = _WEIGHTS.take(rank)
    final = ends[counts > 0] - 1
    weight[final] = counts[counts > 0] + 1 - k[final]  # the last group ends with its bucket
    return _weighed(low, weight), _weighed(high, weight)


def _weighed(cells: Cells, weight: Floats) -> Cells:
    return np.bincount(cells, weights=weight, minlength=CELLS).astype(np.int64)
